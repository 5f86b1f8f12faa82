"""Namespaces, workers, queues and secrets in either database."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from assay.core.model.attached_rows import NO_ROWS, AttachedRows, RequestOutcome
from assay.core.model.ids import Time
from assay.core.registrations import WorkerHealth
from assay.storage.ports import NamespaceCounts, NamespaceRow, QueueRow, WaitingWork, WorkerRow
from assay.storage.sql import queries
from assay.storage.sql.attached import Statement as Statement
from assay.storage.sql.attached import attached_statements
from assay.storage.sql.dialect import Dialect

Rows = Sequence[Sequence[Any]]

_names = msgspec.json.Decoder(tuple[str, ...]).decode

NAMESPACES = "SELECT name, created_at FROM namespaces ORDER BY name"

CREATE_NAMESPACE = """
INSERT INTO namespaces (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING name"""

DELETE_NAMESPACE = """
DELETE FROM namespaces WHERE name = $1
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.namespace = $1 AND r.closed_at IS NULL) RETURNING name"""

COUNT_RUNS = "SELECT status, count(*) FROM runs WHERE namespace = $1 GROUP BY status"

COUNT_WORKERS = "SELECT count(*) FROM workers WHERE namespace = $1 AND last_heartbeat > $2"

_WORKER = """SELECT id, namespace, identity, task_queue, workflows, activities,
    max_concurrent_workflows, max_concurrent_activities, registered_at, last_heartbeat, healthy, abandoned_threads
    FROM workers"""

REGISTER = """
INSERT INTO workers (id, namespace, identity, task_queue, workflows, activities,
    max_concurrent_workflows, max_concurrent_activities, registered_at, last_heartbeat)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""

SEEN = "UPDATE workers SET last_heartbeat = $2 WHERE id = $1 AND last_heartbeat < $2"

HEALTH = "UPDATE workers SET healthy = $2, abandoned_threads = $3 WHERE id = $1"

WORKER = f"{_WORKER} WHERE id = $1"

WORKERS = f"{_WORKER} WHERE namespace = $1 AND last_heartbeat > $2 ORDER BY registered_at, id"

LATEST_WORKERS = f"{_WORKER} WHERE namespace = $1 ORDER BY last_heartbeat DESC LIMIT $2"

HELD_TASKS = """
SELECT task_worker, count(*) FROM runs
WHERE closed_at IS NULL AND task_worker IS NOT NULL AND task_worker $one_of(1) GROUP BY task_worker"""

HELD_ACTIVITIES = """
SELECT a.worker, count(*) FROM runs r JOIN activities a ON a.run_id = r.run_id
WHERE r.closed_at IS NULL AND a.completed_at IS NULL AND a.worker IS NOT NULL AND a.worker $one_of(1)
GROUP BY a.worker"""

QUEUED_ACTIVITIES = """
SELECT a.task_queue, sum(CASE WHEN a.worker IS NULL THEN 1 ELSE 0 END),
    sum(CASE WHEN a.worker IS NULL THEN 0 ELSE 1 END), min(CASE WHEN a.worker IS NULL THEN a.queued_at END)
FROM runs r JOIN activities a ON a.run_id = r.run_id
WHERE r.namespace = $1 AND r.closed_at IS NULL AND a.completed_at IS NULL GROUP BY a.task_queue"""
"""Joined through the open runs: an index of open activities would slow every step of every run."""

QUEUED_TASKS = """
SELECT task_queue, count(*), min(task_since) FROM runs
WHERE namespace = $1 AND closed_at IS NULL AND task_since IS NOT NULL AND task_worker IS NULL GROUP BY task_queue"""

ANY_ACTIVITY_WAITS = """
SELECT 1 FROM activities
WHERE completed_at IS NULL AND worker IS NULL AND not_before IS NULL AND namespace = $1 AND task_queue = $2 LIMIT 1"""

ACTIVITY_WAITS = """
SELECT 1 FROM activities
WHERE completed_at IS NULL AND worker IS NULL AND not_before IS NULL AND namespace = $1 AND task_queue = $2
    AND name $one_of(3) LIMIT 1"""

QUEUE_WORKERS = """
SELECT task_queue, count(*) FROM workers WHERE namespace = $1 AND last_heartbeat > $2 GROUP BY task_queue"""

READ_SECRET = "SELECT value FROM secrets WHERE name = $1"  # noqa: S105  # a statement, not a secret

KEEP_SECRET = "INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"  # noqa: S105

CREATED = "EXISTS (SELECT 1 FROM namespaces WHERE name = {0} AND created_at = {1})"

DELETED = "NOT EXISTS (SELECT 1 FROM namespaces WHERE name = {0})"


class SqlDatabase(Protocol):
    """The calls of a store that registry and leftovers need."""

    @property
    def dialect(self) -> Dialect:
        """Return the SQL dialect of the database."""
        ...

    async def query(self, text: str, *arguments: object) -> Rows:
        """Return the rows of a query of the engine itself."""
        ...

    async def browse(self, text: str, *arguments: object) -> Rows:
        """Return the rows of a caller's read along an index."""
        ...

    async def search(self, text: str, *arguments: object) -> Rows:
        """Return the rows of a caller's read; the query may scan a whole namespace."""
        ...

    async def change(self, statements: Sequence[Statement]) -> Sequence[Rows]:
        """Execute statements in one transaction; return the rows of each."""
        ...


class SqlRegistry:
    """See `Registry`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """See `Registry`."""
        return [NamespaceRow(*row) for row in await self._store.browse(NAMESPACES)]

    async def create_namespace(self, row: NamespaceRow, rows: AttachedRows = NO_ROWS) -> bool:
        """See `Registry`."""
        create: Statement = (CREATE_NAMESPACE, (row.name, row.created_at))
        attached = attached_statements(rows, CREATED, row.name, row.created_at)
        created, *_ = await self._store.change([create, *attached])
        return bool(created)

    async def delete_namespace(self, name: str, rows: AttachedRows = NO_ROWS) -> bool:
        """See `Registry`."""
        attached = attached_statements(rows, DELETED, name)
        deleted, *_ = await self._store.change([(DELETE_NAMESPACE, (name,)), *attached])
        return bool(deleted)

    async def counts(self, namespace: str, seen_after: Time) -> NamespaceCounts:
        """See `Registry`."""
        runs = await self._store.search(COUNT_RUNS, namespace)
        workers = await self._store.browse(COUNT_WORKERS, namespace, seen_after)
        return NamespaceCounts({status: int(count) for status, count in runs}, int(workers[0][0]))

    async def register(self, row: WorkerRow, outcome: RequestOutcome | None = None) -> None:
        """See `Registry`."""
        cells = (
            row.id,
            row.namespace,
            row.identity,
            row.task_queue,
            _listed(row.workflows),
            _listed(row.activities),
            row.max_concurrent_workflows,
            row.max_concurrent_activities,
            row.registered_at,
            row.last_heartbeat,
        )
        await self._store.change([(REGISTER, cells), *attached_statements(AttachedRows(outcome))])

    async def seen(self, workers: Sequence[tuple[str, Time]], health: Mapping[str, WorkerHealth]) -> None:
        """See `Registry`; rows are updated in order of ids, to prevent deadlocks between engines."""
        changes: list[Statement] = []
        for worker, time in sorted(workers):
            changes.append((SEEN, (worker, time)))
            reported = health.get(worker)
            if reported is not None:
                changes.append((HEALTH, (worker, int(reported.healthy), reported.abandoned_threads)))
        await self._store.change(changes)

    async def worker(self, worker_id: str) -> WorkerRow | None:
        """See `Registry`."""
        found = await self._store.browse(WORKER, worker_id)
        return _worker(found[0]) if found else None

    async def workers(self, namespace: str, seen_after: Time) -> Sequence[WorkerRow]:
        """See `Registry`."""
        return [_worker(row) for row in await self._store.browse(WORKERS, namespace, seen_after)]

    async def latest_workers(self, namespace: str, limit: int) -> Sequence[WorkerRow]:
        """See `Registry`."""
        return [_worker(row) for row in await self._store.browse(LATEST_WORKERS, namespace, limit)]

    async def holdings(self, workers: Sequence[str]) -> dict[str, int]:
        """See `Registry`."""
        held = dict.fromkeys(workers, 0)
        wanted = self._store.dialect.texts(workers)
        for question in (HELD_TASKS, HELD_ACTIVITIES):
            for worker, count in await self._store.browse(question, wanted):
                held[worker] += int(count)
        return held

    async def queues(self, namespace: str, seen_after: Time) -> Sequence[QueueRow]:
        """See `Registry`."""
        found: dict[str, dict[str, Any]] = {}
        for queue, pending, running, oldest in await self._store.search(QUEUED_ACTIVITIES, namespace):
            waiting = {"pending_activities": int(pending), "oldest_pending_at": oldest}
            found[queue] = {**waiting, "running_activities": int(running)}
        for queue, tasks, oldest in await self._store.search(QUEUED_TASKS, namespace):
            row = found.setdefault(queue, {})
            row["pending_workflow_tasks"] = int(tasks)
            row["oldest_pending_at"] = min(filter(None, (row.get("oldest_pending_at"), oldest)), default=None)
        for queue, workers in await self._store.browse(QUEUE_WORKERS, namespace, seen_after):
            found.setdefault(queue, {})["workers"] = int(workers)
        return [QueueRow(queue, **row) for queue, row in sorted(found.items())]

    async def waiting(self) -> Sequence[WaitingWork]:
        """See `Registry`."""
        found: dict[tuple[str, str], WaitingWork] = {}
        for namespace, queue, tasks, oldest in await self._store.query(queries.WAITING_TASKS):
            found[namespace, queue] = WaitingWork(namespace, queue, int(tasks), 0, oldest)
        for namespace, queue, activities, oldest in await self._store.query(queries.WAITING_ACTIVITIES):
            known = found.get((namespace, queue), WaitingWork(namespace, queue, oldest=oldest))
            since = min(filter(None, (known.oldest, oldest)), default=None)
            found[namespace, queue] = WaitingWork(namespace, queue, known.tasks, int(activities), since)
        return [found[key] for key in sorted(found)]

    async def waits(self, namespace: str, queue: str, names: Sequence[str] | None) -> bool:
        """See `Registry`."""
        if names is None:
            return bool(await self._store.query(ANY_ACTIVITY_WAITS, namespace, queue))
        return bool(await self._store.query(ACTIVITY_WAITS, namespace, queue, self._store.dialect.texts(names)))

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """See `Registry`."""
        _, found = await self._store.change([(KEEP_SECRET, (name, fresh)), (READ_SECRET, (name,))])
        return bytes(found[0][0])


def _listed(names: tuple[str, ...] | None) -> bytes | None:
    return None if names is None else msgspec.json.encode(names)


def _worker(row: Sequence[Any]) -> WorkerRow:
    id_, namespace, identity, task_queue, workflows, activities, *rest, healthy, abandoned = row
    found = WorkerRow(id_, namespace, identity, task_queue, _named(workflows), _named(activities), *rest)
    return msgspec.structs.replace(found, health=WorkerHealth(bool(healthy), abandoned))


def _named(cell: bytes | None) -> tuple[str, ...] | None:
    return None if cell is None else _names(cell)
