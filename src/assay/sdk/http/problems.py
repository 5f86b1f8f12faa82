"""Errors that an engine sent, as the exceptions that the embedded engine raises."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from assay.core.errors import AlreadyExists, AssayError, Invalid, Kind, NotFound, Refused, Unavailable

_PREFIX: Final = "not found: "
_WORDS: Final = frozenset({"error", "code", "kind", "field", "outcome"})


def error_of(
    message: str, code: str | None, kind: Kind, field: str | None = None, more: Mapping[str, Any] | None = None
) -> AssayError:
    """The exception for an error of this kind."""
    match kind:
        case Kind.NOT_FOUND:
            return _about(NotFound(message.removeprefix(_PREFIX), code=code), more)
        case Kind.ALREADY_EXISTS:
            return AlreadyExists(message, existing=more, code=code)
        case Kind.INVALID:
            return Invalid(message, code=code, field=field)
        case Kind.CONFLICT:
            return _about(Refused(message, code=code), more)
        case Kind.UNAVAILABLE:
            return Unavailable(message, code=code)
    return AssayError(message, code=code, kind=kind)


def _about(error: NotFound | Refused, more: Mapping[str, Any] | None) -> AssayError:
    if more is not None:
        error.workflow_id, error.run_id = more.get("workflow_id"), more.get("run_id")
    return error


def error_in(status: int, body: bytes) -> AssayError:
    """The exception for an HTTP answer that is no success, whoever sent it: the engine, or a proxy before it."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("error"), str):
        text = body[:200].decode("utf-8", "replace").strip()
        found = {"error": f"the engine answered {status}" + (f": {text}" if text else "")}
    kind = found.get("kind")
    more = {name: value for name, value in found.items() if name not in _WORDS}
    return error_of(
        found["error"],
        found.get("code"),
        Kind.parse(kind) if isinstance(kind, str) else kind_of(status),
        found.get("field"),
        more,
    )


def kind_of(status: int) -> Kind:
    """What a status means when the body does not say."""
    if status in (401, 403):
        return Kind.PERMISSION_DENIED
    if status == 404:
        return Kind.NOT_FOUND
    if status == 409:
        return Kind.CONFLICT
    if status in (408, 429) or status >= 500:
        return Kind.UNAVAILABLE
    return Kind.INVALID
