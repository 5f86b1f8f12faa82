"""Connections to one engine for requests that are answered one by one: HTTP/1.1 kept alive, and nothing else.

A client that starts workflows and waits for them makes one request for each, so this is its hot path. A general HTTP
library spends several times as long on a request as all the rest of the SDK together; what an engine needs of HTTP is
little: a length or chunks, keep-alive, and to notice when the other side has gone.
"""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httptools

from assay._version import __version__
from assay.core.errors import Invalid
from assay.sdk.http.socket import Socket
from assay.sdk.loop_thread import refuse_in_workflow

CONNECT_SECONDS: Final = 5.0
PORTS: Final = {"http": 80, "https": 443}

Answer = tuple[int, bytes]
Made = TypeVar("Made", bound=asyncio.Protocol)


class Gone(ConnectionError):
    """The other side went away before it had answered."""


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # what a stream connection is given

    def ask(self, request: bytes, waiter: "asyncio.Future[Answer]") -> None:
        """Send a request; its answer goes to `waiter`."""
        if self.closed:  # lost as soon as it was made
            waiter.set_exception(Gone("the engine closed the connection"))
            return
        self._waiter = waiter
        self._body = []
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.abort(Gone(f"what came back is no HTTP: {error}"))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # a word in between
        waiter, self._waiter = self._waiter, None
        keep = self._parser.should_keep_alive()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if not keep:
            self.abort(None)
        elif waiter is not None:
            self._parser = httptools.HttpResponseParser(self)
            self._pool.idle.append(self)
        if waiter is not None and not waiter.done():
            waiter.set_result((status, body))

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort(Gone(str(exc) if exc else "the engine closed the connection"))

    def abort(self, error: Exception | None) -> None:
        """Close it; whoever waits is told."""
        if not self.closed:
            self.closed = True
            self._pool.all.discard(self)
            if self._transport is not None:
                self._transport.abort()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and error is not None and not waiter.done():
            waiter.set_exception(error)


class Pool:
    """As many connections as there are requests at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise Invalid(f"{url} is no URL of an engine: http://127.0.0.1:8080", code="invalid_url", field="url")
        self._host, self._port = parts.hostname, parts.port or PORTS[parts.scheme]
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._address = parts.netloc.rpartition("@")[2]
        self.origin = f"{parts.scheme}://{self._address}"
        self._own = {"user-agent": f"assay/{__version__}", **headers}
        fixed = {"host": self._address, **self._own}
        lines = "".join(f"{name}: {_checked(value)}\r\n" for name, value in fixed.items())
        self._head = f" HTTP/1.1\r\n{lines}content-type: application/json\r\n"
        self.idle: deque[Connection] = deque()
        self.all: set[Connection] = set()
        self.closed = False

    async def request(self, method: str, path: str, body: bytes, seconds: float, key: str | None = None) -> Answer:
        """The status and the body of the answer; `OSError` when there is none, `TimeoutError` when it is late."""
        refuse_in_workflow()  # on a connection that is open nothing else would notice (R29)
        loop = asyncio.get_running_loop()
        more = "" if key is None else f"idempotency-key: {key}\r\n"
        head = f"{method} {self._path}{path}{self._head}{more}content-length: {len(body)}\r\n\r\n"
        connection = self._free() or await self._connect(loop)
        waiter: asyncio.Future[Answer] = loop.create_future()
        connection.ask(head.encode("ascii") + body, waiter)
        timer = loop.call_later(seconds, connection.abort, TimeoutError("no answer came"))
        try:
            return await waiter
        except BaseException:
            connection.abort(None)  # what is still on its way there must not be taken for the next answer
            raise
        finally:
            timer.cancel()

    def _free(self) -> Connection | None:
        """The connection that was used last: those that are not needed any more grow old and are closed over there."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        connection = await self._reach(loop, lambda: Connection(self))
        if not connection.closed:
            self.all.add(connection)
        return connection

    async def _reach(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Made]) -> Made:
        making = loop.create_connection(make, self._host, self._port, ssl=self._ssl)
        try:
            _, made = await asyncio.wait_for(making, CONNECT_SECONDS)
        except OSError as error:  # a TimeoutError, too
            raise Unreachable(_said(error)) from None
        return made

    async def socket(self, path: str, hear: Callable[[bytes], None]) -> Socket:
        """A WebSocket, open; `NotUpgraded` if there is none to be had."""
        url = f"{'ws' if self._ssl is None else 'wss'}://{self._address}{self._path}{path}"
        made = await self._reach(asyncio.get_running_loop(), lambda: Socket(url, self._own, hear))
        try:
            await asyncio.wait_for(made.opened, CONNECT_SECONDS)
        except BaseException:
            made.end()
            raise
        return made

    def close(self) -> None:
        """Close all connections, and make no more."""
        self.closed = True
        for connection in tuple(self.all):
            connection.abort(Gone("this client is closed"))
        self.idle.clear()


class Unreachable(ConnectionError):
    """Nobody is there."""


def _said(error: OSError) -> str:
    """What the system says, without the words that a library puts around it."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or "no connection could be made"


def _checked(value: str) -> str:
    """A header's value; one with a line break in it would be two headers."""
    if not value.isprintable():
        raise Invalid("a token must be one line of printable characters", field="token")
    return value
