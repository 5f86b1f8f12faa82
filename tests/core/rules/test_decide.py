import pytest

from assay.core.model import requests as rq
from assay.core.model.ids import SECOND
from assay.core.rules.decide import RULES, decide
from tests.core.support import (
    MAIN,
    ORDER,
    claimed,
    events,
    given,
    later,
    leased,
    refused,
    scheduled,
    started,
    starts,
    terminated,
    turned,
)


def leaves(kind):
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in leaves(child)] if below else [kind]


KINDS = [kind for kind in leaves(rq.Request) if kind.__module__ == rq.__name__]
"""Requests to runs; those to schedules are decided elsewhere."""


def test_every_request_has_its_rule():
    assert set(RULES) == set(KINDS) - {rq.StartWorkflow}


def test_only_what_is_safe_on_a_closed_run_is_welcome_there():
    assert {kind for kind in KINDS if kind.allowed_when_closed} == {
        rq.AddWatcher,
        rq.RemoveWatcher,
        rq.RestartAsNew,
        rq.RetryFailed,
        rq.Elapse,
        rq.Deliver,
    }


TO_RUN = [
    rq.LeaseTask("run-1", "w-1", None),
    rq.Advance("run-1", "w-1", 1, 1),
    rq.FailTask("run-1", "w-1", 1, "no_handler", ""),
    rq.ExtendTask("run-1", "w-1", 1, SECOND),
    rq.ReleaseTask("run-1", "w-1", 1),
    rq.LoseTask("run-1", 1),
    rq.LeaseActivity("run-1", 1, "w-1", None),
    rq.CompleteActivity("run-1", 1, 101),
    rq.FailActivity("run-1", 1, 101, None),
    rq.CancelledActivity("run-1", 1, 101),
    rq.HeartbeatActivity("run-1", 1, 101),
    rq.ExtendActivity("run-1", 1, 101, SECOND),
    rq.ReleaseActivity("run-1", 1, 101),
]
TO_WORKFLOW = [
    rq.Signal(MAIN, ORDER),
    rq.Update(MAIN, ORDER),
    rq.RequestCancel(MAIN, ORDER),
    rq.Terminate(MAIN, ORDER),
    rq.ScheduleDirect(MAIN, ORDER),
]


def name_of(request):
    return type(request).__name__


def test_the_lists_here_are_complete():
    listed = {type(request) for request in TO_RUN + TO_WORKFLOW}
    assert listed == {kind for kind in RULES if not kind.allowed_when_closed}


@pytest.mark.parametrize("request_", TO_RUN, ids=name_of)
def test_a_worker_of_a_closed_run_is_told_so(request_):
    with refused("run_closed"):
        given(started(), scheduled(), leased(), terminated()).when(request_)


@pytest.mark.parametrize("request_", TO_WORKFLOW, ids=name_of)
def test_a_caller_of_a_closed_run_finds_nothing(request_):
    with refused("workflow_closed"):
        given(started(), terminated()).when(request_)


@pytest.mark.parametrize("request_", TO_RUN + TO_WORKFLOW + [rq.Elapse("run-1")], ids=name_of)
def test_a_run_that_is_not_there_is_not_found(request_):
    world = given()
    with refused("not_found"):
        decide(None, request_, world.moment())


@pytest.mark.parametrize("kind", ["run", "activity", "timer"])
def test_a_deadline_of_a_closed_run_does_nothing(kind):
    world = given(started(run_timeout=SECOND), scheduled(), leased(), terminated(), later(3_600 * SECOND))
    decision = world.when(rq.Elapse("run-1", kind, 1))
    assert (events(decision), decision.effects, decision.others) == ([], [], [])


def test_a_start_is_checked_before_anything_else():
    with refused("invalid"):
        given(started()).when(starts(task_queue=""))


def test_the_time_of_an_event_is_the_time_of_the_decision():
    world = given(later(SECOND), started())
    assert world.histories["run-1"][0].time == world.now


def test_seqs_are_dense_over_many_decisions():
    world = given(started(), scheduled(), leased(), terminated())
    assert [recorded.seq for recorded in world.histories["run-1"]] == [1, 2, 3]


def test_turns_and_reports_of_one_run_leave_another_alone():
    world = given(started(), started("other"), turned(), claimed(of="other"))
    assert (world.newest["other"].task.epoch, world.newest["other"].last_seq) == (1, 1)
    assert world.run.task.worker is None
