"""A proxy with a bad day: answers are lost when the request has had its effect, requests come twice, or take long.

It knows as much of HTTP as it takes to tell one request and one answer from the next, and one frame of a WebSocket from
the next; a seed decides about the fault of each.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LONGEST_HEAD = 1 << 16
WHOLE_BINARY = 0x82
"""The first byte of a frame that is a binary message by itself."""


@dataclass(frozen=True)
class Faults:
    """What share of messages suffers what."""

    cut: float = 0.0
    """Answers that are lost, and their connection with them."""
    duplicate: float = 0.0
    """Requests that arrive twice; nobody hears the second answer."""
    delay: float = 0.0
    shortest: float = 1.0
    longest: float = 10.0
    """Seconds of a delay."""


class Proxy:
    """Forwards to a port of this machine."""

    def __init__(self, target: int, faults: Faults, seed: int) -> None:
        self._target = target
        self._faults = faults
        self._chance = random.Random(seed)  # noqa: S311  # repeatable on purpose
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.done: Counter[str] = Counter()
        """How often it did what."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calm(self) -> None:
        """Be a good proxy from now on."""
        self._faults = Faults()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=LONGEST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def close(self, server: asyncio.Server) -> None:
        """Drop everything."""
        server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._serve((reader, writer)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _happens(self, what: str, share: float) -> bool:
        happens = self._chance.random() < share
        self.done[what] += happens
        return happens

    async def _maybe_wait(self) -> None:
        if self._happens("delays", self._faults.delay):
            await asyncio.sleep(self._chance.uniform(self._faults.shortest, self._faults.longest))

    # requests

    async def _serve(self, near: Streams) -> None:
        async with _closing(near), self._far() as far:
            request = await _message(near[0])
            while request is not None:
                following = asyncio.ensure_future(_message(near[0]))
                answering = asyncio.ensure_future(self._ask(far, request))
                try:
                    await asyncio.wait({following, answering}, return_when=asyncio.FIRST_COMPLETED)
                    if not answering.done():
                        return  # the caller has given up, or does not wait its turn
                    answer = answering.result()
                    if answer is None or self._happens("cuts", self._faults.cut):
                        return
                    near[1].write(answer)
                    if answer.startswith(b"HTTP/1.1 101"):
                        following.cancel()
                        await asyncio.wait({following})
                        return await self._relay(near, far)
                    request = await following
                finally:
                    following.cancel()
                    answering.cancel()

    @asynccontextmanager
    async def _far(self) -> AsyncIterator[Streams]:
        streams = await asyncio.open_connection("127.0.0.1", self._target, limit=LONGEST_HEAD)
        async with _closing(streams):
            yield streams

    async def _ask(self, far: Streams, request: bytes) -> bytes | None:
        if not _upgrades(request) and self._happens("duplicates", self._faults.duplicate):
            self._begin(self._ask_again(request))
        await self._maybe_wait()
        far[1].write(request)
        return await _message(far[0])

    async def _ask_again(self, request: bytes) -> None:
        await asyncio.sleep(self._chance.uniform(0, self._faults.shortest))
        async with self._far() as far:
            far[1].write(request)
            await _message(far[0])

    # WebSocket

    async def _relay(self, near: Streams, far: Streams) -> None:
        ways = {asyncio.ensure_future(self._there(near[0], far[1])), asyncio.ensure_future(self._back(far[0], near[1]))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _there(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await _frame(reader)
            await self._maybe_wait()
            writer.write(frame)
            if frame[0] == WHOLE_BINARY and self._happens("duplicates", self._faults.duplicate):
                writer.write(frame)
            await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await _frame(reader)
            await self._maybe_wait()
            if self._happens("cuts", self._faults.cut):
                return
            writer.write(frame)
            await writer.drain()


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (OSError, asyncio.IncompleteReadError):
        return  # one side has gone: so has the other


@asynccontextmanager
async def _closing(streams: Streams) -> AsyncIterator[None]:
    try:
        yield
    finally:
        streams[1].transport.abort()


def _upgrades(request: bytes) -> bool:
    return b"upgrade: websocket" in request.partition(b"\r\n\r\n")[0].lower()


async def _message(reader: asyncio.StreamReader) -> bytes | None:
    """A request or an answer, whole; None when there are no more."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        return head + await _chunks(reader)
    return head + await reader.readexactly(int(fields.get(b"content-length", b"0")))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line, 16)
        found += line + await reader.readexactly(size + 2)
        if size == 0:
            return found


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(2)
    size = head[1] & 0x7F
    more = await reader.readexactly({126: 2, 127: 8}.get(size, 0))
    if more:
        size = int.from_bytes(more, "big")
    return head + more + await reader.readexactly(size + (4 if head[1] & 0x80 else 0))


@contextmanager
def proxy(target: int, faults: Faults, seed: int = 1) -> Iterator[Proxy]:
    """A proxy in a thread of its own."""
    made = Proxy(target, faults, seed)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(made.start(), loop).result()
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(made.close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
