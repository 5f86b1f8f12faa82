"""What only callers over HTTP ask for: direct activities, another id to go on under, leases known by their holder."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.events import (
    ActivityScheduled,
    ChildWorkflowCompleted,
    SignalReceived,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowStarted,
)
from assay.core.model.ids import SECOND, WorkflowId
from tests.core.support import (
    CHILD,
    LEASE,
    MAIN,
    ONE,
    ORDER,
    OTHER,
    Step,
    asks_to_cancel,
    bore,
    cancel_requested,
    claims,
    completed,
    delivered,
    elapsed,
    events,
    given,
    keeps_task,
    later,
    leased,
    refused,
    restarts,
    scheduled,
    signalled,
    started,
    terminated,
    turned,
    turns,
)

NEW = WorkflowId("order-2")


def schedules_directly(seq: int = 1, name: str = "charge", **options: object) -> Step:
    return rq.ScheduleDirect(MAIN, ORDER, command=cmd.ScheduleActivity(seq, name, **options))


def test_an_activity_can_be_scheduled_from_outside():
    world = given(started())
    decision = world.take(schedules_directly(7, input=ONE))
    (event,) = events(decision)
    assert (event.activity_seq, event.name, event.input) == (7, "charge", ONE)
    assert decision.reply == world.activity(7)
    assert world.run.status == "RUNNING"


def test_the_same_seq_is_scheduled_once():
    world = given(started(), schedules_directly(1))
    decision = world.when(schedules_directly(1, "another"))
    assert (events(decision), decision.reply.name) == ([], "charge")


def test_seqs_from_outside_come_in_any_order():
    world = given(started(), schedules_directly(5), schedules_directly(3))
    assert set(world.run.activities) == {3, 5}
    assert world.run.activity_mark == 5


def test_a_seq_from_outside_has_limits():
    with refused("invalid"):
        given(started()).when(schedules_directly(-1))
    with refused("invalid"):
        given(started()).when(schedules_directly(2**53 + 1))


def test_its_outcome_makes_a_task_due():
    world = given(started(), claims(), turned(), schedules_directly(), leased())
    assert not world.run.task.ready
    world.take(completed())
    assert world.run.task.ready


def test_a_run_that_no_worker_has_seen_is_cancelled_at_once_whatever_it_has_begun():
    decision = given(started(), schedules_directly(), leased()).when(asks_to_cancel())
    assert [type(event) for event in events(decision)] == [WorkflowCancelRequested, WorkflowCancelled]


def test_continuing_under_another_id_begins_a_chain_of_its_own():
    world = given(started(search_attributes=cmd.Payload(b'{"a":1}')), claims(), turned(), signalled())
    decision = world.take(restarts(input=ONE, new_workflow_id=NEW))
    fresh = world.newest[NEW]
    assert [type(event) for event in events(decision)] == [WorkflowStarted, SignalReceived]
    assert (fresh.number, fresh.start.first_run_id, fresh.start.previous_run_id) == (1, fresh.run_id, None)
    assert bytes(fresh.search) == b'{"a":1}'
    assert world.history()[-1] == WorkflowContinuedAsNew(fresh.run_id, NEW)
    assert world.run.close_reason == "continued_as_new"


def test_a_closed_source_is_left_alone_under_another_id_too():
    world = given(started(), terminated())
    world.take(restarts(new_workflow_id=NEW))
    assert (world.run.status, world.run.next_run_id, world.newest[NEW].status) == ("FAILED", None, "PENDING")


def test_the_own_id_is_not_another_one():
    world = given(started())
    world.take(restarts(new_workflow_id=ORDER))
    assert (world.run.number, world.runs["run-1"].next_run_id) == (2, world.run.run_id)


def test_an_id_in_use_is_refused():
    with refused("already_exists"):
        given(started(), started(NEW)).when(restarts(new_workflow_id=NEW))
    with refused("invalid"):
        given(started()).when(restarts(new_workflow_id=WorkflowId("x" * 300)))


def test_the_parent_of_a_run_that_goes_on_elsewhere_hears_that_it_is_done():
    world = given(started(), bore(CHILD))
    for step in (restarts(of=CHILD, new_workflow_id=NEW), delivered()):
        world.take(step)
    assert isinstance(world.history()[-1], ChildWorkflowCompleted)


def test_a_worker_that_knows_no_epoch_is_known_by_its_id():
    world = given(started(), claims())
    complete = cmd.CompleteWorkflow(ONE)
    assert events(world.when(turns(complete, epoch=rq.HELD_EPOCH, seen_seq=-1))) == [WorkflowCompleted(ONE)]
    with refused("stale_task"):
        world.when(turns(complete, epoch=rq.HELD_EPOCH, seen_seq=-1, worker=OTHER))
    assert world.when(keeps_task(epoch=rq.HELD_EPOCH)).reply.until == world.now + LEASE


def test_a_worker_without_a_task_holds_nothing():
    with refused("stale_task"):
        given(started()).when(turns(epoch=rq.HELD_EPOCH, seen_seq=-1))
    with refused("stale_task"):
        given(started(), turned()).when(turns(epoch=rq.HELD_EPOCH, seen_seq=-1))


@pytest.mark.parametrize(("timeout", "until"), [(None, LEASE), (2 * SECOND, 2 * SECOND)])
def test_the_lease_of_a_task_is_as_long_as_its_run_says(timeout, until):
    world = given(started(task_timeout=timeout), claims())
    assert world.run.task.until == world.now + until
    world.take(later(until))
    world.take(elapsed())
    assert world.run.task.ready


def test_scheduling_by_command_still_counts_upwards():
    world = given(started(), scheduled(2), cancel_requested())
    assert events(world.when(turned(cmd.ScheduleActivity(1, "late")))) == []
    assert not any(isinstance(event, ActivityScheduled) and event.activity_seq == 1 for event in world.history())
