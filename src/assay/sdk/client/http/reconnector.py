"""Drives the worker's end of the protocol over a WebSocket, or over POST requests where a proxy has no WebSocket.

A broken connection is reopened with back-off and jitter, and begins with a hello that lists all leases.
"""

import asyncio
import contextlib
import logging
import random
from functools import partial
from typing import Final

from assay.core.model.errors import AssayError, NotFound, PermissionDenied, Unavailable
from assay.sdk.client.credential import KEY_FILE_CHECK_SECONDS
from assay.sdk.client.http.http1 import ANSWER_GRACE_SECONDS, FIRST_RETRY_SECONDS, HOLD_SECONDS, LONGEST_RETRY_SECONDS
from assay.sdk.client.http.pool import HttpPool
from assay.sdk.client.http.problems import error_in
from assay.sdk.client.http.socket import NotUpgraded, WorkerSocket
from assay.sdk.client.transport import OnRefusal
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_engine_message
from assay.worker_protocol.encode import encode_worker_message
from assay.worker_protocol.worker_side import WorkerEndpoint

log = logging.getLogger("assay.worker")

SLOW_RETRY_SECONDS: Final = 5.0
SLOW_RETRY_AFTER_SECONDS: Final = 30.0
"""Seconds without a connection after which all leases have expired, so that retries need not be frequent."""
NO_UPGRADE: Final = 426
NO_WEBSOCKET: Final = frozenset({200, 400, 405, NO_UPGRADE, 501})
"""Responses to an upgrade by a server or proxy without WebSocket support."""
CONNECTION_ERRORS: Final = (OSError, TimeoutError, AssayError)
REFUSING_STATUSES: Final = frozenset({401, 403, 404})
LONGEST_REFUSED_SECONDS: Final = 30.0
"""The longest pause between attempts of a worker whose credential has ended."""
REFUSAL_LOG_SECONDS: Final = 60.0


class _HiddenNamespace(NotFound):
    """The credential has no role in the worker's namespace, which therefore seems to be missing."""


class Reconnector:
    """Keeps one worker connected until the worker has left and every report has a reply."""

    by_post = False
    """True once the server, or a proxy in front of it, has refused a WebSocket."""

    def __init__(self, pool: HttpPool, path: str, endpoint: WorkerEndpoint, refused: OnRefusal | None = None) -> None:
        self._refused = refused
        self._has_connected = False
        self._refusal_log_at = 0.0
        self._pool = pool
        self._path = path
        self._endpoint = endpoint
        self._connected = False
        self._waiting = False
        self._received_at = 0.0
        self._socket: WorkerSocket | None = None

    async def run(self) -> None:
        """Connect again and again until the worker has left and every report has a reply."""
        loop = asyncio.get_running_loop()
        pause, lost, longest = FIRST_RETRY_SECONDS, loop.time(), None
        while not self._finished():
            try:
                await self._connect()
            except (PermissionDenied, _HiddenNamespace) as error:
                if self._pool.renew_credential():
                    self._connected = True  # the next attempt has another credential, and need not wait
                elif not self._has_connected and self._refused is not None:
                    self._refused(error)
                    return
                else:
                    self._log_refusal(error)
                    longest = LONGEST_REFUSED_SECONDS
            except CONNECTION_ERRORS as error:
                self._lost(error)
            except Exception:  # a defect of this module must not disconnect a worker for good
                log.exception("the exchange with the engine failed; trying again")
            if self._finished():
                return
            if self._connected:
                pause, lost = FIRST_RETRY_SECONDS, loop.time()
            else:
                pause = min(2 * pause, longest or self._longest_pause(loop.time() - lost))
            self._connected, longest = False, None
            await self._sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreads load, hides nothing

    async def _connect(self) -> None:
        """Serve one connection until it ends; a refusal of the engine is raised with the engine's own words."""
        try:
            await (self._post() if self.by_post else self._websocket())
        except NotUpgraded as error:
            if error.status not in REFUSING_STATUSES:
                raise
            # The body of a POST has the reason. Or it succeeds: a proxy may refuse WebSockets alone.
            await self._exchange(self._endpoint.compose(hello=True))
            raise NotUpgraded(NO_UPGRADE) from None

    @staticmethod
    def _longest_pause(lost_seconds: float) -> float:
        return LONGEST_RETRY_SECONDS if lost_seconds < SLOW_RETRY_AFTER_SECONDS else SLOW_RETRY_SECONDS

    async def _sleep(self, seconds: float) -> None:
        """Pause, at most until the key file has changed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            await asyncio.sleep(min(left, KEY_FILE_CHECK_SECONDS))
            if self._pool.check_key_file():
                return

    def _log_refusal(self, error: AssayError) -> None:
        """Log a refusal, at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now >= self._refusal_log_at:
            self._refusal_log_at = now + REFUSAL_LOG_SECONDS
            log.error("the engine at %s refuses this worker (%s); trying again", self._pool.origin, _text(error))

    def _finished(self) -> bool:
        return self._endpoint.leaving and self._endpoint.idle

    def _note_message(self) -> None:
        """Note the arrival of a message of the engine."""
        self._received_at = asyncio.get_running_loop().time()
        if not self._connected:
            self._connected, self._waiting, self._has_connected = True, False, True
            self._refusal_log_at = 0.0
            log.info("connected to %s", self._pool.origin)

    def _lost(self, error: BaseException) -> None:
        """Log a lost connection, once per outage."""
        if isinstance(error, NotUpgraded) and error.status in NO_WEBSOCKET:
            log.info("no WebSocket at %s: using POST", self._pool.origin)
            self.by_post = self._connected = True
        elif self._connected:
            log.warning("the connection to %s is lost (%s); trying again", self._pool.origin, _text(error))
            self._waiting = True
        elif not self._waiting:
            self._waiting = True
            if isinstance(error, NotUpgraded | AssayError):
                log.error("the engine at %s refuses this worker (%s); trying again", self._pool.origin, _text(error))
            else:
                log.warning("no engine at %s (%s); waiting for it", self._pool.origin, _text(error))

    # WebSocket

    async def _websocket(self) -> None:
        loop, wakeup = asyncio.get_running_loop(), self._endpoint.wakeup
        socket = self._socket = await self._pool.socket(self._path, self._receive)
        pulse = loop.create_task(self._pulse(socket))
        try:
            self._send_on(socket, hello=True)
            wakeup.wake = socket.resumed = partial(self._wake, loop)
            await socket.ended
        finally:
            wakeup.wake = None
            pulse.cancel()
            socket.end()

    def _receive(self, body: bytes) -> None:
        self._endpoint.receive(decode_engine_message(body))
        self._note_message()
        if self._finished() and self._socket is not None:
            self._socket.end()

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send now if nothing can join this message; otherwise at the end of the loop iteration, to batch."""
        if self._endpoint.alone:
            self._send()
        else:
            loop.call_soon(self._send)

    def _send(self) -> None:
        """Send the next message; if the socket's buffer is full, wait until the peer has read."""
        socket = self._socket
        if socket is not None and socket.can_send and self._endpoint.wakeup.is_set:
            self._send_on(socket)

    def _send_on(self, socket: WorkerSocket, *, hello: bool = False) -> None:
        endpoint = self._endpoint
        for body in encode_worker_message(endpoint, endpoint.compose(hello=hello)):
            socket.send(body)
        endpoint.settle_refused()

    async def _pulse(self, socket: WorkerSocket) -> None:
        """Keep the connection alive, and end it when the engine has been silent for too long."""
        loop = asyncio.get_running_loop()
        self._received_at = loop.time()
        while True:
            await asyncio.sleep(wire.KEEP_ALIVE_SECONDS)
            if loop.time() - self._received_at > wire.SILENCE_SECONDS:
                silence = f"no message for {loop.time() - self._received_at:.0f} s"
                socket.end(Unavailable(silence, code="connection_silent"))
                return
            self._endpoint.keep_alive()

    # POST

    async def _post(self) -> None:
        """Run two requests side by side: a long poll for work, and a request with reports."""
        await self._exchange(self._endpoint.compose(hello=True))
        polling = asyncio.get_running_loop().create_task(self._poll())
        reporting = asyncio.get_running_loop().create_task(self._report())
        try:
            done, _ = await asyncio.wait({polling, reporting}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (polling, reporting):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, *CONNECTION_ERRORS):
                    await task

    async def _poll(self) -> None:
        while not self._finished():
            if self._endpoint.leaving:
                await asyncio.sleep(FIRST_RETRY_SECONDS)
            else:
                await self._exchange(self._endpoint.poll(HOLD_SECONDS))

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._finished():
            alive = loop.call_later(wire.KEEP_ALIVE_SECONDS, self._endpoint.keep_alive)
            woken: asyncio.Future[None] = loop.create_future()
            self._endpoint.wakeup.resolve(woken)
            await woken
            alive.cancel()
            await self._exchange(self._endpoint.compose())

    async def _exchange(self, message: wire.WorkerMessage) -> None:
        bodies = encode_worker_message(self._endpoint, message)
        asyncio.get_running_loop().call_soon(self._endpoint.settle_refused)
        for body in bodies:
            status, answer = await self._pool.request("POST", self._path, body, HOLD_SECONDS + ANSWER_GRACE_SECONDS)
            if status != 200:
                error = error_in(status, answer)
                if isinstance(error, NotFound) and message.hello is not None and str(error).startswith("namespace "):
                    raise _HiddenNamespace(str(error), code=error.code)
                if isinstance(error, NotFound):  # a restarted engine has lost the session: connect again
                    raise Unavailable(str(error), code=error.code)
                raise error
            self._endpoint.receive(decode_engine_message(answer))
            self._note_message()


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
