"""Reads for people in either database; see `Overview`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.model.events import ActivityOptions
from assay.core.model.explanation import ActivityCounts
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import Activity
from assay.storage.overview import EndedAttempt, OpenActivities, OpenChildren, ReadyKind
from assay.storage.ports import RunFilter, StoredActivity, StoredRun
from assay.storage.sql import rows
from assay.storage.sql.activity_rows import activity_record
from assay.storage.sql.queries import READY_ACTIVITY, READY_TASK, RUN_COLUMNS, RUN_TABLES, columns, matching
from assay.storage.sql.registry import SqlDatabase
from assay.storage.sql.tables import ACTIVITIES

# ruff: noqa: S608  # only constants are joined; values are parameters

LAST_CHARACTER = "\U0010ffff"
"""Sorts after every text with the same beginning."""

_options = msgspec.json.Decoder(ActivityOptions).decode
_failure = msgspec.json.Decoder(FailureInfo).decode

CHILDREN_OF_RUNS = f"""
SELECT {RUN_COLUMNS}, ranked.parent_run_id, ranked.found, CASE WHEN ranked.place = 1 AND ranked.found > $2 THEN (
    SELECT count(*) FROM runs every_child
    WHERE every_child.namespace = r.namespace AND every_child.parent_workflow_id = r.parent_workflow_id
        AND every_child.parent_run_id = r.parent_run_id
) END
FROM (
    SELECT c.run_id, c.parent_run_id, count(*) OVER (PARTITION BY c.parent_run_id) AS found,
        row_number() OVER (PARTITION BY c.parent_run_id ORDER BY c.created_at, c.run_id) AS place
    FROM runs c WHERE c.parent_run_id IS NOT NULL AND c.parent_run_id $one_of(1) AND c.closed_at IS NULL
) AS ranked
CROSS JOIN {RUN_TABLES}
WHERE r.run_id = ranked.run_id AND ranked.place <= $2
ORDER BY ranked.parent_run_id, ranked.place"""
"""All children are counted only for a run with more open ones than are returned: otherwise nobody needs the number."""

_ACTIVITY_COLUMNS = """a.run_id, a.seq, a.id, a.name, a.task_queue, a.options, a.scheduled_at, a.attempt_id, a.attempt,
    a.not_before, a.worker, a.started_at, a.heartbeat_at, a.cancel_requested, a.last_failure, a.queued_at"""

ACTIVITIES_OF_RUNS = f"""
SELECT {_ACTIVITY_COLUMNS}, ranked.found, ranked.running, ranked.retrying
FROM (
    SELECT o.id, count(*) OVER run_work AS found,
        sum(CASE WHEN o.worker IS NULL THEN 0 ELSE 1 END) OVER run_work AS running,
        sum(CASE WHEN o.worker IS NULL AND o.not_before IS NOT NULL THEN 1 ELSE 0 END) OVER run_work AS retrying,
        row_number() OVER (
            PARTITION BY o.run_id ORDER BY CASE WHEN o.worker IS NULL THEN 0 ELSE 1 END, o.seq
        ) AS place
    FROM activities o WHERE o.run_id $one_of(1) AND o.completed_at IS NULL
    WINDOW run_work AS (PARTITION BY o.run_id)
) AS ranked
CROSS JOIN activities a
WHERE a.id = ranked.id AND ranked.place <= $2
ORDER BY a.run_id, ranked.place"""

TIMERS_OF_RUNS = """
SELECT ranked.run_id, ranked.ref, ranked.due_at
FROM (
    SELECT d.run_id, d.ref, d.due_at,
        row_number() OVER (PARTITION BY d.run_id ORDER BY d.due_at, d.ref) AS place
    FROM deadlines d WHERE d.run_id $one_of(1) AND d.kind = 'timer'
) AS ranked
WHERE ranked.place <= $2"""


ACTIVITIES_BY_SEQ = f"""
SELECT {columns(ACTIVITIES, "a")}, r.workflow_id FROM activities a JOIN runs r ON r.run_id = a.run_id
WHERE a.run_id = $1 AND a.seq > $2 AND $4 IN ('', a.status) ORDER BY a.seq LIMIT $3"""

ATTEMPTS_OF_RUN = """
SELECT t.activity_id, t.id, t.attempt, t.outcome, t.worker, t.started_at, t.ended_at, t.failure
FROM attempts t WHERE t.run_id = $1 AND t.activity_id BETWEEN $2 AND $3 ORDER BY t.activity_id, t.attempt, t.id"""


_NEWEST_RUNS = 1_000
_OPEN_RUNS = 10_000


def _open_values(column: str) -> str:
    newest = f"SELECT {column} AS value FROM runs WHERE namespace = $1 ORDER BY created_at DESC, run_id DESC LIMIT $3"
    unclosed = f"SELECT {column} AS value FROM runs WHERE namespace = $1 AND closed_at IS NULL LIMIT $2"
    return f"""
SELECT value, sum(unclosed) FROM (
    SELECT value, 0 AS unclosed FROM ({newest}) AS recent
    UNION ALL SELECT value, 1 AS unclosed FROM ({unclosed}) AS current_runs
) AS both_kinds GROUP BY value ORDER BY sum(unclosed) DESC, value"""


OPEN_VALUES = {"type": _open_values("workflow_type"), "queue": _open_values("task_queue")}


def _loose(column: str, fixed: str) -> str:
    """Return a query that jumps from value to value of an index, without reading the rows between them."""
    return f"""
WITH RECURSIVE found(value) AS (
    SELECT (SELECT min({column}) FROM attributes WHERE {fixed} AND {column} >= $2)
    UNION ALL
    SELECT (SELECT min({column}) FROM attributes WHERE {fixed} AND {column} > found.value) FROM found
    WHERE found.value IS NOT NULL AND found.value < $3
)
SELECT value FROM found WHERE value IS NOT NULL AND value < $3 LIMIT $4"""


ATTRIBUTE_KEYS = _loose("key", "namespace = $1")
ATTRIBUTE_VALUES = _loose("value", "namespace = $1 AND key = $5")

OPEN_WITH_VALUE = """
SELECT count(*) FROM (
    SELECT a.run_id FROM attributes a WHERE a.namespace = $1 AND a.key = $2 AND a.value = $3
    ORDER BY a.run_id DESC LIMIT $4
) AS newest JOIN runs r ON r.run_id = newest.run_id WHERE r.closed_at IS NULL"""

READY_KINDS = f"""
SELECT 'workflow', task_queue, workflow_type, count(*), min(task_since) FROM runs
WHERE {READY_TASK} AND namespace = $1 GROUP BY task_queue, workflow_type
UNION ALL
SELECT 'activity', task_queue, name, count(*), min(queued_at) FROM activities
WHERE {READY_ACTIVITY} AND namespace = $1 GROUP BY task_queue, name"""

CHILDREN_BY_AGE = f"""
SELECT {RUN_COLUMNS} FROM {RUN_TABLES}
WHERE r.namespace = $1 AND r.parent_workflow_id $one_of(2) AND r.parent_run_id $one_of(3)
ORDER BY r.created_at, r.run_id LIMIT $4"""

CHILD_COUNTS = """
SELECT parent_run_id, status, count(*) FROM runs
WHERE namespace = $1 AND parent_workflow_id $one_of(2) AND parent_run_id $one_of(3) GROUP BY parent_run_id, status"""


def _depth(work: str, condition: str) -> str:
    return f"""(SELECT count(*) FROM (
    SELECT 1 FROM {work} WHERE {condition} AND namespace = $1 AND task_queue = $2 LIMIT $3
) AS ready)"""


DEPTH = f"SELECT {_depth('runs', READY_TASK)}, {_depth('activities', READY_ACTIVITY)}"


class SqlOverview:
    """See `Overview`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def open_children(self, parents: Sequence[RunId], limit: int) -> Mapping[RunId, OpenChildren]:
        """See `Overview`."""
        found: dict[RunId, OpenChildren] = {}
        page = await self._store.browse(CHILDREN_OF_RUNS, self._store.dialect.texts(parents), limit)
        for *row, parent, number, total in page:
            known = found.get(parent)
            oldest = [] if known is None else [*known.oldest]
            count = number if total is None else total
            found[parent] = OpenChildren(
                [*oldest, rows.run_of(row)], number, count if known is None else max(known.total, count)
            )
        return found

    async def open_activities(self, run_ids: Sequence[RunId], limit: int) -> Mapping[RunId, OpenActivities]:
        """See `Overview`."""
        activities: dict[RunId, list[Activity]] = {}
        counts: dict[RunId, ActivityCounts] = {}
        for *row, number, running, retrying in await self._store.browse(
            ACTIVITIES_OF_RUNS, self._store.dialect.texts(run_ids), limit
        ):
            run_id, activity = _activity(row)
            activities.setdefault(run_id, []).append(activity)
            counts[run_id] = ActivityCounts(number, int(running), int(retrying))
        return {run_id: OpenActivities(found, counts[run_id]) for run_id, found in activities.items()}

    async def open_timers(self, run_ids: Sequence[RunId], limit: int) -> Mapping[RunId, Mapping[int, int]]:
        """See `Overview`."""
        timers: dict[RunId, dict[int, int]] = {}
        page = await self._store.browse(TIMERS_OF_RUNS, self._store.dialect.texts(run_ids), limit)
        for run_id, seq, due in page:
            timers.setdefault(run_id, {})[seq] = due
        return timers

    async def activities(
        self, run_id: RunId, state: str | None, after: int, limit: int
    ) -> Sequence[tuple[StoredActivity, Payload]]:
        """See `Overview`."""
        page = await self._store.browse(ACTIVITIES_BY_SEQ, run_id, after, limit, state or "")
        return [(activity_record(row), rows.payload(row[19])) for row in page]

    async def attempts(self, run_id: RunId, activity_ids: Sequence[int]) -> Sequence[EndedAttempt]:
        """See `Overview`."""
        if not activity_ids:
            return ()
        page = await self._store.browse(ATTEMPTS_OF_RUN, run_id, min(activity_ids), max(activity_ids))
        return [
            EndedAttempt(
                row[0], row[1], row[2], row[3], row[4], row[5], row[6], None if row[7] is None else _failure(row[7])
            )
            for row in page
        ]

    async def histogram(
        self, wanted: RunFilter, start: Time, step: Time, limit: int
    ) -> tuple[Sequence[tuple[int, str, int]], int]:
        """See `Overview`."""
        question = matching(wanted)
        conditions = " AND ".join(question.conditions)
        first, width, most = (question.place(value) for value in (start, step, limit))
        text = f"""
SELECT (looked.created_at - {first}) / {width}, looked.status, count(*) FROM (
    SELECT r.created_at, r.status FROM runs r WHERE {conditions} ORDER BY r.created_at DESC, r.run_id DESC LIMIT {most}
) AS looked GROUP BY 1, 2"""
        found = [(int(row[0]), row[1], int(row[2])) for row in await self._store.search(text, *question.arguments)]
        return found, sum(count for _, _, count in found)

    async def open_values(self, namespace: str, column: str, limit: int) -> Mapping[str, int]:
        """See `Overview`."""
        page = await self._store.search(OPEN_VALUES[column], namespace, _OPEN_RUNS, _NEWEST_RUNS)
        return {value: int(count) for value, count in page[:limit]}

    async def attribute_keys(self, namespace: str, prefix: str, limit: int) -> Sequence[str]:
        """See `Overview`."""
        page = await self._store.browse(ATTRIBUTE_KEYS, namespace, prefix, prefix + LAST_CHARACTER, limit)
        return [value for (value,) in page]

    async def attribute_values(self, namespace: str, key: str, prefix: str, limit: int) -> Mapping[str, int]:
        """See `Overview`."""
        found: dict[str, int] = {}
        page = await self._store.browse(ATTRIBUTE_VALUES, namespace, prefix, prefix + LAST_CHARACTER, limit, key)
        for (value,) in page:
            ((count,),) = await self._store.browse(OPEN_WITH_VALUE, namespace, key, value, _NEWEST_RUNS)
            found[value] = count
        return found

    async def ready_kinds(self, namespace: str) -> Sequence[ReadyKind]:
        """See `Overview`."""
        return [ReadyKind(*row) for row in await self._store.search(READY_KINDS, namespace)]

    async def children_of(self, parents: Sequence[StoredRun], limit: int) -> Sequence[StoredRun]:
        """See `Overview`."""
        return [rows.run_of(row) for row in await self._family(CHILDREN_BY_AGE, parents, limit)]

    async def child_counts(self, parents: Sequence[StoredRun]) -> Mapping[RunId, Mapping[str, int]]:
        """See `Overview`."""
        found: dict[RunId, dict[str, int]] = {}
        for parent, status, count in await self._family(CHILD_COUNTS, parents):
            found.setdefault(parent, {})[status] = count
        return found

    async def _family(self, text: str, parents: Sequence[StoredRun], *more: object) -> Sequence[Sequence[Any]]:
        if not parents:
            return ()
        texts = self._store.dialect.texts
        names, run_ids = texts([run.workflow_id for run in parents]), texts([run.run_id for run in parents])
        return await self._store.browse(text, parents[0].namespace, names, run_ids, *more)

    async def depths(self, namespace: str, queues: Sequence[str], limit: int) -> Mapping[str, tuple[int, int]]:
        """See `Overview`."""
        found: dict[str, tuple[int, int]] = {}
        for queue in queues:
            ((tasks, activities),) = await self._store.browse(DEPTH, namespace, queue, limit)
            found[queue] = tasks, activities
        return found


def _activity(row: Sequence[Any]) -> tuple[RunId, Activity]:
    run_id, seq, number, name, queue, options, scheduled_at, attempt_id, attempt = row[:9]
    not_before, worker, started_at, heartbeat_at, cancel_requested, last_failure, queued_at = row[9:]
    return run_id, Activity(
        seq,
        number,
        name,
        queue,
        NULL,
        _options(options),
        scheduled_at,
        attempt_id,
        attempt=attempt,
        not_before=not_before,
        worker=worker,
        started_at=started_at,
        heartbeat_at=heartbeat_at,
        cancel_requested_at=cancel_requested or None,
        last_failure=None if last_failure is None else _failure(last_failure),
        queued_at=queued_at,
    )
