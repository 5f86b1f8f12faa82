"""A pool of keep-alive HTTP/1.1 connections to one engine.

Each start of a workflow and each wait for a result is one request, so this module is the hot path of a client. A
general HTTP library takes several times longer per request than the rest of the SDK together; an engine needs only
bodies with a length or chunks, keep-alive, and detection of closed connections.
"""

import asyncio
import functools
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from assay.sdk.client.credential import Credential
from assay.sdk.client.http.http1 import AnswerReader, ConnectionClosed, Endpoint, EngineUnreachable, bearer
from assay.sdk.client.http.socket import WorkerSocket
from assay.sdk.client.loop_thread import refuse_in_workflow

CONNECT_SECONDS: Final = 5.0

Answer = tuple[int, bytes]
Made = TypeVar("Made", bound=asyncio.Protocol)


class HttpConnection(AnswerReader, asyncio.Protocol):
    """One connection, with at most one request at a time."""

    def __init__(self, pool: "HttpPool", endpoint: Endpoint) -> None:
        super().__init__()
        self._pool = pool
        self.endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # always so for a stream connection

    def ask(self, request: bytes, waiter: "asyncio.Future[Answer]", headers: dict[bytes, bytes] | None = None) -> None:
        """Send a request; the response completes `waiter`, and fills `headers` if a dict is given."""
        if self.closed:  # lost between its creation and this call
            waiter.set_exception(ConnectionClosed("the engine closed the connection"))
            return
        self._waiter = waiter
        if headers is not None:
            self.read_headers(headers)
        if self._transport is not None:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        try:
            self.read(data)
        except ConnectionClosed as error:
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
        self.abort(ConnectionClosed(str(exc) if exc else "the engine closed the connection"))

    def abort(self, error: Exception | None) -> None:
        """Close the connection; fail the waiting request with `error`."""
        if not self.closed:
            self.closed = True
            self._pool.all.discard(self)
            if self._transport is not None:
                self._transport.abort()
        waiter, self._waiter = self._waiter, None
        if waiter is not None and error is not None and not waiter.done():
            waiter.set_exception(error)


class HttpPool:
    """A pool with as many connections as concurrent requests, to the first reachable of several engines."""

    def __init__(self, url: str, credential: Credential) -> None:
        self._credential = credential
        self._endpoints = [Endpoint(one, bearer(credential.value)) for one in url.split(",")]
        self._endpoint = self._endpoints[0]
        self._ssl = ssl.create_default_context() if any(one.is_tls for one in self._endpoints) else None
        self.url = url
        self.idle: deque[HttpConnection] = deque()
        self.all: set[HttpConnection] = set()
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
        """Return the status and the body of the response; store its headers in `headers` if a dict is given.

        Raises:
            OSError: The connection failed before the response.
            TimeoutError: The response is late.
        """
        if self._credential.is_file:
            self.check_key_file()
        refuse_in_workflow()  # the audit hook does not see writes on an open connection
        loop = asyncio.get_running_loop()
        connection = self._free() or await self._connect(loop)
        request = connection.endpoint.request(method, path, body, key)
        waiter: asyncio.Future[Answer] = loop.create_future()
        connection.ask(request, waiter, headers)
        timer = loop.call_later(seconds, connection.abort, TimeoutError("no answer came"))
        try:
            return await waiter
        except BaseException:
            connection.abort(None)  # a late response must not be taken for that of the next request
            raise
        finally:
            timer.cancel()

    def _free(self) -> HttpConnection | None:
        """Return the idle connection that was used last; unused connections age, and the engine closes them."""
        while self.idle:
            connection = self.idle.pop()
            if not connection.closed:
                return connection
        return None

    @property
    def origin(self) -> str:
        """Return the origin of the engine that was reached last."""
        return self._endpoint.origin

    @property
    def endpoint(self) -> Endpoint:
        """Return the engine that was reached last."""
        return self._endpoint

    def renew_credential(self) -> bool:
        """Read the credential again after a refusal; return whether it is another, so that another attempt can help."""
        return self._credential.renew() and self._authenticate()

    def check_key_file(self) -> bool:
        """Read the key file again if it has changed; return whether the credential has changed."""
        return self._credential.check_file() and self._authenticate()

    def _authenticate(self) -> bool:
        for endpoint in self._endpoints:
            endpoint.set_headers(bearer(self._credential.value))
        return True

    def turn_to_next(self) -> None:
        """Begin new connections with the next engine: the current engine is stopping, or has just started."""
        if len(self._endpoints) > 1:
            place = self._endpoints.index(self._endpoint)
            self._endpoint = self._endpoints[(place + 1) % len(self._endpoints)]
            for connection in tuple(self.idle):
                connection.abort(None)
            self.idle.clear()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> HttpConnection:
        connection = await self._reach(loop, lambda endpoint: HttpConnection(self, endpoint))
        if not connection.closed:
            self.all.add(connection)
        return connection

    async def _reach(self, loop: asyncio.AbstractEventLoop, make: Callable[[Endpoint], Made]) -> Made:
        """Connect to the engine that was reached last, otherwise to the first reachable engine in order."""
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
            except OSError as error:  # includes TimeoutError
                trouble = trouble or _system_message(error)
            else:
                self._endpoint = endpoint
                return made
        raise EngineUnreachable(trouble)

    async def socket(self, path: str, receive: Callable[[bytes], None]) -> WorkerSocket:
        """Return an open WebSocket; raise `NotUpgraded` if the engine or a proxy refuses the upgrade."""

        def make(endpoint: Endpoint) -> WorkerSocket:
            url = f"{'wss' if endpoint.is_tls else 'ws'}://{endpoint.address}{endpoint.path}{path}"
            return WorkerSocket(url, endpoint.headers, receive)

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
            connection.abort(ConnectionClosed("this client is closed"))
        self.idle.clear()


def _system_message(error: OSError) -> str:
    """Return the system's message for an error, without the text that libraries add."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno) if error.errno else str(error) or "no connection could be made"
