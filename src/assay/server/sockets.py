"""A worker's WebSocket, on which whole messages take the short way.

uvicorn queues each message, stops reading until the application has taken it, and has every frame read by a general
parser: for many small messages that costs more than deciding what they ask for. Here a binary message that came in one
frame is handed over at once if the application listens, and what it says is written at once. All else, from the
handshake to the close, is left to uvicorn.
"""

from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from assay.api.exchange import LINE

try:
    from websockets.speedups import apply_mask
except ImportError:  # websockets was installed without its compiled part
    from websockets.utils import apply_mask

BINARY: Final = 0x82
"""The first byte of a frame that is a whole binary message."""
MASKED: Final = 0x80
"""In the second byte: the frame is masked, as all of a client's must be; the other bits are its length."""
MASK: Final = 4
TWO_BYTES: Final = 126
EIGHT_BYTES: Final = 127
"""Instead of a length: it follows in so many bytes."""


class Socket(WebSocketsSansIOProtocol):
    """A connection as uvicorn has it, with a short way in both directions; see `Line`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._hear: Callable[[bytes], bool] | None = None
        self._resumed: Callable[[], None] | None = None
        self._parts: list[bytes] = []
        """A frame that is not all there."""
        self._missing = 0

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
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts = []
        while data:
            head, size = _measured(data)
            if self.close_sent or size > self.config.ws_max_size:
                super().data_received(data)  # it says what there is to say, and hangs up
                return
            end = head + size
            if len(data) < end:
                self._parts, self._missing = [data], end - len(data)
                return
            frame, data = (data, b"") if len(data) == end else (data[:end], data[end:])
            if not self._heard(frame, head):
                self._hear = None  # what follows must not overtake it: the listener comes back when it is done
                super().data_received(frame)

    def _heard(self, frame: bytes, head: int) -> bool:
        if self._hear is None or frame[0] != BINARY or frame[1] < MASKED:
            return False
        return self._hear(apply_mask(frame[head:], frame[head - MASK : head]))

    # out

    def can_say(self) -> bool:
        """See `Line`."""
        return self.writable.is_set() and not (self.disconnected or self.close_sent)

    def say(self, body: bytes) -> None:
        """See `Line`."""
        size = len(body)
        if size < TWO_BYTES:
            head = bytes((BINARY, size))
        elif size < 1 << 16:
            head = bytes((BINARY, TWO_BYTES)) + size.to_bytes(2, "big")
        else:
            head = bytes((BINARY, EIGHT_BYTES)) + size.to_bytes(8, "big")
        self.transport.write(head + body)

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """See `Line`."""
        self._resumed = resumed

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        if self._resumed is not None:
            self._resumed()


def _measured(data: bytes) -> tuple[int, int]:
    """How long a frame's head is, and how long what follows; of a head that is not all there, how long it must be."""
    if len(data) < 2:  # the least that tells
        return 2, 0
    length = data[1] & ~MASKED
    head = 2 + MASK if data[1] & MASKED else 2
    if length < TWO_BYTES:
        return head, length
    wide = 2 if length == TWO_BYTES else 8
    if len(data) < 2 + wide:
        return 2 + wide, 0
    return head + wide, int.from_bytes(data[2 : 2 + wide], "big")
