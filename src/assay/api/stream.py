"""The event stream: Server-Sent Events with durable ids, resumable without a gap, with bounded memory per client."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from assay.api.answers import Header, common_headers
from assay.api.call import ApiCall, Send
from assay.api.event_frames import frames_of, last_of, row_of
from assay.api.shared_frames import Chunk, SharedFrames, StreamFilter, chunk_of
from assay.core.model.errors import AssayError, Kind
from assay.engine.stream import JournalRow, Stream
from assay.wire.errors import CursorExpired

MAX_EVENT_STREAMS: Final = 500
"""Event streams that are open at the same time."""
MAX_EVENT_STREAMS_OF_CALLER: Final = 20
"""Event streams that are open at the same time with one credential; a browser session counts by itself."""
MAX_QUEUED_EVENTS: Final = 1_000
MAX_QUEUED_BYTES: Final = 1024 * 1024
STREAM_KEEP_ALIVE_SECONDS: Final = 15.0
CLOSE_TIMEOUT_SECONDS: Final = 1.0
PUSH: Final = "assay.push"
"""An extension of the ASGI scope: `push(chunk)` writes a chunk of the response body, or returns False."""
NO_EXTENSIONS: Final[Mapping[str, Any]] = {}
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Push = Callable[[bytes], bool]


class TooManyStreams(AssayError):
    """The limit of open event streams is reached."""

    code = "too_many_streams"
    kind = Kind.RATE_LIMITED


class StreamSlots:
    """Limits the open event streams, in total and for each caller. A stream reserves a slot before it reads."""

    def __init__(self, most: int = MAX_EVENT_STREAMS, most_of_caller: int = MAX_EVENT_STREAMS_OF_CALLER) -> None:
        self._most = most
        self._most_of_caller = most_of_caller
        self._taken = 0
        self._by_caller: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken

    def reserve(self, caller: str | None = None) -> None:
        """Reserve a slot, or raise `TooManyStreams`; without authentication only the total counts."""
        if self._taken >= self._most:
            raise TooManyStreams(f"{self._most} event streams are open already")
        if caller is not None:
            if self._by_caller[caller] >= self._most_of_caller:
                raise TooManyStreams(f"{self._most_of_caller} event streams are open already with this credential")
            self._by_caller[caller] += 1
        self._taken += 1

    def release(self, caller: str | None = None) -> None:
        """Release a slot."""
        self._taken -= 1
        if caller is not None:
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]


class _Queue:
    """The frames that wait for a client. Overflow ends the stream, so that a slow client cannot fill the memory.

    While the queue is empty, frames are pushed directly into the connection: waking a task per client and page would
    cost more than the frames.
    """

    def __init__(self, shared: SharedFrames, wanted: StreamFilter, cursor: int | None) -> None:
        self._shared = shared
        self._wanted = wanted
        self._cursor = cursor
        self._chunks: deque[Chunk] = deque()
        self._count = self._size = 0
        self._filled = asyncio.Event()
        self._taken = False
        """True while the sending task holds chunks: frames pushed now would overtake them."""
        self._pushed = False
        self.push: Push | None = None
        """Writes a chunk into the connection, or returns False if the client has not read the earlier chunks."""
        self.overflown = asyncio.Event()

    def put(self, page: Sequence[JournalRow]) -> None:
        """Push the frames of a page that pass the filter, or queue them until the client reads."""
        if self.overflown.is_set():
            return
        chunk = self.chunk(page)
        if not chunk.frames:
            return
        if self.push is not None and not self._chunks and not self._taken and self.push(chunk.encoded):
            self._pushed = True
            return
        self._chunks.append(chunk)
        self._count += chunk.frames
        self._size += len(chunk.body)
        self._filled.set()
        if self._count > MAX_QUEUED_EVENTS or self._size > MAX_QUEUED_BYTES:
            self.overflown.set()

    async def take(self) -> bytes:
        """Return all queued frames, or an empty body when a keep-alive is due."""
        self._taken = False
        while not self._chunks:
            self._filled.clear()
            self._pushed = False
            try:
                async with asyncio.timeout(STREAM_KEEP_ALIVE_SECONDS):
                    await self._filled.wait()
            except TimeoutError:
                if not self._pushed:
                    break
        self._taken = True
        frames = b"".join(chunk.body for chunk in self._chunks)
        self._chunks.clear()
        self._count = self._size = 0
        return frames

    def chunk(self, page: Sequence[JournalRow]) -> Chunk:
        """Return the frames of a page that pass the filter and come after the client's cursor."""
        if self._cursor is None or not self._shared.has_row(page, row_of(self._cursor)):
            return self._shared.chunk(page, self._wanted)
        # The client was cut off in the middle of a row: encode this page for this client alone.
        cursor, self._cursor = self._cursor, None
        row = row_of(cursor)
        frames = [frame for news in page for frame in frames_of(news) if news.id != row or frame.number > cursor]
        return chunk_of([frame for frame in frames if self._wanted.takes(frame)])


class EventStream:
    """A response with events, which ends when the client disconnects, is too slow, or the engine stops."""

    status = 200

    def __init__(
        self,
        stream: Stream,
        shared: SharedFrames,
        wanted: StreamFilter,
        after: int | None,
        slots: StreamSlots,
        drained: asyncio.Event,
        credential_ends: Callable[[], Awaitable[None]] | None = None,
        caller: str | None = None,
    ) -> None:
        self._stream = stream
        self._slots = slots
        self._wanted = wanted
        self._row = None if after is None else row_of(after)
        self._drained = drained
        self._credential_ends = credential_ends
        self._caller = caller
        self._queue = _Queue(shared, wanted, after)

    async def begin(self) -> None:
        """Reserve a slot and subscribe to new events, before the response starts.

        Raises:
            TooManyStreams: The limit of open streams is reached.
            Gone: Events after the client's cursor have been deleted.
        """
        self._slots.reserve(self._caller)
        try:
            await self._begin()
        except BaseException:
            self._slots.release(self._caller)
            raise

    async def _begin(self) -> None:
        if self._row is None:
            async for _ in self._stream.follow(None, self._queue.put):
                pass
        elif (last := await self._stream.too_late(self._row, self._wanted.namespaces)) is not None:
            raise CursorExpired(
                "events after this id have been deleted: read the missed runs by id", oldest_id=last_of(last)
            )

    async def send(self, call: ApiCall, send: Send) -> None:
        """Send events until the client disconnects, is too slow, or the engine stops."""
        try:
            headers = [*HEADERS, *common_headers(HEADERS), *call.extra_headers]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._send(call, send)
        finally:
            self._stream.leave(self._queue.put)
            self._slots.release(self._caller)

    async def _send(self, call: ApiCall, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_frames(call, send))
        ends = [call.watch(), *map(asyncio.ensure_future, (self._drained.wait(), self._queue.overflown.wait()))]
        if self._credential_ends is not None:
            ends.append(asyncio.ensure_future(self._credential_ends()))
        try:
            await asyncio.wait((sending, *ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *ends):
                task.cancel()
            await asyncio.gather(sending, *ends, return_exceptions=True)
        with contextlib.suppress(TimeoutError):  # a client that does not read cannot receive the end, either
            await asyncio.wait_for(
                send({"type": "http.response.body", "body": b"", "more_body": False}), CLOSE_TIMEOUT_SECONDS
            )

    async def _send_frames(self, call: ApiCall, send: Send) -> None:
        await _send_body(send, b": connected\n\n")
        self._queue.push = call.scope.get("extensions", NO_EXTENSIONS).get(PUSH)
        if self._row is not None:
            async for page in self._stream.follow(self._row, self._queue.put):
                body = self._queue.chunk(page).body
                if body:
                    await _send_body(send, body)
        while True:
            frames = await self._queue.take()
            await _send_body(send, frames or b": keep-alive\n\n")


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
