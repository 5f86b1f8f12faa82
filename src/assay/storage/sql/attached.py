"""Statements of the rows beside a change: the kept answer of its request, and its audit."""

# the names of tables and columns are constants of `tables`; values are parameters

from operator import attrgetter
from typing import Final

from assay.core.model.attached_rows import AttachedRows, AuditRow, RequestOutcome
from assay.storage.sql.tables import AUDIT, OUTCOMES, Table

Statement = tuple[str, tuple[object, ...]]


def insert_into(table: Table) -> str:
    """Return the statement that inserts a row, as a SELECT to which a condition can be added."""
    places = ", ".join(f"${place}" for place in range(1, len(table.columns) + 1))
    return f"INSERT INTO {table.name} ({', '.join(table.names)}) SELECT {places}"


_KEEP_OUTCOME: Final = insert_into(OUTCOMES)
_ADD_AUDIT: Final = insert_into(AUDIT)


def attached_statements(rows: AttachedRows, condition: str = "", *arguments: object) -> list[Statement]:
    """Return the statements that write attached rows in the transaction of their change.

    Args:
        rows: The rows.
        condition: SQL that holds only if the change was made, with `{0}` for its first argument; "" for always.
        arguments: The arguments of the condition.
    """
    found: list[Statement] = []
    if rows.outcome is not None:
        found.append(_conditional(_KEEP_OUTCOME, outcome_cells(rows.outcome), condition, arguments))
    if rows.audit is not None:
        found.append(_conditional(_ADD_AUDIT, audit_cells(rows.audit), condition, arguments))
    return found


def _conditional(text: str, cells: tuple[object, ...], condition: str, arguments: tuple[object, ...]) -> Statement:
    if not condition:
        return text, cells
    places = [f"${place}" for place in range(len(cells) + 1, len(cells) + len(arguments) + 1)]
    return f"{text} WHERE {condition.format(*places)}", (*cells, *arguments)


def outcome_cells(outcome: RequestOutcome) -> tuple[object, ...]:
    """Return the cells of a kept answer, in the order of the columns."""
    return (outcome.namespace, outcome.key, outcome.fingerprint, outcome.status, outcome.body, outcome.created_at)


_audit_values: Final = attrgetter(*AUDIT.names)


def audit_cells(row: AuditRow) -> tuple[object, ...]:
    """Return the cells of a row of the audit, in the order of the columns."""
    found: tuple[object, ...] = _audit_values(row)
    return found
