"""Workers come, fall silent and come back; namespaces are made by being used."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from assay.core.model.errors import AlreadyExists, Invalid, NotFound
from assay.core.model.ids import SECOND, Time
from assay.core.registrations import WorkerHealth
from assay.engine.worker_registry import LISTED_SILENCE, WorkerRegistry, WorkerRow
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite.store import SqliteStore
from assay.worker_protocol.tokens import Lease, Tokens
from tests.clocks import ManualClock

Scenario = Callable[[WorkerRegistry, ManualClock], Awaitable[None]]


def run_scenarios(folder: Path, *scenarios: Scenario) -> None:
    """Each scene with a registry of its own, on the same file."""
    clock = ManualClock()

    async def main() -> None:
        for scenario in scenarios:
            store = SqliteStore(folder / "engine.db", clock=clock.now, in_thread=False)
            await store.open()
            worker_registry = WorkerRegistry(SqlRegistry(store), store, clock)
            await scenario(worker_registry, clock)
            await worker_registry.run_once()
            await store.close()

    asyncio.run(main())


def form(**fields: object) -> WorkerRow:
    row = {
        "id": "",
        "namespace": "main",
        "identity": "me",
        "task_queue": "q",
        "workflows": None,
        "activities": None,
        "max_concurrent_workflows": 1,
        "max_concurrent_activities": 1,
        "registered_at": 0,
        "last_heartbeat": 0,
    }
    return WorkerRow(**{**row, **fields})  # type: ignore[arg-type]


async def ids(worker_registry: WorkerRegistry) -> list[str]:
    return [row.id for row, _ in await worker_registry.workers("main")]


def test_silence_hides_and_any_sign_brings_back(tmp_path: Path):
    async def scenario(worker_registry: WorkerRegistry, clock: ManualClock) -> None:
        registered = await worker_registry.register(form(workflows=("A",)))
        assert isinstance(registered, WorkerRow)
        clock.advance(LISTED_SILENCE - SECOND)
        assert await ids(worker_registry) == [registered.id]
        clock.advance(2 * SECOND)
        assert await ids(worker_registry) == []
        found = await worker_registry.worker(registered.id)
        assert found.workflows == frozenset({"A"})
        assert await ids(worker_registry) == [registered.id]

    run_scenarios(tmp_path, scenario)


def test_signs_of_life_are_written_now_and_then(tmp_path: Path):
    known: list[str] = []

    async def first(worker_registry: WorkerRegistry, clock: ManualClock) -> None:
        registered = await worker_registry.register(form())
        assert isinstance(registered, WorkerRow)
        known.append(registered.id)
        for _ in range(20):
            clock.advance(10 * SECOND)
            await worker_registry.worker(registered.id)

    async def second(worker_registry: WorkerRegistry, clock: ManualClock) -> None:
        clock.advance(60 * SECOND)
        assert await ids(worker_registry) == known
        assert (await worker_registry.worker(known[0])).namespace == "main"

    run_scenarios(tmp_path, first, second)


def test_somebody_unknown_serves_all_of_main(tmp_path: Path):
    async def scenario(worker_registry: WorkerRegistry, _: ManualClock) -> None:
        stranger = await worker_registry.worker("stranger")
        assert (stranger.namespace, stranger.workflows, stranger.activities) == ("main", None, None)
        assert await ids(worker_registry) == []

    run_scenarios(tmp_path, scenario)


def test_namespaces_are_made_once_and_named_well(tmp_path: Path):
    async def scenario(worker_registry: WorkerRegistry, _: ManualClock) -> None:
        assert not worker_registry.has_namespace("tenant")
        await worker_registry.ensure("tenant")
        await worker_registry.ensure("tenant")
        assert worker_registry.has_namespace("tenant")
        with pytest.raises(AlreadyExists):
            await worker_registry.create("tenant", None)
        with pytest.raises(Invalid):
            await worker_registry.ensure("Not so")
        with pytest.raises(NotFound):
            await worker_registry.delete("main", None)
        await worker_registry.delete("tenant", None)
        assert not worker_registry.has_namespace("tenant")

    run_scenarios(tmp_path, scenario)


def test_tokens_stand_for_one_lease():
    tokens, others = Tokens(b"k" * 32), Tokens(b"x" * 32)
    lease = Lease("main", "run-1", 3, 17)  # type: ignore[arg-type]
    token = tokens.seal(lease)
    assert tokens.open(token) == lease
    broken = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token) - 1)]
    for wrong in (*broken, "", "x", "é", token[:-5], others.seal(lease)):
        with pytest.raises(NotFound):
            tokens.open(wrong)


def test_signs_of_life_are_written_when_somebody_looks(tmp_path: Path):
    """An engine alone on its file leaves the disk alone while its workers have nothing to do."""

    class Counted(SqlRegistry):
        written = 0

        async def seen(self, workers: Sequence[tuple[str, Time]], health: Mapping[str, WorkerHealth]) -> None:
            Counted.written += 1
            await super().seen(workers, health)

    async def main() -> None:
        clock = ManualClock()
        store = SqliteStore(tmp_path / "engine.db", clock=clock.now, in_thread=False)
        await store.open()
        worker_registry = WorkerRegistry(Counted(store), store, clock)
        registered = await worker_registry.register(form())
        assert isinstance(registered, WorkerRow)
        assert await worker_registry.run_once() is None
        for _ in range(10):
            clock.advance(LISTED_SILENCE)
            worker_registry.note_heartbeat(registered.id)
        assert Counted.written == 0
        assert await ids(worker_registry) == [registered.id]
        assert Counted.written == 1
        clock.advance(LISTED_SILENCE)
        worker_registry.note_heartbeat(registered.id)
        assert (await worker_registry.counts("main"))[0].workers == 1
        clock.advance(LISTED_SILENCE)
        worker_registry.note_heartbeat(registered.id)
        assert [queue.workers for queue in await worker_registry.queues("main")] == [1]
        await store.close()

    asyncio.run(main())
