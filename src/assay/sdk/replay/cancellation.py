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
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import msgspec

from assay.sdk.replay.exceptions import Notice, Notified


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
