"""The arithmetic of engine time: plain functions of clock readings, without a clock.

Engine time is the boot clock, which never steps and counts suspends, plus an offset. Timers, leases, retries and event
times follow it, so that a step of the wall clock neither fires a timer early nor ends a lease (I10, I13).
"""

from typing import NamedTuple

from assay.core.model.ids import SECOND, Time

SLEW_DIVISOR = 100
"""The offset moves by at most one part in so many: 10 ms a second, too slow for any lease or timer to be lost."""
MAX_CONFIRMATION_AGE: Time = 6 * SECOND
"""Living engines confirm the shared time every two seconds; one that was last confirmed longer ago has just jumped."""
LARGEST_JUMP: Time = 2 * SECOND
"""A jump of the shared time by more than this is taken out; a smaller one is followed."""


class SteadyTime:
    """The offset from the boot clock to engine time, for an engine that has its store to itself."""

    __slots__ = ("_adjusted_at", "offset")

    def __init__(self, boot: Time, wall: Time) -> None:
        self.offset = wall - boot
        self._adjusted_at = boot

    def adjust(self, boot: Time, wall: Time) -> None:
        """Move the offset towards the wall clock.

        Boot time beyond a second does not count: after a suspend of hours one per cent would be a step.
        """
        most = min(boot - self._adjusted_at, SECOND) // SLEW_DIVISOR
        self._adjusted_at = boot
        self.offset += max(-most, min(most, wall - boot - self.offset))


class ClockReading(NamedTuple):
    """What a store's clock showed."""

    wall: Time
    """The wall clock, which schedules follow."""
    time: Time
    """Engine time: the wall clock plus the correction in effect."""
    version: tuple[int, int] = (0, 0)
    """The stored correction, and the wall time when it was stored; for compare-and-set."""
    corrected: bool = False
    """Did the call that made this reading store a correction?"""
    alone: bool = False
    """Was no other engine alive when this one first read the clock?"""
    confirmed_at: Time = 0
    """The wall time at which an engine that is alive last found the time right; of several the nearest to `wall`."""

    @property
    def confirmed(self) -> bool:
        """May an engine that starts take this time over?

        Between a step of the database's clock and the correction by the engines that see it, it may not.
        """
        return (
            self.alone
            or min(abs(self.wall - self.version[1]), abs(self.wall - self.confirmed_at)) <= MAX_CONFIRMATION_AGE
        )


class Jump(NamedTuple):
    """A jump of the shared time, to be taken out of the correction if that has not changed since.

    A jump by 0 confirms the time that was read last, and changes nothing that is stored: an idle engine writes nothing.
    """

    by: Time
    version: tuple[int, int]


class SharedTime:
    """The offset from the boot clock to the time that all engines of a shared store follow."""

    __slots__ = ("_taken", "known", "offset", "wall_offset")

    def __init__(self) -> None:
        self.offset: Time = 0
        self.wall_offset: Time = 0
        self.known = False
        self._taken: Jump | None = None
        """The last jump that this engine took out, with the version that it wrote."""

    def learn(self, sent_at: Time, received_at: Time, reading: ClockReading) -> Jump | None:
        """Learn the offset from a reading between two readings of the boot clock.

        Returns:
            The jump to take out of the correction before anything is learned, or None.
        """
        middle, error = (sent_at + received_at) // 2, (received_at - sent_at + 1) // 2
        self.wall_offset = reading.wall - middle
        found = reading.time - middle
        jump = found - self.offset
        if not self.known:
            self.offset = found
        elif abs(jump) > LARGEST_JUMP + received_at - sent_at:
            if not self._put_back(jump, reading):
                return Jump(jump, reading.version)
            self.offset, self._taken = found, None
        # The true offset is within the round trip of what was found: inside it there is no evidence of a change.
        self.offset = max(found - error, min(found + error, self.offset))
        self.known = True
        return None

    def took_out(self, jump: Jump, reading: ClockReading) -> None:
        """Note that this engine's correction was stored, as `reading` has it."""
        self._taken = Jump(jump.by, reading.version)

    def _put_back(self, jump: Time, reading: ClockReading) -> bool:
        """Has another engine undone this engine's correction?

        Then the boot clock of this machine stood still, as that of a virtual machine may do while it is frozen, and
        the shared time never jumped.
        """
        if self._taken is None or abs(jump - self._taken.by) > LARGEST_JUMP:
            return False
        changed = reading.version[0] - self._taken.version[0]
        return abs(changed - jump) < abs(jump) // 2  # after another step of the clock it would be as it was


def corrected(wall: Time, correction: Time, seen_at: Time) -> Time:
    """Return the engine time for a wall time: the correction goes back to 0 by one per cent of the time passed.

    The function `assay_time` in the database computes the same.
    """
    left = max(0, abs(correction) - max(0, wall - seen_at) // SLEW_DIVISOR)
    return wall + (left if correction >= 0 else -left)
