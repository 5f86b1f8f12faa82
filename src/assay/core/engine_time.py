"""The arithmetic of engine time: functions of clock readings, without a clock.

Engine time is the boot clock, which never steps and counts suspends, plus an offset. Timers, leases, retries and event
times follow engine time: a step of the wall clock neither fires a timer early nor ends a lease (I10) (I13).
"""

from typing import NamedTuple

from assay.core.model.ids import SECOND, Time

SLEW_DIVISOR = 100
"""The offset moves by at most this part of the elapsed time: 10 ms a second, too little to end a lease early."""
MAX_CONFIRMATION_AGE: Time = 6 * SECOND
"""Running engines confirm the shared time every two seconds; a time without a newer confirmation has just jumped."""
LARGEST_JUMP: Time = 2 * SECOND
"""A jump of the shared time by more than this is corrected; a smaller jump is followed."""


class SteadyTime:
    """The offset from the boot clock to engine time, for the only engine of a store."""

    __slots__ = ("_adjusted_at", "offset")

    def __init__(self, boot: Time, wall: Time) -> None:
        self.offset = wall - boot
        self._adjusted_at = boot

    def adjust(self, boot: Time, wall: Time) -> None:
        """Move the offset towards the wall clock.

        Elapsed time above one second does not count: after hours of suspend, 1 % of them would be a step.
        """
        most = min(boot - self._adjusted_at, SECOND) // SLEW_DIVISOR
        self._adjusted_at = boot
        self.offset += max(-most, min(most, wall - boot - self.offset))


class ClockReading(NamedTuple):
    """A reading of a store's clock."""

    wall: Time
    """The wall clock, which schedules follow."""
    time: Time
    """Engine time: the wall clock plus the correction in effect."""
    version: tuple[int, int] = (0, 0)
    """The stored correction, and the wall time when it was stored; for compare-and-set."""
    corrected: bool = False
    """True if the call that made this reading stored a correction."""
    alone: bool = False
    """True if no other engine was running when this engine first read the clock."""
    confirmed_at: Time = 0
    """The wall time of the last confirmation by a running engine; of several confirmations the nearest to `wall`."""

    @property
    def confirmed(self) -> bool:
        """Return whether a starting engine may adopt this time.

        False after a step of the database's clock, until a running engine has stored the correction.
        """
        return (
            self.alone
            or min(abs(self.wall - self.version[1]), abs(self.wall - self.confirmed_at)) <= MAX_CONFIRMATION_AGE
        )


class Jump(NamedTuple):
    """A jump of the shared time, to subtract from the stored correction if its version is unchanged.

    A jump by 0 confirms the last reading and stores nothing: an idle engine writes nothing.
    """

    by: Time
    version: tuple[int, int]


class SharedTime:
    """The offset from the boot clock to the time of all engines of a shared store."""

    __slots__ = ("_taken", "known", "offset", "wall_offset")

    def __init__(self) -> None:
        self.offset: Time = 0
        self.wall_offset: Time = 0
        self.known = False
        self._taken: Jump | None = None
        """The last jump that this engine corrected, with the version of its correction."""

    def learn(self, sent_at: Time, received_at: Time, reading: ClockReading) -> Jump | None:
        """Update the offset from a reading made between two readings of the boot clock.

        Returns:
            A jump to correct first, with the offset unchanged; None if the offset was updated.
        """
        middle, error = (sent_at + received_at) // 2, (received_at - sent_at + 1) // 2
        self.wall_offset = reading.wall - middle
        found = reading.time - middle
        jump = found - self.offset
        if not self.known:
            # The clock was set back after the last correction, and no running engine has removed the step: engines
            # that started with this time would find all ready work in their future. Continue from the correction.
            earliest = reading.version[0] + reading.version[1]
            if reading.time < earliest - LARGEST_JUMP:
                return Jump(reading.time - earliest, reading.version)
            self.offset = found
        elif abs(jump) > LARGEST_JUMP + received_at - sent_at:
            if not self._put_back(jump, reading):
                return Jump(jump, reading.version)
            self.offset, self._taken = found, None
        # The true offset is within half a round trip of the result: inside this range nothing shows a change.
        self.offset = max(found - error, min(found + error, self.offset))
        self.known = True
        return None

    def took_out(self, jump: Jump, reading: ClockReading) -> None:
        """Record that this engine's correction was stored with the version of `reading`."""
        self._taken = Jump(jump.by, reading.version)

    def _put_back(self, jump: Time, reading: ClockReading) -> bool:
        """Return whether another engine has undone this engine's correction.

        Then the shared time never jumped: the boot clock of this machine stood still, as in a paused VM.
        """
        if self._taken is None or abs(jump - self._taken.by) > LARGEST_JUMP:
            return False
        changed = reading.version[0] - self._taken.version[0]
        return (
            abs(changed - jump) < abs(jump) // 2
        )  # after a second step of the clock the correction would be unchanged


def corrected(wall: Time, correction: Time, seen_at: Time) -> Time:
    """Return the engine time for a wall time: the correction shrinks by 1 % of the elapsed time, down to 0.

    The database function `assay_time` computes the same value.
    """
    left = max(0, abs(correction) - max(0, wall - seen_at) // SLEW_DIVISOR)
    return wall + (left if correction >= 0 else -left)
