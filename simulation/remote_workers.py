"""A worker in another process as its engine sees it: what it last said of itself, and a link to it."""

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId
from assay.core.model.slots import Slots
from assay.sdk.worker.engine_worker import EngineWorker
from simulation.net import Host, Network

if TYPE_CHECKING:
    from simulation.hosts import EngineHost


class Greeting(msgspec.Struct, frozen=True):
    """What a worker says of itself every now and then."""

    worker: WorkerId
    free_tasks: int
    free_activities: int
    held: frozenset[RunId]


class RemoteWorker:
    """See `ConnectedWorker`; what the engine puts here goes over the network."""

    def __init__(self, network: Network, engine: "EngineHost", host: Host, worker: EngineWorker) -> None:
        self.worker = worker.worker
        self.namespace: Namespace = worker.namespace
        self.queue = worker.queue
        self.lease: Time | None = worker.lease
        self.local = False
        self.identity = worker.identity
        self.slots = Slots()
        self.workflows: frozenset[str] | None = worker.workflows
        self.activities: frozenset[str] | None = worker.activities
        self._held: frozenset[RunId] = frozenset()
        self._network = network
        self._engine = engine
        self._host = host
        self._worker = worker

    def update(self, greeting: Greeting) -> None:
        """The worker has said how it is."""
        self.slots.tasks = greeting.free_tasks
        self.slots.activities = greeting.free_activities
        self._held = greeting.held

    def holds(self, run_id: RunId) -> bool:
        """See `ConnectedWorker`."""
        return run_id in self._held

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """See `ConnectedWorker`."""
        self._send(_give, self._worker, grant)

    def news(self, run_id: RunId) -> None:
        """See `ConnectedWorker`."""
        self._send(self._worker.news, run_id)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """See `ConnectedWorker`."""
        self._send(functools.partial(self._worker.cancel, over=over), attempt_id)

    def _send(self, deliver: Any, *args: Any) -> None:
        self._network.carry(self._engine, self._host, deliver, *args, once=True)


def _give(worker: EngineWorker, grant: TaskGrant | ActivityGrant) -> None:
    worker.slots.reserve(None if isinstance(grant, TaskGrant) else grant.activity.name)
    worker.take(grant)
