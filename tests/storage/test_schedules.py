"""Schedules and their fires come back as they were written; of two engines that change a schedule one does (I11)."""

from typing import Any

import pytest
from msgspec.structs import replace

from assay.core.model.ids import SECOND, Namespace, RunId
from assay.core.model.payload import Payload
from assay.core.schedules import requests as rq
from assay.core.schedules.fires import ScheduleDecision
from assay.core.schedules.model import Fire, FireOutcome, Missed, Overlap, Schedule, Trigger, Waiting
from assay.engine.commit.batch import Batch
from assay.engine.commit.batch_schedules import gather
from assay.storage.ports import Changes, Conflict
from assay.storage.verify import verify
from tests.core.schedules.schedule_support import HOUR, MIDNIGHT, MINUTE, NAME, Timed
from tests.core.support import MAIN
from tests.storage.states import DOCUMENT
from tests.storage.support import AnyStore, NamedIds

EMPTY = frozenset[RunId]()
OTHER = Namespace("other")


class Kept(Timed):
    """A world whose schedule is also in a store."""

    def __init__(self, store: AnyStore, cron_expr: str = "0 * * * * *", engine: str = "", **options: Any) -> None:
        self.store = store
        self.batch = Batch()
        super().__init__(cron_expr, **options)
        self.ids = NamedIds(engine, 100)

    def ask(self, request: rq.ScheduleRequest) -> ScheduleDecision:
        decision = self.decide(request)
        gather(self.batch, decision)
        self.schedule = None if decision.deleted else decision.schedule
        self.fires += decision.fires
        for run in decision.runs:
            self.runs[run.run.run_id] = self.newest[run.run.workflow_id] = run.run
        return decision

    async def commit(self) -> frozenset[RunId]:
        """Write all that was decided since the last time, and go on from what the store says."""
        self.batch.seal(self.now)
        batch, self.batch = self.batch, Batch()
        lost = await self.store.write(batch.changes)
        await self.learn()
        return lost

    async def learn(self) -> Schedule | None:
        found = await self.store.load_schedules([(MAIN, NAME)])
        self.schedule = found[0] if found else None
        return self.schedule


def fire(minute: int, outcome: FireOutcome = FireOutcome.STARTED, **fields: Any) -> Fire:
    return Fire(MAIN, NAME, MIDNIGHT + minute * MINUTE, MIDNIGHT, outcome, **fields)


async def test_a_schedule_comes_back_as_it_was(store: AnyStore):
    world = Kept(
        store,
        "@every 90s",
        timezone="Europe/Berlin",
        dst="both",
        input=DOCUMENT,
        task_queue="slow",
        overlap_policy=Overlap.QUEUE,
        missed=Missed.ALL,
        window=HOUR,
        jitter=SECOND,
        end_at=MIDNIGHT + HOUR,
        remaining=5,
        search_attributes=Payload(b'{"team":"ops"}'),
        memo=DOCUMENT,
    )
    created = world.state
    assert await world.commit() == EMPTY
    assert world.state == replace(created, version=1)
    world.pass_time(4 * MINUTE)
    world.pause("why not", "ada")
    changed = world.state
    assert changed.waiting
    assert await world.commit() == EMPTY
    assert world.state == replace(changed, version=2)


async def test_several_requests_of_one_batch_are_one_change(store: AnyStore):
    world = Kept(store)
    world.patch(task_queue="a")
    world.patch(task_queue="b")
    await world.commit()
    assert (world.state.task_queue, world.state.version) == ("b", 1)
    world.patch(task_queue="c")
    world.pause()
    await world.commit()
    assert (world.state.task_queue, world.state.paused, world.state.version) == ("c", True, 2)


async def test_a_fire_is_one_write_with_its_run(store: AnyStore):
    world = Kept(store)
    await world.commit()
    world.pass_time(MINUTE)
    assert await world.commit() == EMPTY
    run = world.last_run()
    (loaded,) = await store.load([run.run_id], [])
    assert (loaded.start.schedule, loaded.start.scheduled_for) == (NAME, MIDNIGHT + MINUTE)
    assert await store.fires(MAIN, NAME, 10) == world.fires
    assert await store.next_due() == (None, MIDNIGHT + 2 * MINUTE)
    assert [violation async for violation in verify(store, world.now)] == []


async def test_the_deadline_of_a_schedule_is_that_of_its_next_fire(store: AnyStore):
    world = Kept(store)
    await world.commit()
    (deadline,) = await store.due(0, MIDNIGHT + MINUTE, 10)
    assert (deadline.run_id, deadline.kind, deadline.due_at) == (world.state.key, "schedule", MIDNIGHT + MINUTE)
    world.pause()
    await world.commit()
    assert await store.next_due() == (None, None)
    world.resume()
    await world.commit()
    assert await store.next_due() == (None, MIDNIGHT + MINUTE)


async def test_fires_are_listed_newest_first(store: AnyStore):
    facts = {"workflow_id": "w", "run_id": RunId("r"), "trigger": Trigger.BACKFILL}
    written = [
        fire(1),
        fire(2, FireOutcome.SKIPPED, reason="run x is still open"),
        fire(3, FireOutcome.MISSED, until=MIDNIGHT + HOUR),
        fire(0, **facts),
        replace(fire(1), schedule="another"),
        replace(fire(1), namespace=OTHER),
    ]
    await store.write(Changes(fires=written))
    assert await store.fires(MAIN, NAME, 10) == written[3::-1]
    assert await store.fires(MAIN, NAME, 2) == [written[3], written[2]]
    assert await store.fires(OTHER, NAME, 10) == [written[5]]
    assert await store.fires(MAIN, "nobody", 10) == []
    counted = [await store.count_fires(*wanted) for wanted in ((MAIN, NAME), (OTHER, NAME), (MAIN, "nobody"))]
    assert counted == [4, 1, 0]


@pytest.mark.parametrize(
    ("second", "allowed"),
    [
        (fire(1, FireOutcome.SKIPPED), False),  # a due time comes once
        (fire(1, trigger=Trigger.BACKFILL), False),  # and starts one run
        (fire(1, FireOutcome.SKIPPED, trigger=Trigger.BACKFILL), True),
        (fire(1, trigger=Trigger.MANUAL), True),
        (fire(2), True),
    ],
    ids=["again", "started by a backfill", "skipped by a backfill", "by hand", "another due time"],
)
async def test_a_due_time_is_recorded_once_and_starts_one_run(store: AnyStore, second: Fire, allowed: bool):
    await store.write(Changes(fires=[fire(1)]))
    if allowed:
        await store.write(Changes(fires=[second]))
    else:
        with pytest.raises(Conflict):
            await store.write(Changes(fires=[second]))
    assert len(await store.fires(MAIN, NAME, 10)) == 1 + allowed


async def test_a_missed_due_time_may_be_made_up_for_once(store: AnyStore):
    await store.write(Changes(fires=[fire(1, FireOutcome.MISSED)]))
    await store.write(Changes(fires=[fire(1, trigger=Trigger.BACKFILL)]))
    with pytest.raises(Conflict):
        await store.write(Changes(fires=[fire(1, trigger=Trigger.BACKFILL)]))


async def test_schedules_are_listed_by_name_and_namespace(store: AnyStore):
    for namespace, name in ((MAIN, "b"), (OTHER, "c"), (MAIN, "a")):
        batch = Batch()
        batch.put_schedule(Schedule(namespace, name, "Report", "@daily"), deleted=False)
        await store.write(batch.changes)
    assert [schedule.name for schedule in await store.list_schedules(MAIN)] == ["a", "b"]
    assert [schedule.name for schedule in await store.list_schedules(None)] == ["a", "b", "c"]
    assert await store.list_schedules("nowhere") == []
    assert await store.list_schedules(None, waiting=True) == []
    found = await store.load_schedules([(MAIN, "a"), (OTHER, "a"), (OTHER, "c")])
    assert {(schedule.namespace, schedule.name) for schedule in found} == {(MAIN, "a"), (OTHER, "c")}
    assert await store.load_schedules([]) == []


async def test_schedules_with_waiting_fires_are_found(store: AnyStore):
    for name, waiting in (("idle", ()), ("busy", (Waiting(MIDNIGHT, "w"),))):
        batch = Batch()
        batch.put_schedule(Schedule(MAIN, name, "Report", "@daily", waiting=waiting), deleted=False)
        await store.write(batch.changes)
    assert [schedule.name for schedule in await store.list_schedules(None, waiting=True)] == ["busy"]
    assert await store.list_schedules(OTHER, waiting=True) == []


async def test_a_deleted_schedule_takes_its_fires_and_its_deadline_along(store: AnyStore):
    world = Kept(store).pass_time(MINUTE)
    await world.commit()
    await store.write(Changes(fires=[replace(fire(1), schedule="another")]))
    world.ask(rq.DeleteSchedule(MAIN, NAME))
    assert await world.commit() == EMPTY
    assert await store.load_schedules([(MAIN, NAME)]) == []
    assert await store.fires(MAIN, NAME, 10) == []
    assert len(await store.fires(MAIN, "another", 10)) == 1
    assert [due.kind for due in await store.due(MIDNIGHT + HOUR, MIDNIGHT + HOUR, 10) if due.kind == "schedule"] == []
    assert (await store.load([world.last_run().run_id], []))[0].closed_at is None


async def test_what_is_created_and_deleted_in_one_batch_was_never_there(store: AnyStore):
    world = Kept(store)
    world.ask(rq.DeleteSchedule(MAIN, NAME))
    assert await world.commit() == EMPTY
    assert await store.list_schedules(None) == []


async def test_a_name_is_taken_once(store: AnyStore):
    first, second = Kept(store), Kept(store, "0 0 * * * *")
    await first.commit()
    with pytest.raises(Conflict):
        await second.commit()
    assert (await first.learn()) == first.state
    assert first.state.cron_expr == "0 * * * * *"


# two engines


@pytest.fixture
def rivals(store: AnyStore) -> tuple[Kept, Kept]:
    """Two engines that know the same schedule."""
    return Kept(store, engine="a-"), Kept(store, engine="b-")


async def meet(rivals: tuple[Kept, Kept]) -> tuple[Kept, Kept]:
    one, other = rivals
    await one.commit()
    other.batch = Batch()
    await other.learn()
    return one, other


async def test_of_two_engines_one_fires(rivals: tuple[Kept, Kept]):
    one, other = await meet(rivals)
    for engine in (one, other):
        engine.now += MINUTE
        engine.elapse()
    assert await one.commit() == EMPTY
    loser = other.last_run().run_id
    assert await other.commit() == {other.state.key, loser}
    (recorded,) = await one.store.fires(MAIN, NAME, 10)
    assert recorded.run_id == one.last_run().run_id
    assert await one.store.load([loser], []) == ()
    assert not other.elapse().changed  # the loser reads, and sees that it is done


async def test_a_delete_loses_against_a_change(rivals: tuple[Kept, Kept]):
    one, other = await meet(rivals)
    one.patch(task_queue="elsewhere")
    other.ask(rq.DeleteSchedule(MAIN, NAME))
    await one.commit()
    assert await other.commit() == {one.state.key}
    assert (await one.learn()) is not None


async def test_a_change_loses_against_a_delete(rivals: tuple[Kept, Kept]):
    one, other = await meet(rivals)
    one.ask(rq.DeleteSchedule(MAIN, NAME))
    other.patch(task_queue="elsewhere")
    key = other.state.key
    await one.commit()
    assert await other.commit() == {key}
    assert await one.learn() is None


async def test_a_fire_is_lost_with_the_run_that_it_was_to_terminate(store: AnyStore):
    world = Kept(store, overlap_policy=Overlap.TERMINATE_OLD).pass_time(MINUTE)
    await world.commit()
    old = world.last_run()
    (fresh,) = await store.load([old.run_id], [])
    fresh.version += 1
    await store.write(Changes(runs=[fresh]))  # another engine has changed it meanwhile
    world.now += MINUTE
    world.elapse()
    new = world.last_run().run_id
    assert await world.commit() == {old.run_id, new, world.state.key}
    assert world.state.next_run_at == MIDNIGHT + 2 * MINUTE
    assert len(await store.fires(MAIN, NAME, 10)) == 1
    assert await store.load([new], []) == ()


async def test_a_loser_takes_no_stranger_along(rivals: tuple[Kept, Kept]):
    one, other = await meet(rivals)
    other.batch.put_schedule(Schedule(OTHER, "bystander", "Report", "@daily"), deleted=False)
    for engine in (one, other):
        engine.now += MINUTE
        engine.elapse()
    await one.commit()
    await other.commit()
    assert [schedule.name for schedule in await one.store.list_schedules(OTHER)] == ["bystander"]


# assay verify


@pytest.mark.parametrize(
    ("damage", "invariant"),
    [
        ("DELETE FROM deadlines", "I11"),
        ("UPDATE deadlines SET due_at = due_at + 1", "I11"),
        ("DELETE FROM schedules", "I12"),
    ],
)
async def test_a_schedule_and_its_deadline_belong_together(store: AnyStore, damage: str, invariant: str):
    world = Kept(store)
    await world.commit()
    assert [violation async for violation in verify(store, world.now)] == []
    await store.change([(damage, ())])
    found = [(violation.invariant, violation.run_id) async for violation in verify(store, world.now)]
    assert found == [(invariant, world.state.key)]
