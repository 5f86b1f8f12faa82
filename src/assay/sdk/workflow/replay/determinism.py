"""Tasks and futures whose order in sets is the same in every process (R5).

Rules owned here:

* A task or future of a run hashes by its number in the run. asyncio keeps them in sets (`wait`, `TaskGroup`,
  `as_completed`), and a set of small numbers iterates alike wherever the same numbers went in in the same order.
* `gather` makes its future itself; that one is numbered while it is made.
* `as_completed` puts bare coroutines into a set, which orders them by address, and asks for their tasks in that order.
  What it was given is still in its frame: the tasks are made in that order, all of them at the first request.
  Arguments that have no order, or had one and lost it (an exhausted generator), are refused.
* `all_tasks` goes through a set of addresses before Python 3.14 and is refused there.
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
    """Workflow code asked asyncio for something whose order differs from process to process (R5)."""


class WorkflowFuture(asyncio.Future[Any]):
    """A future that hashes by its number in the run."""

    __slots__ = ("order",)
    order: int

    def __hash__(self) -> int:
        return self.order


class WorkflowTask(asyncio.Task[Any]):
    """A task that hashes by its number in the run.

    While asyncio registers a new task, its hash is still its address: Python before 3.14 keeps the tasks of all loops
    in one set, and the first tasks of ten thousand parked runs would all collide there.
    """

    __slots__ = ("order",)
    order: int

    def __hash__(self) -> int:
        return self.order

    def cancel(self, msg: Any = None) -> bool:
        """Cancel; with the notice that the caller is just handling, if there is one."""
        if msg is None:
            msg = cancellation.handled()
        elif msg is cancellation.told(self):
            return True
        return super().cancel(msg)

    if sys.version_info < (3, 14):

        def get_loop(self) -> asyncio.AbstractEventLoop:
            loop = super().get_loop()
            if loop is asyncio._get_running_loop() and _asked_by_all_tasks(sys._getframe(1)):
                raise UnorderedError("asyncio.all_tasks() has no fixed order in a workflow: keep your tasks in a list")
            return loop


class _WorkflowGathering(_GATHERING):  # type: ignore[misc]  # private to asyncio, hence unknown to the type checker
    """What `gather` returns, hashing by its number in the run."""

    order: int

    def __hash__(self) -> int:
        return self.order


def gathering(caller: FrameType) -> Any:
    """The future that `gather` is making in this frame, open to be numbered; None if it makes none."""
    future = caller.f_locals.get("self") if caller.f_globals is ASYNCIO_TASKS else None
    if type(future) is not _GATHERING:
        return None
    future.__class__ = _WorkflowGathering
    return future


def as_completed_arguments(caller: FrameType) -> Any:
    """What `as_completed` was given, if it is what asks for a task; else None. The caller is in asyncio.tasks."""
    entry = _entry(caller)
    return entry.f_locals["fs"] if entry.f_code is _AS_COMPLETED else None


def in_argument_order(wanted: object, given: Iterable[Any]) -> list[Any]:
    """The bare coroutines among the arguments of `as_completed`, `wanted` among them."""
    items = list(given) if isinstance(given, Sequence | Mapping | ValuesView) else []
    coroutines = [item for item in items if asyncio.iscoroutine(item)]
    if not any(item is wanted for item in coroutines) or any(_unordered(item) for item in items):
        raise UnorderedError(
            "asyncio.as_completed() loses the order of bare coroutines: "
            "give it a list of coroutines, or of tasks made with asyncio.create_task()"
        )
    return list(dict.fromkeys(coroutines))


def _unordered(item: Any) -> bool:
    """A future that is done is reported in the set's order, which the coroutines' addresses have a part in."""
    return bool(item.done()) if asyncio.isfuture(item) else not asyncio.iscoroutine(item)


def _entry(frame: FrameType) -> FrameType:
    """The function of asyncio.tasks that was called from elsewhere, out of those that called each other."""
    while frame.f_back is not None and frame.f_back.f_globals is ASYNCIO_TASKS:
        frame = frame.f_back
    return frame


def _asked_by_all_tasks(caller: FrameType) -> bool:
    return caller.f_globals is _ASYNCIO_FUTURES and _entry(caller).f_code.co_name == "all_tasks"
