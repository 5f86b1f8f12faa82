"""The two ways from a worker to its engine: a call in the same process, and messages over the network."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from assay.core.model.errors import AssayError, Refused
from assay.core.model.events import Event, Recorded
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, RunKey, Time
from assay.core.model.replies import ReplyCallback, future_callback
from assay.core.model.requests import Request, RetryFailed, ToRun
from assay.engine.engine import Engine
from assay.sdk.client.http.pool import HttpPool
from assay.sdk.client.http.reconnector import Reconnector
from assay.sdk.client.http.transport import LAST_REPLIES_SECONDS
from assay.sdk.client.transport import OnRefusal, Transport
from assay.sdk.ports import ListedRuns
from assay.worker_protocol.worker_side import WorkerEndpoint
from simulation.remote_workers import SimulatedPool
from simulation.settings import chance_of
from simulation.store import EPOCH

if TYPE_CHECKING:
    from simulation.hosts import WorkerHost
    from simulation.world import World


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

    async def explain(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """See `Transport`."""
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

    def add_worker(self, worker: ConnectedWorker, refused: OnRefusal | None = None) -> None:
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
        self._first = first
        self._endpoint: WorkerEndpoint | None = None
        self._connection: asyncio.Task[None] | None = None
        self._offset: Time = 0
        self._chance = chance_of(world.settings.seed, host.name, "clock")

    def now(self) -> Time:
        """See `Transport`: as learned from the last answer."""
        return EPOCH + self._world.loop.now + self._offset

    def _learn(self, time: Time) -> None:
        self._offset = time - EPOCH - self._world.loop.now
        if self._world.settings.has("clock"):
            self._offset += int(self._chance.uniform(-1_500_000, 1_500_000))

    async def ask(self, request: Request) -> Any:
        """See `Transport`."""
        self._unused()

    def send(self, request: Request, callback: ReplyCallback) -> None:
        """See `Transport`."""
        endpoint = self._endpoint
        if endpoint is not None and isinstance(request, ToRun) and endpoint.owns(request):
            endpoint.send(request, callback)
        else:
            callback(None, Refused("this worker does not hold the lease", code="stale_attempt"))

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """See `Transport`."""
        if self._endpoint is None or not self._endpoint.has_run(run_id):
            raise Refused("this worker does not hold the run", code="stale_task")
        events: asyncio.Future[Sequence[Recorded]] = self._world.loop.create_future()
        self._endpoint.read_history(run_id, after, future_callback(events))
        return await events

    def add_worker(self, worker: ConnectedWorker, refused: OnRefusal | None = None) -> None:
        """See `Transport`."""
        endpoint = self._endpoint = WorkerEndpoint(worker, self._learn)
        pool = SimulatedPool(self._world, self._host, worker.worker, self._first)
        reconnector = Reconnector(cast(HttpPool, pool), "", endpoint)
        reconnector.by_post = True
        self._connection = self._world.loop.create_task(reconnector.run())

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        if self._endpoint is not None:
            self._endpoint.leave()

    async def close(self) -> None:
        """See `Transport`: the last reports are sent."""
        if self._connection is not None:
            await asyncio.wait((self._connection,), timeout=LAST_REPLIES_SECONDS)
            self._connection.cancel()

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        if self._endpoint is not None:
            self._endpoint.offer_slots()
