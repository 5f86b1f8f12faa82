"""A worker's WebSocket, on which whole messages take the short way.

uvicorn queues each message, stops reading until the application has taken it, and has every frame read by a general
parser: for many small messages that costs more than deciding what they ask for. Here a message that came in one frame
is handed over at once if the application listens, and what it says is written at once. All else, from the handshake to
the close, is left to uvicorn.

A peer is held to the limits of `Patience`: seconds for its first message, for each message that has begun and for
taking an answer. While answers are not taken nothing is read, so that pongs and replies cannot pile up either.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from assay.api.exchange import MESSAGE_SOCKET
from assay.server.patience import Patience
from assay.worker_protocol.websocket_frames import Frames, framed, message_of

POLICY_VIOLATION: Final = 1008


class Socket(WebSocketsSansIOProtocol):
    """A connection as uvicorn has it, with a short way in both directions; see `MessageSocket`."""

    patience = Patience()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._frames = Frames(self.config.ws_max_size)
        self._receive: Callable[[bytes], bool] | None = None
        self._resumed: Callable[[], None] | None = None
        self._heard_at = 0.0
        self._incomplete_since: float | None = None
        """Since when a message is on its way that is not complete; the first one counts from the connection's start."""
        self._incomplete_bytes = 0
        self._untaken_since: float | None = None
        self._closing_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._heard_at = self._incomplete_since = self.loop.time()

    def handle_connect(self, event: Request) -> None:
        """See `WebSocketsSansIOProtocol`; the application finds the short way in its scope."""
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
        """See `asyncio.Protocol`; the general parser gets nothing but whole frames, so that others can pass it by."""
        self._heard_at = self.loop.time()
        if not self.handshake_initiated:
            super().data_received(data)
            return
        for frame, head in self._frames.cut(data):
            if self._received(frame, head):
                self._incomplete_since = None
            else:
                self._receive = None  # what follows must not overtake it: the listener comes back when it is done
                super().data_received(frame)
        if self.frames or self._frames.partial_bytes:
            if self._incomplete_since is None:
                self._incomplete_since, self._incomplete_bytes = self._heard_at, 0
            self._incomplete_bytes += len(data)

    def send_receive_event_to_app(self) -> None:
        """See `WebSocketsSansIOProtocol`: a message is complete."""
        self._incomplete_since = None
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        """See `WebSocketsSansIOProtocol`, which goes on reading once the application has taken a message."""
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
        """See `WebSocketsSansIOProtocol`, which takes a handshake that was refused in words for one still to come."""
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
        """See `asyncio.Protocol`; a peer that does not read is not read from: each ping would be one more pong."""
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

    # Once a second.

    def look(self, now: float) -> None:
        """End the connection if its peer has taken too long."""
        if self._lingers(now):
            self.transport.abort()  # closing would wait for the peer to take the rest
        elif self._closing_since is not None:
            return
        elif self.read_paused or self._untaken_since is not None:
            # The engine does not read: the peer's time stands still.
            self._heard_at = now
            if self._incomplete_since is not None:
                self._incomplete_since, self._incomplete_bytes = now, 0
        elif self._incomplete_since is not None and now - self._incomplete_since > self._allowed():
            self._end("a message must be complete within seconds")
        elif now - self._heard_at > self.patience.silence_seconds:
            self._end("nothing arrived for a long time")

    def _lingers(self, now: float) -> bool:
        """Return True if the peer has not taken an answer, or the end of the connection, in time."""
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        since = self._closing_since if self._untaken_since is None else self._untaken_since
        return since is not None and now - since > self.patience.answer_seconds

    def _allowed(self) -> float:
        """Return the seconds for a message that has begun: those of a head, and more the more of it has arrived."""
        return self.patience.head_seconds + self._incomplete_bytes / self.patience.body_pace

    def _end(self, reason: str) -> None:
        """Close the connection; before the handshake there is nobody who could read why."""
        if self.handshake_complete and not self.close_sent:
            self.conn.fail(POLICY_VIOLATION, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.transport.close()
