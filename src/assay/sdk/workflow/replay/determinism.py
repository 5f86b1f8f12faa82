"""Tasks and futures whose order in sets is the same in every process.

Rules owned here:

* A task or future of a run hashes by its number in the run. asyncio keeps them in sets (`wait`, `TaskGroup`,
  `as_completed`), and a set of small integers iterates in the same order wherever they were added in the same order.
* `gather` creates its own future, which is numbered during its creation.
* `as_completed` puts bare coroutines into a set, which orders them by address, and creates their tasks in that order.
  Its arguments are still in its frame: all tasks are created in argument order at the first request. Arguments without
  an order, or that have lost it (an exhausted generator), are refused.
* `all_tasks` iterates over a set of addresses before Python 3.14, and is refused there.
"""

from __future__ import annotations

import asyncio
import asyncio.futures
import asyncio.tasks
import sys
from collections.abc import Iterable, Mapping, Sequence, ValuesView
from types import FrameType
from typing import Any, Final

from assay.sdk.workflow.replay import cancellation

ASYNCIO_TASKS: Final = vars(asyncio.tasks)
_ASYNCIO_FUTURES: Final = vars(asyncio.futures)
_AS_COMPLETED: Final = asyncio.as_completed.__code__
_GATHERING: Final[Any] = ASYNCIO_TASKS["_GatheringFuture"]


class UnorderedError(RuntimeError):
    """Workflow code used a function of asyncio whose order differs from process to process."""


class WorkflowFuture(asyncio.Future[Any]):
    """A future that hashes by its number in the run."""

    __slots__ = ("order",)
    order: int

    def __hash__(self) -> int:
        return self.order


class WorkflowTask(asyncio.Task[Any]):
    """A task that hashes by its number in the run.

    While asyncio registers a new task, its hash is still its address: Python before 3.14 keeps the tasks of all loops
    in one set, and the first tasks of ten thousand parked runs would collide there.
    """

    __slots__ = ("order",)
    order: int

    def __hash__(self) -> int:
        return self.order

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the task, with the notice that the caller is handling, if any."""
        if msg is None:
            msg = cancellation.handled()
        elif msg is cancellation.raised_notice(self):
            return True
        return super().cancel(msg)

    if sys.version_info < (3, 14):

        def get_loop(self) -> asyncio.AbstractEventLoop:
            loop = super().get_loop()
            if loop is asyncio._get_running_loop() and _called_by_all_tasks(sys._getframe(1)):
                raise UnorderedError("asyncio.all_tasks() has no fixed order in a workflow: keep your tasks in a list")
            return loop


class GoTask(WorkflowTask):
    """A task of `ctx.go`, which counts the callbacks that wait for its end."""

    __slots__ = ("waiters",)
    waiters: int

    def add_done_callback(self, callback: Any, /, *, context: Any = None) -> None:
        """Count a callback of code."""
        self.waiters += 1
        super().add_done_callback(callback, context=context)

    def remove_done_callback(self, callback: Any, /) -> int:
        """Count callbacks that wait no longer."""
        removed = super().remove_done_callback(callback)
        self.waiters -= removed
        return removed


class _WorkflowGathering(_GATHERING):  # type: ignore[misc]  # private to asyncio, hence unknown to the type checker
    """The future of `gather`, hashing by its number in the run."""

    order: int

    def __hash__(self) -> int:
        return self.order


def gathering(caller: FrameType) -> Any:
    """Return the future that `gather` is creating in this frame, ready to be numbered; None otherwise."""
    future = caller.f_locals.get("self") if caller.f_globals is ASYNCIO_TASKS else None
    if type(future) is not _GATHERING:
        return None
    future.__class__ = _WorkflowGathering
    return future


def as_completed_arguments(caller: FrameType) -> Any:
    """Return the arguments of `as_completed`, if that function requests the task; otherwise None."""
    entry = _entry(caller)
    return entry.f_locals["fs"] if entry.f_code is _AS_COMPLETED else None


def in_argument_order(wanted: object, given: Iterable[Any]) -> list[Any]:
    """Return the bare coroutines among the arguments of `as_completed`; refuse arguments without an order."""
    items = list(given) if isinstance(given, Sequence | Mapping | ValuesView) else []
    coroutines = [item for item in items if asyncio.iscoroutine(item)]
    if not any(item is wanted for item in coroutines) or any(_unordered(item) for item in items):
        raise UnorderedError(
            "asyncio.as_completed() loses the order of bare coroutines: "
            "give it a list of coroutines, or of tasks made with asyncio.create_task()"
        )
    return list(dict.fromkeys(coroutines))


def _unordered(item: Any) -> bool:
    """Return True for an argument that has no fixed order: a finished future is yielded in the order of the set."""
    return bool(item.done()) if asyncio.isfuture(item) else not asyncio.iscoroutine(item)


def _entry(frame: FrameType) -> FrameType:
    """Return the outermost frame of asyncio.tasks in a chain of calls."""
    while frame.f_back is not None and frame.f_back.f_globals is ASYNCIO_TASKS:
        frame = frame.f_back
    return frame


def _called_by_all_tasks(caller: FrameType) -> bool:
    return caller.f_globals is _ASYNCIO_FUTURES and _entry(caller).f_code.co_name == "all_tasks"
