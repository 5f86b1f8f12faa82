"""HTTP/1.1 without I/O: requests as bytes, and responses parsed from bytes.

The SDK's pool drives this module on an event loop, the command line on a blocking socket. Imports are kept few (no
`asyncio`, `ssl`, `msgspec` or HTTP library), because imports are most of the cost of a command.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httptools

from assay._version import __version__
from assay.core.model.errors import Invalid

API_PREFIX: Final = "/api/v1"
RESTARTING_STATUSES: Final = frozenset({502, 503, 504})
"""Statuses of an engine that starts or stops, or of a proxy without an engine: another attempt can help."""
REFUSED_KEY_STATUS: Final = 401
BUSY_CODES: Final = frozenset({"namespace_busy", "too_many_requests"})
"""Codes of 429 responses that changed nothing and are kept under no key: the request is sent again after a pause."""
BUSY_RETRY_SECONDS: Final = 1.0
HOLD_SECONDS: Final = 20.0
"""Seconds for which the engine holds a request whose result is not there yet."""
ANSWER_GRACE_SECONDS: Final = 10.0
"""Seconds for a response beyond the time for which the request is held."""
FIRST_RETRY_SECONDS: Final = 0.05
LONGEST_RETRY_SECONDS: Final = 1.0
"""The longest pause between attempts: shorter than a worker's lease, which must survive a lost connection."""
HISTORY_PAGE_EVENTS: Final = 1_000
"""Events per read: the largest page of an engine."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ConnectionClosed(ConnectionError):
    """The peer closed the connection before the response was complete."""


class EngineUnreachable(ConnectionError):
    """No connection to an engine could be made."""


class Endpoint:
    """The address of one engine, with the headers of every request."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/")
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or not _is_target(path):
            raise Invalid(f"{url} is no URL of an engine: http://127.0.0.1:8080", code="invalid_url", field="url")
        self.host = parts.hostname
        self.port = parts.port or DEFAULT_PORTS[parts.scheme]
        self.is_tls = parts.scheme == "https"
        address = parts.netloc.rpartition("@")[2]
        self.address = address if address.isascii() else address.encode("idna").decode("ascii")
        self.origin = f"{parts.scheme}://{self.address}"
        self.path = path
        self.set_headers(headers)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Replace the headers of later requests."""
        self.headers = {"user-agent": f"assay/{__version__}", **headers}
        fixed = {"host": self.address, **self.headers}
        lines = "".join(f"{name}: {_checked(value)}\r\n" for name, value in fixed.items())
        self._head = f" HTTP/1.1\r\n{lines}content-type: application/json\r\n"

    def request(self, method: str, target: str, body: bytes, key: str | None = None) -> bytes:
        """Return the bytes of a request; `target` is relative to the engine's path, `key` is an idempotency key."""
        more = "" if key is None else f"idempotency-key: {key}\r\n"
        head = f"{method} {self.path}{target}{self._head}{more}content-length: {len(body)}\r\n\r\n"
        return head.encode("ascii") + body


class AnswerReader:
    """A parser of the responses on one connection; a subclass receives each through `answered`."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def read(self, data: bytes) -> None:
        """Parse received bytes; raise `ConnectionClosed` if they are not HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionClosed(f"the response is not HTTP: {error}") from None

    def read_headers(self, headers: dict[bytes, bytes]) -> None:
        """Collect the headers of the next response, by lower-case name; other responses do not pay for headers."""
        self._parser = httptools.HttpResponseParser(_HeaderReader(self, headers))

    def answered(self, status: int, body: bytes, *, keep: bool) -> None:
        """Accept a response; `keep` is True if the connection may be used again."""
        raise NotImplementedError

    # Callbacks of the parser.

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Pass a complete response on."""
        parser, body = self._parser, self._body
        status = parser.get_status_code()
        if status < 200:
            return  # an interim response: the final response follows
        self._parser, self._body = httptools.HttpResponseParser(self), []
        self.answered(status, body[0] if len(body) == 1 else b"".join(body), keep=parser.should_keep_alive())


class _HeaderReader:
    """The callbacks of a parser that also collects headers."""

    def __init__(self, reader: AnswerReader, headers: dict[bytes, bytes]) -> None:
        self._headers = headers
        self.on_body = reader.on_body
        self.on_message_complete = reader.on_message_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._headers[name.lower()] = value


def path_of(*segments: str, errors: str = "strict") -> str:
    """Return a path below the API's; segments may contain any characters, which are quoted."""
    return "".join([f"/{quote(segment, safe='', errors=errors)}" for segment in segments])


def query_of(parameters: Mapping[str, Any], errors: str = "strict") -> str:
    """Return the query string of the parameters with a value: empty, or with its question mark."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given, errors=errors)}" if given else ""


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that authenticates with a token."""
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _is_target(path: str) -> bool:
    return path.isascii() and path.isprintable() and " " not in path


def _checked(value: str) -> str:
    """Return a header's value; refuse line breaks, which would inject a second header."""
    if not value.isprintable():
        raise Invalid("a token must be one line of printable characters", field="token")
    return value
