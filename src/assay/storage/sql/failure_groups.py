"""Failure groups in either database; see `Failures`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.core.model.attached_rows import AttachedRows, AuditRow
from assay.core.model.duration import HOUR
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.rules.failure_groups import FailureGroup
from assay.storage.sql.attached import attached_statements
from assay.storage.sql.registry import SqlDatabase

HOURS = 24
_failure = msgspec.json.Decoder(FailureInfo).decode

_GROUP = """
SELECT g.namespace, g.fingerprint, g.source, g.workflow_type, g.place, g.kind, g.type, g.message, g.first_seen, g.state,
    g.changed_at, g.until_at, g.until_count, g.until_build, g.assignee, g.note, seen.number, seen.current_number,
    seen.latest
FROM failure_groups g JOIN (
    SELECT f.fingerprint, count(*) AS number, max(f.at) AS latest, sum(CASE
        WHEN f.source = 'run' AND r.next_run_id IS NULL AND r.closed_at IS NOT NULL THEN 1
        WHEN f.source = 'blocked' AND r.stuck IS NOT NULL AND r.closed_at IS NULL THEN 1 ELSE 0 END) AS current_number
    FROM failed_runs f JOIN runs r ON r.run_id = f.run_id
    WHERE f.namespace = $1 {} GROUP BY f.fingerprint
) AS seen ON seen.fingerprint = g.fingerprint
WHERE g.namespace = $1"""

GROUPS = f"{_GROUP.format('')} AND seen.latest >= $2 ORDER BY seen.latest DESC, g.fingerprint LIMIT $3"
ONE_GROUP = _GROUP.format("AND f.fingerprint = $2")
PER_HOUR = """
SELECT fingerprint, (at - $3) / $4, count(*) FROM failed_runs
WHERE namespace = $1 AND fingerprint $one_of(2) AND at >= $3 GROUP BY 1, 2"""
SAMPLE = """
SELECT r.workflow_id, f.run_id FROM failed_runs f JOIN runs r ON r.run_id = f.run_id
WHERE f.namespace = $1 AND f.fingerprint = $2 ORDER BY f.at DESC, f.run_id DESC LIMIT 1"""
CHANGE = """
UPDATE failure_groups SET state = $3, changed_at = $4, until_at = $5, until_count = $6, until_build = $7, assignee = $8,
    note = $9
WHERE namespace = $1 AND fingerprint = $2"""
FAILING = """
SELECT r.run_id, r.workflow_id, r.workflow_type, a.name, a.last_failure, a.queued_at
FROM runs r CROSS JOIN activities a
WHERE r.namespace = $1 AND r.closed_at IS NULL AND a.run_id = r.run_id AND a.completed_at IS NULL
    AND a.last_failure IS NOT NULL LIMIT $2"""


class SqlFailures:
    """See `Failures`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def groups(self, namespace: str, since: Time, limit: int) -> Sequence[FailureGroup]:
        """See `Failures`."""
        return [_group(row) for row in await self._store.search(GROUPS, namespace, since, limit)]

    async def group(self, namespace: str, fingerprint: str) -> FailureGroup | None:
        """See `Failures`."""
        found = await self._store.search(ONE_GROUP, namespace, fingerprint)
        return next((_group(row) for row in found if row[1] == fingerprint), None)

    async def per_hour(self, namespace: str, fingerprints: Sequence[str], start: Time) -> Mapping[str, Sequence[int]]:
        """See `Failures`."""
        found: dict[str, list[int]] = {fingerprint: [0] * HOURS for fingerprint in fingerprints}
        wanted = self._store.dialect.texts(fingerprints)
        for fingerprint, hour, count in await self._store.search(PER_HOUR, namespace, wanted, start, HOUR):
            if 0 <= int(hour) < HOURS:
                found[fingerprint][int(hour)] = int(count)
        return found

    async def sample(self, namespace: str, fingerprint: str) -> tuple[str, RunId] | None:
        """See `Failures`."""
        found = await self._store.browse(SAMPLE, namespace, fingerprint)
        return (found[0][0], found[0][1]) if found else None

    async def change(self, group: FailureGroup, audit: AuditRow | None) -> None:
        """See `Failures`."""
        cells = (
            group.namespace,
            group.fingerprint,
            group.state,
            group.changed_at,
            group.until_at,
            group.until_count,
            group.until_build,
            group.assignee,
            group.note,
        )
        await self._store.change([(CHANGE, cells), *attached_statements(AttachedRows(audit=audit))])

    async def failing(self, namespace: str, limit: int) -> Sequence[tuple[RunId, str, str, str, FailureInfo, Time]]:
        """See `Failures`."""
        page = await self._store.search(FAILING, namespace, limit)
        return [(row[0], row[1], row[2], row[3], _failure(row[4]), row[5]) for row in page]


def _group(row: Sequence[Any]) -> FailureGroup:
    namespace, fingerprint, source, workflow_type, where, kind, name, message, first_seen, state = row[:10]
    changed_at, until_at, until_count, until_build, assignee, note, count, current, latest = row[10:]
    return FailureGroup(
        namespace=namespace,
        fingerprint=fingerprint,
        source=source,
        workflow_type=workflow_type,
        where=where,
        kind=kind,
        type=name,
        message=message,
        first_seen=first_seen,
        state=state,
        changed_at=changed_at,
        until_at=until_at,
        until_count=until_count,
        until_build=until_build,
        assignee=assignee,
        note=note,
        count=int(count),
        open=int(current),
        last_seen=latest,
    )
