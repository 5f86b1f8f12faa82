import pytest

from assay.core.model.commands import CancelTimer, ScheduleTimer
from assay.core.model.events import TimerCancelled, TimerFired, TimerScheduled
from assay.core.model.ids import SECOND
from tests.core.support import (
    NOW,
    elapsed,
    elapses,
    events,
    given,
    later,
    refused,
    signalled,
    started,
    terminated,
    turned,
)


def armed(seq=1, duration_secs=60.0):
    return turned(ScheduleTimer(seq, duration_secs))


def test_a_timer_is_recorded_and_armed():
    world = given(started(), armed())
    assert world.history()[-1] == TimerScheduled(100, 1, 1_700_000_060.0, 60.0)
    assert world.run.timers == {1: NOW + 60 * SECOND}


def test_a_timer_fires_when_its_time_has_come_and_not_before():
    world = given(started(), armed(), later(60 * SECOND - 1))
    assert events(world.when(elapses("timer", 1))) == []
    world.take(later(1))
    decision = world.when(elapses("timer", 1))
    assert events(decision) == [TimerFired(1, 1_700_000_060.0)]
    assert decision.task.ready


def test_a_timer_fires_once():
    world = given(started(), armed(), later(60 * SECOND), elapsed("timer", 1))
    assert events(world.when(elapses("timer", 1))) == []
    assert world.run.timers == {}


def test_a_timer_that_is_looked_at_late_fires_late():
    world = given(started(), armed(), later(3_600 * SECOND))
    decision = world.when(elapses("timer", 1))
    assert decision.events[0].time == world.now
    assert decision.events[0].event.fire_at == 1_700_000_060.0


@pytest.mark.parametrize("duration_secs", [0, -1.5])
def test_a_timer_without_length_is_due_at_once(duration_secs):
    world = given(started(), armed(1, duration_secs))
    assert events(world.when(elapses("timer", 1))) == [TimerFired(1, 1_700_000_000.0)]


@pytest.mark.parametrize(("duration_secs", "microseconds"), [(2.3, 2_300_000), (0.1, 100_000), (1.001, 1_001_000)])
def test_a_fraction_of_a_second_loses_nothing(duration_secs, microseconds):
    assert given(started(), armed(1, duration_secs)).run.timers == {1: NOW + microseconds}


@pytest.mark.parametrize("duration_secs", [3.3e9, float("inf"), float("nan")])
def test_a_timer_has_a_longest_length(duration_secs):
    with refused("invalid"):
        given(started()).when(armed(1, duration_secs))


def test_a_timer_is_scheduled_once_per_seq():
    world = given(started(), armed(), signalled())
    assert events(world.when(armed(1, 5.0))) == []


def test_a_timer_that_fired_is_not_scheduled_again():
    world = given(started(), armed(), later(60 * SECOND), elapsed("timer", 1))
    assert events(world.when(armed())) == []


def test_a_worker_that_counts_from_zero_has_timers_too():
    assert given(started(), armed(0)).run.timers == {0: NOW + 60 * SECOND}


def test_a_cancelled_timer_does_not_fire():
    world = given(started(), armed(), signalled(), turned(CancelTimer(1)), later(60 * SECOND))
    assert world.history()[-1] == TimerCancelled(1)
    assert events(world.when(elapses("timer", 1))) == []


def test_a_timer_may_be_given_up_in_the_turn_that_began_it():
    world = given(started(), turned(ScheduleTimer(1, 60.0), CancelTimer(1)))
    assert world.run.timers == {}


def test_a_timer_that_fired_or_never_was_cannot_be_cancelled():
    world = given(started(), armed(), later(60 * SECOND), elapsed("timer", 1))
    assert events(world.when(turned(CancelTimer(1), CancelTimer(2)))) == []


def test_a_cancel_sent_twice_is_recorded_once():
    world = given(started(), armed(), signalled())
    assert events(world.when(turned(CancelTimer(1), CancelTimer(1)))) == [TimerCancelled(1)]


def test_a_clock_that_goes_back_fires_nothing_early_and_nothing_twice():
    world = given(started(), armed(), later(60 * SECOND), elapsed("timer", 1))
    world.now -= 3_600 * SECOND
    assert events(world.when(elapses("timer", 1))) == []
    world = given(started(), armed())
    world.now -= 3_600 * SECOND
    assert events(world.when(elapses("timer", 1))) == []


def test_timers_of_a_closed_run_do_not_fire():
    world = given(started(), armed(), terminated(), later(60 * SECOND))
    assert events(world.when(elapses("timer", 1))) == []
