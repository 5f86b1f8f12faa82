"""The engine's clock: the one place that asks the machine for the time."""

import time
from typing import Protocol

from assay.core.ids import Time


class Clock(Protocol):
    """Where the engine gets the time from; injected, so that tests and simulations hold it in hand."""

    def now(self) -> Time:
        """Microseconds since the epoch, never less than the time given before (I13)."""
        ...


class SystemClock:
    """The machine's wall clock plus the offset to the clock that counts, held where it is when that steps back."""

    def __init__(self) -> None:
        self._last = 0
        self._offset = 0

    def now(self) -> Time:
        """The wall clock, or the last time given if that is later."""
        now = time.time_ns() // 1_000 + self._offset
        if now > self._last:
            self._last = now
        return self._last

    def follow(self, leader: Time) -> None:
        """Agree with a clock that says `leader` now: that of a database which several engines share."""
        self._offset = leader - time.time_ns() // 1_000


class ManualClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self, now: Time = 1_700_000_000_000_000) -> None:
        self._now = now

    def now(self) -> Time:
        """The time it was set to."""
        return self._now

    def advance(self, by: Time) -> Time:
        """Move it forward."""
        self._now += by
        return self._now
