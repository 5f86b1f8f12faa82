"""All histories as one stream, read from either database."""

from collections.abc import Sequence

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

    async def after(self, position: Position, limit: int) -> Sequence[Entry]:
        """See `Journal`."""
        found = await self._store.ask(AFTER, *position, limit)
        return [Entry(*row) for row in found]


def _position(found: Sequence[Sequence[int]]) -> Position:
    return (found[0][0], found[0][1]) if found else BEGINNING
