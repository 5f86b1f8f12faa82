"""A worker's WebSocket, which receives and sends messages without an extra iteration of the event loop.

The parser of `websockets` handles the handshake, pings, fragmented messages and the close. A message in one frame, as
engines send, bypasses that parser, which is several times faster.
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
HEAD_LIMIT_BYTES: Final = 64 * 1024
SWITCHING: Final = 101


class NotUpgraded(ConnectionError):
    """The server responded to the handshake, but not with a WebSocket."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class WorkerSocket(asyncio.Protocol):
    """One WebSocket connection, from its handshake to its end."""

    def __init__(self, url: str, headers: Mapping[str, str], receive: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Completed when the connection ends, with an exception if it failed."""
        self.resumed: Callable[[], object] | None = None
        """Called when the send buffer has room again."""
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
        self._transport = transport  # type: ignore[assignment]  # always so for a stream connection
        request = self._parser.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._parser.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            if not self.opened.done():
                data = self._read_handshake(data)
            for frame, head in self._frames.cut(data):
                message = message_of(frame, head, masked=False)
                if message is None:
                    self._read(frame)
                else:
                    self._receive(message)
        except Exception as error:  # noqa: BLE001  # raised to the waiter of `ended`
            self.end(error)

    def _read_handshake(self, data: bytes) -> bytes:
        """Read the response to the handshake; return the bytes that follow its head."""
        self._head += data
        head, end, rest = self._head.partition(HEAD_END)
        if not end:
            if len(self._head) > HEAD_LIMIT_BYTES:
                raise ConnectionError("the response is not HTTP")
            return b""
        status = head.partition(b"\r\n")[0].split(b" ")[1:2]
        if not status or not status[0].isdigit():
            raise ConnectionError("the response is not HTTP")
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
        """Close the connection; complete `ended`, with `error` if the connection failed."""
        self.can_send = False
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed"))
        if not self.ended.done():
            self._send_close()
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
            self.ended.exception()  # marks the exception as retrieved: a waiter is optional
        if self._transport is not None:
            # Over TLS `close` waits for the engine's own farewell, which a loop that ends does not see.
            if self._transport.get_extra_info("sslcontext") and not self._transport.get_write_buffer_size():
                self._transport.abort()
            else:
                self._transport.close()

    def _send_close(self) -> None:
        if self._parser.state is OPEN and self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(Exception):
                self._parser.send_close(1000)
                self._flush()
