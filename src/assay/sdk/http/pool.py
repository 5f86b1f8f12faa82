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
from typing import Final, TypeVar

from assay.sdk.http.http1 import AnswerReader, Endpoint, Gone, Unreachable
from assay.sdk.http.socket import Socket
from assay.sdk.loop_thread import refuse_in_workflow

CONNECT_SECONDS: Final = 5.0

Answer = tuple[int, bytes]
Made = TypeVar("Made", bound=asyncio.Protocol)


class Connection(AnswerReader, asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, pool: "Pool") -> None:
        super().__init__()
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # what a stream connection is given

    def ask(self, request: bytes, waiter: "asyncio.Future[Answer]", headers: dict[bytes, bytes] | None = None) -> None:
        """Send a request; its answer goes to `waiter`, and the answer's headers into `headers` if there is a dict."""
        if self.closed:  # lost as soon as it was made
            waiter.set_exception(Gone("the engine closed the connection"))
            return
        self._waiter = waiter
        if headers is not None:
            self.read_headers(headers)
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self.read(data)
        except Gone as error:
            self.abort(error)

    def answered(self, status: int, body: bytes, *, keep: bool) -> None:
        """See `AnswerReader`."""
        waiter, self._waiter = self._waiter, None
        if not keep:
            self.abort(None)
        elif waiter is not None:
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
        self._endpoint = endpoint = Endpoint(url, headers)
        self._ssl = ssl.create_default_context() if endpoint.is_tls else None
        self.origin = endpoint.origin
        self.idle: deque[Connection] = deque()
        self.all: set[Connection] = set()
        self.closed = False

    async def request(
        self,
        method: str,
        path: str,
        body: bytes,
        seconds: float,
        key: str | None = None,
        headers: dict[bytes, bytes] | None = None,
    ) -> Answer:
        """Return the status and the body of the answer; put its headers into `headers` if there is a dict.

        Raises:
            OSError: No answer came.
            TimeoutError: The answer is late.
        """
        refuse_in_workflow()  # on a connection that is open nothing else would notice (R29)
        loop = asyncio.get_running_loop()
        request = self._endpoint.request(method, path, body, key)
        connection = self._free() or await self._connect(loop)
        waiter: asyncio.Future[Answer] = loop.create_future()
        connection.ask(request, waiter, headers)
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
        making = loop.create_connection(make, self._endpoint.host, self._endpoint.port, ssl=self._ssl)
        try:
            _, made = await asyncio.wait_for(making, CONNECT_SECONDS)
        except OSError as error:  # a TimeoutError, too
            raise Unreachable(_said(error)) from None
        return made

    async def socket(self, path: str, receive: Callable[[bytes], None]) -> Socket:
        """A WebSocket, open; `NotUpgraded` if there is none to be had."""
        endpoint = self._endpoint
        url = f"{'wss' if endpoint.is_tls else 'ws'}://{endpoint.address}{endpoint.path}{path}"
        made = await self._reach(asyncio.get_running_loop(), lambda: Socket(url, endpoint.headers, receive))
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


def _said(error: OSError) -> str:
    """What the system says, without the words that a library puts around it."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or "no connection could be made"
