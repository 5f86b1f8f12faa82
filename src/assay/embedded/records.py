"""Turns the engine's answers into the dicts that clients get: the same as an HTTP client decodes."""

from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec.structs import asdict


def user_record(answer: msgspec.Struct) -> dict[str, Any]:
    """Return the dict that a client would decode from the JSON of `answer`; user documents are passed, not copied."""
    record = asdict(answer)
    for name in _structs(type(answer)):
        if record[name] is not None:
            record[name] = msgspec.to_builtins(record[name])
    return record


@cache
def _structs(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of the fields that hold structs; the others hold plain values."""
    return tuple(name for name, hint in get_type_hints(kind).items() if _is_struct(hint))


def _is_struct(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    return any(_is_struct(part) for part in get_args(hint))
