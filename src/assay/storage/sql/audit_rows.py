"""The audit in either database."""

# ruff: noqa: S608  # the names of columns are constants of this file; values are parameters

from collections.abc import Sequence
from typing import Any, Final

from assay.core.model.attached_rows import AuditFilter, AuditRow
from assay.storage.sql.attached import audit_cells, insert_into
from assay.storage.sql.registry import SqlDatabase
from assay.storage.sql.tables import AUDIT

_COLUMNS: Final = ", ".join(AUDIT.names)

# `WHERE true`: SQLite would take ON CONFLICT for the ON of a join otherwise.
COUNT_REFUSALS: Final = f"""
{insert_into(AUDIT)} WHERE true
ON CONFLICT (merged_by) WHERE merged_by IS NOT NULL DO UPDATE SET count = audit.count + excluded.count"""
SELECT_AUDITS: Final = f"SELECT id, {_COLUMNS} FROM audit"
AUDIT_CONDITIONS: Final = {
    "actor": "actor = ${0}",
    "action": "action = ${0}",
    "target": "target = ${0}",
    "outcome": "outcome = ${0}",
    "namespaces": "namespace $one_of({0})",
    "after": "at >= ${0}",
    "before": "at < ${0}",
    "before_id": "id < ${0}",
}


class SqlAudit:
    """See `AuditTrail`."""

    def __init__(self, store: SqlDatabase) -> None:
        self._store = store

    async def count_refusals(self, rows: Sequence[AuditRow]) -> None:
        """See `AuditTrail`."""
        # In order of their keys: two engines that count the same refusals must not wait for each other.
        ordered = sorted(rows, key=lambda row: row.merged_by or "")
        await self._store.change([(COUNT_REFUSALS, audit_cells(row)) for row in ordered])

    async def page(self, wanted: AuditFilter, limit: int) -> Sequence[AuditRow]:
        """See `AuditTrail`."""
        conditions: list[str] = []
        arguments: list[object] = []
        for name, condition in AUDIT_CONDITIONS.items():
            value: Any = getattr(wanted, name)
            if value is not None:
                arguments.append(self._store.dialect.texts(value) if name == "namespaces" else value)
                conditions.append(condition.format(len(arguments)))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        text = f"{SELECT_AUDITS}{where} ORDER BY id DESC LIMIT ${len(arguments) + 1}"
        return [_row(row) for row in await self._store.search(text, *arguments, limit)]


def _row(row: Sequence[Any]) -> AuditRow:
    values = dict(zip(("id", *AUDIT.names), row, strict=True))
    for name in ("before", "after"):
        values[name] = None if values[name] is None else bytes(values[name])
    return AuditRow(**values)
