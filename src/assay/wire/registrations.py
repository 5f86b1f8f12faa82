"""Responses about namespaces, workers and queues, the same embedded and over HTTP."""

from assay.core.model.ids import seconds
from assay.core.registrations import NamespaceCounts, NamespaceRow, QueueRow, WorkerRow
from assay.wire import responses


def namespace_record(row: NamespaceRow) -> responses.NamespaceRecord:
    """Return the record of a namespace."""
    return responses.NamespaceRecord(name=row.name, created_at=seconds(row.created_at))


def worker_record(row: WorkerRow, active: int) -> responses.WorkerRecord:
    """Return a worker's registration, with the number of its tasks."""
    return responses.WorkerRecord(
        id=row.id,
        namespace=row.namespace,
        identity=row.identity,
        task_queue=row.task_queue,
        workflows=_listed(row.workflows),
        activities=_listed(row.activities),
        max_concurrent_workflows=row.max_concurrent_workflows,
        max_concurrent_activities=row.max_concurrent_activities,
        active_tasks=active,
        last_heartbeat=seconds(row.last_heartbeat),
        registered_at=seconds(row.registered_at),
        healthy=row.health.healthy,
        abandoned_threads=row.health.abandoned_threads,
    )


def namespace_stats(name: str, counts: NamespaceCounts, schedules: int) -> responses.NamespaceStats:
    """Return the counts of a namespace; statuses without a field of their own count in the total."""
    return responses.NamespaceStats(
        namespace=name,
        total_workflows=sum(counts.by_status.values()),
        running=counts.by_status.get("RUNNING", 0),
        pending=counts.by_status.get("PENDING", 0),
        completed=counts.by_status.get("COMPLETED", 0),
        failed=counts.by_status.get("FAILED", 0),
        cancelled=counts.by_status.get("CANCELLED", 0),
        timed_out=counts.by_status.get("TIMED_OUT", 0),
        schedules=schedules,
        workers=counts.workers,
    )


def queue_record(row: QueueRow) -> responses.QueueStats:
    """Return the numbers of waiting and running tasks of a queue."""
    return responses.QueueStats(
        queue=row.queue,
        pending_activities=row.pending_activities,
        running_activities=row.running_activities,
        workers=row.workers,
        pending_workflow_tasks=row.pending_workflow_tasks,
        oldest_pending_at=None if row.oldest_pending_at is None else seconds(row.oldest_pending_at),
    )


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
