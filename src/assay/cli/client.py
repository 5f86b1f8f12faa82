"""The engine over HTTP, as one call needs it: small to import, blocking, with errors that are sentences."""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from assay._version import __version__
from assay.cli.trouble import Trouble

PREFIX: Final = "/api/v1"
TIMEOUT: Final = 30.0
AWAY: Final = (429, 502, 503, 504)
"""Answers of an engine that is restarting or has no room, or of a proxy before it."""

Query = str | int | float | None


class Answer(NamedTuple):
    """What the engine said; `document` is None where it said nothing."""

    status: int
    document: Any
    headers: Mapping[str, str]


class Reply(NamedTuple):
    """An HTTP response that has been read."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Refusal(Trouble):
    """The engine said no."""

    def __init__(self, context: str, status: int, body: str) -> None:
        super().__init__(f"{context}: HTTP {status}: {body}")
        self.status = status


class Unreachable(Trouble):
    """Nobody answered."""


class RemoteEngine:
    """One engine, asked on behalf of one namespace; `context` says in errors what was done, `note` hears of answers."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        namespace: str,
        context: str,
        timeout: float = TIMEOUT,
        *,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.url = url
        self.namespace = namespace
        self._context = context
        self._timeout = timeout
        self._key = api_key
        self._note = note
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        """Hang up; the next question dials anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # each path is given in parts, which may hold anything: slashes, blanks, any letter

    def get(self, *path: str, **query: Query) -> Answer:
        """Read something."""
        return self._ask("GET", path, query, None)

    def post(self, *path: str, body: object = None, **query: Query) -> Answer:
        """Have something done."""
        return self._ask("POST", path, query, body)

    def patch(self, *path: str, body: object) -> Answer:
        """Change something."""
        return self._ask("PATCH", path, {}, body)

    def delete(self, *path: str) -> Answer:
        """Remove something."""
        return self._ask("DELETE", path, {}, None)

    def _ask(self, method: str, path: tuple[str, ...], query: Mapping[str, Query], body: object) -> Answer:
        given = {"namespace": self.namespace, **{name: value for name, value in query.items() if value is not None}}
        place = "/".join(quote(part, safe="", errors="surrogateescape") for part in path)
        target = f"{PREFIX}/{place}?{urlencode(given, errors='surrogateescape')}"
        try:
            reply = self._send(method, target, None if body is None else json.dumps(body).encode())
        except (OSError, HTTPException, UnicodeError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Unreachable(f"{self._context}: engine unreachable at {self.url}: {reason}") from None
        if self._note is not None:
            self._note(f"{method} {self.url}{PREFIX}/{place}: HTTP {reply.status}, {len(reply.content)} bytes")
        return self._answer(reply)

    def _send(self, method: str, target: str, body: bytes | None) -> Reply:
        target = urlsplit(self.url).path + target
        if self._connection is not None and method == "GET":
            try:
                return self._exchange(self._connection, method, target, body)
            except (ConnectionError, HTTPException):
                pass  # it was closed while nobody spoke; what only reads may be asked again
        self.close()
        self._connection = self._connect()
        return self._exchange(self._connection, method, target, body)

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme.lower() == "https" else HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=self._timeout)

    def _exchange(self, connection: HTTPConnection, method: str, target: str, body: bytes | None) -> Reply:
        headers = {"Accept": "application/json", "User-Agent": f"assay/{__version__}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, named, response.read())

    def _answer(self, reply: Reply) -> Answer:
        text = reply.content.decode("utf-8", "replace")
        if not 200 <= reply.status < 300:
            raise Refusal(self._context, reply.status, text.strip())
        try:
            document = json.loads(text) if text.strip() else None
        except ValueError:
            raise Refusal(self._context, reply.status, f"no JSON; is there an assay engine at {self.url}?") from None
        return Answer(reply.status, document, reply.headers)
