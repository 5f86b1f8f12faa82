"""A worker's WebSocket, on which whole messages take the short way.

uvicorn queues each message, stops reading until the application has taken it, and has every frame read by a general
parser: for many small messages that costs more than deciding what they ask for. Here a message that came in one frame
is handed over at once if the application listens, and what it says is written at once. All else, from the handshake to
the close, is left to uvicorn.
"""

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from assay.api.exchange import LINE
from assay.wire.frames import Frames, framed, message_of


class Socket(WebSocketsSansIOProtocol):
    """A connection as uvicorn has it, with a short way in both directions; see `Line`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._frames = Frames(self.config.ws_max_size)
        self._hear: Callable[[bytes], bool] | None = None
        self._resumed: Callable[[], None] | None = None

    def handle_connect(self, event: Request) -> None:
        """See `WebSocketsSansIOProtocol`; the application finds the short way in its scope."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[LINE] = self

    # in

    def listen(self, hear: Callable[[bytes], bool]) -> None:
        """See `Line`."""
        if self.queue.empty():
            self._hear = hear

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; the general parser gets nothing but whole frames, so that others can pass it by."""
        if not self.handshake_initiated:
            super().data_received(data)
            return
        for frame, head in self._frames.cut(data):
            if not self._heard(frame, head):
                self._hear = None  # what follows must not overtake it: the listener comes back when it is done
                super().data_received(frame)

    def _heard(self, frame: bytes, head: int) -> bool:
        if self._hear is None or self.close_sent:
            return False
        message = message_of(frame, head, masked=True)
        return message is not None and self._hear(message)

    # out

    async def send(self, message: Any) -> None:
        """See `WebSocketsSansIOProtocol`, which takes a handshake that was refused in words for one still to come."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    def can_say(self) -> bool:
        """See `Line`."""
        return self.writable.is_set() and not (self.disconnected or self.close_sent)

    def say(self, body: bytes) -> None:
        """See `Line`."""
        self.transport.write(framed(body, masked=False))

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """See `Line`."""
        self._resumed = resumed

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        if self._resumed is not None:
            self._resumed()
