"""The workers of this process as others see them.

Each is introduced once, when somebody could see it: where other engines read the same database that is at once, and its
signs of life follow now and then; on a file that is ours alone it is when somebody looks. So a program that nobody
looks at writes nothing, and nothing is ever written because a worker is merely there (R36).
"""

import asyncio

from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import Time, WorkerId
from assay.core.model.options import check_id
from assay.core.registrations import WorkerRow
from assay.engine.worker_registry import WorkerRegistry, check_namespace


class LocalWorkers:
    """Tells the registry of workers who is here; a service where others than this process ask it."""

    def __init__(self, worker_registry: WorkerRegistry) -> None:
        self._worker_registry = worker_registry
        self._present: set[WorkerId] = set()
        self._newcomers: dict[WorkerId, WorkerRow] = {}
        self._introducing = asyncio.Lock()

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Add a worker that is about to be added to the engine, with all slots free."""
        self._newcomers[worker.worker] = _row(worker)
        self._present.add(worker.worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Remove a worker that has stopped: the list of workers hides it after a while without a heartbeat."""
        self._newcomers.pop(worker.worker, None)
        self._present.discard(worker.worker)

    async def show(self) -> None:
        """Let the registry of workers know of all who are here, and that they live."""
        async with self._introducing:  # two who look at once introduce nobody twice
            for worker, row in tuple(self._newcomers.items()):
                await self._worker_registry.introduce(row)
                self._newcomers.pop(worker, None)
        for worker in self._present:
            self._worker_registry.note_heartbeat(worker)

    async def run_once(self) -> Time | None:
        """Write for others who is here and lives; nothing if nobody is."""
        if not self._present:
            return None
        await self.show()
        return await self._worker_registry.run_once()


def _row(worker: ConnectedWorker) -> WorkerRow:
    """A worker's registration; what could not be kept is refused here, since nobody hears of it later."""
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
