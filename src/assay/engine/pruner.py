"""Forgets what is kept only for a while: answers to requests long past, due times that started nothing, old notes."""

from collections.abc import Awaitable, Callable
from typing import Final

from assay.core.model.duration import DAY, HOUR
from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock
from assay.storage.ports import Leftovers

OUTCOMES: Final[Time] = DAY
"""How long a repeated request is known again at least (4.4)."""
FIRE_RETENTION: Final[Time] = 30 * DAY
"""How long it is told why a due time started no run."""
NOTES: Final[Time] = FIRE_RETENTION
"""How long the journal tells what no history does, unless its stream goes back further."""
ROWS_PER_SWEEP_COMMIT: Final = 500
"""What is forgotten in one transaction: others wait for it."""
PAGES: Final = 20
BREATH: Final[Time] = SECOND
"""The rest between two rounds while there is more."""


class Pruner:
    """Comes once an hour, and goes on at once while there is more than one round can do."""

    def __init__(self, leftovers: Leftovers, clock: Clock, *, begins: Time = 0, retention: Time = 0) -> None:
        self._leftovers = leftovers
        self._clock = clock
        self._begins = begins
        """Before this nothing is done: a program that lives for a second does not pay for it."""
        self._notes = max(NOTES, retention)

    async def run_once(self) -> Time | None:
        """Forget what is old enough."""
        now = self._clock.now()
        if now < self._begins:
            return self._begins
        finished = [
            await _all(self._leftovers.forget_outcomes, now - OUTCOMES),
            await _all(self._leftovers.forget_fires, now - FIRE_RETENTION),
            await _all(self._leftovers.forget_notes, now - self._notes),
        ]
        return now + (HOUR if all(finished) else BREATH)


async def _all(forget: Callable[[Time, int], Awaitable[int]], before: Time) -> bool:
    """Forget page by page; is that all?"""
    for _ in range(PAGES):
        if await forget(before, ROWS_PER_SWEEP_COMMIT) < ROWS_PER_SWEEP_COMMIT:
            return True
    return False
