"""Two engines decide about one run: one wins, and the other writes nothing."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.ids import RunId, WorkflowId
from assay.core.model.policies import IdConflict
from assay.storage.ports import RequestOutcome
from tests.core.support import (
    CHILD,
    MAIN,
    ONE,
    ORDER,
    claims,
    delivers,
    fails,
    leases,
    signals,
    starts,
    turned,
    turns,
)
from tests.storage.support import AnyStore, StoredWorld, as_stored, history, reloaded

OTHER = WorkflowId("order-2")
EMPTY = frozenset[RunId]()


@pytest.fixture
def slow(store: AnyStore) -> StoredWorld:
    """An engine that is about to be overtaken."""
    return StoredWorld(store, "slow-", 1_000)


async def overtaken(slow: StoredWorld, world: StoredWorld) -> None:
    """The slow engine knows all runs, then the other one changes the run that most tests are about."""
    await slow.learn(*world.runs)
    await world.do(signals("first"))


async def test_the_second_to_change_a_run_loses(store: AnyStore, slow: StoredWorld):
    world = await StoredWorld(store).do(starts())
    await overtaken(slow, world)
    slow.take(signals("second"))
    assert await slow.commit() == {world.run.run_id}
    assert await reloaded(store, world.run) == as_stored(world.run)
    assert await history(store, world.run.run_id) == world.histories[world.run.run_id]


async def test_others_of_the_same_batch_are_written(store: AnyStore, slow: StoredWorld):
    world = await StoredWorld(store).do(starts(), starts(OTHER))
    await overtaken(slow, world)
    slow.take(signals("second"))
    slow.take(signals("mine", of=OTHER))
    slow.take(starts("fresh"))
    assert await slow.commit() == {world.run.run_id}
    for workflow_id in (OTHER, WorkflowId("fresh")):
        assert await reloaded(store, slow.newest[workflow_id]) == as_stored(slow.newest[workflow_id])


async def test_a_loser_that_learns_wins_the_next_time(store: AnyStore, slow: StoredWorld):
    world = await StoredWorld(store).do(starts())
    await overtaken(slow, world)
    slow.take(signals("second"))
    await slow.commit()
    await slow.learn(world.run.run_id)
    slow.take(signals("second"))
    assert await slow.commit() == EMPTY
    assert [recorded.seq for recorded in await store.events(world.run.run_id)] == [1, 2, 3]


async def test_a_child_is_not_born_to_a_parent_that_lost(store: AnyStore, slow: StoredWorld):
    world = await StoredWorld(store).do(starts(), claims())
    await slow.learn(*world.runs)
    slow.take(turns(cmd.StartChildWorkflow("Child", CHILD)))
    await world.do(signals("first"))
    child = slow.newest[CHILD].run_id
    assert await slow.commit() == {world.run.run_id, child}
    assert await store.load([child], []) == ()
    assert await store.events(child) == []


async def test_a_run_is_not_ended_for_a_successor_that_is_lost(store: AnyStore, slow: StoredWorld):
    """A tie holds both ways, and through a third run: here the winner of a compare-and-set is taken back."""
    world = await StoredWorld(store).do(starts(), starts(OTHER))
    await overtaken(slow, world)
    slow.take(signals("second"))
    slow.take(starts(OTHER, id_conflict_policy=IdConflict.TERMINATE_EXISTING))
    changes = slow.changes()
    fresh, ended = changes.ties[0]
    changes.ties.append((fresh, world.run.run_id))
    assert await store.write(changes) == {world.run.run_id, fresh, ended}
    for run in world.runs.values():
        assert await reloaded(store, run) == as_stored(run)


async def test_nothing_of_a_loser_is_left_in_any_table(store: AnyStore, slow: StoredWorld):
    both = turned(cmd.ScheduleActivity(1, "charge"), cmd.StartChildWorkflow("Child", CHILD))
    world = await StoredWorld(store).do(starts(), both, leases(1), turned(cmd.CompleteWorkflow(ONE), of=CHILD))
    await slow.learn(*world.runs)
    slow.outbox = dict(world.outbox)
    slow.take(signals("second"))
    slow.take(fails(1))
    slow.take(delivers("child_closed", ORDER))
    slow.take(
        turned(
            cmd.ScheduleActivity(2, "ship"),
            cmd.ScheduleTimer(1, 5.0),
            cmd.RecordSnapshot(ONE),
            cmd.UpsertAttributes(search=cmd.Payload(b'{"stage":"new"}'), memo=cmd.Payload(b'{"by":"slow"}')),
        )
    )
    await world.do(signals("first"))
    changes = slow.changes()
    run_id = world.run.run_id
    changes.outcomes.append((run_id, RequestOutcome(MAIN, "key", b"", 200, b"", 1)))
    assert changes.attempts
    assert changes.acknowledged
    assert await store.write(changes) == {run_id}
    assert await reloaded(store, world.run) == as_stored(world.run)
    assert await store.snapshot(run_id) is None
    assert await store.outcomes([(MAIN, "key")]) == []
    assert len(await store.messages(world.now + 1, 10)) == 1
    assert await store.activity(1_000) is None
    activity = await store.activity(world.activity(1).id)
    assert activity is not None
    assert (activity.status, activity.attempt) == ("RUNNING", 1)


async def test_a_run_that_is_gone_is_lost(store: AnyStore, slow: StoredWorld):
    world = StoredWorld(store)
    world.take(starts())
    world.changes()  # never written
    world.take(signals())
    assert await world.commit() == {world.run.run_id}
