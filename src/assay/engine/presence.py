"""Detects that this engine was suspended: a stopped process, a suspended machine, a blocked event loop.

Workers went on working meanwhile and could not extend their leases. An engine that was suspended therefore extends all
leases once, as after a start, before the first may end.
"""

import logging
from collections.abc import Awaitable, Callable

from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock

log = logging.getLogger("assay.engine")

PRESENCE_TICK: Time = SECOND
"""Time between two marks of a running engine."""
SUSPENDED_AFTER: Time = PRESENCE_TICK + SECOND
"""Boot time without a mark that counts as a suspension; far less than any lease."""


class Presence:
    """The boot time of this engine's last mark."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marked_at = clock.boot()

    @property
    def lapsed(self) -> bool:
        """True after a suspension, until leases are extended."""
        return self._clock.boot() - self._marked_at > SUSPENDED_AFTER

    def mark(self) -> None:
        """Mark that the engine runs. A suspension stays marked until `extend_after_suspension`."""
        if not self.lapsed:
            self._marked_at = self._clock.boot()

    async def extend_after_suspension(self, extend_leases: Callable[[], Awaitable[None]]) -> None:
        """Call `extend_leases` if the engine was suspended."""
        if self.lapsed:
            suspended = self._clock.boot() - self._marked_at
            log.warning("this engine was suspended for %.1f s; all leases are extended once", suspended / SECOND)
            begun = self._clock.boot()  # not the time after: a second suspension meanwhile must show
            await extend_leases()
            self._marked_at = begun
        else:
            self.mark()

    def begin(self) -> None:
        """Reset the mark: the engine starts, and a start extends leases by itself."""
        self._marked_at = self._clock.boot()
