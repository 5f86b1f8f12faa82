"""The audit beside the write path: reads, and refusals, which are counted in memory and written once a second."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from assay.core.model.attached_rows import AuditFilter, AuditRow
from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock
from assay.storage.audit_trail import AuditTrail

REFUSALS_DELAY: Final[Time] = SECOND
"""The longest time for which a refusal is in memory only."""
MAX_COUNTED_REFUSALS: Final = 1_000
"""Rows of refusals in memory. While there are more, refusals of further callers are not counted."""


class Audit:
    """The audit of an engine; a service that writes the refusals."""

    def __init__(self, trail: AuditTrail, clock: Clock) -> None:
        self._trail = trail
        self._clock = clock
        self._refusals: dict[str, AuditRow] = {}

    def now(self) -> Time:
        """Return the engine time of a row."""
        return self._clock.now()

    def count_refusal(self, row: AuditRow) -> None:
        """Count a refusal in the row with the same `merged_by`: a caller who is refused often costs no write each."""
        key = row.merged_by or ""
        known = self._refusals.get(key)
        if known is not None:
            self._refusals[key] = replace(known, count=known.count + 1)
        elif len(self._refusals) < MAX_COUNTED_REFUSALS:
            self._refusals[key] = row

    async def page(self, wanted: AuditFilter, limit: int) -> Sequence[AuditRow]:
        """Return the rows that a filter selects, newest first, including the refusals until now."""
        await self.write_refusals()
        return await self._trail.page(wanted, limit)

    async def write_refusals(self) -> None:
        """Write the counted refusals."""
        rows, self._refusals = self._refusals, {}
        if rows:
            await self._trail.count_refusals(tuple(rows.values()))

    async def run_once(self) -> Time | None:
        """Write the counted refusals; an engine without refusals writes nothing."""
        await self.write_refusals()
        return self._clock.now() + REFUSALS_DELAY
