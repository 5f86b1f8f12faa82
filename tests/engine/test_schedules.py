"""Schedules in a running engine, in virtual time: fires at their time, none twice, nothing to pay while idle (I11)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from assay.core.model.errors import AlreadyExists, Invalid, NotFound
from assay.core.model.ids import SECOND, Namespace, Time, WorkflowId
from assay.core.model.priority import PRIORITY_STEP
from assay.core.model.requests import StartWorkflow, Terminate
from assay.core.schedules import requests as rq
from assay.core.schedules.model import Fire, FireOutcome, Missed, Overlap, Schedule
from assay.engine.engine import Engine
from assay.storage.ports import Demand, RunFilter
from assay.storage.verify import verify
from tests.core.schedules.schedule_support import DAY, HOUR, MIDNIGHT, MINUTE, NAME
from tests.core.support import MAIN
from tests.engine.virtual import CountedStore, VirtualLoop, engine_on, in_virtual_time

MEMORY = Path("/dev/shm")  # noqa: S108  # thousands of commits of virtual time need not wait for a disk


@pytest.fixture
def database() -> Iterator[Path]:
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder) / "engine.db"


def wanted(cron_expr: str = "0 * * * * *", name: str = NAME, **options: Any) -> rq.CreateSchedule:
    return rq.CreateSchedule(MAIN, name, Schedule(MAIN, name, "Report", cron_expr, **options))


async def fires_of(engine: Engine, name: str = NAME) -> list[Fire]:
    """All of them, oldest first."""
    return list(reversed(await engine._store.fires(MAIN, name, 10**6)))


async def open_runs(engine: Engine) -> list[str]:
    found = await engine._store.list_runs(RunFilter(namespace="main", status="PENDING", limit=1_000))
    return [record.run.workflow_id for record in reversed(found)]


async def end(engine: Engine, workflow_id: str) -> None:
    await engine.submit(Terminate(MAIN, WorkflowId(workflow_id)))
    await engine._committer.drain()


def seconds(duration: Time) -> float:
    return duration / SECOND


@asynccontextmanager
async def verified(path: Path, loop: VirtualLoop, **options: Any) -> AsyncIterator[tuple[Engine, CountedStore]]:
    """An engine whose store is in order at the end."""
    async with engine_on(path, loop, **options) as (engine, store):
        yield engine, store
        await engine._committer.drain()
        assert [violation async for violation in verify(store, engine.now())] == []


def test_fires_come_at_their_time(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop) as (engine, _):
            await engine.submit(wanted(overlap_policy=Overlap.ALLOW_ALL))
            await engine.submit(wanted("@every 90s", "other", overlap_policy=Overlap.ALLOW_ALL))
            await asyncio.sleep(seconds(10 * MINUTE) + 0.5)
            fires = await fires_of(engine)
            assert [fire.due_at for fire in fires] == [MIDNIGHT + minute * MINUTE for minute in range(1, 11)]
            assert {fire.fired_at - fire.due_at for fire in fires} == {0}
            assert len(await fires_of(engine, "other")) == 6
            assert len(await open_runs(engine)) == 16

    in_virtual_time(main)


def test_a_year_of_schedules(database: Path):
    crons = {"daily": "@daily", "weekly": "@weekly", "monthly": "@monthly", "office": "0 30 9 * * mon-fri"}

    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop, only_time=True) as (engine, _):
            for name, cron_expr in crons.items():
                zone = "America/New_York" if name == "office" else "UTC"
                await engine.submit(wanted(cron_expr, name, timezone=zone))
            await asyncio.sleep(seconds(365 * DAY) + 1)
            for name in crons:
                schedule = await engine.reads.schedule("main", name)
                due = schedule.timetable().fires_between(MIDNIGHT, MIDNIGHT + 365 * DAY, 10**6, 0)
                fires = await fires_of(engine, name)
                assert [fire.due_at for fire in fires] == due
                assert Counter(fire.outcome for fire in fires) == {
                    FireOutcome.STARTED: 1,
                    FireOutcome.SKIPPED: len(due) - 1,
                }
                assert max(fire.fired_at - fire.due_at for fire in fires) == 0

    in_virtual_time(main)


def test_ten_thousand_schedules_cost_nothing_while_idle(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with engine_on(database, loop) as (engine, store):
            pending = [engine.submit(wanted("0 0 12 * * *", f"s-{number}")) for number in range(10_000)]
            await asyncio.gather(*pending)
            await asyncio.sleep(seconds(MINUTE))
            store.calls.clear()
            await asyncio.sleep(seconds(HOUR))
            idle = store.calls.copy()
            assert idle["write"] == 0
            # the relay looks for forgotten messages twice a minute, with one schedule or with ten thousand
            assert sum(idle.values()) <= 130, idle

    in_virtual_time(main)


def test_a_burst_of_fires_is_done_within_its_second(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with engine_on(database, loop) as (engine, store):
            pending = [engine.submit(wanted("0 0 12 * * *", f"s-{number}")) for number in range(2_000)]
            await asyncio.gather(*pending)
            store.calls.clear()
            await asyncio.sleep(seconds(12 * HOUR) + 1)
            assert store.calls["write"] <= 10  # set-based: hundreds of fires in each transaction
            assert len(await engine._store.list_runs(RunFilter(namespace="main", limit=5_000))) == 2_000

    in_virtual_time(main)


def test_an_outage_is_made_up_for_at_the_next_start(database: Path):
    async def main(loop: VirtualLoop) -> None:
        options = {"missed": Missed.ALL, "window": 10 * MINUTE, "overlap_policy": Overlap.ALLOW_ALL}
        async with engine_on(database, loop) as (engine, _):
            await engine.submit(wanted(**options))
        loop.virtual += seconds(HOUR + 30 * SECOND)
        async with verified(database, loop) as (engine, _):
            await asyncio.sleep(1)
            fires = await fires_of(engine)
            assert Counter(fire.outcome.value for fire in fires) == {"missed": 50, "started": 10}
            assert [fire.due_at for fire in fires] == [MIDNIGHT + minute * MINUTE for minute in range(1, 61)]

    in_virtual_time(main)


def test_a_queued_fire_starts_when_the_run_before_it_closes(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop) as (engine, _):
            await engine.submit(wanted(overlap_policy=Overlap.QUEUE, remaining=3))
            await asyncio.sleep(seconds(5 * MINUTE))
            for left in (2, 1, 0):
                (name,) = await open_runs(engine)
                assert len((await engine.reads.schedule("main", NAME)).waiting) == left
                await end(engine, name)
            assert await open_runs(engine) == []
            fires = await fires_of(engine)
            assert [(fire.due_at - MIDNIGHT) // MINUTE for fire in fires] == [1, 2, 3]

    in_virtual_time(main)


def test_a_queued_fire_starts_when_the_engine_died_before_it_could_tell(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with engine_on(database, loop) as (engine, _):
            await engine.submit(wanted(overlap_policy=Overlap.QUEUE, remaining=2))
            await asyncio.sleep(seconds(3 * MINUTE) + 10)  # somebody has just looked, and will in 20 seconds
            engine._scheduler.continue_after = lambda _: None  # type: ignore[method-assign]
            (first,) = await open_runs(engine)
            await end(engine, first)
            assert await open_runs(engine) == []
        async with verified(database, loop) as (engine, _):
            await engine._committer.drain()
            assert len(await open_runs(engine)) == 1

    in_virtual_time(main)


@pytest.mark.parametrize("policy", [Overlap.CANCEL_OLD, Overlap.TERMINATE_OLD])
def test_a_new_run_takes_the_place_of_the_old_one(database: Path, policy: Overlap):
    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop) as (engine, _):
            await engine.submit(wanted(overlap_policy=policy))
            await asyncio.sleep(seconds(3 * MINUTE) + 1)
            (left,) = await open_runs(engine)
            assert left == (await engine.reads.schedule("main", NAME)).last_workflow_id
            found = await engine._store.list_runs(RunFilter(namespace="main"))
            expected = "CANCELLED" if policy is Overlap.CANCEL_OLD else "FAILED"
            assert [record.run.status for record in found] == ["PENDING", expected, expected]

    in_virtual_time(main)


def test_requests_of_one_batch_see_each_other(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop) as (engine, _):
            submit = engine._committer.submit
            pending = [
                submit(wanted()),
                submit(wanted()),
                submit(rq.PatchSchedule(MAIN, NAME, {"task_queue": "slow"})),
                submit(rq.TriggerSchedule(MAIN, NAME)),
                submit(rq.TriggerSchedule(MAIN, NAME)),
                submit(rq.DeleteSchedule(MAIN, NAME)),
                submit(rq.PauseSchedule(MAIN, NAME)),
                submit(wanted("@daily")),
            ]
            answers = await asyncio.gather(*pending, return_exceptions=True)
            assert isinstance(answers[1], AlreadyExists)
            assert [answers[place].outcome.value for place in (3, 4)] == ["started", "skipped"]
            assert isinstance(answers[6], NotFound)
            assert (await engine.reads.schedule("main", NAME)).cron_expr == "@daily"

    in_virtual_time(main)


def test_a_preview_tells_what_is_to_come(database: Path):
    async def main(loop: VirtualLoop) -> None:
        async with engine_on(database, loop) as (engine, _):
            await engine.submit(wanted("0 0 * * * *", remaining=3))
            preview = engine.reads.preview
            assert await preview("main", NAME, 2) == [MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR]
            assert len(await preview("main", NAME, None)) == 3
            await engine.submit(rq.PatchSchedule(MAIN, NAME, {"end_at": MIDNIGHT + HOUR}))
            assert await preview("main", NAME, None) == [MIDNIGHT + HOUR]
            for count in (0, -1, 1_001):
                with pytest.raises(Invalid):
                    await preview("main", NAME, count)
            with pytest.raises(NotFound):
                await preview("main", "nobody", 1)

    in_virtual_time(main)


def test_a_start_can_have_a_schedule_of_its_own(database: Path):
    """Runs of one workflow id follow each other at the times of a cron expression."""

    async def main(loop: VirtualLoop) -> None:
        async with verified(database, loop) as (engine, store):
            key = {"namespace": MAIN, "workflow_id": WorkflowId("cron-1")}
            await engine.submit(StartWorkflow(**key, workflow_type="Report", cron_schedule="0 0 * * * *"))
            demands = [Demand(MAIN, "default", "Report", 10)]
            assert await store.ready_tasks(demands, engine.now()) == []
            await asyncio.sleep(seconds(HOUR) + 1)
            (ready,) = await store.ready_tasks(demands, engine.now())
            assert ready.order == MIDNIGHT + 3 * PRIORITY_STEP
            for expression in ("never", "0 0 0 1 1 * 2020", "61 * * * * *"):
                with pytest.raises(Invalid):
                    await engine.submit(
                        StartWorkflow(
                            namespace=Namespace("main"),
                            workflow_id=WorkflowId("cron-2"),
                            workflow_type="Report",
                            cron_schedule=expression,
                        )
                    )

    in_virtual_time(main)
