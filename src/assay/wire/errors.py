"""Errors as answers: which HTTP status a code or a kind has, and what the body says (D5). The one table of both."""

from typing import Any, Final

from assay.core.model.errors import AlreadyExists, AssayError, Invalid, Kind, NotFound, Refused

STATUS_BY_CODE: Final[dict[str, int]] = {
    "unauthorized": 401,
    "cross_origin": 403,
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
"""Codes whose status is not that of their kind."""

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
    """What was asked for is older than what is kept; all that comes after `oldest_id` can still be had."""

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
    """A request of a caller whose role grants too little; `needs` is the lowest role that would do."""

    code = "forbidden"
    kind = Kind.PERMISSION_DENIED

    def __init__(self, message: str, *, needs: str | None = None, namespace: str | None = None) -> None:
        super().__init__(message)
        self.needs = needs
        self.namespace = namespace


UNKNOWN_OUTCOME_CODES: Final = frozenset({"outcome_unknown", "store_broken", "store_replaced"})
"""Codes that leave open whether the request had its effect (I3)."""

_NOT_FOUND: Final = "not found: "


def status_of(error: AssayError) -> int:
    """The HTTP status that tells a caller of `error`."""
    return STATUS_BY_CODE.get(error.code) or STATUS_BY_KIND[error.kind]


def _about(error: NotFound | Refused) -> dict[str, str]:
    names = {"workflow_id": error.workflow_id, "run_id": error.run_id}
    return {name: value for name, value in names.items() if value is not None}


def error_body(error: AssayError) -> dict[str, Any]:
    """What the answer says: a sentence, a stable code, a kind, and what else helps."""
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
