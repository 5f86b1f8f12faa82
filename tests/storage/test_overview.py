"""Reads for people, alike on both databases."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.explanation import KINDS
from assay.core.model.ids import RunId
from assay.storage.run_filter import QueueService, RunFilter
from assay.storage.sql.overview import SqlOverview
from tests.core.support import NOW, ORDER, claimed, started, turned
from tests.storage.support import AnyStore, StoredWorld

RUN = RunId("run-1")


@pytest.fixture
def overview(store: AnyStore) -> SqlOverview:
    return SqlOverview(store)


async def busy(store: AnyStore) -> StoredWorld:
    world = StoredWorld(store)
    commands = [cmd.ScheduleActivity(1, "charge"), cmd.ScheduleTimer(0, 60.0), cmd.WaitForSignal("paid")]
    commands.append(cmd.StartChildWorkflow("Kid", "kid", seq=2))
    world.take(started())
    world.take(claimed())
    world.take(turned(*commands))
    await world.commit()
    return world


async def test_open_work_is_read_by_run(store: AnyStore, overview: SqlOverview):
    await busy(store)
    work = await overview.open_activities([RUN], 10)
    assert [activity.name for activity in work[RUN].activities] == ["charge"]
    assert (work[RUN].counts.open, work[RUN].counts.running) == (1, 0)
    assert list((await overview.open_timers([RUN], 10))[RUN]) == [0]
    family = (await overview.open_children([RUN], 5))[RUN]
    assert ([child.workflow_id for child in family.oldest], family.open, family.total) == (["kid"], 1, 1)
    assert await overview.depths("main", ["default"], 10) == {"default": (1, 1)}


async def test_numbers_and_values(store: AnyStore, overview: SqlOverview):
    world = await busy(store)
    found, looked = await overview.histogram(RunFilter(namespace="main"), NOW, 1_000_000, 100)
    assert looked == 2
    assert sum(count for _, _, count in found) == 2
    assert await overview.open_values("main", "type", 10) == {"Order": 1, "Kid": 1}
    assert await overview.attribute_keys("main", "", 10) == []
    assert await overview.attribute_values("main", "env", "s:", 10) == {}
    kinds = {(work.kind, work.queue, work.name, work.count) for work in await overview.ready_kinds("main")}
    assert kinds == {("activity", "default", "charge", 1), ("workflow", "default", "Kid", 1)}
    parent = world.run
    assert [run.workflow_id for run in await overview.children_of([parent], 10)] == ["kid"]
    assert await overview.child_counts([parent]) == {RUN: {"PENDING": 1}}
    assert [activity.seq for activity, _ in await overview.activities(RUN, None, -1, 10)] == [1]
    assert await overview.attempts(RUN, [1, 2]) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_wait_can_be_asked_for(store: AnyStore, kind: str):
    await busy(store)
    services = (QueueService("default", ("Order",), ("ship",)),)
    wanted = RunFilter(namespace="main", waiting=(kind,), served_queues=services)
    found = {run.run.workflow_id for run in await store.list_runs(wanted)}
    expected = {
        "signal": {ORDER}, "activity_queued": {ORDER}, "activities": {ORDER}, "timer": {ORDER},
        "child": {ORDER}, "children": {ORDER}, "task_queued": {"kid"}, "no_handler": {ORDER, "kid"},
    }  # fmt: skip
    assert found == expected.get(kind, set())


async def test_attention_is_for_own_waits(store: AnyStore):
    await busy(store)
    for services, operator, person in (
        ((), {ORDER, "kid"}, set()),
        ((QueueService("default", None, None),), set(), {ORDER}),
    ):
        for level, expected in (("operator", operator), ("person", person)):
            wanted = RunFilter(namespace="main", attention=(level,), served_queues=services)
            assert {run.run.workflow_id for run in await store.list_runs(wanted)} == expected
            assert await store.count_runs(wanted) == len(expected)


async def test_a_page_without_documents(store: AnyStore):
    await busy(store)
    short = await store.list_runs(RunFilter(namespace="main", documents=False, limit=1))
    assert (len(short), short.more) == (1, True)
    assert bytes(short[0].input) == b"null"
    assert await store.count_runs(RunFilter(namespace="main", count_limit=1)) == 1
