"""Who uses an engine, as it is kept beside the histories: namespaces, workers, queues. No decision depends on it."""

import msgspec

from assay.core.model.ids import Time


class NamespaceRow(msgspec.Struct, frozen=True):
    """A namespace that was created, by name or by being used (R39)."""

    name: str
    created_at: Time


class NamespaceCounts(msgspec.Struct, frozen=True):
    """What a namespace holds: runs by status, workers seen lately."""

    by_status: dict[str, int]
    workers: int


class WorkerHealth(msgspec.Struct, frozen=True):
    """The state of a worker as its watchdog reported it last."""

    healthy: bool = True
    """False if its event loop is blocked, or if it takes no more `def` activities."""
    abandoned_threads: int = 0
    """Threads of attempts that are over and whose code has not returned."""


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker's registration; a list that is None stands for all (D20)."""

    id: str
    namespace: str
    identity: str
    task_queue: str
    workflows: tuple[str, ...] | None
    activities: tuple[str, ...] | None
    max_concurrent_workflows: int
    max_concurrent_activities: int
    registered_at: Time
    last_heartbeat: Time
    health: WorkerHealth = WorkerHealth()


class WaitingWork(msgspec.Struct, frozen=True):
    """How much work of one task queue waits for a worker, and since when the oldest of it does."""

    namespace: str
    queue: str
    tasks: int = 0
    activities: int = 0
    oldest: Time | None = None


class QueueRow(msgspec.Struct, frozen=True):
    """What waits and what is being done on a queue."""

    queue: str
    pending_activities: int = 0
    running_activities: int = 0
    pending_workflow_tasks: int = 0
    oldest_pending_at: Time | None = None
    workers: int = 0
