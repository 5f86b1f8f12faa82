"""Delivers requests to end a run to its code, as `CancelRequested` wherever the code waits.

Rules owned here:

* The main coroutine is cancelled with a `Notice` as the message. asyncio passes the message on to the awaited future,
  and in the task where it arrives it is raised as the notice's exception. Every other cancel is raised unchanged:
  asyncio recognizes a time-out's cancel by the exact type.
* Code that cancels a task while it handles a notice passes the notice on: `TaskGroup` and `wait_for` do.
* A notice that reaches a task a second time does not interrupt its clean-up.
* Before Python 3.13 a `TaskGroup` treats any other type than `CancelledError` as an error of its body, and wraps it.
  There the exact type is passed to its `__aexit__`.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

import msgspec

from assay.sdk.workflow.replay.exceptions import (
    CancelRequested,
    ContinueAsNewRequested,
    Intrusion,
    Notice,
    Notified,
    ending_in,
)

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.loop import WorkflowLoop


class Cancellation:
    """The requests to end one run: from outside, from its main coroutine, or from another of its tasks."""

    __slots__ = ("_held", "_loop", "by_code", "intrusion", "main", "reason", "requested", "shields")

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self.main: asyncio.Task[Any] | None = None
        """The main coroutine, once code has begun."""
        self.requested = False
        """True if a cancellation was requested from outside the run."""
        self.by_code = False
        """True if the code cancels its own run."""
        self.reason: str | None = None
        self.shields = 0
        self.intrusion: Intrusion | None = None
        """The last exception that was raised in the main coroutine from outside of it."""
        self._held: Notice | None = None
        """The notice that waits until the last shield is lowered."""

    def request(self, reason: str | None) -> None:
        """Raise an external cancel request in the code."""
        self.requested = True
        self.reason = reason
        self.interrupt(Notice(reason))

    def interrupt(self, notice: Notice) -> None:
        """Raise a notice where the main coroutine waits; while it is shielded, hold the notice."""
        if self.shields:
            if self._held is None or not isinstance(notice, Intrusion):  # a request to end takes precedence
                self._held = notice
        elif self.main is not None:
            if isinstance(notice, Intrusion):
                notice.waiter = self.main._fut_waiter  # type: ignore[attr-defined]  # private to asyncio
            self.main.cancel(notice)

    def intrude(self, error: BaseException) -> bool:
        """Raise an exception where the main coroutine waits; return False if an earlier one has yet to arrive there.

        Tasks that the main coroutine awaits get a plain `CancelledError`. If they do not let it pass, the exception is
        raised at the next await of the main coroutine; if none follows, the run fails with it.
        """
        if self.main is None or (self.intrusion is not None and not self.intrusion.delivered):
            return False
        self.intrusion = Intrusion(error, self.main)
        self.interrupt(self.intrusion)
        return True

    def insist(self) -> bool:
        """Raise an exception again that an awaited task has kept from the main coroutine; called between inputs."""
        intrusion, main = self.intrusion, self.main
        if intrusion is None or main is None or main.done() or intrusion is self._held:
            return False
        if intrusion.delivered:
            self.intrusion = None
            return False
        waiter, first = main._fut_waiter, intrusion.waiter is None  # type: ignore[attr-defined]  # private to asyncio
        if waiter is None or waiter is intrusion.waiter:
            return False  # the awaited task still cleans up
        intrusion.waiter = waiter
        if not first:
            main.uncancel()
            main.cancel(intrusion)
        return not first

    def lower_shield(self) -> None:
        """Lower one shield; the last one raises a held notice."""
        self.shields -= 1
        if not self.shields and self._held is not None:
            notice, self._held = self._held, None
            self.interrupt(notice)

    def end_by(self, error: CancelRequested | ContinueAsNewRequested) -> None:
        """Prepare for an exception by which code is about to end the run.

        If another task than the main coroutine raises it, the main coroutine is interrupted: by a cancel when that task
        has ended with it; by a continue-as-new, which propagates from task to task like any exception, where no task
        retrieves it.
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
        # asyncio's own mark of an exception that no code has retrieved
        if task.cancelled() or not task._log_traceback:
            return
        error = ending_in(task.exception())
        if isinstance(error, ContinueAsNewRequested):
            self.interrupt(Notice(command=error.command))


def handled() -> Notice | None:
    """Return the notice of the exception that the caller is handling, or None."""
    error = sys.exception()
    return error.notice if isinstance(error, Notified) else None


def raised_notice(task: asyncio.Task[Any]) -> Notice | None:
    """Return the last notice that was raised in a task, or None."""
    body = task.get_coro()
    return body.raised if isinstance(body, TaskBody) else None


@Coroutine.register
class TaskBody(msgspec.Struct, eq=False):
    """A wrapper between a task and its coroutine that raises notices as the exceptions of workflow code.

    `send` is the coroutine's own bound method, so that the frequent operation costs nothing extra.
    """

    coroutine: Coroutine[Any, Any, Any]
    send: Callable[[Any], Any]
    raised: Notice | None = None

    def close(self) -> None:
        """Close the coroutine."""
        self.coroutine.close()

    def throw(self, error: BaseException) -> Any:
        """Raise an exception where the coroutine waits; a notice is raised as its exception."""
        if type(error) is asyncio.CancelledError and error.args and isinstance(error.args[0], Notice):
            error = error.args[0].raised_in(asyncio.current_task(), error)
        if isinstance(error, Notified):
            self.raised = error.notice
        return self.coroutine.throw(error)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the coroutine, for code that inspects a task: its frame, its name, its awaitable."""
        return getattr(self.coroutine, name)


if sys.version_info < (3, 13):
    _leave: Any = asyncio.TaskGroup.__aexit__

    def _leave_as_cancelled(group: Any, kind: Any, error: BaseException | None, traceback: Any) -> Any:
        return _leave(group, asyncio.CancelledError if isinstance(error, Notified) else kind, error, traceback)

    setattr(asyncio.TaskGroup, "__aexit__", _leave_as_cancelled)  # noqa: B010  # an assignment would have to be typed
