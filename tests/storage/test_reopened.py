"""A run that was opened again is read from the store as it was decided, with the children it has taken over (R20)."""

from assay.core import commands as cmd
from assay.core import requests as rq
from assay.core.ids import Namespace
from assay.server.verification import verify
from tests.core.support import CHILD, MAIN, ONE, ORDER, completed, failed, leased, scheduled, started, turned
from tests.storage.support import AnyStore, StoredWorld


def retries(world: StoredWorld) -> rq.Request:
    return rq.RetryFailed(MAIN, ORDER, None, "ada", "again", histories=world.histories)


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
