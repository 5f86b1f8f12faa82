"""The engine over HTTP, as one call needs it: small to import, blocking, with errors that are sentences."""

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
    RESTARTING_STATUSES,
    Endpoint,
    bearer,
    path_of,
    query_of,
)

REQUEST_TIMEOUT_SECONDS: Final = 30.0
RETRYABLE_STATUSES: Final = RESTARTING_STATUSES | {429}
"""Answers of an engine that is restarting or has no room, or of a proxy before it."""

Query = str | int | float | None


class EngineResponse(NamedTuple):
    """What the engine said; `document` is None where it said nothing."""

    status: int
    document: Any
    headers: Mapping[str, str]


class RequestRefused(CommandError):
    """The engine refused a request; the sentence of its answer is the error."""

    def __init__(self, context: str, status: int, body: str) -> None:
        super().__init__(f"{context}: HTTP {status}: {sentence_of(body)}")
        self.status = status


def sentence_of(body: str) -> str:
    """Return the sentence of an error's body, or the body itself if there is none."""
    try:
        sentence = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError):
        return body
    if not isinstance(sentence, str) or not sentence.strip():
        return body
    subject = sentence.removeprefix("not found: ")  # the engine puts it before the name of the object
    if subject == sentence or "not found" in subject or "cannot" in subject:
        return subject.strip()
    return f"{subject.strip()} not found"


class EngineUnreachable(CommandError):
    """Nobody answered."""


class RemoteEngine:
    """One engine, asked on behalf of one namespace; `context` says in errors what was done, `note` hears of answers."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        namespace: str,
        context: str,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        *,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.url = url
        self.namespace = namespace
        self._context = context
        self._timeout = timeout
        self._headers = {"accept": "application/json", "accept-encoding": "identity", **bearer(api_key)}
        self._note = note
        self._connection: BlockingConnection | None = None

    def close(self) -> None:
        """Hang up; the next question dials anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # each path is given in parts, which may hold anything: slashes, blanks, any letter

    def get(self, *path: str, **query: Query) -> EngineResponse:
        """Read something."""
        return self._ask("GET", path, query, None)

    def post(self, *path: str, body: object = None, **query: Query) -> EngineResponse:
        """Have something done."""
        return self._ask("POST", path, query, body)

    def put(self, *path: str, body: object) -> EngineResponse:
        """Create something, or replace it."""
        return self._ask("PUT", path, {}, body)

    def patch(self, *path: str, body: object) -> EngineResponse:
        """Change something."""
        return self._ask("PATCH", path, {}, body)

    def delete(self, *path: str) -> EngineResponse:
        """Remove something."""
        return self._ask("DELETE", path, {}, None)

    def _ask(self, method: str, path: tuple[str, ...], query: Mapping[str, Query], body: object) -> EngineResponse:
        place = API_PREFIX + path_of(*path, errors="surrogateescape")
        target = place + query_of({"namespace": self.namespace, **query}, errors="surrogateescape")
        try:
            reply = self._send_until_taken(method, target, b"" if body is None else json.dumps(body).encode())
        except (OSError, Invalid, UnicodeError) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise EngineUnreachable(f"{self._context}: engine unreachable at {self.url}: {reason}") from None
        if self._note is not None:
            self._note(f"{method} {self.url}{place}: HTTP {reply.status}, {len(reply.content)} bytes")
        return self._answer(reply)

    def _send_until_taken(self, method: str, target: str, body: bytes) -> Reply:
        """Send a request again, as it is, while the engine is too busy to take it and the time limit is not over."""
        until = time.monotonic() + self._timeout
        while True:
            reply = self._send(method, target, body)
            if reply.status != 429 or not _is_busy(reply) or time.monotonic() + BUSY_RETRY_SECONDS > until:
                return reply
            time.sleep(BUSY_RETRY_SECONDS)  # noqa: TID251  # the command line blocks

    def _send(self, method: str, target: str, body: bytes) -> Reply:
        if self._connection is not None and self._connection.reusable and method == "GET":
            try:
                return self._connection.request(method, target, body)
            except ConnectionError:
                pass  # closed by the engine while it was idle; a request that only reads may be sent again
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
                self._context, reply.status, f"no JSON; is there an assay engine at {self.url}?"
            ) from None
        return EngineResponse(reply.status, document, reply.headers)


def _is_busy(reply: Reply) -> bool:
    """Return whether a refusal with 429 is one that the same request may overcome."""
    try:
        document = json.loads(reply.content)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("code") in BUSY_CODES
