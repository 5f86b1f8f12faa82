"""The engine's clocks: the only module that reads the time of the machine."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from assay.core.engine_time import ClockReading, Jump, SharedTime, SteadyTime
from assay.core.model.ids import SECOND, Time

ADJUST_EVERY: Time = SECOND // 10
CORRECTION_ATTEMPTS = 3
CONFIRMATION_READS, CONFIRMATION_PAUSE_SECONDS = 40, 0.2

# A clock that also counts while the machine is suspended; on macOS the monotonic clock does.
boot_ns: Callable[[], int] = partial(
    time.clock_gettime_ns, getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 1))
)


def _wall() -> Time:
    return time.time_ns() // 1_000


class Clock(Protocol):
    """The engine's source of time; injected, so that tests and simulations control it."""

    def now(self) -> Time:
        """Return engine time in microseconds since the epoch; never less than an earlier result (I13)."""
        ...

    def wall(self) -> Time:
        """Return the wall clock, for schedules; it may step. On a shared store it is the database's."""
        ...

    def boot(self) -> Time:
        """Return the boot clock: it never steps, and counts while the process or the machine is suspended."""
        ...


class SystemClock:
    """The clock of a single engine: set by the wall clock once, steady from then on."""

    def __init__(self, boot_ns: Callable[[], int] = boot_ns, wall: Callable[[], Time] = _wall) -> None:
        self._boot_ns = boot_ns
        self._wall = wall
        boot = self.boot()
        self._steady = SteadyTime(boot, wall())
        self._offset = self._steady.offset
        self._adjust_at = boot + ADJUST_EVERY
        self._last = 0

    def now(self) -> Time:
        """See `Clock`. Called several times per request, so the wall clock is read only every `ADJUST_EVERY`."""
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
    """A store with a clock that several engines share."""

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """See `Store`."""
        ...


async def _confirmed(store: StoreClock) -> None:
    """Wait until the running engines have confirmed the shared time; not for ever, as they may be suspended."""
    for _ in range(CONFIRMATION_READS):
        if (await store.clock()).confirmed:
            return
        await asyncio.sleep(CONFIRMATION_PAUSE_SECONDS)


class SharedClock:
    """The clock of an engine on a shared store: the boot clock, with offsets learned from the store.

    The wall clock of this machine is only a first guess, used until the store's clock has been read once.
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
        """Read the store's clock and set the offsets; a jump of the shared time is corrected in the store first.

        The correction is a compare-and-set by version: of several engines that detect the same jump one corrects it.
        """
        first, jump = not self._shared.known, None
        if first:
            await _confirmed(store)
        for _ in range(CORRECTION_ATTEMPTS):
            sent_at = self.boot()
            reading = await store.clock(jump)
            if jump is not None and reading.corrected:
                self._shared.took_out(jump, reading)
            jump = self._shared.learn(sent_at, self.boot(), reading)
            if jump is None:
                await store.clock(Jump(0, reading.version))
                break
        self._wall_offset = self._shared.wall_offset
        self._offset = self._shared.offset
        if first:
            self._last = 0  # a first guess in the future must not stop the clock until that time
