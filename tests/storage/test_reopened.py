"""A retried run is read from the store as it was decided, with the children it has taken over."""

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.ids import Namespace, RunId
from assay.server.verification import verify
from assay.storage.ports import Changes
from tests.core.support import (
    CHILD,
    GRANDCHILD,
    MAIN,
    ONE,
    ORDER,
    bore,
    completed,
    delivered,
    failed,
    leased,
    scheduled,
    started,
    terminated,
    turned,
)
from tests.storage.support import AnyStore, StoredWorld


def retries(world: StoredWorld) -> rq.Request:
    return rq.RetryFailed(MAIN, ORDER, None, "ada", "again", histories=world.histories)


async def test_a_reopened_family_is_sound_and_damage_to_it_is_found(store: AnyStore):
    world = StoredWorld(store)
    await world.do(started(), bore(), bore(GRANDCHILD, of=CHILD), terminated(), delivered(), retries)
    assert [world.newest[name].number for name in (ORDER, CHILD, GRANDCHILD)] == [2, 2, 2]
    assert [one async for one in verify(store, world.now)] == []
    old = next(run for run in world.runs.values() if run.workflow_id == CHILD and run.number == 1)
    old.next_run_id = RunId("nobody")
    old.version += 1
    await store.write(Changes(runs=[old]))
    assert [one.invariant async for one in verify(store, world.now)] == ["I18"]


async def test_a_reopened_run_comes_back_from_the_store(store: AnyStore):
    world = StoredWorld(store)
    child = cmd.StartChildWorkflow("Child", CHILD, parent_close_policy="abandon")
    fail = cmd.FailWorkflow("no luck")
    await world.do(
        started(),
        scheduled(1, "reserve"),
        leased(1),
        completed(1),
        turned(cmd.ScheduleActivity(2, "charge", max_attempts=1), cmd.ScheduleTimer(1, 3600), child),
        leased(2),
        failed(2),
        turned(fail),
        retries,
    )
    (found,) = await store.load((), [(Namespace("main"), ORDER)])
    assert found.run_id == world.run.run_id
    assert found.children == world.run.children
    assert set(found.children) == {CHILD}
    assert found.activities == world.run.activities
    assert found.timers == world.run.timers
    assert (found.status, found.task.ready, found.start.reopening) == ("RUNNING", True, world.run.start.reopening)
    await world.do(turned(), leased(2), failed(2), turned(fail), retries)
    (found,) = await store.load((), [(Namespace("main"), ORDER)])
    assert (found.number, set(found.children)) == (3, {CHILD})
    await world.do(turned(cmd.CompleteWorkflow(ONE), of=CHILD))
    assert [one async for one in verify(store, world.now)] == []
