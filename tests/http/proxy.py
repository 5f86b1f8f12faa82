"""A proxy that loses answers: the request has arrived and had its effect, and the caller hears nothing of it (F12)."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK = 65_536


class Proxy:
    """Forwards bytes to a port of this machine; a share of what comes back is cut off, and the connection with it."""

    def __init__(self, target: int, loss: float, seed: int) -> None:
        self._target = target
        self._loss = loss
        self._chance = random.Random(seed)  # noqa: S311
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.cuts = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calm(self) -> None:
        """Lose nothing any more."""
        self._loss = 0.0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        there = asyncio.create_task(self._carry(reader, outer, 0.0))
        back = asyncio.create_task(self._carry(inner, writer, 1.0))
        self._tasks |= {there, back}
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for stream in (writer, outer):
            stream.transport.abort()
        await asyncio.gather(there, back, return_exceptions=True)
        self._tasks -= {there, back}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, share: float) -> None:
        while chunk := await reader.read(CHUNK):
            if self._chance.random() < self._loss * share:
                self.cuts += 1
                return
            writer.write(chunk)
            await writer.drain()


@contextmanager
def proxy(target: int, loss: float, seed: int = 1) -> Iterator[Proxy]:
    """A proxy in a thread of its own."""
    made = Proxy(target, loss, seed)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(made.start(), loop).result()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in made._tasks])
        loop.call_soon_threadsafe(lambda: loop.call_later(0.1, loop.stop))
        thread.join()
        loop.close()
