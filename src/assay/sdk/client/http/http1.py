"""HTTP/1.1 as an engine requires it, without I/O: requests as bytes, and answers read from bytes.

The SDK's pool drives it on an event loop, the command line on a blocking socket. Nothing here imports `asyncio`, `ssl`,
`msgspec` or a general HTTP library: a call of the command line costs mostly its imports.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httptools

from assay._version import __version__
from assay.core.model.errors import Invalid

API_PREFIX: Final = "/api/v1"
RESTARTING_STATUSES: Final = frozenset({502, 503, 504})
BUSY_CODES: Final = frozenset({"namespace_busy", "too_many_requests"})
"""Refusals with 429 that changed nothing and are kept under no key: the same request is sent again after a second."""
BUSY_RETRY_SECONDS: Final = 1.0
"""Answers of an engine that starts or stops, or of a proxy that finds no engine: another attempt can help."""
HOLD_SECONDS: Final = 20.0
"""For which an engine is asked to hold a request that it cannot answer yet."""
ANSWER_GRACE_SECONDS: Final = 10.0
"""What an answer may take beyond the time for which a request is held."""
FIRST_RETRY_SECONDS: Final = 0.05
LONGEST_RETRY_SECONDS: Final = 1.0
"""Between attempts, which grow rarer: shorter than a worker's lease, which must not end over a lost connection."""
HISTORY_PAGE_EVENTS: Final = 1_000
"""Events that are read at a time: as many as an engine gives in one answer."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Gone(ConnectionError):
    """The other side went away before it had answered."""


class Unreachable(ConnectionError):
    """No connection to an engine could be made."""


class Endpoint:
    """The address of one engine, with the headers that every request to it carries."""

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
        self.headers = {"user-agent": f"assay/{__version__}", **headers}
        fixed = {"host": self.address, **self.headers}
        lines = "".join(f"{name}: {_checked(value)}\r\n" for name, value in fixed.items())
        self._head = f" HTTP/1.1\r\n{lines}content-type: application/json\r\n"

    def request(self, method: str, target: str, body: bytes, key: str | None = None) -> bytes:
        """Return a request as it is sent; `target` stands below the path of the engine, `key` makes it idempotent."""
        more = "" if key is None else f"idempotency-key: {key}\r\n"
        head = f"{method} {self.path}{target}{self._head}{more}content-length: {len(body)}\r\n\r\n"
        return head.encode("ascii") + body


class AnswerReader:
    """Reads the answers on one connection from bytes; a subclass gets each by `answered`."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []

    def read(self, data: bytes) -> None:
        """Read what has arrived; `Gone` if it is no HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Gone(f"what came back is no HTTP: {error}") from None

    def read_headers(self, headers: dict[bytes, bytes]) -> None:
        """Collect the headers of the next answer, by their names in lower case; other answers are not slowed down."""
        self._parser = httptools.HttpResponseParser(_HeaderReader(self, headers))

    def answered(self, status: int, body: bytes, *, keep: bool) -> None:
        """Take an answer; the connection may be used again if `keep`."""
        raise NotImplementedError

    # What the parser calls.

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Pass a whole answer on."""
        parser, body = self._parser, self._body
        status = parser.get_status_code()
        if status < 200:
            return  # an interim answer: the final one follows
        self._parser, self._body = httptools.HttpResponseParser(self), []
        self.answered(status, body[0] if len(body) == 1 else b"".join(body), keep=parser.should_keep_alive())


class _HeaderReader:
    """The callbacks of a parser that collects headers besides."""

    def __init__(self, reader: AnswerReader, headers: dict[bytes, bytes]) -> None:
        self._headers = headers
        self.on_body = reader.on_body
        self.on_message_complete = reader.on_message_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._headers[name.lower()] = value


def path_of(*segments: str, errors: str = "strict") -> str:
    """Return a path below the API's; each segment may hold anything: slashes, blanks, any letter."""
    return "".join([f"/{quote(segment, safe='', errors=errors)}" for segment in segments])


def query_of(parameters: Mapping[str, Any], errors: str = "strict") -> str:
    """Return the query of those parameters that have a value; empty, or with its question mark."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given, errors=errors)}" if given else ""


def bearer(token: str | None) -> dict[str, str]:
    """Return the header that authenticates with a token."""
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _is_target(path: str) -> bool:
    return path.isascii() and path.isprintable() and " " not in path


def _checked(value: str) -> str:
    """Return a header's value; one with a line break in it would be two headers."""
    if not value.isprintable():
        raise Invalid("a token must be one line of printable characters", field="token")
    return value
