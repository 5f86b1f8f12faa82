"""What callers pass, checked where it is passed: whoever gave a wrong value hears of it there, and by its name.

An engine in this process would take what comes, and one behind HTTP would blame a message. So neither is asked before:
here is what both can do with. Ids and names are checked by `check_id`, words for people by `check_text`.
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id


def optional_id(value: str | None, name: str) -> str | None:
    """An id that may be left out."""
    return None if value is None else check_id(value, name)


def check_mapping(value: object, name: str) -> Mapping[Any, Any]:
    """A mapping, or `Invalid`."""
    if not isinstance(value, Mapping):
        raise Invalid(f"{name} must be a mapping, not {type(value).__name__}", field=name)
    return value


def check_flag(value: object, name: str) -> bool:
    """True or False, and nothing that is taken for either."""
    if not isinstance(value, bool):
        raise Invalid(f"{name} must be True or False, not {type(value).__name__}", field=name)
    return value


def check_whole(value: object, name: str, allowed: range) -> int:
    """A whole number of a range, or `Invalid`."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise Invalid(f"{name} must be a whole number from {allowed[0]} to {allowed[-1]:,}", field=name)
    return int(value)


def check_function(value: object, what: str) -> None:
    """`Invalid` for what cannot be called."""
    if callable(value):
        return
    advice = ""
    if inspect.iscoroutine(value):
        value.close()  # otherwise it warns that it was never awaited
        advice = ": give it the function itself, and its arguments after that"
    raise Invalid(f"{what} needs a function, not {type(value).__name__}{advice}", field="function")


def unknown_option(problem: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a keyword that a call does not have: it names the nearest one, or all of them."""
    return TypeError(f"{problem} {name!r}; {nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name: the nearest known one, or all of them."""
    names = [*dict.fromkeys(known)]
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
