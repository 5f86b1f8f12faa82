"""Children of a retried run: reopened, adopted, or recorded with their outcome."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.events import (
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    SignalReceived,
    WorkflowCancelRequested,
    WorkflowTerminated,
)
from assay.core.model.limits import LIMITS
from assay.core.rules import retry
from tests.core.support import (
    CHILD,
    GRANDCHILD,
    MAIN,
    ONE,
    ORDER,
    Step,
    World,
    asks_to_cancel,
    bore,
    both,
    delivered,
    delivers,
    given,
    refused,
    signalled,
    started,
    terminated,
    turned,
)

FAIL = cmd.FailWorkflow("NameError")
FAILED = both(signalled("go on"), turned(FAIL))
DONE = cmd.CompleteWorkflow(ONE)
ABANDON = {"parent_close_policy": "abandon"}


def retries(**fields: object) -> Step:
    return lambda world: rq.RetryFailed(MAIN, ORDER, None, "ada", "again", **{"histories": world.histories, **fields})


def family(**options: object) -> World:
    """A parent with a child and a grandchild, all of them waiting."""
    return given(started(), bore(**options), bore(GRANDCHILD, of=CHILD, **options), turned(of=GRANDCHILD))


def numbers(world: World) -> list[int]:
    return [world.newest[name].number for name in (ORDER, CHILD, GRANDCHILD)]


ENDS: dict[str, list[Step]] = {
    "terminated": [terminated()],
    "failed": [FAILED],
    "cancelled": [asks_to_cancel(), turned(cmd.CancelWorkflow())],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("policy", ["terminate", "request_cancel"])
@pytest.mark.parametrize("notified", ["no run", "the child", "all runs", "all ended"])
def test_a_family_that_ended_with_its_parent_goes_on_with_it(end: str, policy: str, notified: str):
    world = family(parent_close_policy=policy)
    for step in ENDS[end]:
        world.take(step)
    if notified == "the child":
        world.take(delivers("terminate" if end != "cancelled" and policy == "terminate" else "cancel", CHILD))
    elif notified != "no run":
        world.take(delivered())
    if notified == "all ended":
        for name in (GRANDCHILD, CHILD):
            if not world.newest[name].closed:
                world.take(turned(cmd.CancelWorkflow(), of=name))
        world.take(delivered())
        assert all(run.closed for run in world.runs.values())
    world.take(retries())
    world.take(delivered())
    assert numbers(world) == [2, 2, 2]
    assert not any(world.newest[name].closed for name in (ORDER, CHILD, GRANDCHILD))
    for name in (GRANDCHILD, CHILD, ORDER):
        assert not world.newest[name].cancel_seq
        world.take(turned(DONE, of=name))
        world.take(delivered())
    assert [world.newest[name].status for name in (ORDER, CHILD, GRANDCHILD)] == ["COMPLETED"] * 3
    assert [type(event) for event in world.history()].count(ChildWorkflowCompleted) == 1


def test_the_copy_names_the_childs_new_run_and_the_child_its_new_parent():
    world = family()
    for step in (terminated(), delivered(), retries()):
        world.take(step)
    child = world.newest[CHILD]
    (start,) = [event for event in world.history() if isinstance(event, ChildWorkflowStarted)]
    assert start.run_id == child.run_id == world.run.children[CHILD].run_id
    assert child.start.parent.run_id == world.run.run_id
    assert child.start.reopening.requested_by == "ada"
    assert world.run.start.reopening.adopted == ()
    old = next(run for run in world.runs.values() if run.workflow_id == CHILD and run.number == 1)
    assert (old.status, old.next_run_id) == ("FAILED", child.run_id)


def test_a_reopened_child_has_no_trace_of_its_end_and_keeps_its_signals():
    world = family(parent_close_policy="request_cancel")
    for step in (signalled("one", of=CHILD), terminated(), delivers("cancel", CHILD), signalled("two", of=CHILD)):
        world.take(step)
    world.take(turned(cmd.CancelWorkflow(), of=CHILD))
    world.take(retries())
    history = world.history(CHILD)
    assert [event.signal for event in history if isinstance(event, SignalReceived)] == ["one", "two"]
    assert not [event for event in history if isinstance(event, WorkflowCancelRequested | WorkflowTerminated)]


@pytest.mark.parametrize("end", [DONE, FAIL])
def test_a_child_that_ended_by_itself_is_recorded_with_its_outcome(end: cmd.Command):
    world = family(parent_close_policy="request_cancel")
    for step in (terminated(), delivered(), turned(end, of=CHILD), delivered(), retries()):
        world.take(step)
    outcome = world.history()[-1]
    assert isinstance(outcome, ChildWorkflowCompleted if end is DONE else ChildWorkflowFailed)
    assert (world.run.children, numbers(world)) == ({}, [2, 1, 1])


def test_a_child_that_an_operator_terminated_is_recorded_with_its_outcome():
    world = family()
    for step in (terminated(of=CHILD), terminated(), retries()):
        world.take(step)
    outcome = world.history()[-1]
    assert isinstance(outcome, ChildWorkflowFailed)
    assert (outcome.close_reason, world.newest[CHILD].number) == ("terminated", 1)


def test_a_child_that_was_cancelled_because_of_a_request_in_the_copy_stays_cancelled():
    world = family()
    for step in (asks_to_cancel(), turned(FAIL), delivered(), turned(cmd.CancelWorkflow(), of=CHILD), retries()):
        world.take(step)
    assert world.run.cancel_seq
    assert isinstance(world.history()[-1], ChildWorkflowFailed)
    assert world.newest[CHILD].number == 1


def test_an_end_that_was_under_way_is_not_taken_for_that_of_the_reopened_child():
    world = family()
    for step in (terminated(), delivers("terminate", CHILD), retries(), delivered()):
        world.take(step)
    assert set(world.run.children) == {CHILD}
    assert not [event for event in world.history() if isinstance(event, ChildWorkflowFailed)]


@pytest.mark.parametrize("end", [*ENDS, "timed out"])
def test_the_end_of_an_adopted_child_is_passed_on_whatever_ended_its_parent(end: str):
    world = given(started(run_timeout=1_000_000), bore(**ABANDON))
    if end == "timed out":
        world.now += 2_000_000
        world.take(rq.Elapse(world.run.run_id))
    else:
        for step in ENDS[end]:
            world.take(step)
    for step in (retries(), turned(DONE, of=CHILD), delivered()):
        world.take(step)
    assert isinstance(world.history()[-1], ChildWorkflowCompleted)


def test_too_many_children_change_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retry, "LIMITS", type(LIMITS)(reopened_children=1))
    world = family()
    for step in (terminated(), delivered()):
        world.take(step)
    with refused("too_many_children"):
        world.when(retries())
    monkeypatch.setattr(retry, "LIMITS", type(LIMITS)(reopened_children=2))
    world.take(retries())
    assert numbers(world) == [2, 2, 2]


def test_an_open_child_that_the_dropped_part_started_is_adopted():
    world = given(started(), bore(seq=7, **ABANDON), FAILED, retries(from_seq=1))
    assert world.run.children == {}
    world.take(turned(cmd.StartChildWorkflow("Child", CHILD, seq=1, parent_close_policy="abandon")))
    assert world.newest[CHILD].number == 1
    assert isinstance(world.history()[-1], ChildWorkflowStarted)
    for step in (turned(DONE, of=CHILD), delivered()):
        world.take(step)
    outcome = world.history()[-1]
    assert isinstance(outcome, ChildWorkflowCompleted)
    assert outcome.child_seq == 1


def test_a_closed_child_that_the_dropped_part_started_starts_anew():
    child = cmd.StartChildWorkflow("Child", CHILD, seq=1, id_reuse_policy="reject_duplicate")
    world = given(started(), turned(child), turned(DONE, of=CHILD), delivered(), turned(FAIL), retries(from_seq=1))
    world.take(turned(child))
    assert (world.newest[CHILD].number, world.newest[CHILD].closed) == (2, False)
    for step in (turned(DONE, of=CHILD), delivered()):
        world.take(step)
    assert isinstance(world.history()[-1], ChildWorkflowCompleted)


def test_a_dropped_child_that_ends_before_it_is_started_again_is_not_heard_of():
    world = given(started(), bore(seq=1, **ABANDON), FAILED, retries(from_seq=1))
    for step in (turned(DONE, of=CHILD), delivered(), bore(seq=1, **ABANDON)):
        world.take(step)
    assert isinstance(world.history()[-1], ChildWorkflowStarted)
    assert world.newest[CHILD].number == 2


def test_an_adopted_child_stays_adopted_over_a_second_retry():
    world = given(started(), bore(seq=1, **ABANDON), FAILED, retries(from_seq=1), turned(FAIL), retries())
    world.take(bore(seq=3, **ABANDON))
    for step in (FAILED, retries(), turned(DONE, of=CHILD), delivered()):
        world.take(step)
    assert isinstance(world.history()[-1], ChildWorkflowCompleted)
