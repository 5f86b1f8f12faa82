"""Runs `def` workflow handlers on the workflow's loop: they block, the loop does not (R26).

Rules owned here:

* A blocking handler runs in a greenlet of its own, inside the task that awaits `run_blocking`: same thread, same
  context, same current task. `wait` hands an awaitable to that task, and gets back its result, its exception or the
  cancellation of the task.
* When the run leaves its worker (R6) the handler sees GreenletExit. Its `finally` blocks may run, and a `wait` in there
  raises GreenletExit again.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_REFUSALS: Final = 100
_stubborn: Final[list[object]] = []


class _Blocking(greenlet):  # type: ignore[misc]  # greenlet ships no types
    """The stack of one blocking handler; its parent is the greenlet in which the loop last resumed it."""

    leaving = False
    refused = 0


async def run_blocking(
    function: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
) -> Result:
    """Awaited in a task of the workflow: calls `function`, which may call `wait`."""
    blocking = _Blocking(function)
    blocking.gr_context = getcurrent().gr_context  # shared, not copied: what the handler sets, its task sees
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
    """Called in a blocking handler: lets the loop go on until `awaitable` is done."""
    blocking = getcurrent()
    if not isinstance(blocking, _Blocking):
        _discard(awaitable)
        raise RuntimeError("only a workflow handler written as `def` can block: in an `async def` one use `await`")
    if blocking.leaving:
        _discard(awaitable)
        _refuse(blocking)
    result: Result = blocking.parent.switch(awaitable)
    return result


def is_blocking() -> bool:
    """Return whether the caller is a workflow handler written as `def`."""
    return isinstance(getcurrent(), _Blocking)


def _refuse(blocking: _Blocking) -> None:
    blocking.refused += 1
    if blocking.refused < _REFUSALS:
        raise GreenletExit
    blocking.parent.switch()  # it catches everything and tries for ever; nobody will switch back


def _dismiss(blocking: _Blocking) -> None:
    """Ends the handler; what it raises concerns nobody any more."""
    blocking.leaving = True
    blocking.parent = getcurrent()
    with contextlib.suppress(BaseException):
        blocking.throw(GreenletExit)
    if not blocking.dead:
        _stubborn.append(blocking)  # for ever: its finalizer would try again and complain aloud


def _discard(awaitable: object) -> None:
    if inspect.iscoroutine(awaitable):
        awaitable.close()  # otherwise it warns that it was never awaited
