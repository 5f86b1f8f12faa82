"""The batched exchange with workers of our SDK, over its two carriers: POST and WebSocket (design section 6, R37)."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, Final, Protocol

from assay.api.hearing import read
from assay.api.reports import problem_of
from assay.api.sessions import Session
from assay.core.errors import AssayError, Invalid, NotFound, Refused, Unavailable
from assay.core.ids import SECOND, Time
from assay.core.options import check_concurrency, check_id
from assay.engine.engine import Engine
from assay.engine.roster import Roster, WorkerRow
from assay.engine.tokens import Tokens
from assay.wire import exchange as wire

log = logging.getLogger("assay.exchange")

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
LINE: Final = "assay.line"
"""Where a server puts the `Line` of a connection, among the extensions of its scope."""
FORGET: Final = 60.0
"""Seconds without a word after which a worker's session is forgotten; what it repeats then is decided anew."""
SWEEP: Final[Time] = SECOND
SIGN: Final = 5.0
"""Seconds between two signs of life of a connected worker that the roster hears of and shows."""
GOING_AWAY: Final = 1012
WRONG_DATA: Final = 1007


class Line(Protocol):
    """A WebSocket on which whole messages come and go at once; those of ASGI need turns of the loop."""

    def listen(self, hear: Callable[[bytes], bool]) -> None:
        """Have messages handed over as they come, until one is not taken: that and what follows is to be received."""
        ...

    def can_say(self) -> bool:
        """Is it open, and does the other side take what it is told?"""
        ...

    def say(self, body: bytes) -> None:
        """Send a message."""
        ...

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        """Call back whenever a line that could not be spoken on can be again."""
        ...


class Exchange:
    """All workers of our SDK that this engine serves."""

    def __init__(self, engine: Engine, tokens: Tokens, roster: Roster) -> None:
        self._engine = engine
        self._tokens = tokens
        self._roster = roster
        self._sessions: dict[tuple[str, str], Session] = {}
        self._speakers: dict[Session, Speaker] = {}
        self._awake: list[Speaker] = []
        self.draining = False
        engine.on_replies(self._say_all)

    def drain(self) -> None:
        """Let go of all workers: those who wait get an empty answer, and turn to the next engine."""
        self.draining = True
        for session in self._sessions.values():
            session.leave()
            session.orders.ready.ring()

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
                session.orders.ready.ring()
        return self._engine.now() + SWEEP if self._sessions else self._engine.now() + 5 * SWEEP

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
        if self.draining:
            raise Unavailable("the engine is stopping", code="engine_stopped")
        hello = message.hello
        row = None if hello is None else _row(namespace, worker, hello)
        session = self._session(namespace, worker, message)
        if not session.is_new(message):
            raise Refused("this message came before, or too late", code="old_message")
        if hello is not None and row is not None:
            await self._greet(session, hello, row)
        session.hear(message)
        return session

    async def _greet(self, session: Session, hello: wire.Hello, row: WorkerRow) -> None:
        """One greeting of a worker at a time: of several connections the last one counts."""
        async with session.greeting:
            former = self._speakers.pop(session, None)
            if former is not None:
                former.cancel()  # its connection may not know yet that it is dead
            await self._roster.introduce(row)
            await session.greet(hello)

    # POST

    async def post(self, namespace: str, worker: str, body: bytes, gone: "asyncio.Future[None]") -> bytes:
        """One message for one message; held while there is nothing to say, but not longer than the worker said.

        A caller that is `gone`, or whose worker has said hello again meanwhile, takes nothing away with it.
        """
        message = read(body, careful=True)
        session = await self._hear(namespace, worker, message)
        greeting = session.greetings
        await self._hold(session, message, gone)
        if gone.done() or session.greetings != greeting:
            return wire.encode(wire.EngineMessage(time=self._engine.now()))
        session.heard = asyncio.get_running_loop().time()
        answer = session.orders.collect()
        session.orders.done()
        return answer

    async def _hold(self, session: Session, message: wire.WorkerMessage, gone: "asyncio.Future[None]") -> None:
        """Until there is something to say: to a worker that reports, its answers; to one that waits, anything."""
        loop, greeting, ready = asyncio.get_running_loop(), session.greetings, session.orders.ready
        end = loop.time() + min(max(message.wait_secs, 0.0), wire.LONGEST_WAIT)
        while not (self.draining or ready.is_set() or gone.done() or session.greetings != greeting):
            left = None if message.reports else end - loop.time()
            if (left is not None and left <= 0) or (message.reports and not session.unanswered(message.reports)):
                return
            waiting = loop.create_task(ready.wait())
            await asyncio.wait((waiting, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    # WebSocket

    async def websocket(self, namespace: str, worker: str, receive: Receive, send: Send, line: Line) -> None:
        """A connection of a worker, from its acceptance to its end."""
        if (await receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept"})
        session: Session | None = None
        speaker: Speaker | None = None
        try:
            while (body := await _next(receive)) is not None:
                message = read(body)
                if speaker is None and message.hello is None:
                    raise NotFound("a worker's first message is a hello", code="unknown_worker")
                session = await self._hear(namespace, worker, message)
                if message.hello is not None:
                    speaker = self._speakers[session] = Speaker(self, session, line, send)
                _live(session, message)
                line.listen(partial(self._hear_at_once, session))
        except AssayError as error:
            await _refuse(send, error)
        finally:
            if session is not None and speaker is not None:
                self._detach(session, speaker)

    def _hear_at_once(self, session: Session, body: bytes) -> bool:
        """Hear what needs no waiting and no answer of its own; False for all else, of which nothing was heard yet."""
        try:
            message = read(body)
        except AssayError:
            return False
        if message.hello is not None or self.draining or session.forgotten or not session.is_new(message):
            return False
        session.hear(message)
        _live(session, message)
        return True

    def wake(self, speaker: "Speaker") -> None:
        """Let it say what there is: with all others that a commit has answers for, or at the end of this turn."""
        if not (self._awake or self._engine.replying):
            asyncio.get_running_loop().call_soon(self._say_all)
        self._awake.append(speaker)

    def _say_all(self) -> None:
        speakers, self._awake = self._awake, []
        for speaker in speakers:
            speaker.say()

    def _detach(self, session: Session, speaker: "Speaker") -> None:
        speaker.cancel()
        if self._speakers.get(session) is speaker:  # else the worker has come back on another connection
            del self._speakers[session]
            session.leave()


class Speaker:
    """Says on one connection what waits to be told."""

    def __init__(self, exchange: Exchange, session: Session, line: Line, send: Send) -> None:
        self._exchange = exchange
        self._session = session
        self._line = line
        self._send = send
        self._over = False
        self._closing: asyncio.Task[None] | None = None
        session.orders.ready.wake = self._wake
        line.when_resumed(self._wake)
        session.orders.ready.ring()
        self._wake()  # what has waited for a connection is told on this one

    def _wake(self) -> None:
        self._exchange.wake(self)

    def say(self) -> None:
        """Say it, if there is anything and somebody takes it."""
        orders = self._session.orders
        if self._over or not orders.ready.is_set():
            return
        if self._exchange.draining or self._session.forgotten:  # a machine without power never hangs up by itself
            self._over = True
            self._closing = asyncio.get_running_loop().create_task(_close(self._send, GOING_AWAY))
        elif self._line.can_say():
            self._line.say(orders.collect())
            orders.done()

    def cancel(self) -> None:
        """Say no more on this connection."""
        self._over = True


def _live(session: Session, message: wire.WorkerMessage) -> None:
    """A sign of life gets one back, and the time."""
    if not message.reports:
        session.orders.ready.ring()


def _row(namespace: str, worker: str, hello: wire.Hello) -> WorkerRow:
    """The worker as the roster has it; `Invalid` for a hello that nobody can mean."""
    if hello.namespace != namespace:
        raise Invalid("the namespace of the hello is not that of the address", field="hello.namespace")
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
    """Say why before hanging up; a worker that has gone already need not know."""
    message = wire.EngineMessage(time=0, problem=problem_of(error))
    code = GOING_AWAY if isinstance(error, Unavailable) else WRONG_DATA
    with contextlib.suppress(Exception):
        await send({"type": "websocket.send", "bytes": wire.encode(message)})
    await _close(send, code)


async def _close(send: Send, code: int) -> None:
    with contextlib.suppress(Exception):
        await send({"type": "websocket.close", "code": code})
