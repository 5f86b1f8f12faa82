"""Exceptions by which a run ends other than by returning or by an error: cancel, continue-as-new, failed task."""

import asyncio
from collections.abc import Iterator
from typing import Any

from assay.core.model.commands import ContinueAsNew
from assay.core.model.errors import Failure


class Notice:
    """A request to end the run, delivered to the code as the message of a cancel; `command` begins the next run."""

    __slots__ = ("command", "reason")

    def __init__(self, reason: str | None = None, command: ContinueAsNew | None = None) -> None:
        self.reason = reason
        self.command = command

    def __str__(self) -> str:
        return self.reason or ("cancel requested" if self.command is None else "continue as new")

    def error(self) -> "Notified":
        """Return a new exception for each task, because an exception keeps the frames that it passed through."""
        return CancelRequested(self.reason, notice=self) if self.command is None else Notified(self)

    def raised_in(self, task: "asyncio.Task[Any] | None", error: asyncio.CancelledError) -> BaseException:
        """Return the exception to raise in a task that is cancelled with this notice by `error`."""
        return self.error()


class Intrusion(Notice):
    """An exception that is raised where the main coroutine waits; tasks that it awaits are cancelled."""

    __slots__ = ("delivered", "exception", "main", "waiter")

    def __init__(self, exception: BaseException, main: "asyncio.Task[Any]") -> None:
        super().__init__(str(exception))
        self.exception = exception
        self.main = main
        self.delivered = False
        self.waiter: object = None
        """The future that the main coroutine awaited when it was cancelled."""

    def raised_in(self, task: "asyncio.Task[Any] | None", error: asyncio.CancelledError) -> BaseException:
        """Return the exception for the main coroutine, whose cancel is undone; for other tasks the cancel itself."""
        if task is not self.main:
            return error
        self.delivered = True
        task.uncancel()
        return self.exception


class Notified(asyncio.CancelledError):
    """The exception of a notice. The class itself: another task of the run has requested continue-as-new."""

    def __init__(self, notice: Notice) -> None:
        super().__init__(str(notice))
        self.notice = notice


class CancelRequested(Notified):
    """The run or activity was requested to cancel, or a run cancels itself; let it pass to end as CANCELLED.

    Args:
        reason: The reason of the request, or None.
        notice: The notice that the exception delivers, inside a run.
    """

    __module__ = "assay"  # tracebacks show the name that programs import

    def __init__(self, reason: str | None = None, *, notice: Notice | None = None) -> None:
        super().__init__(Notice(reason) if notice is None else notice)
        self.reason = reason


class ContinueAsNewRequested(BaseException):
    """Ends this run and begins the next; not an `Exception`, so that no `except Exception` catches it."""

    def __init__(self, command: ContinueAsNew) -> None:
        super().__init__("continue as new")
        self.command = command


class RetryLater(Exception):
    """An inline step failed, and its next attempt follows a pause that needs a durable timer."""

    def __init__(self, delay: float, attempt: int) -> None:
        super().__init__(f"again in {delay} s")
        self.delay = delay
        self.attempt = attempt


def next_run(error: BaseException) -> ContinueAsNew | None:
    """Return the command that begins the next run, if the code ended with one."""
    if isinstance(error, ContinueAsNewRequested):
        return error.command
    return error.notice.command if isinstance(error, Notified) else None


def ending_in(error: BaseException | None) -> BaseException | None:
    """Return the request to end that a `TaskGroup` has wrapped; the error itself if the group has other members.

    A continue-as-new that is raised in a `TaskGroup` arrives as a group.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    if not all(isinstance(leaf, ContinueAsNewRequested | asyncio.CancelledError) for leaf in leaves):
        return error
    return next((leaf for leaf in leaves if isinstance(leaf, ContinueAsNewRequested)), leaves[0])


class TaskFailed(Exception):
    """The code raised an exception for which the run waits: the task fails, and its commands are not sent."""


def defect_in(error: BaseException) -> Exception | None:
    """Return the first `Exception` in `error` that is not a `Failure`, or None; a group is searched."""
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
