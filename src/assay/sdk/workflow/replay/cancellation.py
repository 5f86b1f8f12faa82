"""How a request to end the run reaches its code: as `CancelRequested`, wherever it waits (R18, R24).

Rules owned here:

* The main coroutine is cancelled with a `Notice` as the message. asyncio hands it on to whatever is waited for, and
  where it arrives in a task it is raised as what it says. Every other cancel is raised as it is: a time-out's, for one,
  which asyncio knows by the exact type.
* Who cancels a task while it handles such an exception passes the notice on: `TaskGroup` and `wait_for` do.
* A notice that finds its way to a task which has been told of it before does not interrupt its clean-up.
* Before Python 3.13 a `TaskGroup` takes anything but the exact type for an error of its body and wraps it. There it is
  told the type that it knows.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

import msgspec

from assay.sdk.workflow.replay.exceptions import CancelRequested, ContinueAsNewRequested, Notice, Notified, ending_in

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.loop import WorkflowLoop


class Cancellation:
    """The requests to end one run: from outside, from its main coroutine, or from a task beside that."""

    __slots__ = ("_held", "_loop", "by_code", "main", "reason", "requested", "shields")

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self.main: asyncio.Task[Any] | None = None
        """The main coroutine, once code has begun."""
        self.requested = False
        """True if somebody outside has asked the run to cancel."""
        self.by_code = False
        """True if the code cancels its own run."""
        self.reason: str | None = None
        self.shields = 0
        self._held: Notice | None = None
        """The notice that waits until the last shield is lowered."""

    def request(self, reason: str | None) -> None:
        """Raise a cancel request from outside in the code."""
        self.requested = True
        self.reason = reason
        self.interrupt(Notice(reason))

    def interrupt(self, notice: Notice) -> None:
        """Raise a notice where the main coroutine waits, or when it is shielded no more."""
        if self.shields:
            self._held = notice
        elif self.main is not None:
            self.main.cancel(notice)

    def lower_shield(self) -> None:
        """Lower one shield; with the last of them a notice that was held is raised."""
        self.shields -= 1
        if not self.shields and self._held is not None:
            notice, self._held = self._held, None
            self.interrupt(notice)

    def end_by(self, error: CancelRequested | ContinueAsNewRequested) -> None:
        """Prepare for an exception by which code is about to end the run.

        If a task beside the main coroutine raises it, the main coroutine is interrupted: by a cancel when the task has
        ended by it; by a continue-as-new, which goes from task to task like any exception, where no task takes it.
        """
        task = asyncio.current_task()
        if task is None or task is self.main:
            return
        if isinstance(error, CancelRequested):
            task.add_done_callback(functools.partial(self._interrupt_by_cancel, error.notice))
            return
        for task in self._loop.unfinished():
            if task is not self.main:
                task.add_done_callback(self._interrupt_by_continuing)

    def _interrupt_by_cancel(self, notice: Notice, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.interrupt(notice)

    def _interrupt_by_continuing(self, task: asyncio.Task[Any]) -> None:
        # asyncio's own mark of an exception that nobody has asked for
        if task.cancelled() or not task._log_traceback:
            return
        error = ending_in(task.exception())
        if isinstance(error, ContinueAsNewRequested):
            self.interrupt(Notice(command=error.command))


def handled() -> Notice | None:
    """The notice of the exception that the caller is just handling."""
    error = sys.exception()
    return error.notice if isinstance(error, Notified) else None


def told(task: asyncio.Task[Any]) -> Notice | None:
    """The last notice that was raised in a task."""
    body = task.get_coro()
    return body.told if isinstance(body, TaskBody) else None


@Coroutine.register
class TaskBody(msgspec.Struct, eq=False):
    """Stands between a task and its coroutine, to put what is thrown in into the workflow's words.

    What a task does often it does with the coroutine itself: `send` is the bound method of that one.
    """

    coroutine: Coroutine[Any, Any, Any]
    send: Callable[[Any], Any]
    told: Notice | None = None

    def close(self) -> None:
        """Close the coroutine."""
        self.coroutine.close()

    def throw(self, error: BaseException) -> Any:
        """Raise an exception where the coroutine waits."""
        if type(error) is asyncio.CancelledError and error.args and isinstance(error.args[0], Notice):
            error = error.args[0].error()
        if isinstance(error, Notified):
            self.told = error.notice
        return self.coroutine.throw(error)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """For whoever looks at a task's coroutine: its frame, its name, what it awaits."""
        return getattr(self.coroutine, name)


if sys.version_info < (3, 13):
    _leave: Any = asyncio.TaskGroup.__aexit__

    def _leave_as_cancelled(group: Any, kind: Any, error: BaseException | None, traceback: Any) -> Any:
        return _leave(group, asyncio.CancelledError if isinstance(error, Notified) else kind, error, traceback)

    setattr(asyncio.TaskGroup, "__aexit__", _leave_as_cancelled)  # noqa: B010  # an assignment would have to be typed
