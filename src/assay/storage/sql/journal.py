"""All histories as one stream, read from either database."""

from collections.abc import Sequence

from assay.core.ids import Time
from assay.storage.journal import BEGINNING, Entry, Position
from assay.storage.sql.reads import SqlReads

# ruff: noqa: S608  # what is put together here are constants of this file; values are parameters

_FROM_OUTSIDE = (
    "'WorkflowStarted', 'SignalReceived', 'WorkflowCancelRequested', 'WorkflowTerminated', 'WorkflowTimedOut'"
)
"""Kinds of events that can be in the history of a run that no worker has looked at."""

_BEGINS_WORK = f"""CASE WHEN r.task_epoch > 0 AND e.kind NOT IN ({_FROM_OUTSIDE}) AND NOT EXISTS (
    SELECT 1 FROM events p WHERE p.run_id = e.run_id AND p.seq < e.seq AND p.kind NOT IN ({_FROM_OUTSIDE})
) THEN 1 ELSE 0 END"""

AFTER = f"""
SELECT e.written_by, e.id, r.namespace, r.workflow_id, e.run_id, r.workflow_type, r.task_queue,
    e.seq, e.time, e.kind, e.payload, e.data, {_BEGINS_WORK}
FROM events e JOIN runs r ON r.run_id = e.run_id
WHERE $committed_after(1, 2) LIMIT $3"""

HEAD = "SELECT e.written_by, e.id FROM events e WHERE $newest_committed"

POSITION = "SELECT e.written_by, e.id FROM events e WHERE e.id <= $1 ORDER BY e.id DESC LIMIT 1"

AT_OR_AFTER = "SELECT e.id, e.time FROM events e WHERE e.id >= $1 ORDER BY e.id LIMIT 1"

NEWEST_ID = "SELECT max(id) FROM events"


class SqlJournal:
    """See `Journal`."""

    def __init__(self, store: SqlReads) -> None:
        self._store = store

    async def head(self) -> Position:
        """See `Journal`."""
        return _position(await self._store.ask(HEAD))

    async def position(self, event_id: int) -> Position:
        """See `Journal`."""
        return _position(await self._store.ask(POSITION, event_id))

    async def since(self, time: Time) -> int | None:
        """See `Journal`. Ids grow with time, so halving finds it: an index by time would be paid for by every event."""
        newest: int | None = (await self._store.ask(NEWEST_ID))[0][0]
        low, high = 1, (newest or 0) + 1
        while low < high:
            middle = (low + high) // 2
            at, when = (await self._store.ask(AT_OR_AFTER, middle))[0]
            if when >= time:
                high = middle
            else:
                low = at + 1
        found = await self._store.ask(AT_OR_AFTER, low)
        return int(found[0][0]) if found else None

    async def after(self, position: Position, limit: int) -> Sequence[Entry]:
        """See `Journal`."""
        found = await self._store.ask(AFTER, *position, limit)
        return [Entry(*row) for row in found]


def _position(found: Sequence[Sequence[int]]) -> Position:
    return (found[0][0], found[0][1]) if found else BEGINNING
