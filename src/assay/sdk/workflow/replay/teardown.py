"""Closes the coroutines of a run that is evicted from its worker.

Rules owned here:

* `finally` blocks run, their exceptions are ignored, and nothing is printed.
* An evicted run is freed by reference counts, without the garbage collector: a worker evicts because it needs the
  memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import sys
from collections.abc import AsyncGenerator
from types import CoroutineType
from typing import Any, Final, NoReturn

from assay.sdk.workflow.replay.cancellation import TaskBody

_CLOSE_ATTEMPTS: Final = 100
_SEARCHED_HOLDERS: Final = 200
_SEARCHED_LENGTH: Final = 1_000
_CONTAINERS: Final = frozenset([list, tuple, dict, set])
_ITERATORS: Final = frozenset([CoroutineType, type(iter([])), type(iter(()))])
_unclosable: Final[list[object]] = []


def left() -> RuntimeError:
    """Return the error for calls of an evicted run."""
    return RuntimeError("this run is being evicted from its worker: its code can start and await nothing more")


class GoneTimers:
    """Replaces the runtime's timers after the eviction, so that the loop does not keep the runtime alive."""

    __slots__ = ("_now",)

    def __init__(self, now: float) -> None:
        self._now = now

    def start_timer(self, delay_seconds: float) -> NoReturn:
        raise left()

    def cancel_timer(self, seq: int) -> None: ...

    def now(self) -> float:
        return self._now


def close(task: asyncio.Task[Any]) -> None:
    """Close the task's coroutine, however often it resists, and detach the task from the future that it awaits."""
    body: Any = task.get_coro()
    coroutine = body.coroutine if isinstance(body, TaskBody) else body
    for unstarted in _unstarted(coroutine):
        unstarted.close()
    for awaiting in _chain(coroutine):
        if not _closed(awaiting):
            _unclosable.append(awaiting)  # kept for good: its finalizer would close again, and print an error
    _release(task)


def close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    """Run a generator's `finally` up to its first await."""
    closing: Any = generator.aclose()
    with contextlib.suppress(BaseException):
        closing.send(None)
    with contextlib.suppress(BaseException):
        closing.close()


def _chain(coroutine: Any) -> list[Any]:
    """Return a coroutine and the coroutines that it awaits: closing the outer one may leave an inner one open."""
    chain = [coroutine]
    while isinstance(inner := getattr(chain[-1], "cr_await", None), CoroutineType):
        chain.append(inner)
    return chain


def _closed(coroutine: Any) -> bool:
    for _ in range(_CLOSE_ATTEMPTS):
        with contextlib.suppress(BaseException):
            coroutine.close()
            return True
    return False


def _unstarted(coroutine: object) -> list[CoroutineType[Any, Any, Any]]:
    """Return coroutines that the frames hold but never awaited; closed here, they cause no warning."""
    found: list[CoroutineType[Any, Any, Any]] = []
    holders = [coroutine]
    for holder in holders:
        for item in gc.get_referents(holder):
            if isinstance(item, CoroutineType) and inspect.getcoroutinestate(item) == inspect.CORO_CREATED:
                found.append(item)
            elif len(holders) < _SEARCHED_HOLDERS and _may_hold(item):
                holders.append(item)
    return found


def _may_hold(item: Any) -> bool:
    return type(item) in _ITERATORS or (type(item) in _CONTAINERS and len(item) <= _SEARCHED_LENGTH)


def _release(task: asyncio.Task[Any]) -> None:
    """Break the reference cycle between a task and the future that it awaits."""
    waiter: Any = task._fut_waiter  # type: ignore[attr-defined]  # private to asyncio
    if sys.version_info >= (3, 14) and waiter is not None:
        asyncio.future_discard_from_awaited_by(waiter, task)
    for future in (task, waiter, *getattr(waiter, "_children", ())):
        if isinstance(future, asyncio.Future):
            for callback, _ in future._callbacks or ():
                future.remove_done_callback(callback)
