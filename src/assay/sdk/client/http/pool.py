"""Connections to one engine for requests that are answered one by one: HTTP/1.1 kept alive, and nothing else.

A client that starts workflows and waits for them makes one request for each, so this is its hot path. A general HTTP
library spends several times as long on a request as all the rest of the SDK together; what an engine needs of HTTP is
little: a length or chunks, keep-alive, and to notice when the other side has gone.
"""

import asyncio
import functools
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from assay.sdk.client.http.http1 import AnswerReader, Endpoint, Gone, Unreachable
from assay.sdk.client.http.socket import Socket
from assay.sdk.client.loop_thread import refuse_in_workflow

CONNECT_SECONDS: Final = 5.0

Answer = tuple[int, bytes]
Made = TypeVar("Made", bound=asyncio.Protocol)


class Connection(AnswerReader, asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, pool: "Pool", endpoint: Endpoint) -> None:
        super().__init__()
        self._pool = pool
        self.endpoint = endpoint
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
    """As many connections as there are requests at a time, to the first of several engines that can be reached."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._endpoints = [Endpoint(one, headers) for one in url.split(",")]
        self._endpoint = self._endpoints[0]
        self._ssl = ssl.create_default_context() if any(one.is_tls for one in self._endpoints) else None
        self.url = url
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
        connection = self._free() or await self._connect(loop)
        request = connection.endpoint.request(method, path, body, key)
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

    @property
    def origin(self) -> str:
        """The engine that was reached last."""
        return self._endpoint.origin

    def turn_to_next(self) -> None:
        """Let new connections begin with the next engine: this one is about to stop, or has just started."""
        if len(self._endpoints) > 1:
            place = self._endpoints.index(self._endpoint)
            self._endpoint = self._endpoints[(place + 1) % len(self._endpoints)]
            for connection in tuple(self.idle):
                connection.abort(None)
            self.idle.clear()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> Connection:
        connection = await self._reach(loop, lambda endpoint: Connection(self, endpoint))
        if not connection.closed:
            self.all.add(connection)
        return connection

    async def _reach(self, loop: asyncio.AbstractEventLoop, make: Callable[[Endpoint], Made]) -> Made:
        """Connect to the engine that was reached last, or else to the first in order that can be reached."""
        trouble = ""
        for endpoint in dict.fromkeys((self._endpoint, *self._endpoints)):
            making = loop.create_connection(
                functools.partial(make, endpoint),
                endpoint.host,
                endpoint.port,
                ssl=self._ssl if endpoint.is_tls else None,
            )
            try:
                _, made = await asyncio.wait_for(making, CONNECT_SECONDS)
            except OSError as error:  # a TimeoutError, too
                trouble = trouble or _said(error)
            else:
                self._endpoint = endpoint
                return made
        raise Unreachable(trouble)

    async def socket(self, path: str, receive: Callable[[bytes], None]) -> Socket:
        """A WebSocket, open; `NotUpgraded` if there is none to be had."""

        def make(endpoint: Endpoint) -> Socket:
            url = f"{'wss' if endpoint.is_tls else 'ws'}://{endpoint.address}{endpoint.path}{path}"
            return Socket(url, endpoint.headers, receive)

        made = await self._reach(asyncio.get_running_loop(), make)
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
