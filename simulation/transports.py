"""The two ways from a worker to its engine: a call in the same process, and messages over the network."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from assay.core.model.errors import AssayError
from assay.core.model.events import Event, Recorded
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, RunKey, Time
from assay.core.model.replies import ReplyCallback
from assay.core.model.requests import Request, RetryFailed
from assay.engine.engine import Engine
from assay.sdk.client.transport import Transport
from assay.sdk.ports import ListedRuns
from assay.sdk.worker.engine_worker import EngineWorker
from simulation.remote_workers import Greeting, RemoteWorker
from simulation.settings import chance_of
from simulation.store import EPOCH

if TYPE_CHECKING:
    from simulation.hosts import EngineHost, WorkerHost
    from simulation.world import World

PAUSE = 1.0
"""Seconds between two greetings of a worker that has nothing to say."""


class _WorkersOnly(Transport):
    """The part of `Transport` that workers have no use for."""

    async def open(self) -> None:
        """See `Transport`: there is nothing to do."""

    async def close(self) -> None:
        """See `Transport`: there is nothing to do."""

    def _unused(self) -> NoReturn:
        raise NotImplementedError("only clients ask for this")

    async def ask_retry(self, request: RetryFailed) -> dict[str, Any]:
        """See `Transport`."""
        self._unused()

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """See `Transport`."""
        self._unused()

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        self._unused()

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """See `Transport`."""
        self._unused()

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """See `Transport`."""
        self._unused()

    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """See `Transport`; no watchdog looks at a simulated loop."""
        self._unused()

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        self._unused()


class LocalTransport(_WorkersOnly):
    """See `Transport`: the engine is in this process."""

    def __init__(
        self, engine: Engine, note: Callable[[Request, Any, BaseException | None], None], lease: Time | None
    ) -> None:
        self.lease = lease
        self._engine = engine
        self._note = note
        self._workers: list[ConnectedWorker] = []

    def now(self) -> Time:
        """See `Transport`."""
        return self._engine.now()

    async def ask(self, request: Request) -> Any:
        """See `Transport`."""
        return await self._engine.submit(request)

    def send(self, request: Request, callback: ReplyCallback) -> None:
        """See `Transport`: the way of the embedded engine, whose answers are heard while it publishes."""

        def overheard(reply: Any, error: AssayError | None) -> None:
            self._note(request, reply, error)
            callback(reply, error)

        self._engine.post(request, overheard)

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """See `Transport`."""
        return await self._engine.reads.history(run_id, after)

    def add_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        self._workers.append(worker)
        self._engine.add_worker(worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        self._workers.remove(worker)
        self._engine.remove_worker(worker)

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """See `Transport`: as in the embedded engine, one that is leaving gets no more."""
        if worker in self._workers:
            self._engine.offer_work(worker)


class RemoteTransport(_WorkersOnly):
    """See `Transport`: the engine is somewhere else, and another one is tried when it does not answer."""

    def __init__(self, world: "World", host: "WorkerHost", lease: Time | None, *, first: int) -> None:
        self.lease = lease
        self._world = world
        self._host = host
        self._turn = first
        self._worker: EngineWorker | None = None
        self._greeter: asyncio.Task[None] | None = None
        self._slots_free = asyncio.Event()
        self._offset: Time = 0
        self._chance = chance_of(world.settings.seed, host.name, "clock")

    @property
    def _engine(self) -> "EngineHost":
        engines = self._world.engines
        return engines[self._turn % len(engines)]

    def now(self) -> Time:
        """See `Transport`: as learned from the last answer."""
        return EPOCH + self._world.loop.now + self._offset

    async def ask(self, request: Request) -> Any:
        """See `Transport`."""
        return await self._call(request)

    def send(self, request: Request, callback: ReplyCallback) -> None:
        """See `Transport`."""
        self._call(request).add_done_callback(lambda answer: _reply_with(callback, answer))

    def _call(self, request: Request) -> "asyncio.Future[Any]":
        engine = self._engine
        return self._world.network.call(self._host, engine, lambda: engine.submit(request))

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """See `Transport`."""
        engine = self._engine
        found: Sequence[Recorded] = await self._world.network.call(
            self._host, engine, lambda: engine.history(run_id, after)
        )
        return found

    def add_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        if isinstance(worker, EngineWorker):
            self._worker = worker
            self._greeter = self._world.loop.create_task(self._greet_for_ever(worker))

    async def _greet_for_ever(self, worker: EngineWorker) -> None:
        while True:
            self._slots_free.clear()
            await self._greet(worker)
            try:
                await asyncio.wait_for(self._slots_free.wait(), PAUSE)
            except TimeoutError:
                continue

    async def _greet(self, worker: EngineWorker) -> None:
        engine = self._engine
        held = frozenset(run.key.run_id for run in worker._workflow_tasks._live)
        greeting = Greeting(worker.worker, worker.slots.tasks, worker.slots.activities, held)
        remote = RemoteWorker(self._world.network, engine, self._host, worker)
        try:
            time = await self._world.network.call(self._host, engine, lambda: engine.greet(greeting, remote))
        except AssayError:
            self._turn += 1
            return
        self._offset = time - EPOCH - self._world.loop.now
        if self._world.settings.has("clock"):
            self._offset += int(self._chance.uniform(-1_500_000, 1_500_000))

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        engine = self._engine
        if self._greeter is not None:
            self._greeter.cancel()
        self._world.network.call(self._host, engine, lambda: engine.dismiss(worker.worker)).add_done_callback(_noted)

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        self._slots_free.set()


def _reply_with(callback: ReplyCallback, answer: "asyncio.Future[Any]") -> None:
    error = answer.exception()
    if error is None:
        callback(answer.result(), None)
    elif isinstance(error, AssayError):
        callback(None, error)
    else:
        raise error


def _noted(answer: "asyncio.Future[Any]") -> None:
    if not answer.cancelled():
        answer.exception()
