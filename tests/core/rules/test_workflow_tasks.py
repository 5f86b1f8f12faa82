import pytest

from assay.core.model.commands import (
    CancelWorkflow,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    RecordSideEffect,
    RequestCancelActivity,
    ScheduleActivity,
    ScheduleTimer,
    StartChildWorkflow,
    UpsertAttributes,
    WaitForSignal,
)
from assay.core.model.errors import Kind
from assay.core.model.events import (
    ActivityCompleted,
    ActivityScheduled,
    SideEffectRecorded,
    SignalReceived,
    StepCompleted,
    StepFailed,
    TimerScheduled,
    WorkflowAwaitingSignal,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
)
from assay.core.model.ids import SECOND
from assay.core.model.limits import LIMITS
from assay.core.model.run import DEADLOCK, RUNNING, Stuck
from tests.core.support import (
    BROKEN,
    LEASE,
    NOW,
    ONE,
    OTHER,
    TWO,
    WORKER,
    cancel_requested,
    claimed,
    claims,
    completed,
    did,
    elapsed,
    elapses,
    events,
    fails_task,
    given,
    gives_back_task,
    keeps_task,
    later,
    leased,
    loses_task,
    refused,
    scheduled,
    signalled,
    started,
    stepped,
    turned,
    turns,
)

TICK = 1_000
FOLLOWING = ScheduleActivity(2, "ship")


# leasing


def test_a_claim_takes_the_due_task():
    world = given(started())
    task = world.when(claims()).reply
    assert (task.worker, task.epoch, task.until, task.granted_seq) == (WORKER, 1, NOW + LEASE, 1)
    assert task.since is None


def test_a_task_is_held_by_one_worker_at_a_time():
    with refused("not_ready"):
        given(started(), claimed()).when(claims(OTHER))


def test_nobody_claims_a_task_that_is_not_due():
    with refused("not_ready"):
        given(started(), turned()).when(claims())


def test_every_grant_raises_the_epoch_also_for_the_same_worker():
    world = given(started(), turned(), signalled(), claimed())
    assert world.run.task.epoch == 2


def test_the_first_claim_makes_the_run_running():
    world = given(started(), later(SECOND), claimed())
    assert (world.run.status, world.run.updated_at) == (RUNNING, NOW + SECOND)


def test_a_worker_that_lives_with_its_engine_has_no_lease_to_keep():
    task = given(started()).when(claims(lease=None, local=True)).reply
    assert (task.until, task.local, task.deadline()) == (None, True, None)


def test_events_while_the_task_is_held_make_it_due_again():
    world = given(started(), claimed(), signalled())
    assert world.run.task.since == NOW
    world.take(turns(seen_seq=1))
    assert world.run.task.ready


def test_a_task_keeps_the_time_since_when_it_is_due():
    world = given(started(), claimed(), signalled(), later(SECOND), turns(seen_seq=1))
    assert world.run.task.since == NOW


# a turn after which the code waits for nothing


def test_a_deadlocked_run_is_stuck_without_a_next_try():
    world = given(started(), turned(deadlock="the code waits for nothing"))
    task = world.run.task
    assert task.stuck == Stuck(DEADLOCK, "the code waits for nothing", 1, None)
    assert (task.since, task.deadline(), world.run.status) == (None, None, RUNNING)
    with refused("not_ready"):
        world.when(claims())


def test_a_new_event_ends_a_deadlock():
    world = given(started(), turned(deadlock="the code waits for nothing"), signalled())
    assert world.run.task.ready
    assert world.run.task.stuck is None


def test_an_event_that_the_deadlocked_code_has_not_seen_makes_its_task_due():
    world = given(started(), claimed(), signalled(), turns(seen_seq=1, deadlock="the code waits for nothing"))
    assert world.run.task.ready
    assert world.run.task.stuck is None


# a turn of the holder


def test_the_commands_of_a_turn_are_recorded_in_order():
    world = given(started())
    decision = world.when(turned(ScheduleTimer(1, 1.0), ScheduleActivity(1, "charge"), WaitForSignal("paid")))
    assert [type(event) for event in events(decision)] == [TimerScheduled, ActivityScheduled, WorkflowAwaitingSignal]
    assert decision.reply.accepted
    assert (decision.reply.last_seq, decision.reply.seen_seq) == (4, 4)


def test_an_accepted_turn_ends_the_lease():
    world = given(started(), turned())
    task = world.run.task
    assert (task.worker, task.until, task.since, task.epoch) == (None, None, None, 1)
    assert world.run.seen_seq == 1


@pytest.mark.parametrize(
    "fields", [{"worker": OTHER}, {"epoch": 2}, {"epoch": 0}], ids=["another worker", "later epoch", "older epoch"]
)
def test_only_the_holder_is_heard(fields):
    with refused("stale_task"):
        given(started(), claimed()).when(turns(FOLLOWING, **fields))


def test_a_turn_sent_twice_is_heard_once():
    world = given(started(), claimed())
    again = turns(WaitForSignal("paid"))(world)
    world.take(again)
    with refused("stale_task"):
        world.when(again)


def test_a_turn_of_a_lease_that_was_lost_and_taken_over_is_refused():
    world = given(started(), claimed(), later(LEASE), elapsed(), claimed(OTHER))
    with refused("stale_task"):
        world.when(turns(FOLLOWING, worker=WORKER, epoch=1))


def test_a_turn_of_an_expired_lease_is_refused_before_anybody_takes_over():
    world = given(started(), claimed(), later(LEASE), elapsed())
    with refused("stale_task"):
        world.when(turns(FOLLOWING, epoch=1))


@pytest.mark.parametrize("closing", [CompleteWorkflow(ONE), FailWorkflow("no")])
def test_a_close_that_has_not_seen_everything_is_refused_and_the_task_due(closing):
    world = given(started(), claimed(), signalled())
    decision = world.take(turns(FOLLOWING, closing, seen_seq=1))
    assert events(decision) == []
    assert (decision.reply.accepted, decision.reply.code) == (False, "unhandled_events")
    assert world.run.task.ready
    assert world.run.seen_seq == 0


def test_a_message_that_its_code_has_not_seen_goes_along_to_the_next_run():
    world = given(started(), claimed(), signalled("late", ONE))
    decision = world.take(turns(ContinueAsNew(), seen_seq=1, unread_until=1))
    assert decision.reply.accepted
    assert [event for event in world.history() if isinstance(event, SignalReceived)] == [SignalReceived("late", ONE)]


def test_an_outcome_that_its_code_has_not_seen_keeps_a_run_from_continuing():
    world = given(started(), turned(ScheduleTimer(1, 1.0)), later(SECOND), elapsed("timer", 1), claimed())
    decision = world.take(turns(ContinueAsNew(), seen_seq=2))
    assert (decision.reply.accepted, decision.reply.code) == (False, "unhandled_events")


def test_a_close_that_has_seen_everything_is_accepted():
    world = given(started(), claimed(), signalled())
    assert events(world.when(turns(CompleteWorkflow(ONE), seen_seq=2))) == [WorkflowCompleted(ONE)]


def test_a_cancel_is_never_refused_for_what_it_has_not_seen():
    world = given(started(), claimed(), signalled())
    assert events(world.when(turns(CancelWorkflow(), seen_seq=1))) == [WorkflowCancelled()]


def test_other_commands_are_accepted_beside_what_the_worker_has_not_seen():
    world = given(started(), claimed(), signalled())
    decision = world.take(turns(FOLLOWING, seen_seq=1))
    assert decision.reply.accepted
    assert (world.run.seen_seq, world.run.task.ready) == (1, True)
    assert [recorded.seq for recorded in world.run.tail] == [2, 3]


def test_a_worker_that_does_not_say_what_it_has_seen_has_seen_what_it_was_granted():
    world = given(started(), claimed())
    assert events(world.when(turns(CompleteWorkflow(ONE), seen_seq=-1))) == [WorkflowCompleted(ONE)]
    world.take(signalled())
    assert world.when(turns(CompleteWorkflow(ONE), seen_seq=-1)).reply.code == "unhandled_events"


def test_one_invalid_command_refuses_the_whole_turn():
    world = given(started(), claimed())
    with refused("invalid"):
        world.when(turns(FOLLOWING, UpsertAttributes(search=ONE)))
    assert world.run.task.worker == WORKER


def test_a_turn_of_too_many_commands_is_refused():
    with refused("limit_exceeded"):
        given(started(), claimed()).when(turns(*[WaitForSignal("x")] * (LIMITS.commands + 1)))


@pytest.mark.parametrize(("last_seq", "full"), [(LIMITS.history_events, False), (1, True)])
def test_a_history_beyond_its_limit_fails_the_run(last_seq: int, full: bool):
    world = given(started(), claimed())
    world.run.last_seq, world.history_full = last_seq, full
    world.run.tail = None
    (*_, closing) = events(world.when(turns(FOLLOWING)))
    assert isinstance(closing, WorkflowFailed)
    assert closing.failure.kind == Kind.RATE_LIMITED


def test_what_a_turn_learns_of_itself_makes_the_task_due_again():
    world = given(started(), scheduled(), signalled())
    decision = world.take(turned(RequestCancelActivity(1), ScheduleTimer(1, 1.0)))
    assert [recorded.seq for recorded in decision.events] == [4, 5, 6]
    assert (world.run.seen_seq, world.run.task.ready) == (4, True)


def test_a_side_effect_of_a_worker_of_the_original_makes_the_task_due_at_once():
    world = given(started(), turned(RecordSideEffect(1, "id", ONE)))
    assert world.history()[-1] == SideEffectRecorded(1, "id", ONE)
    assert world.run.task.ready
    assert world.run.seen_seq == 2


def test_a_side_effect_of_our_own_sdk_asks_for_no_task():
    assert not given(started(), turned(RecordSideEffect(1, "id", ONE, resume=False))).run.task.ready


def test_a_side_effect_asks_for_a_task_also_if_the_last_one_was_due_again():
    world = given(started(), claimed(), signalled(), turns(RecordSideEffect(1, "id", ONE), seen_seq=2))
    assert world.run.task.ready


# a turn that keeps the lease for inline steps


def test_pending_work_keeps_the_lease_under_a_new_epoch():
    world = given(started(), claimed(), later(SECOND))
    decision = world.take(turns(FOLLOWING, pending=True, lease=LEASE))
    task = world.run.task
    assert (task.worker, task.epoch, task.until) == (WORKER, 2, NOW + SECOND + LEASE)
    assert (decision.reply.leased, decision.reply.epoch) == (True, 2)


def test_a_turn_that_kept_its_lease_is_not_heard_again():
    world = given(started(), claimed())
    again = turns(WaitForSignal("paid"), pending=True, lease=LEASE)(world)
    world.take(again)
    with refused("stale_task"):
        world.when(again)


def test_nor_is_one_that_had_not_seen_everything():
    world = given(started(), claimed(), signalled())
    again = turns(WaitForSignal("paid"), seen_seq=1, pending=True, lease=LEASE)(world)
    world.take(again)
    with refused("stale_task"):
        world.when(again)


def test_a_result_that_comes_with_such_a_repeat_is_recorded_all_the_same():
    world = given(started(), claimed())
    world.take(turns(ScheduleActivity(1, "charge"), pending=True, lease=LEASE))
    world.take(leased(1))
    decision = world.take(turns(FOLLOWING, seen_seq=1, outcomes=[did(1), stepped(1)]))
    assert events(decision) == [ActivityCompleted(100, 1, "charge", ONE)]
    assert decision.reply.recorded == (True, False)
    assert (world.run.task.worker, world.run.task.since) == (WORKER, NOW)


def test_the_holder_is_told_of_events_that_come_while_it_works():
    world = given(started(), turned(pending=True, lease=LEASE), signalled())
    assert world.run.task.since == NOW
    world.take(turns(pending=True, lease=LEASE))
    assert (world.run.task.since, world.run.task.worker, world.run.seen_seq) == (None, WORKER, 2)


def test_an_inline_step_is_recorded_with_the_commands_that_follow_it():
    world = given(started(), turned(pending=True, lease=LEASE))
    decision = world.take(turns(FOLLOWING, outcomes=[stepped(1)]))
    assert events(decision)[0] == StepCompleted(1, "step", ONE)
    assert isinstance(events(decision)[1], ActivityScheduled)
    assert (decision.reply.recorded, world.run.seen_seq, world.run.task.since) == ((True,), 3, None)


def test_an_outcome_that_is_ahead_of_the_code_is_recorded_and_not_taken_for_seen():
    world = given(started(), turned(pending=True, lease=LEASE))
    decision = world.take(turns(outcomes=[stepped(1)], early=True, lease=LEASE))
    assert events(decision) == [StepCompleted(1, "step", ONE)]
    assert (decision.reply.accepted, decision.reply.seen_seq, decision.reply.last_seq) == (True, 1, 2)
    assert (world.run.seen_seq, world.run.task.worker, world.run.task.since) == (1, WORKER, None)
    assert [recorded.seq for recorded in world.run.tail or ()] == [2]


def test_what_the_code_asks_for_when_it_has_gone_on_comes_under_the_lease_that_was_kept_for_it():
    world = given(started(), turned(pending=True, lease=LEASE), turns(outcomes=[stepped(1)], early=True, lease=LEASE))
    decision = world.take(turns(FOLLOWING))
    assert isinstance(events(decision)[0], ActivityScheduled)
    assert (world.run.seen_seq, world.run.task.worker, world.run.task.since) == (3, None, None)


def test_an_outcome_ahead_of_the_code_is_not_heard_twice():
    world = given(started(), turned(pending=True, lease=LEASE))
    again = turns(outcomes=[stepped(1)], early=True, lease=LEASE)(world)
    world.take(again)
    with refused("stale_task"):
        world.when(again)


def test_a_worker_that_is_lost_before_its_code_went_on_leaves_the_task_due():
    world = given(started(), turned(pending=True, lease=LEASE), turns(outcomes=[stepped(1)], early=True, lease=LEASE))
    for step in (later(LEASE), elapsed()):
        world.take(step)
    assert (world.run.task.ready, world.run.seen_seq, world.run.last_seq) == (True, 1, 2)


def test_a_failed_step_is_recorded_with_its_failure():
    world = given(started(), turned(pending=True, lease=LEASE))
    decision = world.when(turns(outcomes=[stepped(1, failure=BROKEN, attempt=3)]))
    assert events(decision) == [StepFailed(1, "step", "broken", BROKEN, 3)]


def test_steps_may_end_in_another_order_than_they_began():
    world = given(started(), turned(pending=True, lease=LEASE))
    world.take(turns(outcomes=[stepped(3)], pending=True, lease=LEASE))
    world.take(turns(outcomes=[stepped(1)], pending=True, lease=LEASE))
    decision = world.take(turns(outcomes=[stepped(2)], pending=True, lease=LEASE))
    assert decision.reply.accepted
    assert [event.step_seq for event in world.history()[1:]] == [3, 1, 2]


@pytest.mark.parametrize("again", [1, 3])
def test_a_step_has_one_outcome(again):
    world = given(started(), turned(pending=True, lease=LEASE))
    world.take(turns(outcomes=[stepped(1), stepped(3)], pending=True, lease=LEASE))
    decision = world.when(turns(FOLLOWING, outcomes=[stepped(again, TWO)]))
    assert events(decision) == []
    assert (decision.reply.accepted, decision.reply.recorded) == (False, (False,))


def test_a_step_told_twice_in_one_message_has_one_outcome():
    world = given(started(), turned(pending=True, lease=LEASE))
    decision = world.when(turns(outcomes=[stepped(1), stepped(1, TWO)]))
    assert events(decision) == [StepCompleted(1, "step", ONE)]
    assert decision.reply.recorded == (True, False)


def test_a_step_is_recorded_although_its_commands_come_too_late():
    world = given(started(), turned(pending=True, lease=LEASE), signalled())
    decision = world.take(turns(FOLLOWING, seen_seq=1, outcomes=[stepped(1)]))
    assert events(decision) == [StepCompleted(1, "step", ONE)]
    assert (decision.reply.accepted, decision.reply.recorded) == (False, (True,))
    assert world.run.task.ready


def test_a_step_of_a_worker_that_lost_the_task_is_refused():
    world = given(started(), turned(pending=True, lease=LEASE), later(LEASE), elapsed(), claimed(OTHER))
    with refused("stale_task"):
        world.when(turns(worker=WORKER, epoch=1, seen_seq=1, outcomes=[stepped(1)]))


def test_an_invalid_command_does_not_undo_the_step_before_it():
    world = given(started(), turned(pending=True, lease=LEASE))
    decision = world.take(turns(FOLLOWING, UpsertAttributes(search=ONE), outcomes=[stepped(1)]))
    assert events(decision) == [StepCompleted(1, "step", ONE)]
    assert (decision.reply.accepted, decision.reply.code) == (False, "invalid")
    assert world.run.task.ready


# fused completion


def holding_the_coroutine(*more):
    """W-1 had the last task, has scheduled one activity and runs it."""
    return given(started(), scheduled(1), leased(1), *more)


def fused(*commands, outcomes=None, **fields):
    return turns(*commands, outcomes=[did(1)] if outcomes is None else outcomes, **{"worker": WORKER, **fields})


def test_a_result_and_the_commands_that_follow_are_one_decision():
    world = holding_the_coroutine()
    decision = world.take(fused(FOLLOWING))
    assert events(decision)[0] == ActivityCompleted(100, 1, "charge", ONE)
    assert isinstance(events(decision)[1], ActivityScheduled)
    assert (decision.reply.accepted, decision.reply.recorded, decision.reply.leased) == (True, (True,), False)
    assert (world.run.seen_seq, world.run.last_seq) == (4, 4)
    assert (world.run.task.since, world.run.task.worker, world.run.task.epoch) == (None, None, 1)


def test_an_empty_list_of_commands_marks_the_result_as_seen():
    world = holding_the_coroutine()
    world.take(fused())
    assert (world.run.seen_seq, world.run.task.since) == (3, None)


def test_a_fused_completion_may_close_the_run():
    decision = holding_the_coroutine().when(fused(CompleteWorkflow(TWO)))
    assert events(decision) == [ActivityCompleted(100, 1, "charge", ONE), WorkflowCompleted(TWO)]
    assert decision.reply.closed


def test_fused_completions_follow_each_other_without_a_task():
    world = holding_the_coroutine()
    world.take(fused(FOLLOWING))
    world.take(leased(2))
    decision = world.take(fused(CompleteWorkflow(), outcomes=[did(2)]))
    assert decision.reply.accepted
    assert world.run.task.epoch == 1


def test_several_results_are_recorded_in_the_order_in_which_they_were_applied():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleActivity(2, "b")), leased(1), leased(2))
    decision = world.when(fused(outcomes=[did(2), did(1)]))
    assert [event.activity_seq for event in events(decision)] == [2, 1]


def test_local_work_grants_the_sender_the_lease_under_a_new_epoch():
    world = holding_the_coroutine()
    decision = world.take(fused(pending=True, lease=LEASE))
    task = world.run.task
    assert (task.worker, task.epoch, task.until) == (WORKER, 2, NOW + LEASE)
    assert (decision.reply.leased, decision.reply.epoch) == (True, 2)


def only_the_result_is_recorded(world, decision):
    assert events(decision) == [ActivityCompleted(100, 1, "charge", ONE)]
    assert (decision.reply.accepted, decision.reply.recorded) == (False, (True,))
    assert world.run.task.since is not None


def test_unseen_events_refuse_the_commands_and_keep_the_result():
    world = holding_the_coroutine()
    ask = fused(FOLLOWING)(world)
    for step in (signalled(), claimed(OTHER), turns(worker=OTHER)):
        world.take(step)
    only_the_result_is_recorded(world, world.take(ask))


def test_a_message_that_has_not_seen_the_last_event_is_refused():
    world = given(started(), turned(ScheduleActivity(1, "charge"), ScheduleActivity(2, "ship")), leased(1), leased(2))
    first, second = fused(outcomes=[did(1)])(world), fused(ScheduleTimer(1, 1), outcomes=[did(2)])(world)
    world.take(first)
    decision = world.take(second)
    assert [type(event) for event in events(decision)] == [ActivityCompleted]
    assert (decision.reply.code, decision.reply.accepted) == ("unhandled_events", False)
    assert world.run.task.ready


def test_a_task_that_somebody_holds_refuses_the_commands():
    world = holding_the_coroutine(signalled(), claimed(OTHER))
    only_the_result_is_recorded(world, world.take(fused(FOLLOWING)))
    assert world.run.task.worker == OTHER


def test_a_task_that_is_due_refuses_the_commands():
    world = holding_the_coroutine(signalled())
    decision = world.take(fused(FOLLOWING))
    only_the_result_is_recorded(world, decision)
    assert decision.reply.code == "stale_task"


def test_another_epoch_refuses_the_commands():
    world = holding_the_coroutine(signalled(), claimed(OTHER), turns(worker=OTHER))
    assert world.run.task.epoch == 2
    only_the_result_is_recorded(world, world.take(fused(FOLLOWING, epoch=1)))


def test_one_stale_result_refuses_the_commands_and_not_the_other_results():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleActivity(2, "b")), leased(1), leased(2))
    decision = world.take(fused(ScheduleTimer(1, 1), outcomes=[did(1), did(2, attempt_id=7)]))
    assert [event.activity_seq for event in events(decision)] == [1]
    assert (decision.reply.code, decision.reply.recorded) == ("stale_attempt", (True, False))
    assert world.run.task.ready


def test_a_message_of_only_stale_results_changes_nothing():
    with refused("stale_attempt"):
        holding_the_coroutine().when(fused(FOLLOWING, outcomes=[did(1, attempt_id=7)]))


def test_a_message_sent_twice_is_heard_once():
    world = holding_the_coroutine()
    again = fused(FOLLOWING)(world)
    world.take(again)
    with refused("stale_attempt"):
        world.when(again)


def test_a_result_that_came_another_way_refuses_the_commands():
    world = holding_the_coroutine()
    again = fused(FOLLOWING)(world)
    world.take(completed(1))
    with refused("stale_attempt"):
        world.when(again)


def test_a_message_that_names_a_result_twice_records_it_once():
    decision = holding_the_coroutine().when(fused(FOLLOWING, outcomes=[did(1), did(1, TWO)]))
    assert events(decision) == [ActivityCompleted(100, 1, "charge", ONE)]
    assert decision.reply.recorded == (True, False)


def test_an_invalid_command_does_not_undo_the_result_before_it():
    world = holding_the_coroutine()
    only_the_result_is_recorded(world, world.take(fused(FOLLOWING, UpsertAttributes(search=ONE))))


def test_a_result_beside_a_step_of_a_lost_task_is_judged_alone():
    world = given(started(), turned(ScheduleActivity(1, "charge"), pending=True, lease=LEASE), leased(1))
    ask = turns(FOLLOWING, outcomes=[stepped(1), did(1)])(world)
    world.take(later(LEASE))
    world.take(elapsed())
    decision = world.take(ask)
    assert events(decision) == [ActivityCompleted(100, 1, "charge", ONE)]
    assert decision.reply.recorded == (False, True)


def test_a_child_that_cannot_be_started_is_news_to_the_worker():
    world = holding_the_coroutine(started("taken"))
    decision = world.take(fused(StartChildWorkflow("Child", "taken"), ScheduleTimer(1, 1)))
    assert decision.reply.accepted
    assert (decision.reply.seen_seq, decision.reply.last_seq) == (3, 5)
    assert world.run.task.ready


# the time that a worker proposes


def test_a_result_has_the_time_that_the_code_saw():
    world = holding_the_coroutine(later(SECOND))
    decision = world.when(fused(FOLLOWING, outcomes=[did(1, time=NOW + SECOND - TICK)]))
    assert [recorded.time for recorded in decision.events] == [NOW + SECOND - TICK, NOW + SECOND]


def test_a_worker_whose_clock_is_a_little_ahead_is_believed():
    world = holding_the_coroutine()
    decision = world.take(fused(ScheduleTimer(1, 2.0), outcomes=[did(1, time=NOW + TICK)]))
    assert [recorded.time for recorded in decision.events] == [NOW + TICK, NOW + TICK]
    assert world.run.timers == {1: NOW + TICK + 2 * SECOND}


@pytest.mark.parametrize("offset", [-1, 1], ids=["behind", "ahead"])
def test_a_worker_whose_clock_is_wrong_is_not_believed(offset):
    world = holding_the_coroutine(later(10 * SECOND))
    time = world.now + offset * (SECOND + 1)
    decision = world.take(fused(FOLLOWING, outcomes=[did(1, time=time)]))
    only_the_result_is_recorded(world, decision)
    assert decision.events[0].time == world.now


def test_time_never_goes_back_within_a_run():
    world = given(started(), later(10 * SECOND), scheduled(1), leased(1))
    world.now -= 5 * SECOND
    decision = world.take(signalled())
    assert decision.events[0].time == NOW + 10 * SECOND
    decision = world.take(fused(FOLLOWING, outcomes=[did(1, time=world.now)]))
    assert not decision.reply.accepted
    assert decision.events[0].time == NOW + 10 * SECOND


# failing, keeping, giving back, losing


def test_a_failed_task_backs_off_and_shows_why():
    world = given(started(), claimed(), fails_task("non_determinism", "step 7"))
    stuck = world.run.task.stuck
    assert (stuck.reason, stuck.message, stuck.attempt, stuck.next_try_at) == (
        "non_determinism",
        "step 7",
        1,
        NOW + SECOND,
    )
    assert not world.run.task.ready
    assert world.run.deadline() == NOW + SECOND


def test_the_back_off_of_a_task_doubles_up_to_a_minute():
    world = given(started())
    waits = []
    for _ in range(9):
        world.take(claimed())
        world.take(fails_task())
        waits.append(world.run.task.not_before - world.now)
        world.now = world.run.task.not_before
        world.take(elapsed())
    assert [wait // SECOND for wait in waits] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_task_does_not_go_out_before_its_back_off_is_over():
    world = given(started(), claimed(), fails_task(), later(SECOND - 1), elapsed())
    assert not world.run.task.ready
    world.take(later(1))
    world.take(elapsed())
    assert world.run.task.ready


def test_a_signal_does_not_end_a_back_off():
    assert not given(started(), claimed(), fails_task(), signalled()).run.task.ready


def test_an_accepted_turn_makes_up_for_all_failures():
    world = given(started(), claimed(), fails_task(), later(SECOND), elapsed(), turned())
    assert (world.run.task.failures, world.run.task.stuck) == (0, None)


def test_a_task_that_is_tried_again_is_no_longer_stuck_and_has_failed_as_often_as_before():
    world = given(started(), claimed(), fails_task(), later(SECOND), elapsed(), claimed())
    assert (world.run.task.failures, world.run.task.stuck) == (1, None)


def test_the_holder_keeps_its_task():
    world = given(started(), claimed(), later(SECOND), keeps_task())
    assert world.run.task.until == NOW + SECOND + LEASE
    world.take(later(LEASE - 1))
    assert not world.when(elapses()).task.ready


def test_a_task_given_back_is_due_at_once_and_counts_as_no_failure():
    world = given(started(), claimed(), gives_back_task())
    assert (world.run.task.ready, world.run.task.failures) == (True, 0)


def test_an_expired_lease_is_taken_back_and_not_before():
    world = given(started(), claimed(), later(LEASE - 1))
    assert world.when(elapses()).task.worker == WORKER
    world.take(later(1))
    task = world.when(elapses()).task
    assert (task.ready, task.epoch, task.failures) == (True, 1, 1)


def test_a_task_that_is_lost_again_and_again_backs_off():
    world = given(started(), claimed(), later(LEASE), elapsed(), claimed(), later(LEASE), elapsed())
    assert (world.run.task.ready, world.run.task.failures) == (False, 2)
    assert world.run.task.stuck.reason == "task_failed"


def test_a_worker_that_died_with_its_engine_has_lost_its_task():
    world = given(started(), claimed(lease=None, local=True), loses_task())
    assert (world.run.task.ready, world.run.task.worker, world.run.task.local) == (True, None, False)


@pytest.mark.parametrize(
    "ask",
    [fails_task(epoch=1), keeps_task(epoch=1), gives_back_task(epoch=1), loses_task(epoch=1)],
    ids=["fail", "keep", "give back", "lose"],
)
def test_nobody_but_the_holder_may_do_this(ask):
    with refused("stale_task"):
        given(started(), turned()).when(ask)
    with refused("stale_task"):
        given(started(), turned(), signalled(), claimed()).when(ask)


def test_a_worker_cannot_speak_for_another():
    for ask in (fails_task(worker=OTHER), keeps_task(worker=OTHER), gives_back_task(worker=OTHER)):
        with refused("stale_task"):
            given(started(), claimed()).when(ask)


def test_a_closed_run_has_no_task():
    world = given(started(), claimed())
    late = turns(FOLLOWING)(world)
    world.take(turns(CompleteWorkflow()))
    with refused("run_closed"):
        world.when(late)


def test_a_cancel_request_is_an_event_like_others():
    world = given(started(), claimed(), cancel_requested())
    assert world.when(turns(CompleteWorkflow(), seen_seq=1)).reply.code == "unhandled_events"
