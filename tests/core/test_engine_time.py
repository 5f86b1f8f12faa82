"""The arithmetic of engine time: steady whatever the wall clock does, and the same for all engines of a store."""

from assay.core.engine_time import ClockReading, Jump, SharedTime, SteadyTime, corrected
from assay.core.model.ids import SECOND, Time

HOUR: Time = 3_600 * SECOND
WALL: Time = 1_700_000_000 * SECOND


def test_engine_time_begins_at_the_wall_clock():
    assert SteadyTime(5 * SECOND, WALL).offset + 5 * SECOND == WALL


def test_the_offset_moves_by_at_most_one_per_cent():
    steady = SteadyTime(0, WALL)
    steady.adjust(SECOND, WALL + HOUR)
    assert steady.offset == WALL + SECOND // 100
    steady.adjust(2 * SECOND, WALL - HOUR)
    assert steady.offset == WALL


def test_a_small_difference_is_not_overshot():
    steady = SteadyTime(0, WALL)
    steady.adjust(SECOND, WALL + SECOND + 3)
    assert steady.offset == WALL + 3


def test_a_suspend_of_hours_is_no_reason_for_a_step():
    steady = SteadyTime(0, WALL)
    steady.adjust(8 * HOUR, WALL + 9 * HOUR)
    assert steady.offset == WALL + SECOND // 100


class Machine:
    """An engine and its boot clock on a shared store whose clock a test sets."""

    def __init__(self) -> None:
        self.boot: Time = 0
        self.shared = SharedTime()

    def read(self, time: Time, trip: Time = 1_000, version: tuple[int, int] = (0, 0)) -> Time | None:
        """Learn from a reading in the middle of a round trip; the jump that was seen."""
        reading = ClockReading(time, time, version)
        jump = self.shared.learn(self.boot - trip // 2, self.boot + trip // 2, reading)
        return None if jump is None else jump.by


def test_the_first_reading_sets_the_offset_however_far():
    machine = Machine()
    assert machine.read(WALL) is None
    assert machine.shared.offset == WALL


def test_within_the_round_trip_nothing_is_learned():
    machine = Machine()
    machine.read(WALL)
    machine.read(WALL + 4_000, trip=10_000)
    assert machine.shared.offset == WALL
    machine.read(WALL + 4_000, trip=2_000)
    assert machine.shared.offset == WALL + 3_000


def test_a_jump_is_seen_and_not_followed():
    for jump in (HOUR, -HOUR):
        machine = Machine()
        machine.read(WALL)
        assert machine.read(WALL + jump) == jump
        assert machine.shared.offset == WALL
        assert machine.read(WALL) is None


def test_an_engine_that_starts_takes_over_only_a_time_that_others_confirm():
    assert ClockReading(WALL, WALL, (0, WALL - 3 * SECOND)).confirmed
    assert not ClockReading(WALL + HOUR, WALL + HOUR, (0, WALL)).confirmed
    assert not ClockReading(WALL - HOUR, WALL - HOUR, (0, WALL)).confirmed
    assert ClockReading(WALL + HOUR, WALL + HOUR, (0, WALL), alone=True).confirmed


def test_a_small_jump_is_followed():
    machine = Machine()
    machine.read(WALL)
    assert machine.read(WALL + SECOND, trip=0) is None
    assert machine.shared.offset == WALL + SECOND


def test_a_slow_answer_is_no_jump():
    machine = Machine()
    machine.read(WALL)
    assert machine.read(WALL + 4 * SECOND, trip=10 * SECOND) is None
    assert machine.shared.offset == WALL


def test_a_correction_that_another_engine_undoes_was_wrong():
    """The boot clock of a frozen virtual machine stood still: all others disagree with it."""
    machine = Machine()
    machine.read(WALL)
    jump = machine.shared.learn(0, 0, ClockReading(WALL + HOUR, WALL + HOUR))
    assert jump is not None
    machine.shared.took_out(jump, ClockReading(WALL + HOUR, WALL, (-HOUR, 1), corrected=True))
    assert machine.read(WALL + HOUR, version=(0, 2)) is None
    assert machine.shared.offset == WALL + HOUR


def test_the_same_step_twice_is_taken_out_twice():
    machine = Machine()
    machine.read(WALL)
    jump = machine.shared.learn(0, 0, ClockReading(WALL + HOUR, WALL + HOUR))
    assert jump is not None
    machine.shared.took_out(jump, ClockReading(WALL + HOUR, WALL, (-HOUR, 1), corrected=True))
    assert machine.read(WALL, version=(-HOUR, 1)) is None
    assert machine.read(WALL + HOUR, version=(-HOUR, 1)) == HOUR


def test_a_correction_goes_back_to_nothing():
    assert corrected(WALL, -HOUR, WALL) == WALL - HOUR
    assert corrected(WALL, -HOUR, WALL - 100 * SECOND) == WALL - HOUR + SECOND
    assert corrected(WALL, HOUR, WALL - 100 * HOUR) == WALL
    assert corrected(WALL, HOUR, WALL + HOUR) == WALL + HOUR  # the clock was set back after it was seen


def test_an_engine_that_starts_continues_from_the_last_correction_if_the_clock_was_set_back():
    shared = SharedTime()
    behind = ClockReading(WALL - HOUR, WALL - 2 * HOUR, (-HOUR, WALL))
    jump = shared.learn(0, 0, behind)
    assert jump == Jump(-HOUR, behind.version)  # engine time was WALL - HOUR when the correction was made
    assert not shared.known
    assert shared.learn(0, 0, ClockReading(WALL - HOUR, WALL - HOUR, (0, WALL - HOUR))) is None
    assert shared.offset == WALL - HOUR
