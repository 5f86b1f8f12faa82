"""Finds the part of a value that JSON cannot represent; called only for suspicious values, so it may be slow."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.payload import DEPTH_LIMIT

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LISTS: Final = (list, tuple, set, frozenset, deque)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Member: TypeAlias = tuple[str, object]


def find_flaw(value: object, path: str, levels: int = DEPTH_LIMIT) -> Invalid | None:
    """Return an `Invalid` for the first part of `value` that JSON cannot represent, with its path, or None."""
    try:
        value = _unwrapped(value)
    except Exception as error:  # noqa: BLE001 - a model's own serializer may raise anything
        return Invalid(f"{path}: {error}", code="unencodable", field=path)
    if isinstance(value, str):
        return _text_flaw(value, path)
    if isinstance(value, float):
        return None if math.isfinite(value) else _not_a_number(value, path)
    members = _members(value, path)
    if members is None:
        return _leaf_flaw(value, path)
    if levels == 0:
        message = f"{path}: nested more than {DEPTH_LIMIT} levels deep, or contains itself"
        return Invalid(message, code="json_too_deep", field=path)
    keys = value if isinstance(value, Mapping) else ()
    in_keys = (_key_flaw(key, path) for key in keys)
    in_members = (find_flaw(member, place, levels - 1) for place, member in members)
    return next((flaw for flaw in chain(in_keys, in_members) if flaw is not None), None)


def _unwrapped(value: object) -> object:
    """Return the value that is written in place of an enum member or a pydantic model."""
    if isinstance(value, Enum):
        return value.value
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", round_trip=True)  # type: ignore[attr-defined]  # looked up just now
    return value


def _members(value: object, path: str) -> list[Member] | None:
    """Return the parts of `value` with their paths, or None if it has no parts."""
    if isinstance(value, Mapping):
        return [(_under(path, key), member) for key, member in value.items()]
    if isinstance(value, _LISTS):
        return [(f"{path}[{index}]", member) for index, member in enumerate(value)]
    if isinstance(value, msgspec.Struct):
        return [(_under(path, name), getattr(value, name)) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return [(_under(path, field.name), getattr(value, field.name)) for field in fields]
    return None


def _under(path: str, key: object) -> str:
    """Return the path of a member; an unusual key is quoted, so that the path can always be printed and sent."""
    text = str(key)
    return f"{path}.{text}" if _PLAIN_KEY.fullmatch(text) else f"{path}[{text[:64]!r}]"


def _key_flaw(key: object, path: str) -> Invalid | None:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return _text_flaw(key, _under(path, key), "the key ")
    if isinstance(key, float) and not math.isfinite(key):
        return _not_a_number(key, _under(path, key))
    try:
        msgspec.json.encode({key: None})
    except Exception:  # noqa: BLE001 - the answer is the error we return
        message = f"{path}: a key must be a text or a number, not {type(key).__name__}"
        return Invalid(message, code="unencodable", field=path)
    return None


def _text_flaw(text: str, path: str, what: str = "") -> Invalid | None:
    if "\0" in text:
        return Invalid(f"{path}: {what}contains the character U+0000", code="nul_character", field=path)
    if _SURROGATE.search(text):
        return Invalid(f"{path}: {what}contains half of a surrogate pair", code="lone_surrogate", field=path)
    return None


def _not_a_number(value: float, path: str) -> Invalid:
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return Invalid(f"{path}: {name} is not a JSON number", code="not_a_number", field=path)


def _leaf_flaw(value: object, path: str) -> Invalid | None:
    if isinstance(value, int):
        value = int.__int__(value)
    try:
        msgspec.json.encode(value)
    except ValueError:
        return Invalid(f"{path}: the integer is too long for JSON in Python", code="unencodable", field=path)
    except Exception:  # noqa: BLE001 - the answer is the error we return
        message = f"{path}: {type(value).__name__} is not a JSON value{_advice(value)}"
        return Invalid(message, code="unencodable", field=path)
    return None


def _advice(value: object) -> str:
    """Return a hint for values that are often passed by mistake."""
    if isinstance(value, os.PathLike):
        return "; a path means nothing on another machine: pass str(path) if it is what you want"
    if inspect.isawaitable(value):
        return "; await it first"
    if isinstance(value, Iterator):
        return "; pass list(...) of it"
    if hasattr(value, "tolist"):
        return "; pass value.tolist()"
    if callable(value):
        return "; pass data, not code"
    return "; pass a dataclass, a model or plain data"
