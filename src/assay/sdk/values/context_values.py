"""Checks of the values that a caller passes along with a start or a call: context, actor and scope."""

import math
from collections.abc import Mapping
from typing import Any, Final

from assay.core.model.errors import Invalid
from assay.core.model.payload import Payload
from assay.core.model.texts import check_words
from assay.sdk.arguments import check_mapping
from assay.sdk.values.converter import Converter

MAX_SCOPE_NAMES: Final = 1_000


def encoded_context(converter: Converter, value: object, name: str = "context") -> Payload:
    """Return a context as JSON; raise `Invalid` for values that are not JSON, wherever they are."""
    values = check_mapping(value, name)
    _check(values, name)
    return Payload(converter.encode(dict(values), name=name))


def _check(value: object, path: str) -> None:
    match value:
        case None | bool() | str() | int():
            return
        case float() if math.isfinite(value):
            return
        case Mapping():
            for key, entry in value.items():
                if not isinstance(key, str) or not key:
                    raise Invalid(f"a key of {path} must be a text that is not empty, not {key!r}", field=path)
                _check(entry, f"{path}.{key}")
        case list() | tuple():
            for number, entry in enumerate(value):
                _check(entry, f"{path}[{number}]")
        case _:
            kind = type(value).__name__
            raise Invalid(f"{path} must be text, number, bool, None, list or mapping, not {kind}", field=path)


def check_scope(value: Any, name: str = "scope") -> tuple[str, ...]:
    """Return a scope: a list of texts; raise `Invalid` for any other value."""
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise Invalid(f"{name} must be a list of texts, not {type(value).__name__}", field=name)
    if len(value) > MAX_SCOPE_NAMES:
        raise Invalid(f"{name} has {len(value):,} names; the limit is {MAX_SCOPE_NAMES:,}", field=name)
    entries = sorted(value, key=str) if isinstance(value, set | frozenset) else value
    return tuple(check_words(entry, f"{name}[{number}]") for number, entry in enumerate(entries))
