"""Activities that are called like functions: allowed everywhere but in workflow code.

Workflow code runs again on each replay. A direct call there would repeat the activity's work without a record, so the
decorated function raises and names the recorded call.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

from assay.sdk.workflow.replay.workflow_flag import FLAG, WorkflowIOError

# A table and not an attribute of the wrapper: functools.wraps in a user's decorator would copy the attribute.
_ORIGINALS: Final = WeakKeyDictionary[Callable[..., Any], Callable[..., Any]]()


def refusing(function: Callable[..., Any], name: str, input_name: str | None) -> Callable[..., Any]:
    """Return `function` wrapped so that direct calls in workflow code raise.

    Only functions are wrapped. Other callables, such as bound methods, are returned unchanged.
    """
    if not inspect.isfunction(function) or function in _ORIGINALS:
        return function
    refuse = functools.partial(_refuse, name, function.__name__, input_name)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call(*args: Any, **options: Any) -> Any:
            if FLAG.inside:
                refuse()
            return await function(*args, **options)

    else:

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if FLAG.inside:
                refuse()
            return function(*args, **options)

    _ORIGINALS[call] = function
    return call


def original_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the undecorated function."""
    return _ORIGINALS.get(function, function) if inspect.isfunction(function) else function


def _refuse(name: str, function: str, input_name: str | None) -> NoReturn:
    from assay.sdk.workflow.replay.blocking import (
        is_blocking,  # imports greenlet: programs without workers do not pay for the import
    )

    arguments = function if input_name is None else f"{function}, {input_name}"
    line = f"{'' if is_blocking() else 'await '}ctx.execute_activity({arguments})"
    raise WorkflowIOError(
        f"workflow code called the activity '{name}' like a function: its result would not be recorded, and every"
        f" replay would run the activity again. Write `{line}`"
    )
