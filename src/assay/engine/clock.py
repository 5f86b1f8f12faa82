"""The engine's clocks: the one place that asks the machine for the time."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from assay.core.engine_time import ClockReading, Jump, SharedTime, SteadyTime
from assay.core.model.ids import SECOND, Time

ADJUST_EVERY: Time = SECOND // 10
CORRECTION_ATTEMPTS = 3
CONFIRMATION_LOOKS, CONFIRMATION_PAUSE = 40, 0.2

# Counts the time that the machine is suspended; on macOS the monotonic clock does so.
boot_ns: Callable[[], int] = partial(
    time.clock_gettime_ns, getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 1))
)


def _wall() -> Time:
    return time.time_ns() // 1_000


class Clock(Protocol):
    """Where the engine gets the time from; injected, so that tests and simulations hold it in hand."""

    def now(self) -> Time:
        """Return engine time: microseconds since the epoch, never less than the time returned before (I13)."""
        ...

    def wall(self) -> Time:
        """Return the wall clock, which schedules follow and which may step; the database's where engines share one."""
        ...

    def boot(self) -> Time:
        """Return the boot clock: it never steps, and counts the time that the process or the machine stood still."""
        ...


class SystemClock:
    """The clock of an engine that has its store to itself: set by the wall clock once, steady from then on."""

    def __init__(self, boot_ns: Callable[[], int] = boot_ns, wall: Callable[[], Time] = _wall) -> None:
        self._boot_ns = boot_ns
        self._wall = wall
        boot = self.boot()
        self._steady = SteadyTime(boot, wall())
        self._offset = self._steady.offset
        self._adjust_at = boot + ADJUST_EVERY
        self._last = 0

    def now(self) -> Time:
        """See `Clock`; on the hot path, so the wall clock is read only now and then."""
        boot = self._boot_ns() // 1_000
        if boot >= self._adjust_at:
            self._adjust(boot)
        now = boot + self._offset
        if now > self._last:
            self._last = now
        return self._last

    def _adjust(self, boot: Time) -> None:
        self._steady.adjust(boot, self._wall())
        self._offset = self._steady.offset
        self._adjust_at = boot + ADJUST_EVERY

    def wall(self) -> Time:
        """See `Clock`."""
        return self._wall()

    def boot(self) -> Time:
        """See `Clock`."""
        return self._boot_ns() // 1_000


class StoreClock(Protocol):
    """A store whose clock several engines share."""

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`."""
        ...


async def _confirmed(store: StoreClock) -> None:
    """Wait until the engines that are alive have found the shared time right; not for ever, they may stand still."""
    for _ in range(CONFIRMATION_LOOKS):
        if (await store.clock()).confirmed:
            return
        await asyncio.sleep(CONFIRMATION_PAUSE)


class SharedClock:
    """The clock of an engine on a shared store: the boot clock, with offsets learned from the store.

    The wall clock of this machine is a first guess, until the store has been asked, and counts for nothing after that.
    """

    def __init__(self, boot_ns: Callable[[], int] = boot_ns, wall: Callable[[], Time] = _wall) -> None:
        self._boot_ns = boot_ns
        self._shared = SharedTime()
        self._offset = self._wall_offset = wall() - self.boot()
        self._last = 0

    def now(self) -> Time:
        """See `Clock`."""
        now = self._boot_ns() // 1_000 + self._offset
        if now > self._last:
            self._last = now
        return self._last

    def wall(self) -> Time:
        """See `Clock`."""
        return self.boot() + self._wall_offset

    def boot(self) -> Time:
        """See `Clock`."""
        return self._boot_ns() // 1_000

    async def learn(self, store: StoreClock) -> None:
        """Learn the offsets anew; a jump of the shared time is taken out of its correction first, once for all."""
        first, jump = not self._shared.known, None
        if first:
            await _confirmed(store)
        for _ in range(CORRECTION_ATTEMPTS):
            asked = self.boot()
            reading = await store.clock(jump)
            if jump is not None and reading.corrected:
                self._shared.took_out(jump, reading)
            jump = self._shared.learn(asked, self.boot(), reading)
            if jump is None:
                await store.clock(Jump(0, reading.version))
                break
        self._wall_offset = self._shared.wall_offset
        self._offset = self._shared.offset
        if first:
            self._last = 0  # a guess that was too late must not stop the clock
