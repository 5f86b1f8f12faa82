"""How a worker's messages travel: a WebSocket where one can be had, POST requests elsewhere; for ever, until it leaves.

A connection that breaks is made again with back-off and jitter, and begins with a hello that names all that is held.
"""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Mapping
from typing import Final

import aiohttp

from assay.core.errors import AssayError, NotFound, Unavailable
from assay.sdk.http.link import Link
from assay.sdk.http.problems import error_in
from assay.wire import exchange as wire

log = logging.getLogger("assay.worker")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds between attempts: with a lease of ten a worker must not be long in coming back."""
LATER_PAUSE: Final = 5.0
LATER: Final = 30.0
"""Seconds after which all leases are over anyhow, and there is no hurry."""
NO_WEBSOCKET: Final = frozenset({200, 400, 405, 426, 501})
"""Answers to an upgrade that mean: this server, or a proxy before it, speaks no WebSocket."""
POLL_SECONDS: Final = 20.0
GRACE_SECONDS: Final = 10.0
"""What an answer may take beyond the time for which a request is held."""
TROUBLE: Final = (aiohttp.ClientError, OSError, TimeoutError, AssayError)


async def carry(url: str, headers: Mapping[str, str], link: Link) -> None:
    """Keep a worker connected until it has left and everything is answered."""
    async with aiohttp.ClientSession(headers=headers, auto_decompress=False) as session:
        await Carrier(session, url, link).run()


class Carrier:
    """Keeps one worker connected."""

    by_post = False
    """Is there no WebSocket to be had?"""

    def __init__(self, session: aiohttp.ClientSession, url: str, link: Link) -> None:
        self._session = session
        self._url = url
        self._engine = url.partition("/api/")[0]
        self._link = link
        self._connected = False
        self._waiting = False
        self._heard = 0.0

    async def run(self) -> None:
        """Carry messages until the worker has left and everything is answered."""
        loop = asyncio.get_running_loop()
        pause, lost = FIRST_PAUSE, loop.time()
        while not self._finished():
            try:
                await (self._post() if self.by_post else self._websocket())
            except TROUBLE as error:
                self._lost(error)
            except Exception:  # a mistake of ours must not cut a worker off for ever
                log.exception("the exchange with the engine failed; trying again")
            if self._finished():
                return
            if self._connected:
                pause, lost = FIRST_PAUSE, loop.time()
            else:
                pause = min(2 * pause, LONGEST_PAUSE if loop.time() - lost < LATER else LATER_PAUSE)
            self._connected = False
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreads load, hides nothing

    def _finished(self) -> bool:
        return self._link.leaving and self._link.idle

    def _met(self) -> None:
        """The engine has said something."""
        self._heard = asyncio.get_running_loop().time()
        if not self._connected:
            self._connected, self._waiting = True, False
            log.info("connected to %s", self._engine)

    def _lost(self, error: BaseException) -> None:
        """Say so, once for each time that the engine goes away."""
        if isinstance(error, aiohttp.WSServerHandshakeError) and error.status in NO_WEBSOCKET:
            log.info("no WebSocket at %s: using POST", self._engine)
            self.by_post = self._connected = True
        elif self._connected:
            log.warning("the connection to %s is lost (%s); trying again", self._engine, _said(error))
            self._waiting = True
        elif not self._waiting:
            self._waiting = True
            if isinstance(error, aiohttp.WSServerHandshakeError | AssayError):
                log.error("the engine at %s refuses this worker (%s); trying again", self._engine, _said(error))
            else:
                log.warning("no engine at %s (%s); waiting for it", self._engine, _said(error))

    # WebSocket

    async def _websocket(self) -> None:
        async with self._session.ws_connect(self._url, max_msg_size=0, autoclose=True, timeout=CLOSING) as socket:
            for body in self._link.compose(hello=True):
                await socket.send_bytes(body)
            writer = asyncio.get_running_loop().create_task(self._write(socket))
            pulse = asyncio.get_running_loop().create_task(self._pulse(socket))
            try:
                await self._read(socket)
            finally:
                for task in (writer, pulse):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, *TROUBLE):
                        await task

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        link = self._link
        while True:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise Unavailable(f"closed by the engine, {socket.close_code}", code="connection_closed")
            link.hear(message.data)
            self._met()
            if link.leaving and link.idle:
                return

    async def _write(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        link = self._link
        while True:
            await link.ready.wait()
            for body in link.compose():
                await socket.send_bytes(body)

    async def _pulse(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Say that the worker is there, and find out when the engine is not."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        while True:
            await asyncio.sleep(wire.KEEP_ALIVE)
            if loop.time() - self._heard > wire.SILENCE:
                log.warning("nothing was heard from %s for %.0f s", self._engine, loop.time() - self._heard)
                await socket.close()
                return
            self._link.live()

    # POST

    async def _post(self) -> None:
        """Two requests side by side: one that waits for work, and one that tells what there is to tell."""
        await self._exchange(self._link.compose(hello=True))
        polling = asyncio.get_running_loop().create_task(self._poll())
        telling = asyncio.get_running_loop().create_task(self._tell())
        try:
            done, _ = await asyncio.wait({polling, telling}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (polling, telling):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, *TROUBLE):
                    await task

    async def _poll(self) -> None:
        while not self._finished():
            if self._link.leaving:
                await asyncio.sleep(FIRST_PAUSE)
            else:
                await self._exchange([self._link.waiting(POLL_SECONDS)])

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._finished():
            alive = loop.call_later(wire.KEEP_ALIVE, self._link.live)
            await self._link.ready.wait()
            alive.cancel()
            await self._exchange(self._link.compose())

    async def _exchange(self, bodies: list[bytes]) -> None:
        for body in bodies:
            limit = aiohttp.ClientTimeout(total=POLL_SECONDS + GRACE_SECONDS)
            async with self._session.post(self._url, data=body, headers=JSON, timeout=limit) as response:
                answer = await response.read()
                if response.status != 200:
                    error = error_in(response.status, answer)
                    if isinstance(error, NotFound):  # an engine that was restarted knows nobody
                        raise Unavailable(str(error), code=error.code)
                    raise error
                self._link.hear(answer)
                self._met()


def _said(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    if isinstance(error, aiohttp.WSServerHandshakeError):
        return f"it answers {error.status}"
    return str(error) or type(error).__name__


JSON: Final = {"content-type": "application/json"}
CLOSING: Final = aiohttp.ClientWSTimeout(ws_close=1.0)
