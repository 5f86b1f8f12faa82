"""Machines that run an engine or a worker; a process may die on them at any moment and another be started."""

import asyncio
from typing import TYPE_CHECKING, Any

from assay.core.model.errors import AssayError, Unavailable
from assay.core.model.ids import SECOND, Time
from assay.core.model.requests import Request
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.commit.idempotency import IdempotencyKey
from assay.engine.engine import Engine
from assay.engine.ids import BlockIds
from assay.sdk.app import App
from assay.sdk.client.transport import Transport
from assay.sdk.values.converter import Converter
from assay.sdk.worker.engine_worker import EngineWorker
from simulation.loop import Node
from simulation.remote_workers import WorkerDoor
from simulation.settings import chance_of
from simulation.shown import shown
from simulation.store import EPOCH, SimStore
from simulation.transports import LocalTransport, RemoteTransport

if TYPE_CHECKING:
    from simulation.world import World

LEASE: Time = 10 * SECOND


class SimulatedClient:
    """What a worker needs of a client (see `Connected`)."""

    def __init__(self, transport: Transport, app: App) -> None:
        self.transport = transport
        self.converter = Converter()
        self.namespace = "main"
        self.app = app


class EngineHost:
    """An engine with the workers inside its process."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"engine-{number}"
        self.node = Node(self.name)
        self.engine: Engine | None = None
        self.workers: list[tuple[EngineWorker, asyncio.Task[None]]] = []
        self._door: WorkerDoor | None = None
        self._world = world
        self._boots = 0
        self.booted: Time = 0
        self.skew: Time = 0
        """How far the wall clock of this machine is off; steps change it."""
        self.resumed: Time = 0
        """When it went on after it had stood still for longer than an engine may without noticing."""

    def boot(self) -> None:
        """Start a process; a supervisor does so again whenever one has died."""
        self._boots += 1
        self.booted = self._world.loop.now
        self._world.ledger.boots += 1
        self.node = Node(f"{self.name}.{self._boots}")
        self.engine = None
        self.workers = []
        self._door = None
        self._world.loop.spawn(self.node, self._run())

    async def _run(self) -> None:
        world, settings, node = self._world, self._world.settings, self.node
        chance = chance_of(settings.seed, node.name)
        # An engine that starts takes the wall clock for right.
        self.skew = int(chance.uniform(-3, 3) * SECOND) if settings.has("clock") else 0
        clock = self._clock()
        store = SimStore(world.database, node, world.loop, world.trouble, self.crash, inline=settings.inline)
        ids = BlockIds(clock, chance)
        engine = Engine(
            store,
            clock,
            ids=ids,
            cache_limit=settings.engine_cache,
            cache_bytes=settings.engine_cache_bytes,
            ready_page=settings.ready_page,
        )
        engine.on_commit(lambda _: world.checks.published(engine))
        try:
            await engine.start()
        except AssayError as error:
            world.ledger.note(world.loop.now, f"{node} cannot start: {error}")
            self.crash()
            return
        self.engine = engine
        self._door = door = WorkerDoor(engine, self)
        lease = LEASE if settings.shared else None
        for _ in range(settings.local_workers):
            worker = world.worker(LocalTransport(engine, self.noted, lease))
            self.workers.append((worker, world.loop.create_task(worker.run())))
        await door.watch()

    def _clock(self) -> Clock:
        """Make a real clock on simulated readings; the boot clock goes on while the process is paused."""
        kind = SharedClock if self._world.settings.shared else SystemClock
        return kind(lambda: self._world.loop.now * 1_000, lambda: EPOCH + self._world.loop.now + self.skew)

    def running(self) -> Engine:
        """The engine, or `Unavailable` while it starts."""
        if self.engine is None:
            raise Unavailable("the engine is starting", code="starting")
        return self.engine

    def submit(self, request: Request, key: IdempotencyKey | None = None) -> "asyncio.Future[Any]":
        """Have a request decided, and write down what the engine says."""
        answer = self.running().submit(request, key)
        answer.add_done_callback(lambda done: self._heard(request, done))
        return answer

    def _heard(self, request: Request, answer: "asyncio.Future[Any]") -> None:
        if not answer.cancelled():
            error = answer.exception()
            self.noted(request, answer.result() if error is None else None, error)

    def noted(self, request: Request, reply: Any, error: BaseException | None) -> None:
        """Write down what the engine said."""
        if error is None:
            self._world.ledger.answered(request, reply)
        elif isinstance(error, AssayError) and error.code in ("internal_error", "unanswered"):
            self._world.ledger.violate(f"bug: {shown(request)} -> {error}")
        if self._world.ledger.tracing:
            self._world.ledger.note(self._world.loop.now, f"{self.node} {shown(request)} -> {shown(error or reply)}")

    def exchange(self, worker: str, body: bytes) -> "asyncio.Future[Any]":
        """Answer a request of a worker in another process."""
        if self._door is None:
            raise Unavailable("the engine is starting", code="starting")
        return self._world.loop.create_task(self._door.post(worker, body))

    def crash(self) -> None:
        """Die, and be started again after a while."""
        if self.node.alive:
            self._world.bury(self.node, [worker for worker, _ in self.workers])
            self.engine = None
            self._world.later(self._world.restart_delay(), self.boot)

    def stop(self) -> None:
        """Be asked to end, as in a rolling restart."""
        if self.node.alive and self.engine is not None and not self.node.paused:
            self._world.loop.spawn(self.node, self._stop(self.engine))

    async def _stop(self, engine: Engine) -> None:
        for worker, _ in self.workers:
            worker.stop()
        await asyncio.gather(*(task for _, task in self.workers), return_exceptions=True)
        await engine.stop()
        self._world.checks.stopped([worker.worker for worker, _ in self.workers])
        self.crash()


class WorkerHost:
    """A worker in a process of its own."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"worker-{number}"
        self.node = Node(self.name)
        self.worker: EngineWorker | None = None
        self._world = world
        self._boots = 0
        self._number = number

    def boot(self) -> None:
        """Start a process."""
        self._boots += 1
        self.node = Node(f"{self.name}.{self._boots}")
        self._world.loop.spawn(self.node, self._run())

    async def _run(self) -> None:
        transport = RemoteTransport(self._world, self, LEASE, first=self._number)
        self.worker = self._world.worker(transport)
        await self.worker.run()
        await transport.close()
        self.crash()

    def crash(self) -> None:
        """Die, and be started again after a while."""
        if self.node.alive:
            self._world.bury(self.node, [] if self.worker is None else [self.worker])
            self._world.later(self._world.restart_delay(), self.boot)

    def stop(self) -> None:
        """Be asked to end."""
        if self.node.alive and self.worker is not None and not self.node.paused:
            self.worker.stop()
