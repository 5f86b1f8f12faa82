"""The event stream: Server-Sent Events with durable ids, resumed without a gap, bounded per client (wire 1.7, R40)."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from assay.api.answers import Header, always
from assay.api.call import Call, Send
from assay.api.event_frames import frame_of, last_of, row_of, told_of
from assay.core.errors import AssayError, Kind
from assay.engine.stream import News, Stream
from assay.wire.errors import Gone

STREAMS: Final = 500
"""Event streams that are open at a time (5.4)."""
QUEUE_EVENTS: Final = 1_000
QUEUE_BYTES: Final = 1024 * 1024
STREAM_KEEP_ALIVE_SECONDS: Final = 15.0
FAREWELL: Final = 1.0
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class TooManyStreams(AssayError):
    """No more streams can be open."""

    code = "too_many_streams"
    kind = Kind.RATE_LIMITED


class Places:
    """For as many streams as may be open at a time; each takes its own before anything is read for it."""

    def __init__(self, most: int = STREAMS) -> None:
        self._most = most
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    def take(self) -> None:
        """One more is open, or `TooManyStreams`."""
        if self._taken >= self._most:
            raise TooManyStreams(f"{self._most} event streams are open already")
        self._taken += 1

    def leave(self) -> None:
        """One less."""
        self._taken -= 1


class Wanted(msgspec.Struct, frozen=True):
    """Which events a client wants; an empty set stands for all."""

    namespaces: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    workflow_id: str | None = None
    nothing: bool = False
    """Only events of other subsystems, of which there are none."""

    def takes(self, namespace: str, workflow_id: str, kind: str) -> bool:
        """Is an event among them?"""
        if self.nothing or (self.namespaces and namespace not in self.namespaces):
            return False
        if self.workflow_id is not None and workflow_id != self.workflow_id:
            return False
        return not self.kinds or kind in self.kinds


class _Queue:
    """Frames that wait for one client; overflowing ends it, so that nobody's slowness costs memory."""

    def __init__(self, wanted: Wanted, cursor: int | None) -> None:
        self._wanted = wanted
        self._cursor = cursor
        self._frames: deque[bytes] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self.overflown = asyncio.Event()

    def put(self, news: News) -> None:
        """Take what is wanted."""
        if self.overflown.is_set():
            return
        for frame in self.frames(news):
            self._frames.append(frame)
            self._size += len(frame)
            self._filled.set()
        if len(self._frames) > QUEUE_EVENTS or self._size > QUEUE_BYTES:
            self.overflown.set()
            self._filled.set()

    async def take(self) -> bytes:
        """All frames that wait, or nothing after a while without any."""
        try:
            async with asyncio.timeout(STREAM_KEEP_ALIVE_SECONDS):
                await self._filled.wait()
        except TimeoutError:
            return b""
        frames = b"".join(self._frames)
        self._frames.clear()
        self._size = 0
        self._filled.clear()
        return frames

    def frames(self, news: News) -> Iterator[bytes]:
        """What the client is told of some news, but for what it has heard of it before."""
        seen = self._cursor if self._cursor is not None and row_of(self._cursor) == news.id else -1
        for told in told_of(news):
            if told.number > seen and self._wanted.takes(told.namespace, told.workflow_id, told.kind):
                yield frame_of(told)


class EventStream:
    """An answer that goes on until one side has enough."""

    status = 200

    def __init__(
        self, stream: Stream, wanted: Wanted, after: int | None, places: Places, drained: asyncio.Event
    ) -> None:
        self._stream = stream
        self._places = places
        self._wanted = wanted
        self._row = None if after is None else row_of(after)
        self._drained = drained
        self._queue = _Queue(wanted, after)

    async def begin(self) -> None:
        """Hear what happens from now on, before the client is told that it is connected; or say why it cannot be."""
        self._places.take()
        try:
            await self._begin()
        except BaseException:
            self._places.leave()
            raise

    async def _begin(self) -> None:
        if self._row is None:
            async for _ in self._stream.follow(None, self._queue.put):
                pass
        elif (last := await self._stream.too_late(self._row, self._wanted.namespaces)) is not None:
            raise Gone("events after this id are no longer told: look up what was missed", oldest_id=last_of(last))

    async def send(self, call: Call, send: Send) -> None:
        """Send events until the client has gone, is too slow, or the engine stops."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *always(HEADERS)]})
            await self._send(call, send)
        finally:
            self._stream.leave(self._queue.put)
            self._places.leave()

    async def _send(self, call: Call, send: Send) -> None:
        talking = asyncio.ensure_future(self._talk(send))
        ends = [call.watch(), *map(asyncio.ensure_future, (self._drained.wait(), self._queue.overflown.wait()))]
        try:
            await asyncio.wait((talking, *ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (talking, *ends):
                task.cancel()
            await asyncio.gather(talking, *ends, return_exceptions=True)
        with contextlib.suppress(TimeoutError):  # a client that does not read does not hear the end either
            await asyncio.wait_for(send({"type": "http.response.body", "body": b"", "more_body": False}), FAREWELL)

    async def _talk(self, send: Send) -> None:
        await _say(send, b": connected\n\n")
        if self._row is not None:
            async for page in self._stream.follow(self._row, self._queue.put):
                told = b"".join(frame for news in page for frame in self._queue.frames(news))
                if told:
                    await _say(send, told)
        while True:
            frames = await self._queue.take()
            await _say(send, frames or b": keep-alive\n\n")


async def _say(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
