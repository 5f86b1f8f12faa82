"""Deletes rows after their retention: answers of idempotency keys, due times without a run, audit, notes."""

from collections.abc import Awaitable, Callable
from typing import Final

from assay.core.model.duration import DAY, HOUR
from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock
from assay.storage.ports import Leftovers

OUTCOME_RETENTION: Final[Time] = DAY
"""Least time for which a repeated request gets its first answer."""
FIRE_RETENTION: Final[Time] = 30 * DAY
"""Time for which a schedule shows why a due time started no run."""
NOTE_RETENTION: Final[Time] = FIRE_RETENTION
"""Least time for which the journal keeps rows that are in no history; longer if its stream goes back further."""
AUDIT_RETENTION: Final[Time] = 365 * DAY
"""Time for which the audit is kept, unless the operator chooses."""
ROWS_PER_SWEEP_COMMIT: Final = 500
"""Rows deleted in one transaction: other writes wait for it."""
COMMITS_PER_SWEEP: Final = 20
SWEEP_PAUSE: Final[Time] = SECOND
"""Time between two sweeps while more rows are old enough."""


class Pruner:
    """The service that deletes old rows: every hour, or every second while a sweep does not reach the end."""

    def __init__(
        self,
        leftovers: Leftovers,
        clock: Clock,
        *,
        begins: Time = 0,
        retention: Time = 0,
        audit_retention: Time = AUDIT_RETENTION,
    ) -> None:
        self._leftovers = leftovers
        self._clock = clock
        self._begins = begins
        """No sweep before this time: short-lived programs must not pay for it."""
        self._note_retention = max(NOTE_RETENTION, retention)
        self._audit_retention = audit_retention

    async def run_once(self) -> Time | None:
        """Delete rows beyond their retention, up to the limits of a sweep."""
        now = self._clock.now()
        if now < self._begins:
            return self._begins
        finished = [
            await _sweep(self._leftovers.forget_outcomes, now - OUTCOME_RETENTION),
            await _sweep(self._leftovers.forget_fires, now - FIRE_RETENTION),
            await _sweep(self._leftovers.forget_audits, now - self._audit_retention),
            await _sweep(self._leftovers.forget_notes, now - self._note_retention),
        ]
        return now + (HOUR if all(finished) else SWEEP_PAUSE)


async def _sweep(forget: Callable[[Time, int], Awaitable[int]], before: Time) -> bool:
    """Delete rows page by page; return True if no old row is left."""
    for _ in range(COMMITS_PER_SWEEP):
        if await forget(before, ROWS_PER_SWEEP_COMMIT) < ROWS_PER_SWEEP_COMMIT:
            return True
    return False
