"""The batched exchange with workers of our SDK, over its two carriers: POST and WebSocket (design section 6, R37)."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import msgspec

from assay.api.reports import problem_of
from assay.api.sessions import Session
from assay.core.errors import AssayError, Invalid, NotFound, Refused, Unavailable
from assay.core.ids import SECOND, Time
from assay.core.options import check_id
from assay.core.payload import parsed
from assay.engine.engine import Engine
from assay.engine.roster import Roster, WorkerRow
from assay.engine.tokens import Tokens
from assay.wire import exchange as wire

log = logging.getLogger("assay.exchange")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
FORGET: Final = 60.0
"""Seconds without a word after which a worker's session is forgotten; what it repeats then is decided anew."""
SWEEP: Final[Time] = SECOND
SIGN: Final = 45.0
"""Seconds between two signs of life of a connected worker that the roster hears of: silence of 90 hides a worker."""
GOING_AWAY: Final = 1012
WRONG_DATA: Final = 1007


class Exchange:
    """All workers of our SDK that this engine serves."""

    def __init__(self, engine: Engine, tokens: Tokens, roster: Roster) -> None:
        self._engine = engine
        self._tokens = tokens
        self._roster = roster
        self._sessions: dict[tuple[str, str], Session] = {}
        self._writers: dict[Session, asyncio.Task[None]] = {}
        self._draining = False

    def drain(self) -> None:
        """Let go of all workers: those who wait get an empty answer, and turn to the next engine."""
        self._draining = True
        for session in self._sessions.values():
            session.leave()
            session.orders.ready.set()

    async def run_once(self) -> Time | None:
        """Give no more work to workers that have fallen silent; forget those that stay so."""
        now = asyncio.get_running_loop().time()
        for key, session in tuple(self._sessions.items()):
            silent = now - session.heard
            if silent > wire.SILENCE:
                session.leave()
            elif now - session.signed > SIGN:
                session.signed = now
                self._roster.heard(session.worker)
            if silent > FORGET:
                del self._sessions[key]
                session.forgotten = True
                session.orders.ready.set()
        return self._engine.clock.now() + SWEEP if self._sessions else self._engine.clock.now() + 5 * SWEEP

    def _session(self, namespace: str, worker: str, message: wire.WorkerMessage) -> Session:
        key = namespace, worker
        session = self._sessions.get(key)
        if session is None:
            if message.hello is None:
                raise NotFound(f"worker {worker} has not introduced itself here", code="unknown_worker")
            session = self._sessions[key] = Session(self._engine, self._tokens, namespace, worker)
        return session

    async def _hear(self, namespace: str, worker: str, message: wire.WorkerMessage) -> Session:
        """The session of a worker after it was told this; `Refused` for what is no news.

        A worker that hears of such a refusal has lost an answer, and says hello.
        """
        if self._draining:
            raise Unavailable("the engine is stopping", code="engine_stopped")
        session = self._session(namespace, worker, message)
        if not session.is_new(message):
            raise Refused("this message came before, or too late", code="old_message")
        if message.hello is not None:
            await self._greet(session, message.hello)
        session.hear(message)
        return session

    async def _greet(self, session: Session, hello: wire.Hello) -> None:
        """One greeting of a worker at a time: of several connections the last one counts."""
        if hello.namespace != session.namespace:
            raise Invalid("the namespace of the hello is not that of the address", field="hello.namespace")
        async with session.greeting:
            former = self._writers.pop(session, None)
            if former is not None:
                former.cancel()  # its connection may not know yet that it is dead
            await self._roster.introduce(_row(session.worker, hello))
            await session.greet(hello)

    # POST

    async def post(self, namespace: str, worker: str, body: bytes, gone: "asyncio.Future[None]") -> bytes:
        """One message for one message; held while there is nothing to say, but not longer than the worker said.

        A caller that is `gone`, or whose worker has said hello again meanwhile, takes nothing away with it.
        """
        message = read(body)
        session = await self._hear(namespace, worker, message)
        greeting = session.greetings
        await self._hold(session, message, gone)
        if gone.done() or session.greetings != greeting:
            return wire.encode(wire.EngineMessage(time=self._engine.clock.now()))
        session.heard = asyncio.get_running_loop().time()
        answer = session.orders.collect()
        session.orders.done()
        return answer

    async def _hold(self, session: Session, message: wire.WorkerMessage, gone: "asyncio.Future[None]") -> None:
        """Until there is something to say: to a worker that reports, its answers; to one that waits, anything."""
        loop, greeting, ready = asyncio.get_running_loop(), session.greetings, session.orders.ready
        end = loop.time() + min(max(message.wait_secs, 0.0), wire.LONGEST_WAIT)
        while not (self._draining or ready.is_set() or gone.done() or session.greetings != greeting):
            left = None if message.reports else end - loop.time()
            if (left is not None and left <= 0) or (message.reports and not session.unanswered(message.reports)):
                return
            waiting = loop.create_task(ready.wait())
            await asyncio.wait((waiting, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    # WebSocket

    async def websocket(self, namespace: str, worker: str, receive: Receive, send: Send) -> None:
        """A connection of a worker, from its acceptance to its end."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        session: Session | None = None
        writer: asyncio.Task[None] | None = None
        try:
            while (body := await _next(receive)) is not None:
                message = read(body)
                if writer is None and message.hello is None:
                    raise NotFound("a worker's first message is a hello", code="unknown_worker")
                session = await self._hear(namespace, worker, message)
                if message.hello is not None:
                    writer = self._attach(session, send)
                elif not message.reports:
                    session.orders.ready.set()  # a sign of life gets one back, and the time
        except AssayError as error:
            await _refuse(send, error)
        finally:
            if session is not None and writer is not None:
                self._detach(session, writer)

    def _attach(self, session: Session, send: Send) -> "asyncio.Task[None]":
        """Make this connection the one that the worker is told on."""
        writer = self._writers[session] = asyncio.get_running_loop().create_task(self._write(session, send))
        return writer

    def _detach(self, session: Session, writer: "asyncio.Task[None]") -> None:
        writer.cancel()
        if self._writers.get(session) is writer:  # else the worker has come back on another connection
            del self._writers[session]
            session.leave()

    async def _write(self, session: Session, send: Send) -> None:
        orders = session.orders
        orders.ready.set()
        while True:
            await orders.ready.wait()
            if self._draining or session.forgotten:  # a machine that has lost its power never hangs up by itself
                await send({"type": "websocket.close", "code": GOING_AWAY})
                return
            await send({"type": "websocket.send", "bytes": orders.collect()})
            orders.done()


def _row(worker: str, hello: wire.Hello) -> WorkerRow:
    return WorkerRow(
        id=check_id(worker, "worker_id"),
        namespace=hello.namespace,
        identity=hello.identity,
        task_queue=hello.queue,
        workflows=hello.workflows,
        activities=hello.activities,
        max_concurrent_workflows=hello.max_concurrent_workflows,
        max_concurrent_activities=hello.max_concurrent_activities,
        registered_at=0,
        last_heartbeat=0,
    )


def read(body: bytes) -> wire.WorkerMessage:
    """A message, parsed as a whole: afterwards every document in it is known to be JSON.

    The limits of their shape are those of each document: a message of many is large and harmless.
    """
    parsed(body, limit=wire.MESSAGE_LIMIT, name="message")
    try:
        return wire.decode_from_worker(body)
    except msgspec.ValidationError as error:
        raise Invalid(f"the message is not one of a worker: {error}", code="wrong_shape") from None


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
    """Say why before hanging up; a worker that has gone already need not know."""
    message = wire.EngineMessage(time=0, problem=problem_of(error))
    code = GOING_AWAY if isinstance(error, Unavailable) else WRONG_DATA
    with contextlib.suppress(Exception):
        await send({"type": "websocket.send", "bytes": wire.encode(message)})
        await send({"type": "websocket.close", "code": code})
