"""What goes back to a caller: JSON, nothing at all, or an error from the one table."""

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
"""On every answer, errors and streams included (5.2, S14); what an answer sets itself replaces its namesake."""

PLAIN: Final = (JSON,)
"""The headers of an answer that is JSON and nothing else."""
_JSON_LINE: Final = b"%s: %s\r\n" % JSON
_ALWAYS_LINES: Final = b"".join(b"%s: %s\r\n" % header for header in COMMON_HEADERS)

_encode: Final = msgspec.json.Encoder().encode


class HttpResponse:
    """A complete answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes = b"", headers: Sequence[Header] = ()) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    def head(self) -> list[Header]:
        """All its headers."""
        own = list(self.headers)
        own.append((b"content-length", str(len(self.body)).encode()))
        return [*own, *common_headers(own)]

    def lines(self) -> bytes | None:
        """All its headers as they travel, for an answer with none but the usual ones."""
        if self.headers is PLAIN:
            return b"%scontent-length: %d\r\n%s" % (_JSON_LINE, len(self.body), _ALWAYS_LINES)
        return None if self.headers else b"content-length: %d\r\n%s" % (len(self.body), _ALWAYS_LINES)

    def with_header(self, name: bytes, value: bytes) -> "HttpResponse":
        """The same with one header more."""
        return HttpResponse(self.status, self.body, [*self.headers, (name, value)])


def common_headers(own: Sequence[Header]) -> Sequence[Header]:
    """The headers of every answer that this one does not set itself."""
    if len(own) <= 2:  # its length and perhaps its type, the usual case
        return COMMON_HEADERS
    named = {name for name, _ in own}
    return [header for header in COMMON_HEADERS if header[0] not in named]


def json(content: Any, status: int = 200, headers: Sequence[Header] = ()) -> HttpResponse:
    """`content` as JSON."""
    return HttpResponse(status, _encode(content), [JSON, *headers] if headers else PLAIN)


def listed(records: Sequence[Any], total: int | None = None, cursor: str | None = None) -> HttpResponse:
    """A list: a bare array, and in headers how many there are in all and where the next page begins (R31)."""
    headers: list[Header] = [(b"x-total-count", str(len(records) if total is None else total).encode())]
    if cursor is not None:
        headers.append((b"x-next-cursor", cursor.encode()))
    return json(records, 200, headers)


def rendered(body: bytes, status: int) -> HttpResponse:
    """JSON that is bytes already, or nothing."""
    return HttpResponse(status, body, PLAIN if body else ())


def empty(status: int = 200) -> HttpResponse:
    """Success with nothing to say."""
    return HttpResponse(status)


def error(problem: AssayError, headers: Sequence[Header] = ()) -> HttpResponse:
    """What went wrong."""
    status = status_of(problem)
    if status in (429, 503):
        headers = [*headers, (b"retry-after", b"1")]
    return json(error_body(problem), status, headers)


def encoded(content: Any) -> bytes:
    """`content` as the bytes of a body."""
    return _encode(content)
