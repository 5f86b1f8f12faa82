"""Registers the workers of this process.

A worker is registered as late as possible, and once. On a shared database this is at once, and heartbeats follow,
because other engines read the list. On a file of our own it is when the list is first read. A program that never reads
the list writes nothing for its workers.
"""

import asyncio

from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import Time, WorkerId
from assay.core.model.options import check_id, check_namespace
from assay.core.registrations import WorkerRow
from assay.engine.worker_registry import WorkerRegistry


class LocalWorkers:
    """The workers of this process, for the registry of workers; a service on a shared database."""

    def __init__(self, worker_registry: WorkerRegistry) -> None:
        self._worker_registry = worker_registry
        self._present: set[WorkerId] = set()
        self._unregistered: dict[WorkerId, WorkerRow] = {}
        self._registering = asyncio.Lock()

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Add a worker that is about to be added to the engine, with all slots free."""
        self._unregistered[worker.worker] = _row(worker)
        self._present.add(worker.worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Remove a stopped worker; lists hide a worker after a time without heartbeats."""
        self._unregistered.pop(worker.worker, None)
        self._present.discard(worker.worker)

    async def show(self) -> None:
        """Register the workers of this process that are not registered yet, and note a heartbeat of each."""
        async with self._registering:  # two concurrent calls must not register a worker twice
            for worker, row in tuple(self._unregistered.items()):
                await self._worker_registry.introduce(row)
                self._unregistered.pop(worker, None)
        for worker in self._present:
            self._worker_registry.note_heartbeat(worker)

    async def run_once(self) -> Time | None:
        """Write registrations and heartbeats for other engines; nothing without workers."""
        if not self._present:
            return None
        await self.show()
        return await self._worker_registry.run_once()


def _row(worker: ConnectedWorker) -> WorkerRow:
    """Return a worker's row; raise `Invalid` for a bad name now, because it is written later, without a caller."""
    return WorkerRow(
        id=worker.worker,
        namespace=check_namespace(worker.namespace),
        identity=check_id(worker.identity, "identity"),
        task_queue=check_id(worker.queue, "queue"),
        workflows=None if worker.workflows is None else tuple(sorted(worker.workflows)),
        activities=None if worker.activities is None else tuple(sorted(worker.activities)),
        max_concurrent_workflows=worker.slots.tasks,
        max_concurrent_activities=worker.slots.activities,
        registered_at=0,
        last_heartbeat=0,
    )
