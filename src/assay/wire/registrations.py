"""Namespaces, workers and queues as callers see them, the same embedded and over HTTP (R23)."""

from typing import Any

from assay.core.ids import seconds
from assay.core.registrations import NamespaceCounts, NamespaceRow, QueueRow, WorkerRow


def namespace_record(row: NamespaceRow) -> dict[str, Any]:
    """A namespace."""
    return {"name": row.name, "created_at": seconds(row.created_at)}


def worker_record(row: WorkerRow, active: int) -> dict[str, Any]:
    """A worker's registration, and how many tasks it holds."""
    return {
        "id": row.id,
        "namespace": row.namespace,
        "identity": row.identity,
        "task_queue": row.task_queue,
        "workflows": _listed(row.workflows),
        "activities": _listed(row.activities),
        "max_concurrent_workflows": row.max_concurrent_workflows,
        "max_concurrent_activities": row.max_concurrent_activities,
        "active_tasks": active,
        "last_heartbeat": seconds(row.last_heartbeat),
        "registered_at": seconds(row.registered_at),
    }


def namespace_stats(name: str, counts: NamespaceCounts, schedules: int) -> dict[str, Any]:
    """What a namespace holds; statuses that have no field of their own count in the total."""
    return {
        "namespace": name,
        "total_workflows": sum(counts.by_status.values()),
        "running": counts.by_status.get("RUNNING", 0),
        "pending": counts.by_status.get("PENDING", 0),
        "completed": counts.by_status.get("COMPLETED", 0),
        "failed": counts.by_status.get("FAILED", 0),
        "cancelled": counts.by_status.get("CANCELLED", 0),
        "timed_out": counts.by_status.get("TIMED_OUT", 0),
        "schedules": schedules,
        "workers": counts.workers,
    }


def queue_record(row: QueueRow) -> dict[str, Any]:
    """What waits and what is being done on a queue."""
    return {
        "queue": row.queue,
        "pending_activities": row.pending_activities,
        "running_activities": row.running_activities,
        "workers": row.workers,
        "pending_workflow_tasks": row.pending_workflow_tasks,
        "oldest_pending_at": None if row.oldest_pending_at is None else seconds(row.oldest_pending_at),
    }


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)
