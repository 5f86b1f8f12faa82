"""A worker's WebSocket with a fast path for whole messages.

uvicorn queues each message, pauses reading until the application has received it, and parses every frame with a general
parser: for many small messages this costs more than their decisions. Here a message in a single frame is passed to the
application at once if it listens, and its messages are written at once. Everything from handshake to close is left to
uvicorn.

`ClientLimits` bounds the seconds for the first message, for each incomplete message and for reading an answer. While a
peer reads no answers, nothing is read from it: otherwise pongs and replies would accumulate.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from assay.api.exchange import MESSAGE_SOCKET
from assay.server.client_limits import ClientLimits
from assay.worker_protocol.websocket_frames import Frames, framed, message_of

POLICY_VIOLATION: Final = 1008


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket connection of uvicorn with a fast path in both directions; see `MessageSocket`."""

    limits = ClientLimits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._frames = Frames(self.config.ws_max_size)
        self._receive: Callable[[bytes], bool] | None = None
        self._resumed: Callable[[], None] | None = None
        self._received_at = 0.0
        self._incomplete_since: float | None = None
        """Loop time at which an incomplete message began to arrive; the first counts from the start of the connection.
        """
        self._incomplete_bytes = 0
        self._untaken_since: float | None = None
        self._closing_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._received_at = self._incomplete_since = self.loop.time()

    def handle_connect(self, event: Request) -> None:
        """See `WebSocketsSansIOProtocol`; adds the fast path to the application's scope."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[MESSAGE_SOCKET] = self

    # in

    def listen(self, receive: Callable[[bytes], bool]) -> None:
        """See `MessageSocket`."""
        if self.queue.empty():
            self._receive = receive

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; the general parser gets whole frames only, so that frames can bypass it."""
        self._received_at = self.loop.time()
        if not self.handshake_initiated:
            super().data_received(data)
            return
        for frame, head in self._frames.cut(data):
            if self._received(frame, head):
                self._incomplete_since = None
            else:
                # Later frames must not overtake this one: they follow it until the application listens again.
                self._receive = None
                super().data_received(frame)
        if self.frames or self._frames.partial_bytes:
            if self._incomplete_since is None:
                self._incomplete_since, self._incomplete_bytes = self._received_at, 0
            self._incomplete_bytes += len(data)

    def send_receive_event_to_app(self) -> None:
        """See `WebSocketsSansIOProtocol`: a message is complete."""
        self._incomplete_since = None
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        """See `WebSocketsSansIOProtocol`, which resumes reading here; not if the peer reads no answers."""
        message = await super().receive()
        if not self.writable.is_set():
            self.transport.pause_reading()
        return message

    def _received(self, frame: bytes, head: int) -> bool:
        if self._receive is None or self.close_sent:
            return False
        message = message_of(frame, head, masked=True)
        return message is not None and self._receive(message)

    # out

    async def send(self, message: Any) -> None:
        """See `WebSocketsSansIOProtocol`, which does not mark the handshake as complete after a refusal with a body."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    def can_send(self) -> bool:
        """See `MessageSocket`."""
        return self.writable.is_set() and not (self.disconnected or self.close_sent)

    def send_message(self, body: bytes) -> None:
        """See `MessageSocket`."""
        self.transport.write(framed(body, masked=False))

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """See `MessageSocket`."""
        self._resumed = resumed

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`; pauses reading as well: each ping of a peer that does not read adds a pong."""
        super().pause_writing()
        self._untaken_since = self.loop.time()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        self._untaken_since = None
        if not self.read_paused:
            self.transport.resume_reading()
        if self._resumed is not None:
            self._resumed()

    # Called once a second.

    def check_limits(self, now: float) -> None:
        """Close the connection if its peer exceeds a limit of time."""
        if self._lingers(now):
            self.transport.abort()  # `close` would wait for the peer to read the rest
        elif self._closing_since is not None:
            return
        elif self.read_paused or self._untaken_since is not None:
            # The server itself has paused reading: this time does not count against the peer.
            self._received_at = now
            if self._incomplete_since is not None:
                self._incomplete_since, self._incomplete_bytes = now, 0
        elif self._incomplete_since is not None and now - self._incomplete_since > self._allowed():
            self._end("a message must be complete within seconds")
        elif now - self._received_at > self.limits.silence_seconds:
            self._end("nothing arrived for a long time")

    def _lingers(self, now: float) -> bool:
        """Return True if the peer has not read an answer, or closed its end, in time."""
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        since = self._closing_since if self._untaken_since is None else self._untaken_since
        return since is not None and now - since > self.limits.answer_seconds

    def _allowed(self) -> float:
        """Return the seconds for an incomplete message: a fixed time, and more with each byte that has arrived."""
        return self.limits.head_seconds + self._incomplete_bytes / self.limits.body_pace

    def _end(self, reason: str) -> None:
        """Close the connection, with a reason if the handshake is complete."""
        if self.handshake_complete and not self.close_sent:
            self.conn.fail(POLICY_VIOLATION, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()
