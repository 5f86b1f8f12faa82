"""Checks of callers' arguments, at the call that passes them.

An embedded engine would accept malformed values, and an engine behind HTTP would report the message instead of the
argument. Checking first gives both the same error, with the argument's name. `check_id` checks ids and names,
`check_text` texts for people.
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.core.model.arguments import PACKED_ARGUMENTS
from assay.core.model.errors import Invalid
from assay.core.model.options import check_id


def optional_id(value: str | None, name: str) -> str | None:
    """Return an id, or None if it was left out."""
    return None if value is None else check_id(value, name)


def check_mapping(value: object, name: str) -> Mapping[Any, Any]:
    """Return `value` if it is a mapping, or raise `Invalid`."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{name} must be a mapping, not {type(value).__name__}", field=name)
    return value


def check_flag(value: object, name: str) -> bool:
    """Return `value` if it is True or False, or raise `Invalid`: truthy values are refused."""
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be True or False, not {type(value).__name__}", field=name)
    return value


def check_whole(value: object, name: str, allowed: range) -> int:
    """Return `value` if it is a whole number in `allowed`, or raise `Invalid`."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise Invalid(f"{name} must be a whole number from {allowed[0]} to {allowed[-1]:,}", field=name)
    return int(value)


def packed(args: Sequence[Any]) -> Any:
    """Return the input that stands for the arguments of a call: None, the only argument, or an object of several."""
    if not args:
        return None
    only = args[0] if len(args) == 1 else None
    is_packed = isinstance(only, Mapping) and PACKED_ARGUMENTS in only
    return only if len(args) == 1 and not is_packed else {PACKED_ARGUMENTS: list(args)}


def input_of(input: Any, args: object) -> Any:
    """Return the input of a call that was given an input or a list of arguments; raise `Invalid` for both."""
    if args is None:
        # Once per step: `isinstance` of an abstract class costs more than all else here.
        is_packed = PACKED_ARGUMENTS in input if type(input) is dict else isinstance(input, Mapping)
        return packed((input,)) if is_packed else input
    if input is not None:
        raise Invalid("give an input or args, not both", field="args")
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise Invalid(f"args must be a list, not {type(args).__name__}", field="args")
    return packed(args)


def check_function(value: object, what: str) -> None:
    """Raise `Invalid` unless `value` is callable."""
    if callable(value):
        return
    advice = ""
    if inspect.iscoroutine(value):
        value.close()  # prevents the warning of an unawaited coroutine
        advice = ": give it the function itself, and its arguments after that"
    raise Invalid(f"{what} needs a function, not {type(value).__name__}{advice}", field="function")


def unknown_option(problem: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown keyword, with the nearest known name."""
    return TypeError(f"{problem} {name!r}; {nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name: the nearest known name, or all known names."""
    names = [*dict.fromkeys(known)]
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
