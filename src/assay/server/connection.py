"""One connection of a client, within limits: nobody holds one by being slow, and nobody fills the memory (S4, 5.4).

A head has seconds to arrive, a body must keep a pace, an answer must be taken. Looked at once a second from outside: a
timer per request would be paid for by everybody who is fast.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from assay.api import answers
from assay.api.app import REPLY
from assay.api.guard import HEADERS_LIMIT_BYTES
from assay.api.stream import PUSH
from assay.core.model.errors import AssayError, Invalid, Unavailable
from assay.server.patience import Patience


class Connection(HttpToolsProtocol):
    """A connection as uvicorn has it, that ends when its client is too slow or too large."""

    patience = Patience()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._since: float | None = None
        """Since when a request is on its way that is not all there; None while there is none."""
        self._arrived = 0
        self._in_head = True
        self._untaken_since: float | None = None
        self._closing_since: float | None = None
        self._answered: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the last that came, and there may be some between."""

    # What uvicorn and the parser call.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > self.patience.connections:
            self._refuse(Unavailable("too many connections are open", code="too_many_connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`; uvicorn tells only the last request, and whoever answers another writes on."""
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
        if self._in_head and self._arrived > self.patience.head_bytes:
            self._refuse(
                Invalid(f"the headers are longer than {HEADERS_LIMIT_BYTES:,} bytes", code="headers_too_large")
            )
        elif self._arrived > self.patience.body_bytes:
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
        """What uvicorn says of bytes that are no request, in the words of this API."""
        self._refuse(Invalid("this is no HTTP request", code="invalid_http"))

    # Once a second.

    def look(self, now: float) -> None:
        """End the connection if its client has taken too long."""
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        waited = self._closing_since if self._untaken_since is None else self._untaken_since
        if waited is not None and now - waited > self.patience.answer_seconds:
            self.transport.abort()  # closing would wait for the client to take the rest
        elif self._since is not None and self.flow.read_paused:
            self._since, self._arrived = now, 0  # it is the engine that does not read
        elif self._since is not None and now - self._since > self._allowed():
            part = "headers" if self._in_head else "body"
            self._refuse(Invalid(f"the {part} of the request came too slowly", code="request_timeout"))

    def _allowed(self) -> float:
        if self._in_head:
            return self.patience.head_seconds
        return self.patience.body_seconds + self._arrived / self.patience.body_pace

    def _refuse(self, problem: AssayError) -> None:
        """Say why, if no other answer has begun, and hang up."""
        self._since = None
        if not self._answering():
            self.transport.write(_raw(problem))
        self.transport.close()

    def _answering(self) -> bool:
        """Has an answer begun that another one must not be mixed with?"""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return False
        return not cycle.response_complete if self._in_head else cycle.response_started


def _reply(cycle: RequestResponseCycle, status: int, lines: bytes, body: bytes) -> bool:
    """Send a whole answer at once, as uvicorn does in two steps for answers of any kind; False if it has to be asked.

    Its checks are for headers that an application makes up, and for bodies that come in parts.
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
    """Write a chunk of an answer that has begun, encoded already; return False if uvicorn has to send it."""
    if cycle.disconnected:
        return True
    if cycle.flow.write_paused or not (cycle.response_started and cycle.chunked_encoding):
        return False
    cycle.transport.write(chunk)
    return True


def _raw(problem: AssayError) -> bytes:
    answer = answers.error(problem, [(b"connection", b"close")])
    head = b"".join(b"%s: %s\r\n" % header for header in answer.head())
    return STATUS_LINE[answer.status] + head + b"\r\n" + answer.body
