"""What it costs an engine in a program to know who uses it, and who sees whom."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay import App, Client, Context, Invalid, Worker
from assay.core.model.ids import SECOND
from assay.embedded.local_workers import LocalWorkers
from assay.engine.worker_registry import LISTED_SILENCE, NAMESPACE_CHECK_PAUSE, WorkerRegistry
from assay.sdk.worker.engine_worker import EngineWorker
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock
from tests.temporary_postgres import create_database, shared_postgres

SECONDS = 30


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written beside the histories, in order: the verb and the table of each statement."""
    found: list[str] = []
    change = SqliteStore.change

    async def noted(self: SqliteStore, statements: Sequence[Any]) -> Any:
        found.extend(" ".join(text.replace("INTO ", "").split()[:2]) for text, _ in statements)
        return await change(self, statements)

    monkeypatch.setattr(SqliteStore, "change", noted)
    return found


def greeting() -> App:
    app = App()

    @app.workflow
    async def Greet(ctx: Context, name: str) -> str:
        return f"hello, {name}"

    return app


def test_a_start_costs_nothing_once_its_namespace_is_known(tmp_path: Path, written: list[str]):
    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/engine.db", app=greeting()) as client:
            assert written == ["INSERT namespaces"]
            for name in ("Ada", "Bob"):
                assert await client.run("Greet", name) == f"hello, {name}"
            assert written == ["INSERT namespaces"]
            for number in range(3):
                await client.start("Greet", workflow_id=f"g-{number}", namespace="tenant")
            assert written == ["INSERT namespaces"] * 2

    asyncio.run(main())


def test_a_worker_is_written_down_when_somebody_looks(tmp_path: Path, written: list[str]):
    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/engine.db", app=greeting()) as client:
            await client.run("Greet", "Ada")  # a worker of its own serves it
            written.clear()
            looks = await asyncio.gather(*(client.workers.list() for _ in range(5)), client.queues.stats())
            assert {len(found) for found in looks} == {1}
            assert written.count("INSERT workers") == 1
            assert set(written) == {"INSERT workers", "UPDATE workers"}
            written.clear()
            await client.namespaces.list()
            assert written == []

    asyncio.run(main())


def last_written(folder: Path) -> dict[str, int]:
    """When each file of the database was last changed; what readers share beside it is memory."""
    return {file.name: file.stat().st_mtime_ns for file in folder.glob("*.db*") if not file.name.endswith("-shm")}


def test_a_worker_with_nothing_to_do_leaves_the_disk_alone(tmp_path: Path):
    async def main() -> None:
        url = f"sqlite://{tmp_path}/engine.db"
        async with await Client.connect(url, app=greeting()) as client:
            await client.run("Greet", "Ada")
            worker = Worker(client, "other")
            serving = asyncio.create_task(worker.run())
            await asyncio.sleep(0)
            before = last_written(tmp_path)
            await asyncio.sleep(1)
            assert last_written(tmp_path) == before
            assert {found.task_queue for found in await client.workers.list()} == {"default", "other"}
            worker.stop()
            await serving

    asyncio.run(main())


def test_namespaces_outlive_the_program(tmp_path: Path):
    async def main() -> None:
        url = f"sqlite://{tmp_path}/engine.db"
        async with await Client.connect(url, app=greeting()) as client:
            await client.namespaces.create("empty")
            await client.start("Greet", workflow_id="g-1", namespace="tenant")
        async with await Client.connect(url, app=greeting()) as client:
            assert [space.name for space in await client.namespaces.list()] == ["empty", "main", "tenant"]

    asyncio.run(main())


@pytest.mark.parametrize("options", [{"namespace": "Not so"}, {"queue": "a\nb"}, {"identity": "\x00"}])
def test_a_worker_that_cannot_be_written_down_does_not_begin(tmp_path: Path, options: dict[str, str]):
    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/engine.db", app=greeting()) as client:
            with pytest.raises(Invalid):
                await Worker(client, **options).run()  # type: ignore[arg-type]
            assert await client.workers.list() == []

    asyncio.run(main())


def test_a_bad_name_fails_a_run_and_not_what_follows(tmp_path: Path):
    async def main() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/engine.db", app=greeting()) as client:
            with pytest.raises(Invalid):
                await client.run("Greet", "Ada", namespace="Not so")
            with pytest.raises(Invalid):
                await client.run("Greet", "Ada", task_queue="a\nb")
            assert await client.run("Greet", "Ada", namespace="so") == "hello, Ada"

    asyncio.run(main())


def test_programs_on_postgres_see_each_others_workers(postgres: str):
    async def main() -> None:
        url = await create_database(postgres)
        async with await Client.connect(url, app=greeting()) as one, await Client.connect(url, app=App()) as other:
            worker = Worker(one, "work", namespace="tenant")
            serving = asyncio.create_task(worker.run())
            async with asyncio.timeout(SECONDS):
                while not (found := await other.workers.list(namespace="tenant")):
                    await asyncio.sleep(0.01)
            assert [record.id for record in found] == [worker.worker]
            assert [queue.workers for queue in await other.queues.stats(namespace="tenant")] == [1]
            assert (await other.namespaces.describe("tenant")).workers == 1
            assert "tenant" in [space.name for space in await other.namespaces.list()]
            worker.stop()
            await serving

    asyncio.run(main())


def test_a_worker_that_stays_is_seen_and_one_that_has_left_is_forgotten(tmp_path: Path):
    clock = ManualClock()

    async def main() -> None:
        store = SqliteStore(tmp_path / "engine.db", clock=clock.now, in_thread=False)
        await store.open()
        worker_registry = WorkerRegistry(SqlRegistry(store), store, clock)
        local_workers = LocalWorkers(worker_registry)
        async with await Client.connect(f"sqlite://{tmp_path}/other.db", app=greeting()) as client:
            worker = EngineWorker(client.transport, client.app, Worker(client).options)  # type: ignore[arg-type]
        assert await local_workers.run_once() is None
        local_workers.add_worker(worker)
        for _ in range(3):
            await local_workers.show()
            assert [row.id for row, _ in await worker_registry.workers("main")] == [worker.worker]
            clock.advance(2 * LISTED_SILENCE)
        await local_workers.run_once()
        local_workers.remove_worker(worker)
        clock.advance(LISTED_SILENCE - SECOND)
        await local_workers.show()
        assert len(await worker_registry.workers("main")) == 1
        clock.advance(2 * SECOND)
        await local_workers.show()
        assert await worker_registry.workers("main") == []
        await store.close()

    asyncio.run(main())


def test_signs_of_life_are_written_now_and_then_where_others_read_them(postgres: str, monkeypatch: pytest.MonkeyPatch):
    signs: list[Sequence[tuple[str, int]]] = []
    seen = SqlRegistry.seen

    async def noted(self: SqlRegistry, workers: Sequence[tuple[str, int]], health: Any) -> None:
        signs.append(workers)
        await seen(self, workers, health)

    monkeypatch.setattr(SqlRegistry, "seen", noted)

    async def main() -> None:
        url = await create_database(postgres)
        async with await Client.connect(url, app=greeting()) as client:
            await client.run("Greet", "Ada")
            local_workers = client.transport._local_workers  # type: ignore[attr-defined]
            now = client.transport.now()
            again = await local_workers.run_once()
            assert again is not None
            assert again - now >= NAMESPACE_CHECK_PAUSE
            await local_workers.run_once()  # within the pause between two writes of signs
            for name in ("Bob", "Eve"):
                await client.run("Greet", name)
            assert 1 <= len(signs) <= 2

    asyncio.run(main())
