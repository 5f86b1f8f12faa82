"""A client's HTTP connection within `ClientLimits`: a slow client holds no connection, a large one fills no memory.

The head must arrive within seconds, the body must keep a pace, the answer must be read. The server checks these limits
once a second for all connections (`check_limits`). A timer per request would cost each fast client two timer calls.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from assay.api import answers
from assay.api.app import REPLY
from assay.api.guard import HEADERS_LIMIT_BYTES
from assay.api.stream import PUSH
from assay.core.model.errors import AssayError, Invalid, Unavailable
from assay.server.client_limits import ClientLimits


class Connection(HttpToolsProtocol):
    """A connection of uvicorn that closes when its client is too slow or sends too much."""

    limits = ClientLimits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._since: float | None = None
        """Loop time at which an incomplete request began to arrive; None between requests."""
        self._arrived = 0
        self._in_head = True
        self._untaken_since: float | None = None
        self._closing_since: float | None = None
        self._answered: RequestResponseCycle | None = None
        """The request in work. With pipelining, `cycle` is the last request that arrived and may be a later one."""

    # Called by uvicorn and its parser.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > self.limits.connections:
            self._refuse(Unavailable("too many connections are open", code="too_many_connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`; uvicorn notifies only the last request, and an earlier one would write on."""
        answered = self._answered
        if answered is not None and not answered.response_complete:
            answered.disconnected = True
            answered.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        extensions: dict[str, Any] = {REPLY: partial(_reply, cycle), PUSH: partial(_push, cycle)}
        cycle.scope["extensions"] = extensions
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self.transport.is_closing():
            return
        if self._since is None:
            self._since, self._arrived, self._in_head = self.loop.time(), 0, True
        super().data_received(data)
        if self._is_under_way():
            self._bound(len(data))

    def _is_under_way(self) -> bool:
        return self._since is not None

    def _bound(self, arrived: int) -> None:
        self._arrived += arrived
        if self._in_head and self._arrived > self.limits.head_bytes:
            self._refuse(
                Invalid(f"the headers are longer than {HEADERS_LIMIT_BYTES:,} bytes", code="headers_too_large")
            )
        elif self._arrived > self.limits.body_bytes:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._since, self._arrived, self._in_head = self.loop.time(), 0, False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._since = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._untaken_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._untaken_since = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Replace uvicorn's answer to malformed bytes by an error of this API."""
        self._refuse(Invalid("this is no HTTP request", code="invalid_http"))

    # Called once a second.

    def check_limits(self, now: float) -> None:
        """Close the connection if its client exceeds a limit of time."""
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        waited = self._closing_since if self._untaken_since is None else self._untaken_since
        if waited is not None and now - waited > self.limits.answer_seconds:
            self.transport.abort()  # `close` would wait for the client to read the rest
        elif self._since is not None and self.flow.read_paused:
            self._since, self._arrived = now, 0  # the server itself has paused reading: the client is not slow
        elif self._since is not None and now - self._since > self._allowed():
            part = "headers" if self._in_head else "body"
            self._refuse(Invalid(f"the {part} of the request came too slowly", code="request_timeout"))

    def _allowed(self) -> float:
        if self._in_head:
            return self.limits.head_seconds
        return self.limits.body_seconds + self._arrived / self.limits.body_pace

    def _refuse(self, problem: AssayError) -> None:
        """Send an error, unless another answer has begun, and close the connection."""
        self._since = None
        if not self._answering():
            self.transport.write(_raw(problem, self.config.encoded_headers))
        self.transport.close()

    def _answering(self) -> bool:
        """Return whether an answer has begun: an error must not be written into it."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return False
        return not cycle.response_complete if self._in_head else cycle.response_started


def _reply(cycle: RequestResponseCycle, status: int, lines: bytes, body: bytes) -> bool:
    """Write a whole answer at once; return False if uvicorn has to send it.

    uvicorn sends head and body in two steps and validates each header. These checks are for headers from applications
    and for bodies in parts; answers of this API need neither.
    """
    if cycle.flow.write_paused or cycle.response_started:
        return False
    if cycle.disconnected:
        return True
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    own = [b"%s: %s\r\n" % header for header in cycle.default_headers]
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.transport.write(b"".join((STATUS_LINE[status], *own, lines, end, body)))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _push(cycle: RequestResponseCycle, chunk: bytes) -> bool:
    """Write an encoded chunk of a begun answer; return False if uvicorn has to send the chunk."""
    if cycle.disconnected:
        return True
    if cycle.flow.write_paused or not (cycle.response_started and cycle.chunked_encoding):
        return False
    cycle.transport.write(chunk)
    return True


def _raw(problem: AssayError, headers: Sequence[answers.Header]) -> bytes:
    answer = answers.error(problem, [(b"connection", b"close"), *headers])
    head = b"".join(b"%s: %s\r\n" % header for header in answer.head())
    return STATUS_LINE[answer.status] + head + b"\r\n" + answer.body
