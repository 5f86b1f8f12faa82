"""Python values to JSON bytes and back, by annotation (I20).

A valid value costs one msgspec call and a few scans of the bytes; the value is walked only if the bytes look
suspicious. msgspec writes NaN and the infinities as null, so a null is suspicious, and so are U+0000 and a key `nan` or
`inf`. Pydantic is used if the value or the annotation contains one of its classes, and is never imported otherwise.
"""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.input_hash import canonical_json, hash_of
from assay.core.model.payload import BACKSLASH, PAYLOAD_LIMIT, SAFE_PAYLOAD_BYTES, check_json, check_limits
from assay.sdk.values.flaws import find_flaw

Decode: TypeAlias = Callable[[bytes | msgspec.Raw], Any]

_N: Final = ord("n")
"""Every suspicious text (null, nan, inf, an escaped U+0000) contains an n or a backslash."""
_AT: Final = re.compile(r"^(?P<problem>.*?) - at `\$(?P<path>[^`]*)`$", re.DOTALL)
_SHOWN_ERRORS: Final = 3
REMEMBERED_HASHES: Final = 4_096
REMEMBERED_BYTES: Final = 256
"""Longer texts are hashed each time: the cache holds at most about a megabyte."""


class Converter:
    """Encodes values for the engine and decodes its payloads; caches one decoder per annotation."""

    def __init__(self) -> None:
        self._decoders: dict[Any, Decode] = {
            Any: _decode_plain,
            object: _decode_plain,
            inspect.Parameter.empty: _decode_plain,
        }

    def encode(self, value: Any, *, name: str = "value", limit: int = PAYLOAD_LIMIT) -> bytes:
        """Return the JSON of `value`; raise `Invalid` with the path of a part that JSON cannot represent exactly."""
        try:
            raw = _encode_json(value)
        except Exception as error:
            raise _unencodable(value, name, error) from error
        if (_N in raw or BACKSLASH in raw) and _looks_wrong(raw, value):
            flaw = find_flaw(value, name)
            if flaw is not None:
                raise flaw
        if type(value) is msgspec.Raw:
            check_json(raw, limit=limit, name=name)
        elif len(raw) > SAFE_PAYLOAD_BYTES or len(raw) > limit:
            check_limits(raw, limit=limit, name=name)
        return raw

    def arguments_hash(self, args: tuple[Any, ...]) -> str | None:
        """Return the hash of a step's arguments; None if they cannot be encoded or are too large."""
        if not args:
            return _NO_ARGUMENTS
        try:
            text = _encode_sorted(args)
        except Exception:  # noqa: BLE001  # a step receives its arguments unencoded, so they need not be JSON values
            try:
                text = canonical_json(_encode_json(args))  # keys that are not strings are sorted as strings
            except Exception:  # noqa: BLE001  # as above
                return None
        known = _hashes.get(text)  # steps of a run often have the same arguments: its input, an id
        return _remembered_hash(text) if known is None else known

    def decode(self, raw: bytes | msgspec.Raw, annotation: Any = Any, *, name: str = "value") -> Any:
        """Decode `raw` by `annotation`; raise `Invalid` with the path of a part that does not fit."""
        try:
            decode = self._decoders[annotation]
        except (KeyError, TypeError):  # new, or not hashable
            decode = self.decoder(annotation)
        try:
            return decode(raw)
        except Exception as error:
            raise _undecodable(error, name) from error

    def decoder(self, annotation: Any) -> Decode:
        """Return the function that decodes `annotation`; raise `Invalid` for an unsupported annotation."""
        try:
            decode = self._build(annotation)
        except Exception as error:
            shown = annotation.__qualname__ if isinstance(annotation, type) else repr(annotation)
            raise Invalid(f"values cannot be decoded as {shown}: {error}", code="unsupported_annotation") from error
        with suppress(TypeError):  # not hashable: built again each time
            self._decoders[annotation] = decode
        return decode

    def _build(self, annotation: Any) -> Decode:
        if _mentions_pydantic(annotation):
            return _pydantic_decoder(annotation)
        return msgspec.json.Decoder(annotation, dec_hook=self._decode_other).decode

    def _decode_other(self, wanted: Any, value: Any) -> Any:
        """Decode a class unknown to msgspec: a model inside a dataclass, or a subclass of str, int, float."""
        if _mentions_pydantic(wanted):
            try:
                return (self._decoders.get(wanted) or self.decoder(wanted))(msgspec.json.encode(value))
            except ValueError as error:
                raise ValueError(": ".join(_problems(error, "")).removeprefix(".")) from error
        if isinstance(wanted, type):
            for base in (str, int, float):
                if issubclass(wanted, base) and type(value) is base:
                    return wanted(value)
        shown = getattr(wanted, "__qualname__", wanted)
        raise TypeError(f"{shown} cannot be made from JSON; use a dataclass, a model or a TypedDict")


_decode_plain: Final[Decode] = msgspec.json.Decoder().decode


def _to_known(value: Any) -> Any:
    """Return the JSON representation of a value whose class is unknown to msgspec."""
    if hasattr(type(value), "model_dump_json"):
        raw = value.model_dump_json(round_trip=True).encode()
        if b"NaN" in raw or b"Infinity" in raw:
            _decode_plain(raw)  # raises: a model may be configured to write these words, which are not JSON
        return msgspec.Raw(raw)
    return _to_builtin(value)


def _to_builtin(value: Any) -> Any:
    """Return the plain Python value for an instance of a class unknown to msgspec."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, deque):
        return list(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", round_trip=True)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encode_json: Final = msgspec.json.Encoder(enc_hook=_to_known).encode
_encode_sorted: Final = msgspec.json.Encoder(enc_hook=_to_builtin, order="sorted").encode
_NO_ARGUMENTS: Final = hash_of(b"[]")
_hashes: Final[dict[bytes, str]] = {}
"""Hashes by canonical text: repeated arguments cost a look-up instead of a SHA-256."""
_encode_msgpack: Final = msgspec.msgpack.Encoder(enc_hook=_to_builtin).encode


def _remembered_hash(text: bytes) -> str | None:
    """Hash canonical JSON and cache the digest; return None if the text is too large."""
    size = len(text)
    if size > PAYLOAD_LIMIT:
        return None
    digest = hash_of(text)
    if size <= REMEMBERED_BYTES:
        if len(_hashes) >= REMEMBERED_HASHES:
            _hashes.clear()
        _hashes[text] = digest
    return digest


def _looks_wrong(raw: bytes, value: Any) -> bool:
    """Return True if the JSON may differ from `value`: a cheap test with false positives."""
    # `find` is faster than `in`, which for bytes first tries its operand as a number.
    if raw.find(b"null") >= 0 and value is not None and _may_hold_nan(value):
        return True
    return raw.find(b"\\u0000") >= 0 or raw.find(b'nan":') >= 0 or raw.find(b'inf":') >= 0


def _may_hold_nan(value: Any) -> bool:
    """Return True if the value may contain NaN or an infinity, which MessagePack writes unchanged and quickly."""
    try:
        packed = _encode_msgpack(value)
    except Exception:  # noqa: BLE001 - integers above 64 bits, for example: the walk decides
        return True
    # A float is 0xcb and eight bytes. These prefixes also match finite floats above 1e300, which only costs a walk.
    return packed.find(b"\xcb\x7f") >= 0 or packed.find(b"\xcb\xff") >= 0


def _unencodable(value: Any, name: str, error: Exception) -> Invalid:
    try:
        flaw = find_flaw(value, name)
    except Exception:  # noqa: BLE001 - the value's own methods may raise: `Invalid` is raised all the same
        flaw = None
    return flaw or Invalid(f"{name}: cannot be written as JSON: {error}", code="unencodable", field=name)


def _undecodable(error: Exception, name: str) -> Invalid:
    if isinstance(error, Invalid):
        return error
    path, problem = _problems(error, name)
    return Invalid(f"{path}: {problem}" if path else problem, code="undecodable", field=path)


def _problems(error: Exception, name: str) -> tuple[str, str]:
    """Return the path of the first problem that a validator reports, and a sentence about the first few."""
    errors = getattr(error, "errors", None)
    if callable(errors):  # a ValidationError of pydantic
        found = [(_path(name, item["loc"]), item["msg"]) for item in errors(include_url=False)]
        others = [f"{path}: {problem}" for path, problem in found[1:_SHOWN_ERRORS]]
        return found[0][0], "; ".join([found[0][1], *others])
    if at := _AT.match(str(error)):
        return name + at["path"], at["problem"].replace("`", "")
    return name, str(error).replace("`", "")


def _path(name: str, location: tuple[str | int, ...]) -> str:
    return name + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _mentions_pydantic(annotation: Any) -> bool:
    """Return True if `annotation` contains a class or a constraint of pydantic, at any depth."""
    annotation = getattr(annotation, "__supertype__", annotation)  # a NewType
    if hasattr(annotation, "__pydantic_validator__"):
        return True
    origin = get_origin(annotation)
    if origin is Literal:
        return False
    arguments = get_args(annotation)
    if origin is Annotated and any(type(mark).__module__.startswith("pydantic") for mark in arguments[1:]):
        return True
    return any(_mentions_pydantic(argument) for argument in arguments)


def _pydantic_decoder(annotation: Any) -> Decode:
    from pydantic import TypeAdapter

    adapter = TypeAdapter(annotation)
    # A model writes names or aliases by its own settings, so decoding accepts both.
    return lambda raw: adapter.validate_json(bytes(raw), by_alias=True, by_name=True)
