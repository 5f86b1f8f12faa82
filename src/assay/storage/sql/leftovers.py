"""Deletion of old rows in either database: found by the readers, deleted by key in short transactions."""

from assay.core.model.ids import Time
from assay.storage.sql.journal import NEWEST_ID
from assay.storage.sql.registry import SqlDatabase

OLD_OUTCOMES = """
SELECT o.namespace, o.key FROM outcomes o LEFT JOIN (
    SELECT r.namespace, min(r.created_at) AS oldest FROM runs r WHERE r.closed_at IS NULL GROUP BY r.namespace
) alive ON alive.namespace = o.namespace
WHERE o.created_at < $1 AND (alive.oldest IS NULL OR o.created_at < alive.oldest) ORDER BY o.created_at LIMIT $2"""

FORGET_OUTCOMES = """
DELETE FROM outcomes WHERE (namespace, key) IN (SELECT wanted.first, wanted.second FROM $pairs(1, 2))"""

OLD_FIRES = """
SELECT f.id FROM schedule_fires f WHERE f.outcome <> 'started' AND f.fired_at < $1 ORDER BY f.id LIMIT $2"""

FORGET_FIRES = "DELETE FROM schedule_fires WHERE id >= $1 AND id <= $2 AND outcome <> 'started' AND fired_at < $3"

OLD_NOTES = """
SELECT e.time FROM events e WHERE e.seq = 0 AND e.time < $1 AND e.id < $3 ORDER BY e.time LIMIT $2"""

FORGET_NOTES = "DELETE FROM events WHERE seq = 0 AND time >= $1 AND time <= $2 AND id < $3"

OLD_AUDITS = "SELECT a.id FROM audit a WHERE a.at < $1 ORDER BY a.at LIMIT $2"

FORGET_AUDITS = "DELETE FROM audit WHERE id >= $1 AND id <= $2 AND at < $3"


class SqlLeftovers:
    """See `Leftovers`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def forget_outcomes(self, before: Time, limit: int) -> int:
        """See `Leftovers`."""
        found = [(namespace, key) for namespace, key in await self._store.query(OLD_OUTCOMES, before, limit)]
        if found:
            await self._store.change([(FORGET_OUTCOMES, self._store.dialect.pairs(found))])
        return len(found)

    async def forget_fires(self, before: Time, limit: int) -> int:
        """See `Leftovers`."""
        found = [number for (number,) in await self._store.query(OLD_FIRES, before, limit)]
        if found:
            await self._store.change([(FORGET_FIRES, (found[0], found[-1], before))])
        return len(found)

    async def forget_audits(self, before: Time, limit: int) -> int:
        """See `Leftovers`."""
        found = [number for (number,) in await self._store.query(OLD_AUDITS, before, limit)]
        if found:
            await self._store.change([(FORGET_AUDITS, (min(found), max(found), before))])
        return len(found)

    async def forget_notes(self, before: Time, limit: int) -> int:
        """See `Leftovers`. The newest row stays: SQLite would reuse its id, which clients may hold as a cursor."""
        newest: int | None = (await self._store.query(NEWEST_ID))[0][0]
        found = [time for (time,) in await self._store.query(OLD_NOTES, before, limit, newest or 0)]
        if found:
            await self._store.change([(FORGET_NOTES, (found[0], found[-1], newest))])
        return len(found)
