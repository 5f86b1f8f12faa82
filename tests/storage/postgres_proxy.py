"""A proxy for the wire of Postgres: it cuts a client off at its COMMIT, and delivers the COMMIT later or never."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
COMMIT = b"COMMIT\0"


class PostgresProxy:
    """Relays every message but the one COMMIT that follows a call of `cut_next_commit`."""

    def __init__(self, server: str, folder: Path) -> None:
        self._server = Path(parse_qs(urlsplit(server).query)["host"][0]) / SOCKET
        self._folder = folder
        self.dsn = urlsplit(server)._replace(query=f"host={folder}").geturl()
        self.cut = asyncio.Event()
        """Set when the client has lost its connection."""
        self.deliver = asyncio.Event()
        """Set by a test to send the held COMMIT to the server."""
        self._armed = False
        self._swallow = False
        self._tasks: set[asyncio.Task[None]] = set()

    def cut_next_commit(self, *, swallow: bool = False) -> None:
        """Close the client's connection at the next COMMIT; with `swallow` close the server's, too, without it."""
        self._armed, self._swallow = True, swallow
        self.cut.clear()
        self.deliver.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["PostgresProxy"]:
        """Listen until the block ends."""
        listening = await asyncio.start_unix_server(self._connected, self._folder / SOCKET)
        try:
            yield self
        finally:
            listening.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(_copy(from_server, writer))
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._relay(reader, writer, to_server)
        finally:
            back.cancel()
            writer.close()
            to_server.close()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_server: asyncio.StreamWriter
    ) -> None:
        to_server.write(await _body(reader))  # the startup message, the only one without a type
        while True:
            message = await reader.readexactly(1) + await _body(reader)
            if self._armed and message[:1] == b"Q" and message.endswith(COMMIT):
                self._armed = False
                writer.close()
                self.cut.set()
                if not self._swallow:
                    await self.deliver.wait()
                    to_server.write(message)
                    await to_server.drain()
                return
            to_server.write(message)


async def _body(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(struct.unpack("!i", length)[0] - 4)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    finally:
        writer.close()
