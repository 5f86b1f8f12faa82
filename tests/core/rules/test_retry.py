import pytest

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.effects import CloseActivity, Decision
from assay.core.model.events import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    Event,
    MessageDelivered,
    WorkflowFailed,
    WorkflowStarted,
)
from assay.core.model.ids import SECOND
from assay.core.rules.moment import Unprepared
from tests.core.support import (
    CHILD,
    MAIN,
    ONE,
    ORDER,
    Step,
    World,
    completed,
    delivered,
    effects,
    events,
    failed,
    given,
    later,
    leased,
    refused,
    scheduled,
    signalled,
    started,
    turned,
)

FAIL = cmd.FailWorkflow("no luck")
BEAR = cmd.StartChildWorkflow("Child", CHILD)


def retries(**fields: object) -> Step:
    """As the engine asks: with the histories of all runs."""
    return lambda world: rq.RetryFailed(
        MAIN, ORDER, None, "ada", "try again", **{"histories": world.histories, **fields}
    )


def once(*steps: Step, also: tuple[cmd.Command, ...] = ()) -> World:
    """A run whose activity 1 is done, whose activity 2 failed for good, and that failed with it."""
    return given(
        started(),
        scheduled(1, "reserve"),
        leased(1),
        completed(1),
        turned(cmd.ScheduleActivity(2, "charge", max_attempts=1), *also),
        *steps,
        leased(2),
        failed(2),
        turned(FAIL),
    )


def kinds(found: list[Event]) -> list[type[Event]]:
    return [type(event) for event in found]


def copied(world: World) -> Decision:
    return world.when(retries())


def test_the_history_is_copied_up_to_the_last_failure():
    world = once()
    old = world.histories["run-1"]
    decision = copied(world)
    assert kinds(events(decision)) == [WorkflowStarted, ActivityScheduled, ActivityCompleted, ActivityScheduled]
    assert [recorded.time for recorded in decision.events] == [recorded.time for recorded in old[:4]]
    assert decision.run.run_id != "run-1"
    assert decision.run.workflow_id == ORDER


def test_the_failed_activity_waits_again_as_if_never_tried():
    world = once()
    world.take(retries())
    activity = world.activity(2)
    assert (activity.attempt, activity.running, activity.ready, activity.name) == (0, False, True, "charge")
    assert activity.id not in {event.activity_id for event in world_events(world, "run-1", ActivityScheduled)}
    reopening = world.run.start.reopening
    assert reopening is not None
    assert (reopening.activity_seq, reopening.activity_id) == (2, activity.id)


def world_events(world: World, run_id: str, kind: type[Event]) -> list[Event]:
    return [recorded.event for recorded in world.histories[run_id] if isinstance(recorded.event, kind)]


def test_the_failed_run_stays_but_for_its_successor():
    world = once()
    world.take(retries())
    old = world.runs["run-1"]
    assert (old.status, old.next_run_id, old.last_seq) == ("FAILED", world.run.run_id, 6)
    assert world.run.start.previous_run_id == "run-1"
    assert world.run.start.reopening.requested_by == "ada"
    assert world.run.start.reopening.reason == "try again"


def test_a_reopened_run_is_running_and_its_code_looks_at_once():
    world = once()
    world.take(retries())
    assert (world.run.status, world.run.task.ready, world.run.seen_seq) == ("RUNNING", True, 0)


def test_a_reopened_run_goes_on_to_its_end():
    world = once()
    world.take(retries())
    for step in (turned(), leased(2), completed(2), turned(cmd.CompleteWorkflow(ONE))):
        world.take(step)
    assert world.run.status == "COMPLETED"
    assert world.runs["run-1"].status == "FAILED"


def test_what_was_done_has_its_row_in_the_new_run_too():
    (done,) = effects(copied(once()), CloseActivity)
    assert (done.activity.seq, done.status, done.result) == (1, "COMPLETED", ONE)


def test_open_timers_are_armed_for_their_time():
    world = once(also=(cmd.ScheduleTimer(1, 3600), cmd.ScheduleTimer(2, 1)))
    due = world.histories["run-1"][4].event.fire_at
    world.take(later(10 * SECOND))
    world.take(retries())
    assert set(world.run.timers) == {1, 2}
    assert world.run.timers[1] == round(due * SECOND)


def test_signals_and_attributes_of_the_prefix_are_there():
    world = once(signalled("paid", ONE), turned(cmd.UpsertAttributes(search=cmd.Payload(b'{"stage":"pay"}'))))
    world.take(retries())
    assert world.run.signals == 1
    assert bytes(world.run.search) == b'{"stage":"pay"}'


def test_the_reply_names_the_activity_and_counts_what_was_dropped():
    world = once(signalled("late"))
    reply = world.take(retries()).reply
    assert (reply.activity, reply.invalidated, reply.dropped) == (world.activity(2), 0, 2)


def test_an_activity_that_the_failed_run_had_given_up_is_not_tried_again():
    world = given(
        started(),
        scheduled(1, "charge"),
        leased(1),
        signalled("enough"),
        turned(cmd.RequestCancelActivity(1)),
        failed(1),
        turned(FAIL),
    )
    decision = world.take(retries())
    assert decision.reply.activity is None
    assert world.run.activities == {}


def test_a_child_that_goes_on_is_the_new_runs_child():
    world = once(also=(cmd.StartChildWorkflow("Child", CHILD, parent_close_policy="abandon"),))
    world.take(retries())
    assert set(world.run.children) == {CHILD}
    assert world.run.start.reopening.adopted[0].workflow_id == CHILD
    for step in (turned(cmd.CompleteWorkflow(ONE), of=CHILD), delivered()):
        world.take(step)
    assert kinds(world.history())[-1] is ChildWorkflowCompleted
    assert world.run.children == {}
    assert world.run.task.ready


def test_an_adopted_child_outlives_a_second_retry():
    world = once(also=(cmd.StartChildWorkflow("Child", CHILD, parent_close_policy="abandon"),))
    world.take(retries())
    for step in (turned(), leased(2), failed(2), turned(FAIL), retries()):
        world.take(step)
    assert set(world.run.children) == {CHILD}
    for step in (turned(cmd.CompleteWorkflow(ONE), of=CHILD), delivered()):
        world.take(step)
    assert kinds(world.history())[-1] is ChildWorkflowCompleted


def test_a_child_whose_id_belongs_to_somebody_else_now_has_failed():
    world = once(also=(BEAR,))
    for step in (delivered(), started(CHILD)):
        world.take(step)
    decision = copied(world)
    assert kinds(events(decision))[-1] is ChildWorkflowFailed
    assert kinds(events(decision)).count(ChildWorkflowStarted) == 1


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([started()], "not_retryable"),
        ([started(), turned(cmd.CompleteWorkflow())], "not_retryable"),
        ([started(), turned(cmd.ContinueAsNew()), turned(cmd.CompleteWorkflow())], "not_retryable"),
    ],
)
def test_what_cannot_be_retried_is_refused(steps, code):
    with refused(code):
        given(*steps).when(retries())


def test_a_child_is_not_retried():
    world = once(also=(BEAR,))
    world.take(turned(FAIL, of=CHILD))
    with refused("is_child"):
        world.when(rq.RetryFailed(MAIN, CHILD, None, "ada", "again"))


@pytest.mark.parametrize("run_id", [None, "run-1"])
def test_of_two_retries_one_is_refused(run_id):
    world = once()
    world.take(retries())
    with refused("already_continued"):
        world.when(rq.RetryFailed(MAIN, ORDER, run_id, "ada", "again"))


def test_a_run_that_continued_as_new_has_gone_on():
    world = given(started(), turned(cmd.ContinueAsNew()))
    with refused("already_continued"):
        world.when(rq.RetryFailed(MAIN, ORDER, "run-1", "ada", "again"))


def test_an_id_that_was_started_again_is_not_retried():
    world = once()
    world.take(started())
    with refused("already_continued"):
        world.when(rq.RetryFailed(MAIN, ORDER, "run-1", "ada", "again", histories=world.histories))


@pytest.mark.parametrize(("who", "why"), [("", "x"), (" ", "x"), ("ada", ""), ("ada", " ")])
def test_a_retry_names_who_asks_and_why(who, why):
    with refused("invalid"):
        once().when(rq.RetryFailed(MAIN, ORDER, None, who, why))


def test_a_history_that_was_not_read_is_asked_for():
    with pytest.raises(Unprepared):
        once().when(retries(histories={}))


def test_of_several_failures_the_last_one_counts():
    world = given(
        started(),
        scheduled(1, "first", max_attempts=1),
        leased(1),
        failed(1),
        scheduled(2, "second", max_attempts=1),
        leased(2),
        failed(2),
        turned(FAIL),
    )
    decision = copied(world)
    assert kinds(events(decision))[-1] is ActivityScheduled
    assert kinds(events(decision)).count(ActivityFailed) == 1
    assert WorkflowFailed not in kinds(events(decision))


def test_a_message_without_an_outcome_gets_one_in_the_copy():
    """The outcome of a message that was in the outbox went to the closed run: the copy would wait for ever."""
    sends = tuple(cmd.SendMessage(seq, "wf://main/nobody", "hello") for seq in (1, 2))
    world = once(also=sends)
    copied = events(world.when(retries()))
    assert copied[-2:] == [MessageDelivered(1), MessageDelivered(2)]
    world.keep(world.when(retries()))
    assert world.run.sends == 0
