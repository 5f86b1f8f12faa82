"""The HTTP client of the command line: fast to import, blocking, with errors that are sentences."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from assay.cli.command_errors import CommandError
from assay.core.model.errors import Invalid
from assay.sdk.client.http.blocking_connection import BlockingConnection, Reply
from assay.sdk.client.http.http1 import (
    API_PREFIX,
    BUSY_CODES,
    BUSY_RETRY_SECONDS,
    REFUSED_KEY_STATUS,
    RESTARTING_STATUSES,
    Endpoint,
    bearer,
    path_of,
    query_of,
)

REQUEST_TIMEOUT_SECONDS: Final = 30.0
RETRYABLE_STATUSES: Final = RESTARTING_STATUSES | {429}
"""Statuses of an engine that is restarting or busy, or of a proxy before the engine."""

Query = str | int | float | None


class EngineResponse(NamedTuple):
    """A response of the engine; `document` is None for an empty body."""

    status: int
    document: Any
    headers: Mapping[str, str]


class RequestRefused(CommandError):
    """The engine refused a request; the message is the `error` of the response."""

    def __init__(self, context: str, status: int, body: str) -> None:
        super().__init__(f"{context}: HTTP {status}: {sentence_of(body)}")
        self.status = status


def sentence_of(body: str) -> str:
    """Return the `error` text of a response body, or the body itself if it has no such text."""
    try:
        sentence = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError):
        return body
    if not isinstance(sentence, str) or not sentence.strip():
        return body
    subject = sentence.removeprefix("not found: ")  # the engine sends "not found: <object>"
    if subject == sentence or "not found" in subject or "cannot" in subject:
        return subject.strip()
    return f"{subject.strip()} not found"


class UnreachableError(CommandError):
    """The engine cannot be reached."""


class RemoteEngine:
    """A client for an engine and a namespace.

    Args:
        url: The URL of the engine.
        api_key: An API key or a token.
        namespace: The namespace of all requests.
        context: The name of the command, for error messages.
        timeout: The time limit of a request, in seconds.
        note: A function that is called with a line about each response.
        renew: A function that reads the API key again; its file may have another by now.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        namespace: str,
        context: str,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        *,
        note: Callable[[str], None] | None = None,
        renew: Callable[[], str | None] | None = None,
    ) -> None:
        self.url = url
        self.namespace = namespace
        self._context = context
        self._timeout = timeout
        self._headers = _headers(api_key)
        self._renew = renew
        self._note = note
        self._connection: BlockingConnection | None = None

    def close(self) -> None:
        """Close the connection; the next request opens a new connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Paths are given in parts, which are encoded: an id may contain slashes, blanks and any character.

    def get(self, *path: str, **query: Query) -> EngineResponse:
        """Send a GET request, and return the response."""
        return self._ask("GET", path, query, None)

    def post(self, *path: str, body: object = None, **query: Query) -> EngineResponse:
        """Send a POST request, and return the response."""
        return self._ask("POST", path, query, body)

    def put(self, *path: str, body: object) -> EngineResponse:
        """Send a PUT request, and return the response."""
        return self._ask("PUT", path, {}, body)

    def patch(self, *path: str, body: object) -> EngineResponse:
        """Send a PATCH request, and return the response."""
        return self._ask("PATCH", path, {}, body)

    def delete(self, *path: str) -> EngineResponse:
        """Send a DELETE request, and return the response."""
        return self._ask("DELETE", path, {}, None)

    def _ask(self, method: str, path: tuple[str, ...], query: Mapping[str, Query], body: object) -> EngineResponse:
        place = API_PREFIX + path_of(*path, errors="surrogateescape")
        target = place + query_of({"namespace": self.namespace, **query}, errors="surrogateescape")
        try:
            reply = self._send_until_taken(method, target, b"" if body is None else json.dumps(body).encode())
        except (OSError, Invalid, UnicodeError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise UnreachableError(f"{self._context}: engine unreachable at {self.url}: {reason}") from None
        if self._note is not None:
            self._note(f"{method} {self.url}{place}: HTTP {reply.status}, {len(reply.content)} bytes")
        return self._answer(reply)

    def _send_until_taken(self, method: str, target: str, body: bytes) -> Reply:
        """Send a request; repeat it while the engine is busy and the time limit is not reached."""
        until = time.monotonic() + self._timeout
        while True:
            reply = self._send(method, target, body)
            if reply.status == REFUSED_KEY_STATUS and self._has_renewed_key():
                continue
            if reply.status != 429 or not _is_busy(reply) or time.monotonic() + BUSY_RETRY_SECONDS > until:
                return reply
            time.sleep(BUSY_RETRY_SECONDS)  # noqa: TID251  # the command line blocks

    def _has_renewed_key(self) -> bool:
        """Read the API key again; return whether it is another key."""
        headers = self._headers if self._renew is None else _headers(self._renew())
        if headers == self._headers:
            return False
        self._headers = headers
        self.close()
        return True

    def _send(self, method: str, target: str, body: bytes) -> Reply:
        if self._connection is not None and self._connection.reusable and method == "GET":
            try:
                return self._connection.request(method, target, body)
            except ConnectionError:
                pass  # the engine closed the idle connection; a GET may be sent again
        self.close()
        self._connection = BlockingConnection(Endpoint(self.url, self._headers), self._timeout)
        return self._connection.request(method, target, body)

    def _answer(self, reply: Reply) -> EngineResponse:
        text = reply.content.decode("utf-8", "replace")
        if not 200 <= reply.status < 300:
            raise RequestRefused(self._context, reply.status, text.strip())
        try:
            document = json.loads(text) if text.strip() else None
        except ValueError:
            raise RequestRefused(
                self._context, reply.status, f"not JSON; is there an assay engine at {self.url}?"
            ) from None
        return EngineResponse(reply.status, document, reply.headers)


def _headers(api_key: str | None) -> dict[str, str]:
    return {"accept": "application/json", "accept-encoding": "identity", **bearer(api_key)}


def _is_busy(reply: Reply) -> bool:
    """Return whether a 429 is temporary, and the same request may succeed later."""
    try:
        document = json.loads(reply.content)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("code") in BUSY_CODES
