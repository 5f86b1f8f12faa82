"""How a worker's messages travel: a WebSocket where one can be had, POST requests elsewhere; for ever, until it leaves.

A connection that breaks is made again with back-off and jitter, and begins with a hello that names all that is held.
"""

import asyncio
import contextlib
import logging
import random
from functools import partial
from typing import Final

from assay.core.errors import AssayError, NotFound, Unavailable
from assay.sdk.http.http1 import ANSWER_GRACE_SECONDS, FIRST_RETRY_SECONDS, HOLD_SECONDS, LONGEST_RETRY_SECONDS
from assay.sdk.http.link import Link
from assay.sdk.http.pool import Pool
from assay.sdk.http.problems import error_in
from assay.sdk.http.socket import NotUpgraded, Socket
from assay.wire import exchange as wire

log = logging.getLogger("assay.worker")

LATER_PAUSE: Final = 5.0
LATER: Final = 30.0
"""Seconds after which all leases are over anyhow, and there is no hurry."""
NO_WEBSOCKET: Final = frozenset({200, 400, 405, 426, 501})
"""Answers to an upgrade that mean: this server, or a proxy before it, speaks no WebSocket."""
TROUBLE: Final = (OSError, TimeoutError, AssayError)


class Carrier:
    """Keeps one worker connected, until it has left and everything is answered."""

    by_post = False
    """Is there no WebSocket to be had?"""

    def __init__(self, pool: Pool, path: str, link: Link) -> None:
        self._pool = pool
        self._path = path
        self._engine = pool.origin
        self._link = link
        self._connected = False
        self._waiting = False
        self._heard = 0.0
        self._socket: Socket | None = None

    async def run(self) -> None:
        """Carry messages until the worker has left and everything is answered."""
        loop = asyncio.get_running_loop()
        pause, lost = FIRST_RETRY_SECONDS, loop.time()
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
                pause, lost = FIRST_RETRY_SECONDS, loop.time()
            else:
                pause = min(2 * pause, LONGEST_RETRY_SECONDS if loop.time() - lost < LATER else LATER_PAUSE)
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
        if isinstance(error, NotUpgraded) and error.status in NO_WEBSOCKET:
            log.info("no WebSocket at %s: using POST", self._engine)
            self.by_post = self._connected = True
        elif self._connected:
            log.warning("the connection to %s is lost (%s); trying again", self._engine, _said(error))
            self._waiting = True
        elif not self._waiting:
            self._waiting = True
            if isinstance(error, NotUpgraded | AssayError):
                log.error("the engine at %s refuses this worker (%s); trying again", self._engine, _said(error))
            else:
                log.warning("no engine at %s (%s); waiting for it", self._engine, _said(error))

    # WebSocket

    async def _websocket(self) -> None:
        loop, link = asyncio.get_running_loop(), self._link
        socket = self._socket = await self._pool.socket(self._path, self._hear)
        pulse = loop.create_task(self._pulse(socket))
        try:
            for body in link.compose(hello=True):
                socket.say(body)
            link.ready.wake = socket.resumed = partial(self._wake, loop)
            await socket.ended
        finally:
            link.ready.wake = None
            pulse.cancel()
            socket.end()

    def _hear(self, body: bytes) -> None:
        self._link.hear(body)
        self._met()
        if self._finished() and self._socket is not None:
            self._socket.end()

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say it together with what else this turn of the loop brings; at once if that can be nothing."""
        if self._link.alone:
            self._say()
        else:
            loop.call_soon(self._say)

    def _say(self) -> None:
        """All there is to say; a full line is waited for."""
        socket, link = self._socket, self._link
        if socket is not None and socket.can_say and link.ready.is_set():
            for body in link.compose():
                socket.say(body)

    async def _pulse(self, socket: Socket) -> None:
        """Say that the worker is there, and find out when the engine is not."""
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        while True:
            await asyncio.sleep(wire.KEEP_ALIVE)
            if loop.time() - self._heard > wire.SILENCE:
                silence = f"nothing was heard for {loop.time() - self._heard:.0f} s"
                socket.end(Unavailable(silence, code="connection_silent"))
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
                await asyncio.sleep(FIRST_RETRY_SECONDS)
            else:
                await self._exchange([self._link.waiting(HOLD_SECONDS)])

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._finished():
            alive = loop.call_later(wire.KEEP_ALIVE, self._link.live)
            await self._link.ready.wait()
            alive.cancel()
            await self._exchange(self._link.compose())

    async def _exchange(self, bodies: list[bytes]) -> None:
        for body in bodies:
            status, answer = await self._pool.request("POST", self._path, body, HOLD_SECONDS + ANSWER_GRACE_SECONDS)
            if status != 200:
                error = error_in(status, answer)
                if isinstance(error, NotFound):  # an engine that was restarted knows nobody
                    raise Unavailable(str(error), code=error.code)
                raise error
            self._link.hear(answer)
            self._met()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
