"""HTTP responses: JSON, an empty body, or an error."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from assay.core.model.errors import AssayError
from assay.wire.errors import error_body, status_of

Header = tuple[bytes, bytes]

JSON: Final[Header] = (b"content-type", b"application/json")
COMMON_HEADERS: Final[tuple[Header, ...]] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
        b" require-trusted-types-for 'script'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""Headers of every response, including errors and streams. A response's own header replaces the common header."""

PLAIN: Final = (JSON,)
"""The headers of a plain JSON response. Compared by identity, for the prepared header bytes of `lines`."""
_JSON_LINE: Final = b"%s: %s\r\n" % JSON
_ALWAYS_LINES: Final = b"".join(b"%s: %s\r\n" % header for header in COMMON_HEADERS)

_encode: Final = msgspec.json.Encoder().encode


class HttpResponse:
    """A complete response: status, headers and body."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Sequence[Header] = ()) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def head(self) -> list[Header]:
        """Return all headers."""
        own = list(self.headers)
        own.append((b"content-length", str(len(self.body)).encode()))
        return [*own, *common_headers(own)]

    def lines(self) -> bytes | None:
        """Return all headers as bytes of HTTP/1.1, or None for a response with unusual headers.

        Most responses have the usual headers only; prepared bytes save building and encoding a list.
        """
        if self.headers is PLAIN:
            return b"%scontent-length: %d\r\n%s" % (_JSON_LINE, len(self.body), _ALWAYS_LINES)
        return None if self.headers else b"content-length: %d\r\n%s" % (len(self.body), _ALWAYS_LINES)

    def with_header(self, name: bytes, value: bytes) -> "HttpResponse":
        """Return a copy with a further header."""
        return self.with_headers(((name, value),))

    def with_headers(self, headers: Sequence[Header]) -> "HttpResponse":
        """Return a copy with further headers."""
        return HttpResponse(self.status, self.body, [*self.headers, *headers])


def common_headers(own: Sequence[Header]) -> Sequence[Header]:
    """Return the common headers that `own` does not replace."""
    if len(own) <= 2:  # fast path: only the length, and perhaps the type
        return COMMON_HEADERS
    named = {name for name, _ in own}
    return [header for header in COMMON_HEADERS if header[0] not in named]


def json(content: Any, status: int = 200, headers: Sequence[Header] = ()) -> HttpResponse:
    """Return a response with `content` as JSON."""
    return HttpResponse(status, _encode(content), [JSON, *headers] if headers else PLAIN)


def listed(records: Sequence[Any], total: int | None = None, cursor: str | None = None) -> HttpResponse:
    """Return a response with a bare array; headers have the total count and the cursor of the next page."""
    headers: list[Header] = [(b"x-total-count", str(len(records) if total is None else total).encode())]
    if cursor is not None:
        headers.append((b"x-next-cursor", cursor.encode()))
    return json(records, 200, headers)


def rendered(body: bytes, status: int) -> HttpResponse:
    """Return a response with a body that is encoded already, or empty."""
    return HttpResponse(status, body, PLAIN if body else ())


def empty(status: int = 200) -> HttpResponse:
    """Return a response without a body."""
    return HttpResponse(status)


def error(problem: AssayError, headers: Sequence[Header] = (), request_id: str | None = None) -> HttpResponse:
    """Return the response for an error, with the id under which logs have its request."""
    status = status_of(problem)
    if status in (429, 503):
        headers = [*headers, (b"retry-after", str(getattr(problem, "retry_after_seconds", 1)).encode())]
    body = error_body(problem)
    if request_id is not None:
        body["request_id"] = request_id
        headers = [*headers, (b"x-request-id", request_id.encode())]
    return json(body, status, headers)


def encoded(content: Any) -> bytes:
    """Return `content` as the bytes of a JSON body."""
    return _encode(content)
