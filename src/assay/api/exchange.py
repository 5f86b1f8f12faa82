"""The engine's end of the worker protocol over its two carriers, POST and WebSocket, for all workers of the SDK."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final, Protocol

from assay.api.access import may_act, require_queue
from assay.api.sessions import WorkerSession
from assay.auth.permissions import UNRESTRICTED, Principal
from assay.core.model.errors import AssayError, Invalid, NotFound, Refused, Unavailable
from assay.core.model.ids import SECOND, Time
from assay.core.model.options import check_concurrency, check_id
from assay.engine.engine import Engine
from assay.engine.worker_registry import WorkerRegistry, WorkerRow
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_worker_message
from assay.worker_protocol.problems import problem_of
from assay.worker_protocol.tokens import SealedLeases, Tokens

log = logging.getLogger("assay.exchange")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
MESSAGE_SOCKET: Final = "assay.message_socket"
"""The extension of the ASGI scope with the server's `MessageSocket`."""
FORGET_AFTER_SECONDS: Final = 60.0
"""A worker's session is dropped after this time without a message. Reports repeated later are decided again."""
SWEEP_INTERVAL: Final[Time] = SECOND
HEARTBEAT_INTERVAL_SECONDS: Final = 5.0
"""The time between two heartbeats that the registry receives for a connected worker."""
GOING_AWAY: Final = 1012
WRONG_DATA: Final = 1007


class MessageSocket(Protocol):
    """A WebSocket that passes whole messages directly, without the extra loop iterations of ASGI."""

    def listen(self, receive: Callable[[bytes], bool]) -> None:
        """Call `receive` with each message until it returns False; that message and later messages go through ASGI."""
        ...

    def can_send(self) -> bool:
        """Return whether the socket is open and the peer reads."""
        ...

    def send_message(self, body: bytes) -> None:
        """Send a message."""
        ...

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """Call `resumed` whenever the socket can send again."""
        ...


class Exchange:
    """The sessions of all SDK workers that this engine serves."""

    def __init__(self, engine: Engine, tokens: Tokens, worker_registry: WorkerRegistry) -> None:
        self._engine = engine
        self._tokens = tokens
        self._worker_registry = worker_registry
        self._sessions: dict[tuple[str, str], WorkerSession] = {}
        self._senders: dict[WorkerSession, Sender] = {}
        self._awake: list[Sender] = []
        self.draining = False
        engine.on_replies(self._send_all)

    def drain(self) -> None:
        """Disconnect all workers: held requests get an empty response, and the workers try the next engine."""
        self.draining = True
        for session in self._sessions.values():
            session.endpoint.disconnect()
            session.endpoint.outgoing.wakeup.set()

    async def run_once(self) -> Time | None:
        """Disconnect silent workers, and drop the sessions of workers that stay silent."""
        now = asyncio.get_running_loop().time()
        for key, session in tuple(self._sessions.items()):
            silent = now - session.received_at
            if silent > wire.SILENCE_SECONDS:
                session.endpoint.disconnect()
            elif now - session.shown_at > HEARTBEAT_INTERVAL_SECONDS:
                session.shown_at = now
                self._worker_registry.note_heartbeat(session.endpoint.worker)
            if silent > FORGET_AFTER_SECONDS:
                del self._sessions[key]
                session.forgotten = True
                session.endpoint.outgoing.wakeup.set()
        return self._engine.now() + (SWEEP_INTERVAL if self._sessions else 5 * SWEEP_INTERVAL)

    def _session(self, namespace: str, worker: str, message: wire.WorkerMessage) -> WorkerSession:
        key = namespace, worker
        session = self._sessions.get(key)
        if session is None:
            if message.hello is None:
                raise NotFound(f"worker {worker} has not sent a hello to this engine", code="unknown_worker")
            session = self._sessions[key] = WorkerSession(self._engine, SealedLeases(self._tokens), namespace, worker)
        return session

    async def _receive(
        self, namespace: str, worker: str, message: wire.WorkerMessage, principal: Principal
    ) -> WorkerSession:
        """Process a message and return the session of its worker; raise `Refused` for a repeated or outdated message.

        A worker that receives this error has lost a response, and sends a hello.
        """
        if self.draining:
            raise Unavailable("the engine is stopping", code="engine_stopped")
        hello = message.hello
        row = None if hello is None else _row(namespace, worker, hello)
        if hello is not None:
            require_queue(principal, hello.queue, namespace)
        session = self._session(namespace, worker, message)
        if not session.endpoint.accepts(message):
            raise Refused("this message was received before, or is outdated", code="old_message")
        session.endpoint.may_act = may_act(principal)
        if hello is not None and row is not None:
            await self._greet(session, hello, row)
        session.receive(message)
        return session

    async def _greet(self, session: WorkerSession, hello: wire.Hello, row: WorkerRow) -> None:
        """Begin a connection. Hellos of a worker are processed in sequence, and the last connection counts."""
        async with session.hello_lock:
            former = self._senders.pop(session, None)
            if former is not None:
                former.cancel()  # the old connection may be dead without having been closed
            await self._worker_registry.introduce(row)
            await session.greet(hello)

    # POST

    async def post(
        self,
        namespace: str,
        worker: str,
        body: bytes,
        gone: "asyncio.Future[None]",
        principal: Principal = UNRESTRICTED,
    ) -> bytes:
        """Return the response to a message; hold the request while the response is empty, at most for `wait_secs`.

        The response is empty if the caller is `gone` or the worker has sent another hello: leases in it would be lost.
        """
        message = decode_worker_message(body, careful=True)
        session = await self._receive(namespace, worker, message, principal)
        endpoint = session.endpoint
        hello = endpoint.hellos
        await self._hold(session, message, gone)
        if gone.done() or endpoint.hellos != hello:
            return wire.encode(wire.EngineMessage(time=self._engine.now()))
        session.received_at = asyncio.get_running_loop().time()
        answer = wire.encode(endpoint.outgoing.compose())
        endpoint.outgoing.sent()
        return answer

    async def _hold(self, session: WorkerSession, message: wire.WorkerMessage, gone: "asyncio.Future[None]") -> None:
        """Wait until the next message is not empty; after reports, until all reports are answered."""
        endpoint, loop = session.endpoint, asyncio.get_running_loop()
        hello, wakeup = endpoint.hellos, endpoint.outgoing.wakeup
        end = loop.time() + min(max(message.wait_secs, 0.0), wire.MAX_WAIT_SECONDS)
        while not (self.draining or wakeup.is_set or gone.done() or endpoint.hellos != hello):
            left = None if message.reports else end - loop.time()
            if (left is not None and left <= 0) or (message.reports and not endpoint.has_pending(message.reports)):
                return
            woken: asyncio.Future[None] = loop.create_future()
            wakeup.resolve(woken)
            await asyncio.wait((woken, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()

    # WebSocket

    async def websocket(
        self,
        namespace: str,
        worker: str,
        receive: Receive,
        send: Send,
        socket: MessageSocket,
        principal: Principal = UNRESTRICTED,
    ) -> None:
        """Serve a WebSocket of a worker, from the handshake to the end."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        session: WorkerSession | None = None
        sender: Sender | None = None
        try:
            while (body := await _next(receive)) is not None:
                message = decode_worker_message(body)
                if sender is None and message.hello is None:
                    raise NotFound("a worker's first message is a hello", code="unknown_worker")
                session = await self._receive(namespace, worker, message, principal)
                if message.hello is not None:
                    sender = self._senders[session] = Sender(self, session, socket, send)
                _reply_to_keep_alive(session, message)
                socket.listen(partial(self._receive_at_once, session))
        except AssayError as error:
            await _refuse(send, error)
        finally:
            if session is not None and sender is not None:
                self._detach(session, sender)

    def _receive_at_once(self, session: WorkerSession, body: bytes) -> bool:
        """Process a message that needs no waiting; return False, without any effect, for other messages.

        Fast path: the server calls this function directly, without an iteration of the loop.
        """
        try:
            message = decode_worker_message(body)
        except AssayError:
            return False
        if message.hello is not None or self.draining or session.forgotten or not session.endpoint.accepts(message):
            return False
        session.receive(message)
        _reply_to_keep_alive(session, message)
        return True

    def wake(self, sender: "Sender") -> None:
        """Send after the last reply of the current commit, or at the end of this loop iteration, to batch messages."""
        if not (self._awake or self._engine.replying):
            asyncio.get_running_loop().call_soon(self._send_all)
        self._awake.append(sender)

    def _send_all(self) -> None:
        senders, self._awake = self._awake, []
        for sender in senders:
            sender.send()

    def _detach(self, session: WorkerSession, sender: "Sender") -> None:
        sender.cancel()
        if self._senders.get(session) is sender:  # otherwise the worker has opened another connection
            del self._senders[session]
            session.endpoint.disconnect()


class Sender:
    """Sends the messages of a session on a WebSocket."""

    def __init__(self, exchange: Exchange, session: WorkerSession, socket: MessageSocket, send: Send) -> None:
        self._exchange = exchange
        self._session = session
        self._socket = socket
        self._send = send
        self._over = False
        self._closing: asyncio.Task[None] | None = None
        wakeup = session.endpoint.outgoing.wakeup
        wakeup.wake = self._wake
        socket.when_resumed(self._wake)
        wakeup.set()
        self._wake()  # send the answers that have waited for a connection

    def _wake(self) -> None:
        self._exchange.wake(self)

    def send(self) -> None:
        """Send the next message if it is not empty and the socket can send."""
        outgoing = self._session.endpoint.outgoing
        if self._over or not outgoing.wakeup.is_set:
            return
        # Close actively: a machine without power never closes its connection.
        if self._exchange.draining or self._session.forgotten:
            self._over = True
            self._closing = asyncio.get_running_loop().create_task(_close(self._send, GOING_AWAY))
        elif self._socket.can_send():
            self._socket.send_message(wire.encode(outgoing.compose()))
            outgoing.sent()

    def cancel(self) -> None:
        """Stop sending on this connection."""
        self._over = True


def _reply_to_keep_alive(session: WorkerSession, message: wire.WorkerMessage) -> None:
    """Answer a message without reports at once: the worker needs the engine's time and a sign of life."""
    if not message.reports:
        session.endpoint.outgoing.wakeup.set()


def _row(namespace: str, worker: str, hello: wire.Hello) -> WorkerRow:
    """Return the registration of a worker; raise `Invalid` for a hello with impossible values."""
    if hello.namespace != namespace:
        raise Invalid("the namespace of the hello differs from the namespace of the address", field="hello.namespace")
    return WorkerRow(
        id=check_id(worker, "worker_id"),
        namespace=hello.namespace,
        identity=hello.identity,
        task_queue=hello.queue,
        workflows=hello.workflows,
        activities=hello.activities,
        max_concurrent_workflows=check_concurrency(hello.max_concurrent_workflows, "max_concurrent_workflows"),
        max_concurrent_activities=check_concurrency(hello.max_concurrent_activities, "max_concurrent_activities"),
        registered_at=0,
        last_heartbeat=0,
    )


async def _next(receive: Receive) -> bytes | None:
    message = await receive()
    if message["type"] != "websocket.receive":
        return None
    body = message.get("bytes")
    if body is None:
        body = message["text"].encode()
    found: bytes = body
    return found


async def _refuse(send: Send, error: AssayError) -> None:
    """Send the reason and close the connection; ignore errors of a connection that is closed already."""
    message = wire.EngineMessage(time=0, problem=problem_of(error))
    code = GOING_AWAY if isinstance(error, Unavailable) else WRONG_DATA
    with contextlib.suppress(Exception):
        await send({"type": "websocket.send", "bytes": wire.encode(message)})
    await _close(send, code)


async def _close(send: Send, code: int) -> None:
    with contextlib.suppress(Exception):
        await send({"type": "websocket.close", "code": code})
