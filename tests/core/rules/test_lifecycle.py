import pytest

from assay.core.model.commands import (
    CancelWorkflow,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    ScheduleActivity,
    ScheduleTimer,
)
from assay.core.model.effects import CloseActivity, PutActivity
from assay.core.model.errors import Kind
from assay.core.model.events import (
    ActivityCancelled,
    SignalReceived,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND
from assay.core.model.payload import Payload
from assay.core.model.policies import IdConflict, RetryPolicy
from assay.core.model.replies import Started
from assay.core.model.requests import FirstSignal
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING, TIMED_OUT, Task
from tests.core.support import (
    BROKEN,
    NOW,
    ONE,
    TWO,
    asks_to_cancel,
    cancel_requested,
    claimed,
    claims,
    completes,
    effects,
    elapsed,
    elapses,
    events,
    given,
    later,
    leased,
    refused,
    restarted,
    restarts,
    scheduled,
    signalled,
    signals,
    started,
    starts,
    terminated,
    terminates,
    turned,
    turns,
)

HOUR = 3_600 * SECOND
TWICE = RetryPolicy(max_attempts=2, initial_interval=SECOND, backoff=2.0, maximum_interval=100 * SECOND)
WITH_A_SIGNAL = (FirstSignal("hello"),)


# starting an id that is in use


def test_an_open_id_is_refused_by_default():
    with refused("already_exists"):
        given(started()).when(starts())


def test_use_existing_answers_with_the_open_run():
    world = given(started(), claimed())
    decision = world.when(starts(id_conflict_policy=IdConflict.USE_EXISTING, input=TWO))
    assert decision.reply == Started(world.run.key, RUNNING, started=False)
    assert events(decision) == []
    assert decision.others == []


def test_use_existing_delivers_the_signals_to_the_open_run():
    world = given(started(), turned())
    decision = world.when(starts(id_conflict_policy=IdConflict.USE_EXISTING, signals=WITH_A_SIGNAL))
    assert events(decision) == [SignalReceived("hello")]
    assert decision.task.ready


def test_a_second_start_with_a_signal_ends_a_start_delay():
    world = given(started(start_delay=HOUR))
    with_signal = starts(id_conflict_policy=IdConflict.USE_EXISTING, signals=WITH_A_SIGNAL)
    assert world.when(with_signal).task.ready
    assert not world.when(starts(id_conflict_policy=IdConflict.USE_EXISTING)).task.ready


def test_a_second_start_with_a_signal_does_not_end_a_back_off():
    world = given(started(retry_policy=TWICE), turned(FailWorkflow("no")))
    assert not world.when(starts(id_conflict_policy=IdConflict.USE_EXISTING, signals=WITH_A_SIGNAL)).task.ready


def test_terminate_existing_ends_the_open_run_in_the_same_decision():
    world = given(started(), claimed())
    decision = world.when(starts(id_conflict_policy=IdConflict.TERMINATE_EXISTING, signals=WITH_A_SIGNAL))
    (ended,) = decision.others
    assert events(ended) == [WorkflowTerminated("terminated to start a new run")]
    assert ended.run is world.run
    assert decision.run.number == 2
    assert [type(event) for event in events(decision)] == [WorkflowStarted, SignalReceived]


def test_a_start_repeated_with_its_request_id_gets_the_same_run():
    world = given(started(request_id="req", signals=WITH_A_SIGNAL))
    decision = world.when(starts(request_id="req", signals=WITH_A_SIGNAL))
    assert decision.reply == Started(world.run.key, PENDING, started=True, repeated=True)
    assert events(decision) == []


def test_a_start_repeated_after_its_run_has_closed_starts_nothing():
    world = given(started(request_id="req"), turned(CompleteWorkflow()))
    decision = world.when(starts(request_id="req"))
    assert decision.reply == Started(world.run.key, PENDING, started=True, repeated=True)
    assert events(decision) == []


def test_a_start_repeated_after_its_run_was_continued_is_answered_as_the_first_time():
    world = given(started(request_id="req"), turned(ContinueAsNew()))
    assert world.when(starts(request_id="req")).reply.key.run_id == "run-1"


def test_another_request_id_is_another_start():
    with refused("already_exists"):
        given(started(request_id="req")).when(starts(request_id="other"))
    assert given(started(request_id="req"), terminated()).when(starts(request_id="other")).run.number == 2


# cancelling


def test_cancelling_an_unclaimed_run_closes_it_at_once():
    world = given(started())
    decision = world.when(asks_to_cancel(reason="stop", sender="wf://main/boss"))
    assert events(decision) == [WorkflowCancelRequested("stop", "wf://main/boss"), WorkflowCancelled("stop")]


def test_cancelling_a_delayed_run_closes_it_at_once():
    assert given(started(start_delay=HOUR), cancel_requested()).run.status == CANCELLED


def test_cancelling_a_claimed_run_leaves_the_close_to_its_code():
    world = given(started(), turned(), cancel_requested(reason="stop"))
    assert world.history()[-1] == WorkflowCancelRequested("stop")
    assert (world.run.status, world.run.task.ready) == (RUNNING, True)


def test_cancelling_twice_records_one_request():
    world = given(started(), turned(), cancel_requested())
    assert events(world.when(asks_to_cancel())) == []


def test_cancelling_withdraws_waiting_activities_and_tells_running_ones():
    world = given(started(), turned(ScheduleActivity(1, "waits"), ScheduleActivity(2, "runs")), leased(2))
    decision = world.when(asks_to_cancel())
    assert events(decision) == [WorkflowCancelRequested(), ActivityCancelled(100, 1, "waits")]
    (withdrawn,) = effects(decision, CloseActivity)
    (notify,) = effects(decision, PutActivity)
    assert (withdrawn.activity.seq, withdrawn.status) == (1, CANCELLED)
    assert (notify.activity.seq, notify.activity.cancel_requested) == (2, True)


def test_an_activity_that_survives_a_cancel_is_left_alone():
    kept = ScheduleActivity(1, "waits", survives_cancel=True), ScheduleActivity(2, "runs", survives_cancel=True)
    world = given(started(), turned(*kept), leased(2))
    decision = world.when(asks_to_cancel())
    assert events(decision) == [WorkflowCancelRequested()]
    assert decision.effects == []


def test_a_late_outcome_of_a_cancelled_run_is_recorded():
    world = given(started(), scheduled(), leased(), cancel_requested())
    assert len(events(world.when(completes()))) == 1


def test_a_cancel_past_its_deadline_becomes_a_termination():
    world = given(started(), turned(), cancel_requested(deadline=SECOND), later(SECOND - 1))
    assert world.history()[-1] == WorkflowCancelRequested(deadline=1_700_000_001.0)
    assert world.run.deadline() == NOW + SECOND
    assert events(world.when(elapses())) == []
    world.take(later(1))
    assert events(world.when(elapses())) == [WorkflowTerminated("cancel deadline passed")]


def test_a_second_cancel_may_set_the_deadline():
    world = given(started(), turned(), cancel_requested(), later(SECOND), cancel_requested(deadline=SECOND))
    assert world.run.cancel_deadline == NOW + 2 * SECOND


def test_a_closed_run_has_no_deadline_left():
    world = given(started(), cancel_requested(deadline=SECOND))
    assert (world.run.cancel_deadline, world.run.deadline()) == (None, None)


def test_the_code_says_how_a_cancelled_run_closes():
    world = given(started(), turned(), cancel_requested())
    assert events(world.when(turned(CancelWorkflow("bye")))) == [WorkflowCancelled("bye")]
    assert events(given(started(), claimed(), cancel_requested()).when(turns(CompleteWorkflow(ONE)))) == [
        WorkflowCompleted(ONE)
    ]


def test_code_may_cancel_itself_without_having_seen_everything():
    world = given(started(), claimed(), signalled())
    assert events(world.when(turns(CancelWorkflow(), seen_seq=1))) == [WorkflowCancelled()]


# terminating


def test_terminating_ends_the_run_whatever_it_does():
    world = given(started(retry_policy=TWICE), scheduled(), leased(), terminated(reason="enough", by="ada"))
    run = world.run
    assert world.history()[-1] == WorkflowTerminated("enough", "ada")
    assert (run.status, run.close_reason, run.error, run.next_run_id) == (FAILED, "terminated", "enough", None)


def test_closing_empties_the_run():
    world = given(started(), turned(ScheduleActivity(1, "charge"), ScheduleTimer(1, 60)), terminated())
    assert (world.run.activities, world.run.timers, world.run.children) == ({}, {}, {})
    assert world.run.task == Task(epoch=1)


def test_closing_takes_the_task_from_whoever_holds_it():
    world = given(started(), claimed(), signalled(), terminated())
    assert world.run.task == Task(epoch=1)


def test_what_a_closing_turn_started_is_withdrawn_with_it():
    commands = ScheduleActivity(1, "late"), ScheduleTimer(1, 60), CompleteWorkflow()
    world = given(started(), turned(*commands))
    assert (world.run.activities, world.run.timers) == ({}, {})
    assert [effect.status for effect in world.effects if isinstance(effect, CloseActivity)] == [CANCELLED]


@pytest.mark.parametrize("ask", [signals(), asks_to_cancel(), terminates()])
def test_nobody_can_ask_anything_of_a_closed_run(ask):
    with refused("workflow_closed"):
        given(started(), terminated()).when(ask)


@pytest.mark.parametrize("ask", [signals(), asks_to_cancel(), terminates(), restarts()])
def test_nobody_can_ask_anything_of_an_unknown_run(ask):
    with refused("not_found"):
        given().when(ask)


# closing by command


def test_a_run_completes_with_its_result():
    world = given(started(), turned(CompleteWorkflow(ONE)))
    assert world.history()[-1] == WorkflowCompleted(ONE)
    assert (world.run.status, world.run.close_reason, world.run.closed_at) == (COMPLETED, None, NOW)


def test_a_run_fails_with_its_failure():
    world = given(started(), turned(FailWorkflow("broken", BROKEN)))
    assert world.history()[-1] == WorkflowFailed("broken", BROKEN)
    assert (world.run.status, world.run.error) == (FAILED, "broken")


def test_a_failure_without_structure_gets_one():
    world = given(started(), turned(FailWorkflow("oops")))
    assert world.history()[-1].failure == FailureInfo(kind=Kind.UNKNOWN, message="oops")


# time-outs


def test_a_run_times_out_and_not_before():
    world = given(started(run_timeout=HOUR), turned(), later(HOUR - 1))
    assert events(world.when(elapses())) == []
    world.take(later(1))
    assert events(world.when(elapses())) == [WorkflowTimedOut("run", "workflow run timed out")]
    world.take(elapsed())
    assert (world.run.status, world.run.close_reason) == (TIMED_OUT, "timed_out")


def test_the_execution_timeout_ends_the_chain():
    world = given(started(execution_timeout=HOUR, run_timeout=HOUR, retry_policy=TWICE), later(HOUR))
    decision = world.when(elapses())
    assert events(decision) == [WorkflowTimedOut("execution", "workflow execution timed out")]
    assert decision.others == []


def test_a_run_that_timed_out_is_retried():
    world = given(started(run_timeout=HOUR, retry_policy=TWICE), later(HOUR), elapsed())
    assert world.history(of="order-1")[0].start.last_failure.timeout_type == "run"
    assert (world.run.number, world.run.start.attempt) == (2, 2)
    assert world.run.run_deadline == world.now + SECOND + HOUR


# retries of the run


def test_a_failed_run_is_retried_after_its_interval():
    world = given(started(retry_policy=TWICE), turned(FailWorkflow("no", BROKEN)))
    first, second = world.runs["run-1"], world.run
    assert (first.status, first.next_run_id) == (FAILED, "run-2")
    assert second.start.last_failure == BROKEN
    with refused("not_ready"):
        world.when(claims())
    world.take(later(SECOND))
    world.take(elapsed())
    assert world.when(claims()).task.epoch == 1


def test_the_last_attempt_is_the_end_of_the_chain():
    world = given(
        started(retry_policy=TWICE), turned(FailWorkflow("no")), later(SECOND), elapsed(), turned(FailWorkflow("no"))
    )
    assert (world.run.number, world.run.status, world.run.next_run_id) == (2, FAILED, None)


@pytest.mark.parametrize(
    "failure",
    [
        FailureInfo(message="no", retryable=False),
        FailureInfo(message="no", type="PaymentDeclined"),
        FailureInfo(message="no", kind=Kind.NOT_FOUND),
    ],
)
def test_what_may_not_be_retried_is_not(failure):
    policy = RetryPolicy(max_attempts=0, non_retryable=("PaymentDeclined", "NotFound"))
    decision = given(started(retry_policy=policy)).when(turned(FailWorkflow("no", failure)))
    assert decision.others == []


def test_without_a_policy_nothing_is_retried():
    assert given(started()).when(turned(FailWorkflow("no"))).others == []


def test_no_retry_begins_after_the_execution_deadline():
    world = given(started(retry_policy=TWICE, execution_timeout=SECOND))
    assert world.when(turned(FailWorkflow("no"))).others == []


@pytest.mark.parametrize("how", [terminates(), turns(CancelWorkflow())])
def test_a_run_that_was_ended_is_not_retried(how):
    world = given(started(retry_policy=TWICE), claimed())
    assert world.when(how).others == []


# cron

NIGHTLY = "0 0 * * *"
DAY = 24 * HOUR


def nightly(**options):
    return started(cron_schedule=NIGHTLY, input=ONE, **options)


def at_midnight(world):
    world.now = world.run.task.not_before
    world.take(elapsed())


def test_a_completed_cron_run_has_its_next_one():
    world = given(nightly(), at_midnight, turned(CompleteWorkflow(TWO)))
    start = world.run.start
    assert (world.run.number, start.initiator, start.last_completion_result) == (2, "cron", TWO)
    assert world.run.task.not_before == world.now + DAY
    assert world.history() == [WorkflowStarted(ONE, start)]


def test_a_failed_cron_run_keeps_the_last_good_result():
    world = given(
        nightly(), at_midnight, turned(CompleteWorkflow(TWO)), at_midnight, turned(FailWorkflow("no", BROKEN))
    )
    assert (world.run.start.last_completion_result, world.run.start.last_failure) == (TWO, BROKEN)


def test_slots_that_passed_meanwhile_are_skipped():
    world = given(nightly(), at_midnight, claimed(lease=None), later(2 * DAY + HOUR), turned(CompleteWorkflow()))
    assert world.run.task.not_before - world.now == DAY - HOUR


def test_a_cron_run_is_retried_before_the_next_slot():
    world = given(nightly(retry_policy=TWICE), at_midnight, turned(FailWorkflow("no")))
    assert (world.run.start.initiator, world.run.start.attempt) == ("retry", 2)
    world = given(nightly(retry_policy=TWICE), at_midnight, turned(FailWorkflow("no")), at_midnight)
    world.take(turned(FailWorkflow("no")))
    assert (world.run.start.initiator, world.run.start.attempt) == ("cron", 1)


@pytest.mark.parametrize("how", [terminates(), turned(CancelWorkflow())])
def test_a_cron_that_was_ended_does_not_go_on(how):
    assert given(nightly(), at_midnight).when(how).others == []


def test_a_cron_ends_at_its_execution_deadline():
    world = given(nightly(execution_timeout=DAY), at_midnight)
    assert world.when(turned(CompleteWorkflow())).others == []


# continue as new


def test_a_run_continues_with_its_unread_signals_in_order():
    world = given(started(), signalled("a", ONE), signalled("b", TWO))
    unread = tuple(world.histories[world.run.run_id][1:])
    decision = world.when(turned(ContinueAsNew(TWO), unread=unread))
    assert events(decision) == [WorkflowContinuedAsNew("run-2")]
    assert events(decision.others[0])[1:] == [SignalReceived("a", ONE), SignalReceived("b", TWO)]


def test_a_continued_run_is_completed_and_says_what_followed():
    world = given(started(), turned(ContinueAsNew()))
    run = world.runs["run-1"]
    assert (run.status, run.close_reason, run.next_run_id) == (COMPLETED, "continued_as_new", "run-2")


def test_documents_given_to_the_next_run_are_merged():
    world = given(started(memo=Payload(b'{"a":1,"b":1}'), search_attributes=Payload(b'{"s":1}')))
    world.take(turned(ContinueAsNew(memo=Payload(b'{"b":2,"a":null}'), search_attributes=Payload(b'{"t":2}'))))
    assert (world.run.memo, world.run.search) == (Payload(b'{"b":2}'), Payload(b'{"s":1,"t":2}'))


@pytest.mark.parametrize("fields", [{"workflow_type": "x" * 256}, {"task_queue": "a\nb"}])
def test_a_run_cannot_continue_as_what_could_not_be_started(fields):
    with refused("invalid"):
        given(started()).when(turned(ContinueAsNew(**fields)))


# continue-as-new requested by a client


def test_an_open_run_is_continued_from_outside_with_the_signals_nobody_has_seen():
    world = given(started(), signalled("seen"), turned(), signalled("unseen"))
    world.take(restarted(input=TWO))
    assert world.runs["run-1"].close_reason == "continued_as_new"
    assert world.history() == [WorkflowStarted(TWO, world.run.start), SignalReceived("unseen")]


def test_the_signals_nobody_has_seen_may_come_from_the_store():
    world = given(started(), signalled("a"))
    from_store = tuple(world.histories[world.run.run_id][1:])
    world.run.tail = None
    world.take(restarts(signals=from_store))
    assert world.history()[1:] == [SignalReceived("a")]


def test_a_closed_run_is_left_alone_and_a_new_chain_begins():
    world = given(started(execution_timeout=HOUR, memo=Payload(b'{"m":1}')), signalled(), terminated(), later(2 * HOUR))
    decision = world.when(restarts(input=TWO))
    start = decision.run.start
    assert events(decision) == [WorkflowStarted(TWO, start)]
    assert decision.others == []
    assert (decision.run.number, start.first_run_id, start.memo) == (2, "run-2", Payload(b'{"m":1}'))
    assert start.execution_deadline is None


def test_an_old_run_cannot_be_continued_beside_an_open_one():
    world = given(started(), terminated(), started())
    with refused("already_exists"):
        world.when(restarts(run_id="run-1"))
