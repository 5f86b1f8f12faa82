"""Error responses of an engine, as the exceptions that an embedded engine raises."""

from typing import Final

import msgspec

from assay.core.model.errors import AssayError, Kind
from assay.worker_protocol.problems import denied, error_of

_DENYING_STATUSES: Final = (401, 403)
_WORDS: Final = frozenset({"error", "code", "kind", "field", "outcome", "request_id"})


def error_in(status: int, body: bytes) -> AssayError:
    """Return the exception for an error response, from the engine or from a proxy in front of the engine."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("error"), str):
        text = body[:200].decode("utf-8", "replace").strip()
        found = {"error": f"the engine answered {status}" + (f": {text}" if text else "")}
    if status in _DENYING_STATUSES:
        return denied(found["error"], found.get("code"), status)
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
    """Return the kind of an error by its status, for bodies without a kind."""
    if status in _DENYING_STATUSES:
        return Kind.PERMISSION_DENIED
    if status == 404:
        return Kind.NOT_FOUND
    if status == 409:
        return Kind.CONFLICT
    if status in (408, 429) or status >= 500:
        return Kind.UNAVAILABLE
    return Kind.INVALID
