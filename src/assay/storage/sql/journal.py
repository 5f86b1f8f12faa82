"""The journal, read from either database."""

from collections.abc import Collection, Sequence
from typing import Any

from assay.core.model.ids import Time
from assay.core.model.limits import JOURNAL_PAGE_BYTES
from assay.core.schedules.model import escaped
from assay.storage.ports import BEGINNING, JournalEntry, JournalPage, JournalRow, Position
from assay.storage.sql import notes
from assay.storage.sql.reads import MAX_INT64, SqlReads

AFTER = """
SELECT e.written_by, e.id, r.namespace, r.workflow_id, e.run_id, r.workflow_type, r.task_queue,
    e.seq, e.time, e.kind,
    CASE WHEN octet_length(e.payload) <= 8192 THEN e.payload END,
    CASE WHEN octet_length(e.data) <= 8192 THEN e.data END, e.claimed,
    octet_length(e.payload) + coalesce(octet_length(e.data), 0)
FROM events e LEFT JOIN runs r ON r.run_id = e.run_id
WHERE $committed_after(1, 2, 3) LIMIT $4"""

OLDEST_AFTER = "SELECT e.time FROM events e WHERE $committed_after(1, 2, 3) LIMIT 1"

NEWEST_POSITION = "SELECT e.written_by, e.id FROM events e WHERE $newest_committed(1)"
INLINE_DOCUMENT_BYTES = 8_192
"""The largest payload that a page's query returns. Larger payloads are read one by one, until the page is full."""

DOCUMENTS = "SELECT e.payload, e.data FROM events e WHERE e.id = $1"


POSITION = "SELECT e.written_by, e.id FROM events e WHERE e.id <= $1 ORDER BY e.id DESC LIMIT 1"

AT_OR_AFTER = "SELECT e.id, e.time FROM events e WHERE e.id >= $1 ORDER BY e.id LIMIT 1"

NEWEST_ID = "SELECT max(id) FROM events"

CONCERNS = """
SELECT 1 FROM events e LEFT JOIN runs r ON r.run_id = e.run_id
WHERE e.id < $4 AND (r.namespace $one_of(5) OR (e.seq = 0 AND $before(e.run_id, '/') $one_of(6)))
    AND $committed_after(1, 2, 3) LIMIT 1"""


class SqlJournal:
    """See `EventJournal`."""

    def __init__(self, store: SqlReads) -> None:
        self._store = store

    async def head(self) -> Position:
        """See `EventJournal`."""
        return _position(await self._store.browse(NEWEST_POSITION, await self._store.stream_horizon()))

    async def position(self, row_id: int) -> Position:
        """See `EventJournal`."""
        return _position(await self._store.browse(POSITION, row_id))

    async def since(self, time: Time) -> int | None:
        """See `EventJournal`. Ids grow with time: a binary search spares every event an index by time."""
        newest: int | None = (await self._store.browse(NEWEST_ID))[0][0]
        low, high = 1, (newest or 0) + 1
        while low < high:
            middle = (low + high) // 2
            at, when = (await self._store.browse(AT_OR_AFTER, middle))[0]
            if when >= time:
                high = middle
            else:
                low = at + 1
        found = await self._store.browse(AT_OR_AFTER, low)
        return int(found[0][0]) if found else None

    async def after(self, position: Position, limit: int) -> JournalPage:
        """See `EventJournal`."""
        rows = await self._store.browse(AFTER, *position, await self._store.stream_horizon(), limit)
        page, held_bytes = JournalPage(more=len(rows) == limit), 0
        for *row, size in rows:
            if (
                size > INLINE_DOCUMENT_BYTES
            ):  # one by one: the payloads of its rows must not determine the memory of a page
                if held_bytes > JOURNAL_PAGE_BYTES:
                    page.more = True
                    break
                ((row[10], row[11]),) = await self._store.browse(DOCUMENTS, row[1])
            held_bytes += size
            page.append(_pending(row))
        return page

    async def oldest_after(self, position: Position) -> Time | None:
        """See `EventJournal`."""
        found = await self._store.browse(OLDEST_AFTER, *position, MAX_INT64)
        return int(found[0][0]) if found else None

    async def concerns(self, namespaces: Collection[str], after: Position, before: int | None) -> bool:
        """See `EventJournal`."""
        texts = self._store.dialect.texts
        wanted = (texts(list(namespaces)), texts([escaped(namespace) for namespace in namespaces]))
        bounds = (*after, await self._store.stream_horizon(), MAX_INT64 if before is None else before)
        return bool(await self._store.browse(CONCERNS, *bounds, *wanted))


def _pending(row: Sequence[Any]) -> JournalRow:
    return notes.note_of(row[0], row[1], *row[8:11]) if row[7] == notes.NOTE_SEQ else JournalEntry(*row)


def _position(found: Sequence[Sequence[int]]) -> Position:
    return (found[0][0], found[0][1]) if found else BEGINNING
