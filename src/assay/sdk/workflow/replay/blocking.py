"""Runs `def` workflow handlers on the workflow's loop: the handler blocks, the loop does not.

Rules owned here:

* A blocking handler runs in its own greenlet, inside the task that awaits `run_blocking`: same thread, same context,
  same current task. `wait` passes an awaitable to that task, and returns its result, or raises its exception or the
  cancellation of the task.
* When the run is evicted, GreenletExit is raised in the handler. Its `finally` blocks may run; a `wait` inside them
  raises GreenletExit again.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from types import CoroutineType, FrameType
from typing import Any, Final, ParamSpec, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_REFUSALS_LIMIT: Final = 100
_unclosable: Final[list[object]] = []


class _Blocking(greenlet):  # type: ignore[misc]  # greenlet ships no types
    """The stack of one blocking handler; its parent is the greenlet in which the loop last resumed it."""

    leaving = False
    refused = 0


async def run_blocking(
    function: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Call `function`, which may call `wait`; awaited in a task of the workflow."""
    blocking = _Blocking(function)
    blocking.gr_context = getcurrent().gr_context  # shared, not copied: the task sees the handler's context variables
    outcome = blocking.switch(*args, **options)
    while not blocking.dead:
        try:
            value = await outcome
        except GeneratorExit:
            _dismiss(blocking)
            raise
        except BaseException as error:  # noqa: BLE001 - raised again, in the handler
            blocking.parent = getcurrent()
            outcome = blocking.throw(type(error), error, error.__traceback__)
        else:
            blocking.parent = getcurrent()
            outcome = blocking.switch(value)
    result: Result = outcome
    return result


def wait(awaitable: Awaitable[Result]) -> Result:
    """Let the loop continue until `awaitable` is done; called in a blocking handler."""
    blocking = getcurrent()
    if not isinstance(blocking, _Blocking):
        _discard(awaitable)
        raise RuntimeError("only a workflow handler written as `def` can block: in an `async def` one use `await`")
    if blocking.leaving:
        _discard(awaitable)
        _refuse(blocking)
    result: Result = blocking.parent.switch(awaitable)
    return result


def frame_of(coroutine: CoroutineType[Any, Any, Any]) -> Iterator[FrameType]:
    """Yield the frames of the handler that a coroutine of `run_blocking` waits for, the outermost first."""
    if coroutine.cr_code is not run_blocking.__code__ or coroutine.cr_frame is None:
        return
    blocking = coroutine.cr_frame.f_locals.get("blocking")
    frames: list[FrameType] = []
    frame = None if blocking is None else blocking.gr_frame
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    yield from reversed(frames)


def is_blocking() -> bool:
    """Return whether the caller is a `def` workflow handler."""
    return isinstance(getcurrent(), _Blocking)


def _refuse(blocking: _Blocking) -> None:
    blocking.refused += 1
    if blocking.refused < _REFUSALS_LIMIT:
        raise GreenletExit
    blocking.parent.switch()  # the handler catches GreenletExit and retries forever: never resume it


def _dismiss(blocking: _Blocking) -> None:
    """End the handler of an evicted run; its exceptions are ignored."""
    blocking.leaving = True
    blocking.parent = getcurrent()
    with contextlib.suppress(BaseException):
        blocking.throw(GreenletExit)
    if not blocking.dead:
        _unclosable.append(blocking)  # kept for good: its finalizer would throw again, and print an error


def _discard(awaitable: object) -> None:
    if inspect.iscoroutine(awaitable):
        awaitable.close()  # prevents the warning of an unawaited coroutine
