"""Looks after the clocks every second: relearns a shared one, reports a difference, follows steps of the wall clock."""

import logging
from collections.abc import Awaitable, Callable

from assay.core.model.ids import SECOND, Time
from assay.engine.clock import Clock, SharedClock
from assay.engine.presence import TICK, Presence
from assay.storage.ports import Store

log = logging.getLogger("assay.engine")

LEARN_EVERY: Time = 2 * SECOND
"""How often an engine asks a shared store for the time."""
LARGEST_CLOCK_DRIFT: Time = SECOND // 2
"""A difference between wall clock and boot clock that grows by more than this within one tick is a step."""
NOTABLE: Time = SECOND
"""A difference between engine time and wall clock above this is worth a warning."""


def clock_offset(clock: Clock) -> Time:
    """Return how far engine time is ahead of the wall clock."""
    return clock.now() - clock.wall()


class ClockKeeper:
    """Keeps the clock right and its readers informed."""

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
        """Learn the time before anything is decided by it."""
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
        return self._clock.now() + TICK

    def _warn(self) -> None:
        """Warn once for each excursion."""
        offset = clock_offset(self._clock)
        if abs(offset) > NOTABLE and not self._warned:
            log.warning(
                "engine time is %+.1f s off the wall clock, which was set while the engine ran; timers and leases keep"
                " their durations and engine time approaches the wall clock by 1 %%; schedules follow the wall clock",
                offset / SECOND,
            )
        self._warned = abs(offset) > NOTABLE

    async def _follow_wall(self) -> None:
        difference = self._clock.wall() - self._clock.boot()
        stepped = difference - self._difference
        if stepped < -LARGEST_CLOCK_DRIFT:
            for listener in self._on_step_back:
                await listener()
        self._difference = difference  # not before: a listener that fails is called again
