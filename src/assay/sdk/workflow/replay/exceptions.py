"""How workflow code says, or is told, that its run is to end other than by returning or raising an error."""

import asyncio
from collections.abc import Iterator

from assay.core.model.commands import ContinueAsNew
from assay.core.model.errors import Failure


class Notice:
    """A request to end the run, on its way to the code as the message of a cancel; with `command` to begin the next."""

    __slots__ = ("command", "reason")

    def __init__(self, reason: str | None = None, command: ContinueAsNew | None = None) -> None:
        self.reason = reason
        self.command = command

    def __str__(self) -> str:
        return self.reason or ("cancel requested" if self.command is None else "continue as new")

    def error(self) -> "Notified":
        """What a task is told; one for each, because an exception keeps the frames that it went through."""
        return CancelRequested(self.reason, notice=self) if self.command is None else Notified(self)


class Notified(asyncio.CancelledError):
    """A notice as code is told of it; by itself: another task of the run has asked to continue as new."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(str(notice))
        self.notice = notice


class CancelRequested(Notified):
    """The run was asked to cancel, or cancels itself; let it pass to end the run as CANCELLED."""

    __module__ = "assay"  # tracebacks show the name that programs import

    def __init__(self, reason: str | None = None, *, notice: Notice | None = None) -> None:
        super().__init__(Notice(reason) if notice is None else notice)
        self.reason = reason


class ContinueAsNewRequested(BaseException):
    """Ends this run and begins the next; not an `Exception`, so that no `except Exception` swallows it."""

    def __init__(self, command: ContinueAsNew) -> None:
        super().__init__("continue as new")
        self.command = command


class RetryLater(Exception):
    """An inline step failed and is to be tried again after a pause that only a durable timer can bridge (R3)."""

    def __init__(self, delay: float, attempt: int) -> None:
        super().__init__(f"again in {delay} s")
        self.delay = delay
        self.attempt = attempt


def next_run(error: BaseException) -> ContinueAsNew | None:
    """The command that begins the next run, if it is what the code has ended with."""
    if isinstance(error, ContinueAsNewRequested):
        return error.command
    return error.notice.command if isinstance(error, Notified) else None


def ending_in(error: BaseException | None) -> BaseException | None:
    """The wish to end that a `TaskGroup` has wrapped, if there is nothing else in the group; else the error itself.

    A group is what becomes of a continue-as-new in a `TaskGroup`.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, ContinueAsNewRequested | asyncio.CancelledError) for leaf in leaves):
        return error
    return next((leaf for leaf in leaves if isinstance(leaf, ContinueAsNewRequested)), leaves[0])


class TaskFailed(Exception):
    """A turn that ends in an exception for which the run waits: its task fails, and its commands are not sent."""


def defect_in(error: BaseException) -> Exception | None:
    """Return the `Exception` that is not a `Failure`: `error` itself, or the first such member of the group."""
    for leaf in _leaves(error):
        if isinstance(leaf, Exception) and not isinstance(leaf, Failure):
            return leaf
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for member in error.exceptions:
        yield from _leaves(member)
