"""Clocks that a test moves by hand."""

from assay.core.model.ids import Time


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: Time = 1_700_000_000_000_000) -> None:
        self._now = now
        self._wall = now
        self._boot: Time = 0

    def now(self) -> Time:
        """Return the engine time that was set."""
        return self._now

    def wall(self) -> Time:
        """Return the wall time that was set."""
        return self._wall

    def boot(self) -> Time:
        """Return the boot clock, which moves only in `stand_still`."""
        return self._boot

    def advance(self, by: Time) -> Time:
        """Let time pass for an engine that is running."""
        self._now += by
        self._wall += by
        return self._now

    def step(self, by: Time) -> None:
        """Set the wall clock forward, or back if `by` is negative."""
        self._wall += by

    def stand_still(self, by: Time) -> None:
        """Let time pass while the process stands still."""
        self.advance(by)
        self._boot += by
