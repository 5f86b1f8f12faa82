"""Rows about the users of an engine: namespaces, workers, queues. No decision depends on these rows."""

import msgspec

from assay.core.model.ids import Time


class NamespaceRow(msgspec.Struct, frozen=True):
    """A namespace, created explicitly or by its first use."""

    name: str
    created_at: Time


class NamespaceCounts(msgspec.Struct, frozen=True):
    """Counts of a namespace: runs by status, workers with a recent heartbeat."""

    by_status: dict[str, int]
    workers: int


class WorkerHealth(msgspec.Struct, frozen=True):
    """The state of a worker in the last report of its watchdog."""

    healthy: bool = True
    """False if the event loop is blocked, or if the worker accepts no more `def` activities."""
    abandoned_threads: int = 0
    """Threads whose attempt is over while its code has not returned."""


class WorkerRow(msgspec.Struct, frozen=True):
    """The registration of a worker; None as a list of types stands for all types."""

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
    """The work of a task queue without a worker: counts, and the time since when the oldest waits."""

    namespace: str
    queue: str
    tasks: int = 0
    activities: int = 0
    oldest: Time | None = None


class QueueRow(msgspec.Struct, frozen=True):
    """Counts of waiting and running work on a queue."""

    queue: str
    pending_activities: int = 0
    running_activities: int = 0
    pending_workflow_tasks: int = 0
    oldest_pending_at: Time | None = None
    workers: int = 0
