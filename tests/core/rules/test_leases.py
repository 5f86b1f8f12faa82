"""Leases that a batch grants on its own account, without a decision, are those that `decide` grants on request."""

import pytest

from assay.core.model import requests as rq
from assay.core.rules.leases import lease_ready_activity, lease_ready_task
from tests.core.support import (
    SECOND,
    Step,
    claims,
    elapses,
    fails_task,
    given,
    later,
    leased,
    leases,
    refused,
    scheduled,
    started,
)
from tests.core.support import failed as attempt_failed


@pytest.mark.parametrize(
    "before",
    [
        [started()],
        [started(task_timeout=3 * SECOND), later(SECOND)],
        [started(), claims(), fails_task(), later(2 * SECOND), elapses()],
    ],
    ids=["first", "own time-out", "after a failure"],
)
@pytest.mark.parametrize("lease", [None, 10 * SECOND])
def test_a_task_is_leased_alike_with_and_without_a_decision(before: list[Step], lease: int | None):
    requested, ready = given(*before), given(*before)
    requested.take(claims(lease=lease))
    request = rq.LeaseTask(ready.run.run_id, requested.run.task.worker, lease, False)
    lease_ready_task(ready.run, request, ready.moment())
    assert ready.run == requested.run


@pytest.mark.parametrize(
    "before",
    [
        [started(), scheduled(1)],
        [started(), scheduled(1, heartbeat_timeout_secs=5)],
        [started(), scheduled(1), leased(1), attempt_failed(1), later(2 * SECOND), elapses("activity", 1)],
    ],
    ids=["first", "with options", "second attempt"],
)
@pytest.mark.parametrize("lease", [None, 10 * SECOND])
def test_an_attempt_is_leased_alike_with_and_without_a_decision(before: list[Step], lease: int | None):
    requested, ready = given(*before), given(*before)
    requested.take(leases(1, lease=lease))
    activity = requested.activity(1)
    request = rq.LeaseActivity(ready.run.run_id, 1, activity.worker, lease, activity.local)
    assert lease_ready_activity(ready.run, request, ready.moment()) == activity
    assert ready.run == requested.run


def test_work_that_is_held_already_is_not_leased_again():
    world = given(started(), scheduled(1), leases(1))
    before = world.activity(1), world.run.task
    with refused("not_ready"):
        lease_ready_task(world.run, rq.LeaseTask(world.run.run_id, "w-2", None, False), world.moment())
    with refused("not_ready"):
        lease_ready_activity(world.run, rq.LeaseActivity(world.run.run_id, 1, "w-2", None, False), world.moment())
    assert (world.activity(1), world.run.task) == before
