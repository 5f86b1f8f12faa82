"""Each due time fires exactly once while engines are killed (I11)."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.core.model.ids import SECOND, Time
from assay.core.schedules.model import Fire, FireOutcome, Missed, Overlap, Schedule
from assay.core.schedules.requests import CreateSchedule
from assay.embedded.stores import store_for
from assay.engine.clock import SystemClock
from assay.engine.engine import Engine
from assay.storage.ports import RunFilter, Store
from assay.storage.verify import verify
from tests.chaos.schedule_engine import READY
from tests.core.support import MAIN
from tests.temporary_postgres import temporary_postgres

MEMORY = Path("/dev/shm")  # noqa: S108  # a server that forgets all of it anyway need not wait for a disk
SCHEDULES = 20
KILLS = 8
ROUND_SECONDS = 2.5
"""Between two kills."""


class Account(NamedTuple):
    """What a store says at the end."""

    schedules: list[Schedule]
    fires: list[Fire]
    runs: list[tuple[str, Time]]
    """The schedule and the due time of each run."""
    violations: list[str]


@asynccontextmanager
async def engine_on(url: str) -> AsyncIterator[Engine]:
    """An engine in this process."""
    clock = SystemClock()
    store = store_for(url, clock.now)
    engine = Engine(store, None if store.shared else clock)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def create(url: str, count: int) -> None:
    """Schedules that start a run every second."""
    options = {"overlap_policy": Overlap.ALLOW_ALL, "missed": Missed.ALL}
    async with engine_on(url) as engine:
        for name in (f"s-{number}" for number in range(count)):
            wanted = Schedule(MAIN, name, "Tick", "* * * * * *", **options)
            await engine.submit(CreateSchedule(MAIN, name, wanted))


async def settled(url: str) -> Account:
    """The account, once a last engine has made up for what was left undone and has stopped."""
    async with engine_on(url):
        await asyncio.sleep(1.5)
    store = store_for(url, SystemClock().now)
    await store.open()
    try:
        return await read(store)
    finally:
        await store.close()


async def read(store: Store) -> Account:
    schedules = list(await store.list_schedules("main"))
    fires = [fire for schedule in schedules for fire in await store.fires("main", schedule.name, 10**6)]
    records = await store.list_runs(RunFilter(namespace="main", limit=10**6))
    runs = [(record.run.start.schedule or "", record.run.start.scheduled_for or 0) for record in records]
    found = verify(store, (await store.clock()).time)  # type: ignore[arg-type]
    return Account(
        schedules, fires, runs, [str(violation) async for violation in found if violation.invariant != "I10"]
    )


def assert_exactly_once(account: Account) -> None:
    """Every second since the creation has one record and one run; seconds are counted here without any cron."""
    assert account.violations == []
    for schedule in account.schedules:
        recorded = Counter(fire.due_at for fire in account.fires if fire.schedule == schedule.name)
        assert schedule.next_run_at is not None
        due = range(schedule.created_at // SECOND * SECOND + SECOND, schedule.next_run_at, SECOND)
        assert sorted(recorded) == list(due)
        assert set(recorded.values()) == {1}
    started = [(fire.schedule, fire.due_at) for fire in account.fires if fire.outcome is FireOutcome.STARTED]
    assert sorted(account.runs) == sorted(started)


def start(url: str, moment: str = "") -> "subprocess.Popen[str]":
    """An engine in a process of its own."""
    command = [sys.executable, "-m", "tests.chaos.schedule_engine", url, *([moment] if moment else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    assert process.stdout.readline().strip() == READY
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fire_survives_the_death_of_its_engine(tmp_path: Path, moment: str):
    url = f"sqlite://{tmp_path}/engine.db"
    asyncio.run(create(url, 1))
    for _ in range(3):
        process = start(url, moment)
        try:
            assert process.wait(30) == -9
        finally:
            kill(process)
    account = asyncio.run(settled(url))
    assert_exactly_once(account)
    assert {fire.outcome for fire in account.fires} == {FireOutcome.STARTED}


@pytest.fixture
def database() -> Iterator[str]:
    with temporary_postgres(folder=MEMORY if MEMORY.is_dir() else None) as dsn:
        yield dsn


def test_of_two_engines_one_is_killed_again_and_again(database: str):
    asyncio.run(kill_in_turns(database))
    account = asyncio.run(settled(database))
    assert len(account.schedules) == SCHEDULES
    assert_exactly_once(account)
    late = sorted(fire.fired_at - fire.due_at for fire in account.fires if fire.outcome is FireOutcome.STARTED)
    shares = {share: f"{late[len(late) * share // 100] / 1_000:.1f} ms" for share in (50, 90, 99)}
    summary = (
        f"{len(account.fires)} due times, {len(late)} started, late by {shares}, {late[-1] / 1_000:.1f} ms at most"
    )
    assert len(late) >= SCHEDULES * KILLS * ROUND_SECONDS, summary
    assert late[len(late) * 99 // 100] < SECOND, summary  # at most a second late, with one engine alive at any time
    print(summary)  # noqa: T201


async def kill_in_turns(database: str) -> None:
    """Two engines at work on schedules; every few seconds one of them is killed, and a new one takes its place."""
    living = list(await asyncio.gather(*[asyncio.to_thread(start, database) for _ in range(2)]))
    try:
        await create(database, SCHEDULES)
        for turn in range(KILLS):
            await asyncio.sleep(ROUND_SECONDS)
            await asyncio.to_thread(kill, living[turn % 2])
            living[turn % 2] = await asyncio.to_thread(start, database)
    finally:
        for process in living:
            kill(process)
