"""Bulk actions in either database; see `Batches`."""

# ruff: noqa: S608  # only constants are joined; values are parameters

from collections.abc import Sequence
from typing import Any

from assay.core.model.attached_rows import AttachedRows, AuditRow
from assay.core.model.ids import Time
from assay.storage.batch_ports import BatchItem, BatchRow
from assay.storage.sql.attached import attached_statements
from assay.storage.sql.registry import SqlDatabase, Statement

_NUMBERS = ", ".join(
    f"(SELECT count(*) FROM batch_items i WHERE i.batch_id = b.batch_id AND i.outcome = '{outcome}')"
    for outcome in ("succeeded", "refused", "skipped")
)
_BATCH = f"""
SELECT b.batch_id, b.namespace, b.token, b.action, b.arguments, b.reason, b.filter, b.as_of, b.state, b.total,
    b.started_by, b.started_at, b.ended_at, b.expires_at, {_NUMBERS}
FROM batches b"""
ADD = """
INSERT INTO batches (batch_id, namespace, token, action, arguments, reason, filter, as_of, state, total, started_by,
    started_at, expires_at, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0)"""
START = """
UPDATE batches SET state = 'running', total = $2, started_by = $3, started_at = $4
WHERE batch_id = $1 AND state = 'preview'"""
ADD_ITEM = """
INSERT INTO batch_items (batch_id, place, workflow_id, run_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (batch_id, place) DO NOTHING"""
BATCH_BY_ID = f"{_BATCH} WHERE b.batch_id = $1"
BATCH_BY_TOKEN = f"{_BATCH} WHERE b.token = $1"
NEWEST = (
    f"{_BATCH} WHERE b.namespace = $1 AND b.state <> 'preview' ORDER BY b.started_at DESC, b.batch_id DESC LIMIT $2"
)
_ITEMS = "SELECT place, workflow_id, run_id, outcome, code, message, new_run_id FROM batch_items WHERE batch_id = $1"
ITEMS = f"{_ITEMS} AND place > $2 AND $4 IN ('', outcome) ORDER BY place LIMIT $3"
UNDONE = f"{_ITEMS} AND place > $2 AND outcome IS NULL ORDER BY place LIMIT $3"
TAKE = """
UPDATE batches SET holder = $1, lease_until = $3 WHERE batch_id = (
    SELECT batch_id FROM batches WHERE state = 'running' AND (holder = $1 OR lease_until <= $2)
    ORDER BY started_at, batch_id LIMIT 1
) AND state = 'running' AND (holder = $1 OR lease_until <= $2) RETURNING batch_id"""
SETTLE = """
UPDATE batch_items SET outcome = $3, code = $4, message = $5, new_run_id = $6
WHERE batch_id = $1 AND place = $2 AND outcome IS NULL"""
EXTEND = """
UPDATE batches SET lease_until = $3 WHERE batch_id = $1 AND holder = $2 AND state = 'running' RETURNING batch_id"""
END = "UPDATE batches SET state = $2, ended_at = $3 WHERE batch_id = $1 AND state = 'running'"


class SqlBatches:
    """See `Batches`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def add(self, row: BatchRow) -> None:
        """See `Batches`."""
        cells = (
            row.batch_id,
            row.namespace,
            row.token,
            row.action,
            row.arguments,
            row.reason,
            row.filter,
            row.as_of,
            row.state,
            row.total,
            row.started_by,
            row.started_at,
            row.expires_at,
        )
        await self._store.change([(ADD, cells)])

    async def start(
        self, batch_id: str, items: Sequence[BatchItem], by: str | None, now: Time, audit: AuditRow | None
    ) -> None:
        """See `Batches`."""
        # The items first: a batch that runs has all its items, whichever start wins.
        written: list[Statement] = [(ADD_ITEM, (batch_id, item.place, item.workflow_id, item.run_id)) for item in items]
        begun: Statement = (START, (batch_id, len(items), by, now))
        await self._store.change([*written, begun, *attached_statements(AttachedRows(audit=audit))])

    async def batch(self, batch_id: str) -> BatchRow | None:
        """See `Batches`."""
        return next((_row(row) for row in await self._store.browse(BATCH_BY_ID, batch_id)), None)

    async def by_token(self, token: str) -> BatchRow | None:
        """See `Batches`."""
        return next((_row(row) for row in await self._store.browse(BATCH_BY_TOKEN, token)), None)

    async def batches(self, namespace: str, limit: int) -> Sequence[BatchRow]:
        """See `Batches`."""
        return [_row(row) for row in await self._store.browse(NEWEST, namespace, limit)]

    async def items(
        self, batch_id: str, outcome: str | None, after: int, limit: int, *, undone: bool = False
    ) -> Sequence[BatchItem]:
        """See `Batches`."""
        if undone:
            page = await self._store.browse(UNDONE, batch_id, after, limit)
        else:
            page = await self._store.browse(ITEMS, batch_id, after, limit, outcome or "")
        names = ("place", "workflow_id", "run_id", "outcome", "code", "message", "new_run_id")
        return [BatchItem(**dict(zip(names, row, strict=True))) for row in page]

    async def take(self, holder: str, now: Time, until: Time) -> BatchRow | None:
        """See `Batches`."""
        (found,) = await self._store.change([(TAKE, (holder, now, until))])
        return await self.batch(found[0][0]) if found else None

    async def settle(self, batch_id: str, items: Sequence[BatchItem], holder: str, until: Time) -> bool:
        """See `Batches`."""
        settled: list[Statement] = [
            (SETTLE, (batch_id, item.place, item.outcome, item.code, item.message, item.new_run_id)) for item in items
        ]
        *_, held = await self._store.change([*settled, (EXTEND, (batch_id, holder, until))])
        return bool(held)

    async def end(self, batch_id: str, state: str, now: Time) -> None:
        """See `Batches`."""
        await self._store.change([(END, (batch_id, state, now))])


def _row(row: Sequence[Any]) -> BatchRow:
    names = (
        "batch_id", "namespace", "token", "action", "arguments", "reason", "filter", "as_of", "state", "total",
        "started_by", "started_at", "ended_at", "expires_at", "succeeded", "refused", "skipped",
    )  # fmt: skip
    return BatchRow(**dict(zip(names, row, strict=True)))
