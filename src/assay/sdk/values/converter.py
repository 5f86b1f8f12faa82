"""Python values to JSON bytes and back, by annotation (I20).

The clean case costs one msgspec call and a few scans of the bytes; only a sign of trouble makes us walk the value.
msgspec writes NaN and the infinities as null, so a null is such a sign, and so are U+0000 and a key `nan` or `inf`.
Pydantic is used when a class of it is in the value or the annotation, and never imported otherwise.
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
"""It or a backslash is in everything that may be wrong: null, nan, inf, and U+0000 as it is written."""
_AT: Final = re.compile(r"^(?P<problem>.*?) - at `\$(?P<path>[^`]*)`$", re.DOTALL)
_SHOWN_ERRORS: Final = 3
REMEMBERED_HASHES: Final = 4_096
REMEMBERED_BYTES: Final = 256
"""Longer texts are hashed each time: together the remembered ones take at most about a megabyte."""


class Converter:
    """Encodes values for the engine and decodes what comes back; keeps a decoder for each annotation it has met."""

    def __init__(self) -> None:
        self._decoders: dict[Any, Decode] = {
            Any: _decode_plain,
            object: _decode_plain,
            inspect.Parameter.empty: _decode_plain,
        }

    def encode(self, value: Any, *, name: str = "value", limit: int = PAYLOAD_LIMIT) -> bytes:
        """The JSON of `value`; raises `Invalid` with the path, below `name`, of what cannot be sent exactly."""
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
        """Return the hash of the list of a step's arguments; None if they cannot be encoded or are too large."""
        if not args:
            return _NO_ARGUMENTS
        try:
            text = _encode_sorted(args)
        except Exception:  # noqa: BLE001  # the step gets its arguments as they are, whether or not they can be encoded
            try:
                text = canonical_json(_encode_json(args))  # keys that are no texts are sorted as texts
            except Exception:  # noqa: BLE001  # as above
                return None
        known = _hashes.get(text)  # the steps of a run often get the same arguments: its input, an id
        return _remembered_hash(text) if known is None else known

    def decode(self, raw: bytes | msgspec.Raw, annotation: Any = Any, *, name: str = "value") -> Any:
        """The value in `raw` as `annotation` says; raises `Invalid` with the path of what does not fit."""
        try:
            decode = self._decoders[annotation]
        except (KeyError, TypeError):  # new, or not hashable
            decode = self.decoder(annotation)
        try:
            return decode(raw)
        except Exception as error:
            raise _undecodable(error, name) from error

    def decoder(self, annotation: Any) -> Decode:
        """The function that decodes `annotation`; raises `Invalid`, so that a bad one is found when it is declared."""
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
        """Decode a class that msgspec does not know: a model inside a dataclass, or a subclass of str, int, float."""
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
    """What stands in JSON for a class that msgspec does not know."""
    if hasattr(type(value), "model_dump_json"):
        raw = value.model_dump_json(round_trip=True).encode()
        if b"NaN" in raw or b"Infinity" in raw:
            _decode_plain(raw)  # a model may be set up to write these as words, which is not JSON
        return msgspec.Raw(raw)
    return _to_builtin(value)


def _to_builtin(value: Any) -> Any:
    """The plain Python value that stands for one of a class that msgspec does not know."""
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
"""Hashes by canonical text, so that arguments which occur again cost a look-up and no SHA-256."""
_encode_msgpack: Final = msgspec.msgpack.Encoder(enc_hook=_to_builtin).encode


def _remembered_hash(text: bytes) -> str | None:
    """Return the hash of canonical JSON that was not met lately, and remember it; None if the text is too large."""
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
    """Whether there may be something in `value` that its JSON does not say; finding out costs little."""
    # find() and not `in`: for bytes the latter first tries to read its operand as a number.
    if raw.find(b"null") >= 0 and value is not None and _may_hold_nan(value):
        return True
    return raw.find(b"\\u0000") >= 0 or raw.find(b'nan":') >= 0 or raw.find(b'inf":') >= 0


def _may_hold_nan(value: Any) -> bool:
    """Whether there may be a NaN or infinity: MessagePack, unlike JSON, writes them as they are, and is quick."""
    try:
        packed = _encode_msgpack(value)
    except Exception:  # noqa: BLE001 - integers above 64 bits, for one: let the walk decide
        return True
    # A float is 0xcb and eight bytes; these begin the ones above 1e300, too, which only costs a walk.
    return packed.find(b"\xcb\x7f") >= 0 or packed.find(b"\xcb\xff") >= 0


def _unencodable(value: Any, name: str, error: Exception) -> Invalid:
    try:
        flaw = find_flaw(value, name)
    except Exception:  # noqa: BLE001 - a value whose own methods raise must still be refused with our error
        flaw = None
    return flaw or Invalid(f"{name}: cannot be written as JSON: {error}", code="unencodable", field=name)


def _undecodable(error: Exception, name: str) -> Invalid:
    if isinstance(error, Invalid):
        return error
    path, problem = _problems(error, name)
    return Invalid(f"{path}: {problem}" if path else problem, code="undecodable", field=path)


def _problems(error: Exception, name: str) -> tuple[str, str]:
    """The path of the first problem that a validator reports, and a sentence about the first few."""
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
    """Whether a class or a constraint of pydantic is in `annotation`, at any depth of its brackets."""
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
    # A model writes names or aliases as its own settings say; reading accepts both, so either comes back.
    return lambda raw: adapter.validate_json(bytes(raw), by_alias=True, by_name=True)
