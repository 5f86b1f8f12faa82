"""The engine's end of the exchange, on a real store and without a network."""

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.api import exchange as exchanges
from assay.api.exchange import Exchange
from assay.api.sessions import WorkerSession
from assay.core.model.commands import FailWorkflow, WaitForSignal
from assay.core.model.events import Recorded
from assay.core.model.ids import Namespace, RunId, WorkerId, WorkflowId
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import LeaseTask, ReleaseTask, Request, StartWorkflow
from assay.engine.clock import SystemClock
from assay.engine.dispatch import task_grant
from assay.engine.engine import Engine
from assay.engine.token_key import read_token_key
from assay.engine.worker_registry import WorkerRegistry
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite.store import SqliteStore
from assay.worker_protocol import messages as wire
from assay.worker_protocol.decode import decode_engine_message
from assay.worker_protocol.tokens import SealedLeases, Tokens

WORKER = WorkerId("w-1")


@asynccontextmanager
async def engine_in(folder: Path) -> AsyncIterator[tuple[Engine, Exchange, Tokens]]:
    clock = SystemClock()
    store = SqliteStore(folder / "engine.db", clock=clock.now)
    engine = Engine(store, clock)
    await engine.start()
    registry = SqlRegistry(store)
    tokens = Tokens(await read_token_key(registry))
    try:
        yield engine, Exchange(engine, tokens, WorkerRegistry(registry, store, clock)), tokens
    finally:
        await engine.stop()


class Wire:
    """One WebSocket as an application sees it."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._said: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._said.put_nowait({"type": "websocket.connect"})

    def deliver(self, **fields: Any) -> None:
        self._said.put_nowait({"type": "websocket.receive", "bytes": wire.encode(wire.WorkerMessage(**fields))})

    def hang_up(self) -> None:
        self._said.put_nowait({"type": "websocket.disconnect"})

    async def receive(self) -> MutableMapping[str, Any]:
        return await self._said.get()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.received.put_nowait(message)

    # its short way

    def listen(self, receive: Callable[[bytes], bool]) -> None:
        self.receive_at_once = receive

    def can_send(self) -> bool:
        return True

    def send_message(self, body: bytes) -> None:
        self.received.put_nowait({"type": "websocket.send", "bytes": body})

    def when_resumed(self, resumed: Callable[[], None]) -> None:
        self.resumed = resumed


def test_a_worker_that_never_hangs_up_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "FORGET_AFTER_SECONDS", 0.0)

    async def main() -> None:
        async with engine_in(tmp_path) as (_, exchange, _tokens):
            line = Wire()
            talking = asyncio.create_task(exchange.websocket("main", WORKER, line.receive, line.send, line))
            line.deliver(hello=wire.Hello(queue="default"))
            assert (await line.received.get())["type"] == "websocket.accept"
            assert (await line.received.get())["type"] == "websocket.send"
            await exchange.run_once()
            assert (await line.received.get())["type"] == "websocket.close"
            line.hang_up()
            await talking

    asyncio.run(main())


def test_a_task_that_is_being_read_when_its_worker_returns_is_sent_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine_in(tmp_path) as (engine, _, tokens):
            run_id = await started(engine)
            session = WorkerSession(engine, SealedLeases(tokens), "main", WORKER)
            await session.greet(wire.Hello(queue="elsewhere"))
            await engine.submit(LeaseTask(run_id, WORKER, session.endpoint.lease, local=False))
            run = engine.reads.live(run_id)
            assert run is not None
            gate = slow_reads(engine)
            session.endpoint._send_task(task_grant(run))
            await asyncio.sleep(0)
            await session.greet(wire.Hello(queue="elsewhere", again=True))
            gate.set()
            await asyncio.gather(*session._reading)
            composed = session.endpoint.outgoing.compose()
            assert [task.run_id for task in composed.tasks] == [run_id]

    asyncio.run(main())


def test_what_is_given_back_as_its_worker_returns_is_not_sent_to_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine_in(tmp_path) as (engine, _, tokens):
            await started(engine)
            slow_releases(engine)
            session = WorkerSession(engine, SealedLeases(tokens), "main", WORKER)
            hello = wire.Hello(queue="default", free_tasks=1)
            await session.greet(hello)  # a lease is asked for, and not decided yet
            hello.again = True
            await session.greet(hello)
            composed = await next_message(session)
            assert [task.epoch for task in composed.tasks] == [
                lease.fence for lease in await engine._store.leases(WORKER)
            ]

    asyncio.run(main())


def test_an_extension_that_comes_too_late_does_not_bring_the_task_again(tmp_path: Path) -> None:
    """The worker has it: a turn that went before has renewed the lease."""

    async def main() -> None:
        async with engine_in(tmp_path) as (engine, _, tokens):
            run_id = await started(engine)
            session = WorkerSession(engine, SealedLeases(tokens), "main", WORKER)
            await session.greet(wire.Hello(queue="default", free_tasks=1))
            (task,) = (await next_message(session)).tasks
            turn = wire.AdvanceReport(1, task.token, seen_seq=1, pending=True)
            session.receive(wire.WorkerMessage(reports=(turn, wire.ExtendTaskReport(2, task.token))))
            await engine._committer.drain()
            await asyncio.gather(*session._reading)
            composed = session.endpoint.outgoing.compose()
            assert [answer.problem and answer.problem.code for answer in composed.answers] == [None, "stale_task"]
            assert composed.tasks == []
            assert [lease.run_id for lease in await engine._store.leases(WORKER)] == [run_id]

    asyncio.run(main())


def test_a_report_is_answered_whatever_goes_wrong_in_reading(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine_in(tmp_path) as (engine, exchange, _):
            await started(engine)
            gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            hello = wire.WorkerMessage(hello=wire.Hello(queue="default", free_tasks=1), wait_secs=20)
            greeting = decode_engine_message(await exchange.post("main", WORKER, wire.encode(hello), gone))

            async def broken(*_: object) -> Sequence[Recorded]:
                raise ZeroDivisionError("nobody thought of this")

            engine._store.events = broken  # type: ignore[method-assign, assignment]
            report = wire.WorkerMessage(reports=(wire.ReadHistory(1, greeting.tasks[0].token),))
            async with asyncio.timeout(10):
                composed = decode_engine_message(await exchange.post("main", WORKER, wire.encode(report), gone))
            problem = composed.answers[0].problem
            assert problem is not None
            assert (composed.answers[0].n, problem.code, problem.kind) == (1, "unanswered", "UNAVAILABLE")

    asyncio.run(main())


async def next_message(session: WorkerSession) -> wire.EngineMessage:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    session.endpoint.outgoing.wakeup.resolve(ready)
    async with asyncio.timeout(10):
        await ready
    return session.endpoint.outgoing.compose()


def slow_releases(engine: Engine) -> None:
    """What is given back is decided a while later, as by an engine that has much to do."""
    post = engine._committer.post

    def slowly(request: Request, callback: ReplyCallback | None = None) -> None:
        if isinstance(request, ReleaseTask):
            asyncio.get_running_loop().call_later(0.05, post, request, callback)
        else:
            post(request, callback)

    engine._committer.post = slowly  # type: ignore[method-assign]


async def started(engine: Engine) -> RunId:
    request = StartWorkflow(namespace=Namespace("main"), workflow_id=WorkflowId("w"), workflow_type="W")
    reply = await engine.submit(request)
    return reply.key.run_id


def slow_reads(engine: Engine) -> asyncio.Event:
    """Histories are read when the gate is opened, and not before."""
    gate, read = asyncio.Event(), engine._store.events

    async def events(run_id: RunId, after: int = 0, limit: int = 10_000) -> Sequence[Recorded]:
        await gate.wait()
        return await read(run_id, after, limit)

    engine._store.events = events  # type: ignore[method-assign, assignment]
    return gate


def test_a_report_that_makes_no_sense_is_refused_and_its_neighbour_is_not(tmp_path: Path) -> None:
    """A run that cannot advance blocks no other work, also over POST; its worker can still report its end."""

    async def main() -> None:
        async with engine_in(tmp_path) as (engine, exchange, _):
            for name in ("bad", "good"):
                await engine.submit(
                    StartWorkflow(namespace=Namespace("main"), workflow_id=WorkflowId(name), workflow_type="T")
                )
            never = asyncio.get_running_loop().create_future()

            async def post(**fields: Any) -> wire.EngineMessage:
                body = wire.encode(wire.WorkerMessage(**fields))
                return decode_engine_message(await exchange.post("main", WORKER, body, never))

            message = await post(hello=wire.Hello(queue="default", free_tasks=5))
            tokens = {task.workflow_id: task.token for task in message.tasks}
            while len(tokens) < 2:
                tokens |= {task.workflow_id: task.token for task in (await post(wait_secs=5)).tasks}
            odd: Any = 5
            bad = wire.AdvanceReport(1, tokens["bad"], 1, (WaitForSignal(odd),))
            message = await post(reports=(bad, closing(2, tokens["good"])))
            received = {one.n: one for one in message.answers}
            while len(received) < 2:
                received |= {one.n: one for one in (await post(wait_secs=5)).answers}
            problem = received[1].problem
            assert problem is not None
            assert (problem.kind, problem.code) == ("INVALID", "wrong_shape")
            assert received[2].advanced is not None
            assert received[2].advanced.closed
            (answer,) = (await post(reports=(closing(3, tokens["bad"]),))).answers
            assert answer.advanced is not None
            assert answer.advanced.closed

    asyncio.run(main())


def closing(n: int, token: str) -> wire.AdvanceReport:
    return wire.AdvanceReport(n, token, 1, (FailWorkflow("it cannot go on"),))
