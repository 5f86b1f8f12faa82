"""Check payloads: JSON that every store can keep and every worker can parse (I20).

After this check the engine never parses a payload again, and returns it byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.limits import LIMITS

Payload: TypeAlias = msgspec.Raw
# No value. The type of a field cannot be `Raw | None`: msgspec would refuse every value but null (its issue 659).
NULL: Final = msgspec.Raw(b"null")

PAYLOAD_LIMIT: Final = LIMITS.payload_bytes
DEPTH_LIMIT: Final = 64
KEYS_LIMIT: Final = 10_000
INTEGER_DIGITS: Final = 4_300
"""The digits of the longest integer that Python parses; the time for longer integers grows with their square."""
SHOWN_CHARACTERS: Final = 100
"""The characters of a key or value in an error message."""

_parse: Final = msgspec.json.Decoder().decode
BACKSLASH: Final = ord("\\")
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SHORTEST_MEMBER: Final = len(b'"":0,')
_encode: Final = msgspec.json.Encoder().encode
_canonical: Final = msgspec.json.Encoder(order="sorted").encode
_EMPTY: Final = re.compile(rb"[ \t\n\r]*(?:null|\{[ \t\n\r]*\}|\[[ \t\n\r]*\])?[ \t\n\r]*")


SAFE_PAYLOAD_BYTES: Final = 2 * DEPTH_LIMIT
"""JSON of at most this size cannot nest too deep or have too many keys, because each level has two brackets."""


def value_of(raw: bytes | Payload) -> Any:
    """Return the Python value of checked JSON: exact integers, and only the types of JSON."""
    return _parse(raw)


def same_value(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, in any order of their keys; 1 and true differ."""
    return _canonical(one) == _canonical(other)


def is_empty(raw: bytes | Payload) -> bool:
    """Return whether a document is empty, null, {} or [], with any blanks; all four mean no value."""
    return _EMPTY.fullmatch(raw) is not None


def check_json(
    raw: bytes, *, limit: int = PAYLOAD_LIMIT, depth: int = DEPTH_LIMIT, keys: int = KEYS_LIMIT, name: str = "payload"
) -> Any:
    """Return the value of `raw`; raise `Invalid` for `name` unless `raw` is one JSON value within the limits."""
    value = parsed(raw, limit=limit, name=name)
    if _may_exceed(raw, depth, keys):
        _check_shape(value, depth, keys, name)
    return value


def parsed(raw: bytes, *, limit: int = PAYLOAD_LIMIT, name: str = "payload") -> Any:
    """Return the value of `raw`; raise `Invalid` unless `raw` is one JSON value up to `limit` bytes, of any shape."""
    if len(raw) > limit:
        raise _too_large(len(raw), limit, name)
    try:
        # A full parse: skipping over values would not find bad UTF-8 or numbers beyond a float, for example 1e400.
        value = _parse(raw)
    except RecursionError:
        raise _too_deep(DEPTH_LIMIT, name) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _check_escapes(raw, name)
        if "Integer value out of range" in str(error):  # Python parses no longer integers
            text = f"{name} holds an integer of more than {INTEGER_DIGITS:,} digits"
            raise Invalid(text, code="invalid_json", field=name) from None
        raise Invalid(f"{name} is not valid JSON: {error}", code="invalid_json", field=name) from None
    if BACKSLASH in raw:
        _check_escapes(raw, name)
    return value


def check_keys(raw: bytes, value: object, name: str = "payload") -> None:
    """Raise `Invalid` for `name` if an object in `raw` has a key twice, because parsers differ in the value they keep.

    The parser keeps the last value without an error. Then `value`, encoded again, has fewer colons than `raw`: other
    colons are inside of texts and stay. A colon escaped as `\\u003a` changes the count, so such texts are parsed again.
    """
    if raw.count(b":") == _encode(value).count(b":") and b"\\u003" not in raw:
        return
    try:
        json.loads(raw, object_pairs_hook=_unique, parse_int=len, parse_float=len)
    except KeyError as error:
        message = f"{name} has the key {error.args[0][:SHOWN_CHARACTERS]!r} twice in one object"
        raise Invalid(message, code="duplicate_key", field=name) from None
    except RecursionError:
        raise _too_deep(DEPTH_LIMIT, name) from None


def _unique(members: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for key, _ in members:
        if key in seen:
            raise KeyError(key)
        seen.add(key)


def check_limits(
    raw: bytes, *, limit: int = PAYLOAD_LIMIT, depth: int = DEPTH_LIMIT, keys: int = KEYS_LIMIT, name: str = "payload"
) -> None:
    """Raise `Invalid` for `name` if `raw`, which must be valid JSON, exceeds a limit."""
    if len(raw) > limit:
        raise _too_large(len(raw), limit, name)
    if _may_exceed(raw, depth, keys):
        _check_shape(_parse(raw), depth, keys, name)


def _may_exceed(raw: bytes, depth: int, keys: int) -> bool:
    """Return whether the parsed value has to be checked; brackets and colons inside of texts count here as well."""
    size = len(raw)
    if size > 2 * depth and raw.count(b"[") + raw.count(b"{") > depth:
        return True
    return size > _SHORTEST_MEMBER * keys and raw.count(b":") > keys


def _check_escapes(raw: bytes, name: str) -> None:
    r"""Raise `Invalid` for \u0000, which Postgres cannot store as text, and halves of surrogate pairs."""
    if b"\\u0000" not in raw and not _SURROGATE.search(raw):
        return
    single = raw.replace(rb"\\", b"__")  # a backslash that is itself escaped begins no escape
    if b"\\u0000" in single:
        raise Invalid(f"{name} contains the character U+0000", code="nul_character", field=name)
    if _SURROGATE.search(_SURROGATE_PAIR.sub(b"__", single)):
        raise Invalid(f"{name} contains half of a surrogate pair", code="lone_surrogate", field=name)


def _check_shape(value: object, depth: int, keys: int, name: str) -> None:
    """Raise `Invalid` if a parsed value is too deep or has too many keys; visits each node once, level by level."""
    level = [value]
    for _ in range(depth):
        children: list[object] = []
        for node in level:
            if type(node) is dict:
                if len(node) > keys:
                    raise Invalid(f"{name} has an object of more than {keys:,} keys", code="too_many_keys", field=name)
                children.extend(node.values())
            elif type(node) is list:
                children.extend(node)
        level = [child for child in children if type(child) is list or type(child) is dict]
        if not level:
            return
    raise _too_deep(depth, name)


def _too_large(size: int, limit: int, name: str) -> Invalid:
    message = f"{name} is {size:,} bytes of JSON; the limit is {limit:,}: store it elsewhere and pass a reference"
    return Invalid(message, code="payload_too_large", field=name)


def _too_deep(depth: int, name: str) -> Invalid:
    return Invalid(f"{name} nests more than {depth} levels deep", code="json_too_deep", field=name)
