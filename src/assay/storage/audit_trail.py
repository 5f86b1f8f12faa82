"""The port of the audit."""

from collections.abc import Sequence
from typing import Protocol

from assay.core.model.attached_rows import AuditFilter, AuditRow


class AuditTrail(Protocol):
    """The audit, as readers see it. Rows of accepted changes are written by the change itself."""

    async def count_refusals(self, rows: Sequence[AuditRow]) -> None:
        """Store refusals; add to the count of a row with the same `merged_by`."""
        ...

    async def page(self, wanted: AuditFilter, limit: int) -> Sequence[AuditRow]:
        """Return the rows that a filter selects, newest first."""
        ...
