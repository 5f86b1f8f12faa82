"""Errors as HTTP responses: the status of each code and kind, and the body. No other module maps errors."""

from typing import Any, Final

from assay.core.model.errors import AlreadyExists, AssayError, Invalid, Kind, NotFound, Refused

STATUS_BY_CODE: Final[dict[str, int]] = {
    "unauthorized": 401,
    "cross_origin": 403,
    "csrf_failed": 403,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "gone": 410,
    "body_too_large": 413,
    "payload_too_large": 413,
    "text_too_long": 413,
    "url_too_long": 414,
    "unsupported_media_type": 415,
    "unsupported_encoding": 415,
    "wrong_host": 421,
    "wrong_shape": 422,
    "idempotency_key_reused": 422,
    "request_id_reused": 422,
    "too_many_polls": 429,
    "too_many_streams": 429,
    "headers_too_large": 431,
}
"""Codes with another status than their kind."""

STATUS_BY_KIND: Final[dict[Kind, int]] = {
    Kind.INVALID: 400,
    Kind.PERMISSION_DENIED: 403,
    Kind.NOT_FOUND: 404,
    Kind.ALREADY_EXISTS: 409,
    Kind.CONFLICT: 409,
    Kind.CANCELED: 409,
    Kind.RATE_LIMITED: 429,
    Kind.UNAVAILABLE: 503,
    Kind.TIMEOUT: 503,
    Kind.INTERNAL: 500,
    Kind.UNKNOWN: 500,
}


class CursorExpired(AssayError):
    """The cursor is older than the retained events; events after `oldest_id` are still available."""

    code = "gone"
    kind = Kind.INVALID

    def __init__(self, message: str, *, oldest_id: int = 0) -> None:
        super().__init__(message)
        self.oldest_id = oldest_id


class Unauthorized(AssayError):
    """A request without a valid credential."""

    code = "unauthorized"
    kind = Kind.PERMISSION_DENIED


class Forbidden(AssayError):
    """A request beyond the caller's role; `needs` is the lowest sufficient role."""

    code = "forbidden"
    kind = Kind.PERMISSION_DENIED

    def __init__(self, message: str, *, needs: str | None = None, namespace: str | None = None) -> None:
        super().__init__(message)
        self.needs = needs
        self.namespace = namespace


UNKNOWN_OUTCOME_CODES: Final = frozenset({"outcome_unknown", "store_broken", "store_replaced"})
"""Codes after which the request may or may not have taken effect (I3)."""

_NOT_FOUND: Final = "not found: "


def status_of(error: AssayError) -> int:
    """Return the HTTP status of an error."""
    return STATUS_BY_CODE.get(error.code) or STATUS_BY_KIND[error.kind]


def _about(error: NotFound | Refused) -> dict[str, str]:
    names = {"workflow_id": error.workflow_id, "run_id": error.run_id}
    return {name: value for name, value in names.items() if value is not None}


def error_body(error: AssayError) -> dict[str, Any]:
    """Return the body of an error: a sentence, a stable code, a kind, and fields with details."""
    message = str(error)
    if isinstance(error, NotFound) and not message.startswith(_NOT_FOUND):
        message = _NOT_FOUND + message
    body: dict[str, Any] = {"error": message, "code": error.code, "kind": error.kind.value}
    if isinstance(error, Invalid) and error.field is not None:
        body["field"] = error.field
    if isinstance(error, AlreadyExists):
        body.update(error.existing)
    if isinstance(error, NotFound | Refused):
        body.update(_about(error))
    if isinstance(error, Forbidden):
        body.update(needs=error.needs, namespace=error.namespace)
    if isinstance(error, CursorExpired):
        body["oldest_id"] = error.oldest_id
    if error.code in UNKNOWN_OUTCOME_CODES:
        body["outcome"] = "unknown"
    return body
