"""Notices that this engine stood still: a stopped process, a suspended machine, a blocked event loop.

Workers went on meanwhile and could not extend their leases. So an engine that was absent gives them a full lease, as
an engine that starts does, before it ends the first one.
"""

import logging
from collections.abc import Awaitable, Callable

from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock

log = logging.getLogger("assay.engine")

TICK: Time = SECOND
"""How often a running engine marks that it is present."""
ABSENCE: Time = TICK + SECOND
"""Boot time since the last mark after which the engine was absent; far less than any lease."""


class Presence:
    """The boot time at which this engine was last seen running."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marked_at = clock.boot()

    @property
    def lapsed(self) -> bool:
        """Was the engine absent, and are leases not yet spared?"""
        return self._clock.boot() - self._marked_at > ABSENCE

    def mark(self) -> None:
        """Note that the engine runs; an absence stays noted until it is made up for."""
        if not self.lapsed:
            self._marked_at = self._clock.boot()

    async def make_up(self, spare: Callable[[], Awaitable[None]]) -> None:
        """Spare leases if the engine was absent."""
        if self.lapsed:
            absent = self._clock.boot() - self._marked_at
            log.warning("this engine stood still for %.1f s; workers get a full lease from now", absent / SECOND)
            begun = self._clock.boot()
            await spare()
            self._marked_at = begun
        else:
            self.mark()

    def begin(self) -> None:
        """Forget an absence: the engine starts, and spares leases itself."""
        self._marked_at = self._clock.boot()
