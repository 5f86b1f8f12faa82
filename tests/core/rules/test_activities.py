import pytest
from msgspec.structs import replace

from assay.core.model.commands import RequestCancelActivity, ScheduleActivity
from assay.core.model.effects import CloseActivity, NoteAttempt
from assay.core.model.errors import Kind
from assay.core.model.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityOptions,
    ActivityScheduled,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.core.model.run import CANCELLED, COMPLETED, FAILED
from tests.core.support import (
    BROKEN,
    LEASE,
    NOW,
    OBJECT,
    ONE,
    OTHER,
    TWO,
    WORKER,
    beaten,
    beats,
    both,
    cancel_requested,
    completed,
    completes,
    effects,
    elapsed,
    elapses,
    events,
    failed,
    fails,
    given,
    given_back,
    gives_back,
    keeps,
    later,
    leased,
    leases,
    refused,
    scheduled,
    signalled,
    started,
    stops,
    terminated,
    turned,
)


def running(*more, **options):
    """A run whose activity 1 is in the hands of a worker."""
    return given(started(), scheduled(1, **options), leased(1), *more)


def due(seq=1):
    return elapses("activity", seq)


def back_again(seq=1):
    """The back-off is over and a worker has the next attempt."""

    def wait(world):
        world.now = world.activity(seq).not_before or world.now
        world.take(due(seq))
        world.take(leased(seq))

    return wait


# scheduling


def test_an_activity_is_recorded_and_waits_for_a_worker():
    world = given(started(), scheduled(1, "charge", input=ONE, task_queue="cards"))
    assert world.history()[-1] == ActivityScheduled(100, 1, "charge", "cards", ONE, ActivityOptions())
    activity = world.activity(1)
    assert (activity.ready, activity.attempt, activity.queue, activity.scheduled_at) == (True, 0, "cards", NOW)


def test_an_activity_and_its_attempts_have_ids_of_one_sequence():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleActivity(2, "b")), leased(1), failed(1))
    world.take(back_again(1))
    ids = [world.activity(1).id, world.activity(1).attempt_id, world.activity(2).id, world.activity(2).attempt_id]
    assert ids == [100, 104, 102, 103]


def test_an_activity_is_scheduled_once_per_seq():
    world = given(started(), scheduled(1, "charge"), signalled())
    assert events(world.when(scheduled(1, "other"))) == []


def test_an_activity_that_has_its_outcome_is_not_scheduled_again():
    world = running(completed(1))
    assert events(world.when(scheduled(1))) == []


def test_a_seq_that_comes_twice_in_one_turn_is_scheduled_once():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleActivity(1, "b")))
    assert world.activity(1).name == "a"
    assert len(world.history()) == 2


def test_a_worker_that_leaves_out_seq_counts_from_zero():
    assert given(started(), turned(ScheduleActivity(name="charge"))).activity(0).name == "charge"


def test_the_defaults_are_those_of_the_original():
    options = given(started(), scheduled()).activity(1).options
    assert options.retry == RetryPolicy(3, SECOND, 2.0, 60 * SECOND)
    assert (options.start_to_close, options.heartbeat, options.schedule_to_close) == (300 * SECOND, None, None)


def test_every_knob_of_the_command_is_kept():
    options = (
        given(
            started(),
            scheduled(
                max_attempts=5,
                initial_interval_secs=0.5,
                backoff_coefficient=3.0,
                maximum_interval_secs=10,
                non_retryable=("TypeError",),
                start_to_close_secs=1,
                schedule_to_start_secs=2,
                schedule_to_close_secs=3,
                heartbeat_timeout_secs=4,
                context=OBJECT,
                summary="why",
                priority=TWO,
            ),
        )
        .activity(1)
        .options
    )
    retry = RetryPolicy(5, SECOND // 2, 3.0, 10 * SECOND, ("TypeError",))
    times = SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND
    assert options == ActivityOptions(retry, *times, context=OBJECT, summary="why", priority=TWO)


def test_an_interval_above_the_default_cap_lifts_the_cap():
    retry = given(started(), scheduled(initial_interval_secs=120)).activity(1).options.retry
    assert (retry.initial_interval, retry.maximum_interval) == (120 * SECOND, 120 * SECOND)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": -1},
        {"backoff_coefficient": 0.5},
        {"initial_interval_secs": -1.0},
        {"initial_interval_secs": 10, "maximum_interval_secs": 1},
        {"start_to_close_secs": -1.0},
        {"heartbeat_timeout_secs": float("nan")},
        {"schedule_to_close_secs": 1e12},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with refused("invalid"):
        given(started()).when(scheduled(**options))


def test_a_run_has_a_limit_of_open_activities():
    many = [ScheduleActivity(seq, "a") for seq in range(1, LIMITS.pending_activities + 1)]
    world = given(started(), turned(*many), signalled())
    with refused("limit_exceeded"):
        world.when(turned(ScheduleActivity(9_999, "a")))


def test_the_limit_counts_what_the_same_turn_has_scheduled():
    many = [ScheduleActivity(seq, "a") for seq in range(1, LIMITS.pending_activities)]
    world = given(started(), turned(*many), signalled())
    with refused("limit_exceeded"):
        world.when(turned(ScheduleActivity(9_998, "a"), ScheduleActivity(9_999, "a")))


# leasing


def test_a_lease_begins_an_attempt():
    activity = given(started(), scheduled()).when(leases()).reply
    assert (activity.worker, activity.attempt, activity.attempt_id) == (WORKER, 1, 101)
    assert (activity.started_at, activity.lease_until) == (NOW, NOW + LEASE)


def test_a_worker_of_the_original_has_no_lease_to_keep():
    activity = given(started(), scheduled()).when(leases(lease=None)).reply
    assert (activity.lease_until, activity.deadline()) == (None, NOW + 300 * SECOND)


@pytest.mark.parametrize("before", [leased(), both(leased(), failed()), both(leased(), completed())])
def test_an_activity_that_does_not_wait_is_not_leased(before):
    with refused("not_ready"):
        given(started(), scheduled(), before).when(leases(worker=OTHER))


@pytest.mark.parametrize("option", ["schedule_to_start_secs", "schedule_to_close_secs"])
def test_no_attempt_begins_when_the_time_for_it_is_over(option):
    world = given(started(), scheduled(**{option: 5}), later(5 * SECOND - 1))
    assert world.when(leases()).reply.running
    world.take(later(1))
    with refused("not_ready"):
        world.when(leases())


# success


def test_a_success_is_the_outcome_and_wakes_the_run():
    world = running()
    decision = world.when(completes(1, TWO))
    assert events(decision) == [ActivityCompleted(100, 1, "charge", TWO)]
    assert effects(decision, CloseActivity) == [CloseActivity(world.activity(1), COMPLETED, TWO)]
    assert decision.task.ready


def test_a_result_is_recorded_once():
    world = running(completed())
    with refused("already_reported"):
        world.when(completes(attempt_id=101))
    with refused("already_reported"):
        world.when(fails(attempt_id=101))


REPORTS = [completes, fails, stops, beats, keeps, gives_back]


@pytest.mark.parametrize("report", REPORTS)
def test_nobody_reports_for_another_attempt(report):
    world = running(failed(), back_again())
    with refused("stale_attempt"):
        world.when(report(attempt_id=101))


@pytest.mark.parametrize("report", REPORTS)
def test_an_attempt_that_is_over_is_not_brought_back(report):
    world = running(failed())
    with refused("stale_attempt"):
        world.when(report(attempt_id=101))


@pytest.mark.parametrize("report", REPORTS)
def test_a_closed_run_hears_no_reports(report):
    world = running()
    late = report()(world)
    world.take(terminated())
    with refused("run_closed"):
        world.when(late)


# failure and retry


def test_a_failed_attempt_waits_for_its_back_off():
    world = running()
    decision = world.take(failed())
    assert events(decision) == []
    assert [note.outcome for note in effects(decision, NoteAttempt)] == ["failed"]
    activity = world.activity(1)
    assert (activity.not_before, activity.worker, activity.attempt) == (NOW + SECOND, None, 1)
    assert activity.last_failure == BROKEN
    with refused("not_ready"):
        world.when(leases())


def test_a_back_off_ends_at_its_time_and_not_before():
    world = running(failed(), later(SECOND - 1), due())
    assert not world.activity(1).ready
    world.take(later(1))
    world.take(due())
    assert world.activity(1).ready


def test_the_back_off_grows_up_to_its_cap():
    world = running(max_attempts=0, maximum_interval_secs=10)
    waits = []
    for _ in range(6):
        world.take(failed())
        waits.append((world.activity(1).not_before - world.now) // SECOND)
        world.take(back_again())
    assert waits == [1, 2, 4, 8, 10, 10]


def test_an_interval_of_zero_tries_again_at_once():
    assert running(failed(), initial_interval_secs=0).activity(1).ready


def test_starts_are_bounded_by_max_attempts():
    world = running(failed(), back_again(), failed(), back_again())
    assert world.activity(1).attempt == 3
    decision = world.take(failed())
    (outcome,) = events(decision)
    assert (outcome.final_attempt, outcome.error) == (3, "broken")
    assert outcome.failure.retry_state == "maximum_attempts_reached"
    assert [(note.activity.attempt, note.outcome) for note in effects(decision, NoteAttempt)] == [(3, "failed")]
    assert effects(decision, CloseActivity)[0].status == FAILED
    assert world.run.activities == {}
    assert world.run.task.ready


def test_one_attempt_is_at_most_one_start():
    world = running(max_attempts=1)
    assert events(world.when(fails()))[0].final_attempt == 1
    assert events(world.when(gives_back(lost=True)))[0].final_attempt == 1


@pytest.mark.parametrize(
    "failure",
    [
        FailureInfo(message="no", retryable=False),
        FailureInfo(message="no", type="CardDeclined"),
        FailureInfo(message="no", kind=Kind.INVALID),
    ],
)
def test_what_may_not_be_retried_is_final(failure):
    world = running(non_retryable=("CardDeclined", "Invalid"), max_attempts=9)
    (outcome,) = events(world.when(fails(failure=failure)))
    assert outcome.failure.retry_state == "non_retryable_failure"


def test_details_of_a_heartbeat_reach_the_next_attempt():
    world = running(beaten(details=ONE), failed(), back_again())
    assert world.activity(1).details == ONE


# the four time-outs and the lease


def test_start_to_close_ends_the_attempt_and_it_is_tried_again():
    world = running(later(5 * SECOND - 1), start_to_close_secs=5)
    assert world.when(due()).effects == []
    world.take(later(1))
    decision = world.take(due())
    assert events(decision) == []
    assert [note.outcome for note in effects(decision, NoteAttempt)] == ["start_to_close"]
    assert world.activity(1).last_failure.timeout_type == "start_to_close"
    assert world.activity(1).not_before == world.now + SECOND


def test_the_last_attempt_that_times_out_is_an_event():
    world = running(later(5 * SECOND), start_to_close_secs=5, max_attempts=1)
    decision = world.when(due())
    (outcome,) = events(decision)
    assert (type(outcome), outcome.timeout_type, outcome.final_attempt) == (ActivityFailed, "start_to_close", 1)
    assert (outcome.failure.kind, outcome.failure.retry_state) == (Kind.TIMEOUT, "maximum_attempts_reached")
    assert decision.task.ready


def test_a_heartbeat_feeds_its_clock():
    world = running(later(2 * SECOND), beaten(), later(3 * SECOND - 1), heartbeat_timeout_secs=3)
    world.take(keeps())
    assert world.when(due()).effects == []
    world.take(later(1))
    assert [note.outcome for note in effects(world.when(due()), NoteAttempt)] == ["heartbeat"]


def test_an_attempt_that_never_beats_is_found_from_its_start():
    world = running(later(3 * SECOND), heartbeat_timeout_secs=3)
    assert [note.outcome for note in effects(world.when(due()), NoteAttempt)] == ["heartbeat"]


def test_keeping_the_lease_does_not_feed_the_heartbeat():
    world = running(later(2 * SECOND), keeps(), later(SECOND), heartbeat_timeout_secs=3)
    assert [note.outcome for note in effects(world.when(due()), NoteAttempt)] == ["heartbeat"]


def test_a_heartbeat_also_keeps_the_lease_if_it_says_so():
    world = running(later(SECOND), beaten(lease=LEASE))
    assert world.activity(1).lease_until == NOW + SECOND + LEASE


def test_schedule_to_start_is_final():
    world = given(started(), scheduled(schedule_to_start_secs=5), later(5 * SECOND - 1))
    assert world.when(due()).effects == []
    world.take(later(1))
    decision = world.when(due())
    (outcome,) = events(decision)
    assert (outcome.timeout_type, outcome.final_attempt) == ("schedule_to_start", 0)
    assert outcome.failure.retry_state == "timeout"
    assert effects(decision, NoteAttempt) == []


def test_schedule_to_start_ends_with_the_start():
    assert running(later(6 * SECOND), keeps(), schedule_to_start_secs=5).when(due()).effects == []


def test_schedule_to_start_does_not_count_the_back_off():
    world = running(failed(), schedule_to_start_secs=5, initial_interval_secs=30)
    assert world.activity(1).deadline() == NOW + 30 * SECOND
    world.take(later(30 * SECOND))
    world.take(due())
    assert world.activity(1).deadline() == NOW + 35 * SECOND


def test_schedule_to_close_is_final_whatever_attempts_are_left():
    world = running(later(5 * SECOND), schedule_to_close_secs=5)
    (outcome,) = events(world.when(due()))
    assert (outcome.timeout_type, outcome.failure.retry_state) == ("schedule_to_close", "timeout")


def test_no_attempt_begins_after_schedule_to_close():
    world = running(later(4 * SECOND), schedule_to_close_secs=5)
    (outcome,) = events(world.when(fails()))
    assert (outcome.error, outcome.failure.retry_state, outcome.timeout_type) == ("broken", "timeout", None)


def test_the_earliest_clock_speaks_first():
    world = running(later(300 * SECOND), heartbeat_timeout_secs=20, start_to_close_secs=15)
    assert [note.outcome for note in effects(world.when(due()), NoteAttempt)] == ["lease"]


def test_a_worker_that_dies_loses_its_attempt():
    world = running(later(LEASE - 1))
    assert world.when(due()).effects == []
    world.take(later(1))
    decision = world.take(due())
    assert [note.outcome for note in effects(decision, NoteAttempt)] == ["lease"]
    assert world.activity(1).last_failure.type == "WorkerLost"
    assert world.activity(1).attempt == 1


def test_a_worker_that_lives_keeps_its_attempt():
    world = running(later(LEASE - 1), keeps(), later(LEASE - 1))
    assert world.when(due()).effects == []


def test_a_deadline_of_an_activity_that_is_done_does_nothing():
    world = running(completed(), later(3_600 * SECOND))
    assert world.when(due()).effects == []


@pytest.mark.parametrize("number", range(64))
def test_the_next_deadline_is_the_first_of_its_clocks(number):
    """The deadline is worked out without the list of clocks, because every change of every activity needs it."""
    chosen = [bool(number & bit) for bit in (1, 2, 4, 8, 16, 32)]
    to_start, to_close, heartbeat, lease, held, waiting = chosen
    options = ActivityOptions(
        start_to_close=7 * SECOND,
        schedule_to_start=5 * SECOND if to_start else None,
        schedule_to_close=9 * SECOND if to_close else None,
        heartbeat=3 * SECOND if heartbeat else None,
    )
    activity = replace(
        given(started(), scheduled()).activity(1),
        options=options,
        worker=WORKER if held else None,
        started_at=NOW + SECOND if held else None,
        heartbeat_at=NOW + 2 * SECOND if held and heartbeat else None,
        lease_until=NOW + 4 * SECOND if held and lease else None,
        not_before=NOW + 6 * SECOND if waiting and not held else None,
    )
    times = [time for time, _ in activity.limits()]
    if activity.not_before is not None:
        times.append(activity.not_before)
    assert activity.deadline() == min(times, default=None)


def test_each_timeout_has_one_consequence():
    world = running(later(5 * SECOND), due(), start_to_close_secs=5)
    assert world.when(due()).effects == []


# giving back


def test_an_attempt_that_never_ran_does_not_count():
    world = running(given_back())
    activity = world.activity(1)
    assert (activity.attempt, activity.ready, activity.started_at) == (0, True, None)
    assert not [effect for effect in world.effects if isinstance(effect, NoteAttempt)]


def test_the_id_of_an_attempt_that_was_given_back_is_burnt():
    world = running(given_back(), leased(worker=OTHER))
    assert (world.activity(1).attempt, world.activity(1).attempt_id) == (1, 102)
    with refused("stale_attempt"):
        world.when(completes(attempt_id=101))


def test_a_later_attempt_may_be_given_back_too():
    world = running(failed(), back_again(), given_back(), leased())
    assert world.activity(1).attempt == 2
    assert world.activity(1).attempt_id not in (101, 102)


def test_a_lost_attempt_counts():
    world = running(given_back(lost=True))
    assert (world.activity(1).attempt, world.activity(1).not_before) == (1, NOW + SECOND)


def test_what_nobody_wants_any_more_is_not_queued_again():
    world = running(cancel_requested())
    decision = world.take(given_back())
    assert events(decision) == [ActivityCancelled(100, 1, "charge")]
    assert world.run.activities == {}


# cancelling


def test_a_waiting_activity_is_withdrawn():
    world = given(started(), scheduled(), signalled())
    decision = world.take(turned(RequestCancelActivity(1)))
    assert events(decision) == [ActivityCancelRequested(1), ActivityCancelled(100, 1, "charge")]
    assert [effect.status for effect in effects(decision, CloseActivity)] == [CANCELLED]
    assert world.run.task.ready


def test_a_running_activity_is_told_through_its_heartbeat():
    world = running(signalled(), turned(RequestCancelActivity(1)))
    assert world.history()[-1] == ActivityCancelRequested(1)
    assert world.when(beats()).reply.cancel_requested
    assert world.when(keeps()).reply.cancel_requested


def test_a_cancel_that_is_asked_for_twice_is_recorded_once():
    world = running(signalled(), turned(RequestCancelActivity(1)), signalled())
    assert events(world.when(turned(RequestCancelActivity(1), RequestCancelActivity(7)))) == []


def test_an_activity_may_be_given_up_in_the_turn_that_began_it():
    world = given(started(), turned(ScheduleActivity(1, "charge"), RequestCancelActivity(1)))
    assert world.run.activities == {}
    assert world.history()[-1] == ActivityCancelled(100, 1, "charge")


def test_a_cancelled_attempt_ends_as_cancelled():
    world = running(cancel_requested())
    assert events(world.when(stops(details=ONE))) == [ActivityCancelled(100, 1, "charge", ONE)]


def test_a_cancelled_attempt_may_still_succeed():
    assert events(running(cancel_requested()).when(completes())) == [ActivityCompleted(100, 1, "charge", ONE)]


@pytest.mark.parametrize("how", [fails(), gives_back(lost=True), both(later(LEASE), due())])
def test_a_cancelled_attempt_is_not_tried_again(how):
    world = running(cancel_requested())
    world.take(how)
    outcome = world.history()[-1]
    assert (type(outcome), outcome.failure.retry_state) == (ActivityFailed, "cancel_requested")


def test_a_heartbeat_without_details_keeps_the_last_ones():
    world = running(beaten(details=Payload(b'{"at":7}')), beaten(details=NULL))
    assert world.activity(1).details == Payload(b'{"at":7}')


def test_an_outcome_of_another_activity_changes_nothing_here():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleActivity(2, "b")), leased(1), leased(2))
    world.take(completed(2))
    assert list(world.run.activities) == [1]


def test_a_lapsed_deadline_row_is_harmless():
    world = running(elapsed("activity", 1))
    assert world.activity(1).running
