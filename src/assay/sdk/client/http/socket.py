"""A worker's end of a WebSocket: messages are received and sent at once, without an iteration of the loop between.

Handshake, pings, messages in parts and the close are left to the general parser of `websockets`; a message that comes
in one frame, as those of an engine do, takes the short way past it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from assay.core.model.errors import Unavailable
from assay.worker_protocol.websocket_frames import Frames, framed, message_of

HEAD_END: Final = b"\r\n\r\n"
LONGEST_HEAD: Final = 64 * 1024
SWITCHING: Final = 101


class NotUpgraded(ConnectionError):
    """Somebody is there and answers, but with no WebSocket."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers {status}")
        self.status = status


class Socket(asyncio.Protocol):
    """One connection, from its handshake to its end."""

    def __init__(self, url: str, headers: Mapping[str, str], receive: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Ends with the connection, and says why as an exception."""
        self.resumed: Callable[[], object] | None = None
        """Called when what was said is taken again, after a while in which it was not."""
        self.can_send = False
        self._receive = receive
        self._headers = headers
        self._parser = ClientProtocol(parse_uri(url), max_size=None)
        self._frames = Frames(None)
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._parts: list[bytes] = []

    # in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = transport  # type: ignore[assignment]  # what a stream connection is given
        request = self._parser.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._parser.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            if not self.opened.done():
                data = self._shake_hands(data)
            for frame, head in self._frames.cut(data):
                message = message_of(frame, head, masked=False)
                if message is None:
                    self._read(frame)
                else:
                    self._receive(message)
        except Exception as error:  # noqa: BLE001  # whoever waits for the end is told why it came
            self.end(error)

    def _shake_hands(self, data: bytes) -> bytes:
        """What follows the head of the engine's answer, if that is here and is what it should be."""
        self._head += data
        head, end, rest = self._head.partition(HEAD_END)
        if not end:
            if len(self._head) > LONGEST_HEAD:
                raise ConnectionError("what came back is no HTTP")
            return b""
        status = head.partition(b"\r\n")[0].split(b" ")[1:2]
        if not status or not status[0].isdigit():
            raise ConnectionError("what came back is no HTTP")
        if int(status[0]) != SWITCHING:
            raise NotUpgraded(int(status[0]))
        self._parser.receive_data(head + end)
        if self._parser.handshake_exc is not None:
            raise ConnectionError(str(self._parser.handshake_exc))
        self._parser.events_received()
        self.can_send = True
        self.opened.set_result(None)
        return rest

    def _read(self, frame: bytes) -> None:
        self._parser.receive_data(frame)
        for event in self._parser.events_received():
            if isinstance(event, Frame) and event.opcode.value < 8:  # a message, or a part of one
                self._parts.append(bytes(event.data))
                if event.fin:
                    parts, self._parts = self._parts, []
                    self._receive(b"".join(parts))
        self._flush()
        if self._parser.state is not OPEN:
            close = self._parser.close_rcvd
            raise Unavailable(f"closed by the engine, {close.code if close else 1002}", code="connection_closed")

    # out

    def send(self, body: bytes) -> None:
        """Send a message."""
        if self._transport is not None:
            self._transport.write(framed(body, masked=True))

    def _flush(self) -> None:
        if self._transport is not None:
            self._transport.write(b"".join(self._parser.data_to_send()))

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.can_send = False

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.can_send = self.opened.done() and not self.ended.done()
        if self.resumed is not None:
            self.resumed()

    # the end

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.end(ConnectionError(str(exc) if exc else "the engine closed the connection"))

    def end(self, error: BaseException | None = None) -> None:
        """Hang up."""
        self.can_send = False
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed"))
        if not self.ended.done():
            self._farewell()
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
            self.ended.exception()  # nobody has to ask
        if self._transport is not None:
            self._transport.close()

    def _farewell(self) -> None:
        if self._parser.state is OPEN and self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(Exception):
                self._parser.send_close(1000)
                self._flush()
