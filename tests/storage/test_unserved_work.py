"""Work that no worker serves stays where it is: it hides no other work, and idle engines do not touch it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from assay.core.model.commands import ScheduleActivity
from assay.core.model.grants import ActivityGrant
from assay.core.model.ids import WorkflowId
from assay.core.model.requests import Advance, StartWorkflow, Terminate
from assay.engine.engine import Engine
from assay.storage.postgres.store import PostgresStore
from assay.storage.sql.registry import SqlRegistry
from tests.core.support import MAIN
from tests.engine.noting_worker import NotingWorker
from tests.storage.support import AnyStore, Stores

PAGE = 4
UNSERVED = 3 * PAGE
"""More than two engines reserve, and more than two pages."""


def start(name: str, kind: str = "T", queue: str = "default") -> StartWorkflow:
    return StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(name), workflow_type=kind, task_queue=queue)


def serving(name: str, *kinds: str, tasks: int = 1, activities: int = 1) -> NotingWorker:
    worker = NotingWorker(name, tasks=tasks, activities=activities)
    worker.workflows = worker.activities = frozenset(kinds)
    return worker


@asynccontextmanager
async def started(stores: Stores) -> AsyncIterator[Engine]:
    """An engine with small pages; its reaper looks for work only when it is woken by what the test does."""
    engine = Engine(stores.make(), ready_page=PAGE)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def received(worker: NotingWorker, count: int) -> list[str]:
    async with asyncio.timeout(20):
        while len(worker.grants) < count:
            worker.given.clear()
            await worker.given.wait()
    return [grant.key.workflow_id for grant in worker.grants]


async def leave_unserved(engine: Engine) -> None:
    for number in range(UNSERVED):
        engine.post(start(f"unserved-{number}", queue="nobody"))
        engine.post(start(f"type-{number}", kind="Nobody"))
    await engine.submit(start("wanted"))


async def test_after_a_restart_work_behind_unserved_work_is_found(stores: Stores):
    async with started(stores) as engine:
        await leave_unserved(engine)
    async with started(stores) as engine:
        worker = serving("w-1", "T")
        engine.add_worker(worker)
        assert await received(worker, 1) == ["wanted"]


async def test_a_worker_of_all_types_gets_all_of_its_queue(stores: Stores):
    async with started(stores) as engine:
        await leave_unserved(engine)
    async with started(stores) as engine:
        worker = NotingWorker(tasks=100)
        engine.add_worker(worker)
        found = await received(worker, UNSERVED + 1)
        assert set(found) == {"wanted", *(f"type-{number}" for number in range(UNSERVED))}


async def test_activities_nobody_serves_hide_no_others(stores: Stores):
    names = [f"nobody-{number}" for number in range(UNSERVED)] + ["charge"]
    async with started(stores) as engine:
        worker = serving("w-1", "T", activities=0)
        engine.add_worker(worker)
        key = (await engine.submit(start("a"))).key
        await received(worker, 1)
        orders = tuple(ScheduleActivity(seq, name) for seq, name in enumerate(names, 1))
        await engine.submit(Advance(key.run_id, worker.worker, 1, 1, orders))
    async with started(stores) as engine:
        worker = serving("w-2", "charge")
        engine.add_worker(worker)
        await received(worker, 1)
        (grant,) = worker.grants
        assert isinstance(grant, ActivityGrant)
        assert grant.activity.name == "charge"


async def test_a_backlog_of_many_pages_is_worked_off_without_a_pause(stores: Stores):
    """A free slot has the next page read at once: with a pause of a second for each page this would take long."""
    names = [f"run-{number:02}" for number in range(10 * PAGE)]
    async with started(stores) as engine:
        for name in names:
            await engine.submit(start(name))
    async with started(stores) as engine:
        worker = serving("w-1", "T", tasks=2)
        engine.add_worker(worker)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(len(names)):
            await received(worker, number + 1)
            worker.slots.release()
            engine.offer_work(worker)
        assert loop.time() - began < 5
        found = [grant.key.workflow_id for grant in worker.grants]
        assert found == names, "the oldest first"


async def test_work_left_at_one_engine_is_found_by_another(engines: Stores):
    async with started(engines) as first, started(engines) as second:
        worker = serving("w-1", "T", tasks=9)
        second.add_worker(worker)
        await leave_unserved(first)
        await leave_unserved_elsewhere(second)
        assert await received(worker, 1) == ["wanted"]
        assert first._dispatcher.depth() == {}, "work for other engines' workers is not kept"


async def leave_unserved_elsewhere(engine: Engine) -> None:
    for number in range(UNSERVED):
        await engine.submit(start(f"other-{number}", queue="nobody"))


async def test_the_depth_of_a_queue_falls_when_its_runs_end(stores: Stores):
    async with started(stores) as engine:
        registry = SqlRegistry(engine._store)  # type: ignore[arg-type]
        for number in range(3):
            await engine.submit(start(f"run-{number}", kind=f"Nobody{number}", queue="nobody"))
        (waiting,) = await registry.waiting()
        assert (waiting.queue, waiting.tasks, waiting.activities) == ("nobody", 3, 0)
        assert waiting.oldest is not None
        for number in range(3):
            await engine.submit(Terminate(MAIN, WorkflowId(f"run-{number}")))
        assert await registry.waiting() == []
        assert sum(map(sum, engine._dispatcher.depth().values())) == 0


# idle engines


async def versions(store: AnyStore) -> list[Any]:
    """The transactions that wrote or locked each row of every table that engines write."""
    tables = ("runs", "activities", "clock", "numbers", "engine", "deadlines", "workers", "namespaces", "events")
    return [await store.query(f"SELECT ctid, xmin, xmax FROM {table} ORDER BY ctid") for table in tables]  # noqa: S608


async def idle(engines: list[Engine], looks: int = 3) -> None:
    """Have each engine look for work and confirm its clock several times."""
    for _ in range(looks):
        for engine in engines:
            await engine._reaper.run_once()
            engine._clock_keeper._learn_at = 0
            await engine._clock_keeper.run_once()


async def test_idle_engines_on_postgres_write_nothing(engines: Stores, postgres: PostgresStore):
    async with started(engines) as first, started(engines) as second:
        await leave_unserved(first)
        for engine in (first, second):
            engine.add_worker(serving(f"w-{id(engine)}", "Other"))
        await idle([first, second])
        before = await versions(postgres)
        await idle([first, second])
        assert await versions(postgres) == before


async def test_an_idle_engine_on_sqlite_writes_nothing(tmp_path: Path):
    path = tmp_path / "engine.db"
    stores = Stores(path, in_thread=False)
    async with started(stores) as engine:
        await leave_unserved(engine)
        engine.add_worker(serving("w-1", "Other"))
        files = [path, path.with_name("engine.db-wal")]
        before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in files]
        await idle([engine])
        assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in files] == before
