"""An engine whose wall clock steps, and one that stood still: time goes on, workers lose nothing (I10, I11, I13)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path

import pytest

from assay.core.model.ids import SECOND, Time, WorkflowId
from assay.core.model.requests import Signal, StartWorkflow
from assay.core.schedules import requests as rq
from assay.core.schedules.model import Fire, FireOutcome, Missed, Overlap, Schedule
from assay.engine.clock import SystemClock
from assay.engine.engine import Engine
from assay.storage.sqlite.store import SqliteStore
from assay.storage.verify import verify
from tests.clocks import ManualClock
from tests.core.schedules.schedule_support import HOUR, MINUTE, NAME
from tests.core.support import MAIN
from tests.engine.noting_worker import NotingWorker

WALL: Time = 1_700_000_000 * SECOND
LEASE: Time = 10 * SECOND
Body = Callable[[Engine, ManualClock], Awaitable[None]]


class Machine:
    """The clocks of a machine, moved by hand."""

    def __init__(self) -> None:
        self.boot: Time = 500 * SECOND
        self.wall = WALL
        self.clock = SystemClock(lambda: self.boot * 1_000, lambda: self.wall)

    def pass_time(self, by: Time) -> None:
        self.boot += by
        self.wall += by


def test_engine_time_goes_on_whatever_the_wall_clock_does():
    machine = Machine()
    seen = [machine.clock.now()]
    for step in (HOUR, -HOUR, -HOUR, HOUR):
        machine.wall += step
        for _ in range(100):
            machine.pass_time(SECOND // 10)
            seen.append(machine.clock.now())
    assert seen == sorted(seen)
    lengths = {later - earlier for earlier, later in pairwise(seen)}
    assert min(lengths) >= SECOND // 10 * 99 // 100
    assert max(lengths) <= SECOND // 10 * 101 // 100


def test_engine_time_comes_back_to_the_wall_clock():
    machine = Machine()
    machine.wall += SECOND
    for _ in range(101):
        machine.pass_time(SECOND)
        machine.clock.now()
    assert machine.clock.now() == machine.wall


# the whole engine


async def tick(engine: Engine) -> None:
    """Let the services look at the clocks once."""
    await engine._clock_keeper.run_once()
    await engine._timekeeper.run_once()
    await engine._committer.drain()


async def create(engine: Engine, cron_expr: str = "0 * * * * *", **options: object) -> None:
    wanted = Schedule(MAIN, NAME, "Report", cron_expr, overlap_policy=Overlap.ALLOW_ALL, **options)  # type: ignore[arg-type]
    await engine.submit(rq.CreateSchedule(MAIN, NAME, wanted))


async def fires(engine: Engine) -> list[Fire]:
    return sorted(await engine._store.fires(MAIN, NAME, 10_000), key=lambda fire: fire.due_at)


def test_a_schedule_loses_nothing_when_the_clock_jumps_ahead_and_back(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        begin = clock.wall()
        await create(engine)
        clock.step(HOUR)
        await tick(engine)
        found = await fires(engine)
        assert [fire.outcome for fire in found] == [FireOutcome.MISSED] * 59 + [FireOutcome.STARTED]
        clock.step(-HOUR)
        await tick(engine)
        assert await fires(engine) == found
        for _ in range(61 * 6):
            clock.advance(10 * SECOND)
            await tick(engine)
        again = await fires(engine)
        due = [begin - begin % MINUTE + number * MINUTE for number in range(1, 62)]
        assert [fire.due_at for fire in again] == due
        assert {fire.outcome for fire in again} == {FireOutcome.STARTED}
        untimely = [fire for fire in again if not 0 <= fire.fired_at - fire.due_at <= 10 * SECOND]
        assert untimely == found[-1:]  # the one that the step forward fired
        assert len({fire.run_id for fire in again}) == 61
        assert [violation async for violation in verify(engine._store, clock.now())] == []  # type: ignore[arg-type]

    with_engine(body)


def test_a_step_back_fires_nothing_again(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        await create(engine, missed=Missed.ALL)
        for _ in range(5):
            clock.advance(MINUTE)
            await tick(engine)
        before = await fires(engine)
        assert len(before) == 5
        clock.step(-5 * MINUTE)
        for _ in range(4):
            clock.advance(MINUTE)
            await tick(engine)
        assert await fires(engine) == before
        clock.advance(2 * MINUTE)
        await tick(engine)
        assert len(await fires(engine)) == 6

    with_engine(body)


def test_a_timer_does_not_follow_a_step(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        begin = StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("a"), workflow_type="T", run_timeout=HOUR)
        await engine.submit(begin)
        clock.step(2 * HOUR)
        await tick(engine)
        assert not (await engine.reads.run("main", "a")).run.closed
        clock.step(-4 * HOUR)
        clock.advance(HOUR)
        await tick(engine)
        assert (await engine.reads.run("main", "a")).run.closed

    with_engine(body)


def test_a_difference_is_warned_of_once(with_engine: Callable[[Body], None], caplog: pytest.LogCaptureFixture):
    async def body(engine: Engine, clock: ManualClock) -> None:
        clock.step(HOUR)
        for _ in range(3):
            await tick(engine)
        clock.step(-HOUR)
        await tick(engine)
        clock.step(-HOUR)
        await tick(engine)

    with caplog.at_level(logging.WARNING, "assay.engine"):
        with_engine(body)
    assert len([record for record in caplog.records if "off the wall clock" in record.getMessage()]) == 2


async def leased(engine: Engine) -> Time | None:
    found = await engine._store.leases()
    return found[0].until if found else None


async def lease(engine: Engine) -> None:
    engine.add_worker(NotingWorker())
    await engine.submit(StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("a"), workflow_type="T"))


def test_an_engine_that_stood_still_gives_its_workers_a_full_lease(with_engine: Callable[[Body], None]):
    async def body(engine: Engine, clock: ManualClock) -> None:
        await lease(engine)
        clock.stand_still(3 * LEASE)
        await engine._timekeeper.run_once()
        assert await leased(engine) == clock.now() + LEASE
        clock.advance(LEASE)
        await tick(engine)
        assert await leased(engine) is None  # a worker that is silent now is lost

    with_engine(body)


def test_a_lease_found_due_before_the_engine_stood_still_is_not_ended(
    with_engine: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch
):
    """The process may be stopped between the look at the deadlines and the decision."""

    async def body(engine: Engine, clock: ManualClock) -> None:
        await lease(engine)
        look = engine._store.due

        async def then_stop(now: Time, wall: Time, limit: int) -> object:
            monkeypatch.setattr(engine._store, "due", look)
            clock.stand_still(3 * LEASE)
            return await look(clock.now(), wall, limit)

        monkeypatch.setattr(engine._store, "due", then_stop)
        await engine._timekeeper.run_once()
        assert await leased(engine) is not None
        await engine._timekeeper.run_once()
        assert await leased(engine) == clock.now() + LEASE

    with_engine(body)


def test_event_times_do_not_go_back_after_a_start_with_an_earlier_clock(tmp_path: Path):
    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        engine = Engine(SqliteStore(path, in_thread=False, clock=clock.now), clock)
        await engine.start()
        await lease(engine)
        await engine.stop()
        earlier = ManualClock(clock.now() - HOUR)
        engine = Engine(SqliteStore(path, in_thread=False, clock=earlier.now), earlier)
        await engine.start()
        key = (await engine.reads.run("main", "a")).run.key
        await engine.submit(Signal(MAIN, WorkflowId("a"), name="go"))
        times = [event.time for event in await engine.reads.history(key.run_id)]
        assert len(times) == 2
        assert times == sorted(times)
        await engine.stop()

    asyncio.run(main())
