"""Maintains the clocks every second: reads a shared clock, warns of a difference, follows steps of the wall clock."""

import logging
from collections.abc import Awaitable, Callable

from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock, SharedClock
from assay.engine.presence import PRESENCE_TICK, Presence
from assay.storage.ports import Store

log = logging.getLogger("assay.engine")

LEARN_EVERY: Time = 2 * SECOND
"""Time between two reads of a shared store's clock."""
LARGEST_CLOCK_DRIFT: Time = SECOND // 2
"""A larger change between wall clock and boot clock within one tick is a step of the wall clock."""
WARNED_OFFSET: Time = SECOND
"""A larger difference between engine time and wall clock is logged as a warning."""


def clock_offset(clock: Clock) -> Time:
    """Return engine time minus wall clock."""
    return clock.now() - clock.wall()


class ClockKeeper:
    """The service that maintains an engine's clock."""

    def __init__(self, store: Store, clock: Clock, presence: Presence) -> None:
        self._store = store
        self._clock = clock
        self._presence = presence
        self._learn_at: Time = 0
        self._difference = clock.wall() - clock.boot()
        self._warned = False
        self._on_tick: list[Callable[[], None]] = []
        self._on_step_back: list[Callable[[], Awaitable[None]]] = []

    def on_tick(self, listener: Callable[[], None]) -> None:
        """Call `listener` every second."""
        self._on_tick.append(listener)

    def on_step_back(self, listener: Callable[[], Awaitable[None]]) -> None:
        """Call `listener` after the wall clock was set back."""
        self._on_step_back.append(listener)

    async def begin(self) -> None:
        """Read the shared clock before the first decision."""
        if isinstance(self._clock, SharedClock):
            await self._clock.learn(self._store)
        self._difference = self._clock.wall() - self._clock.boot()
        self._presence.begin()

    async def run_once(self) -> Time | None:
        """See `Service`."""
        self._presence.mark()
        if isinstance(self._clock, SharedClock) and self._clock.boot() >= self._learn_at:
            self._learn_at = self._clock.boot() + LEARN_EVERY
            await self._clock.learn(self._store)
        self._warn()
        for tick in self._on_tick:
            tick()
        await self._follow_wall()
        return self._clock.now() + PRESENCE_TICK

    def _warn(self) -> None:
        """Log a warning once per excursion of engine time from the wall clock."""
        offset = clock_offset(self._clock)
        if abs(offset) > WARNED_OFFSET and not self._warned:
            log.warning(
                "engine time is %+.1f s off the wall clock, which was set while the engine ran; timers and leases keep"
                " their durations and engine time approaches the wall clock by 1 %%; schedules follow the wall clock",
                offset / SECOND,
            )
        self._warned = abs(offset) > WARNED_OFFSET

    async def _follow_wall(self) -> None:
        difference = self._clock.wall() - self._clock.boot()
        stepped = difference - self._difference
        if stepped < -LARGEST_CLOCK_DRIFT:
            for listener in self._on_step_back:
                await listener()
        self._difference = difference  # after the listeners: if one fails, all are called again
