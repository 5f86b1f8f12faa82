"""Workers come, fall silent and come back; namespaces are made by being used."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from assay.core.errors import AlreadyExists, Invalid, NotFound
from assay.core.ids import SECOND, Time
from assay.core.registrations import WorkerHealth
from assay.engine.roster import LISTED_SILENCE, Roster, WorkerRow
from assay.storage.sql.registry import SqlRegistry
from assay.storage.sqlite.store import SqliteStore
from assay.worker_protocol.tokens import Lease, Tokens
from tests.clocks import ManualClock

Scene = Callable[[Roster, ManualClock], Awaitable[None]]


def play(folder: Path, *scenes: Scene) -> None:
    """Each scene with a roster of its own, on the same file."""
    clock = ManualClock()

    async def main() -> None:
        for scene in scenes:
            store = SqliteStore(folder / "engine.db", clock=clock.now, in_thread=False)
            await store.open()
            roster = Roster(SqlRegistry(store), store, clock)
            await scene(roster, clock)
            await roster.run_once()
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


async def ids(roster: Roster) -> list[str]:
    return [row.id for row, _ in await roster.workers("main")]


def test_silence_hides_and_any_sign_brings_back(tmp_path: Path):
    async def scene(roster: Roster, clock: ManualClock) -> None:
        registered = await roster.register(form(workflows=("A",)))
        assert isinstance(registered, WorkerRow)
        clock.advance(LISTED_SILENCE - SECOND)
        assert await ids(roster) == [registered.id]
        clock.advance(2 * SECOND)
        assert await ids(roster) == []
        found = await roster.worker(registered.id)
        assert found.workflows == frozenset({"A"})
        assert await ids(roster) == [registered.id]

    play(tmp_path, scene)


def test_signs_of_life_are_written_now_and_then(tmp_path: Path):
    known: list[str] = []

    async def first(roster: Roster, clock: ManualClock) -> None:
        registered = await roster.register(form())
        assert isinstance(registered, WorkerRow)
        known.append(registered.id)
        for _ in range(20):
            clock.advance(10 * SECOND)
            await roster.worker(registered.id)

    async def second(roster: Roster, clock: ManualClock) -> None:
        clock.advance(60 * SECOND)
        assert await ids(roster) == known
        assert (await roster.worker(known[0])).namespace == "main"

    play(tmp_path, first, second)


def test_somebody_unknown_serves_all_of_main(tmp_path: Path):
    async def scene(roster: Roster, _: ManualClock) -> None:
        stranger = await roster.worker("stranger")
        assert (stranger.namespace, stranger.workflows, stranger.activities) == ("main", None, None)
        assert await ids(roster) == []

    play(tmp_path, scene)


def test_namespaces_are_made_once_and_named_well(tmp_path: Path):
    async def scene(roster: Roster, _: ManualClock) -> None:
        assert not roster.knows("tenant")
        await roster.ensure("tenant")
        await roster.ensure("tenant")
        assert roster.knows("tenant")
        with pytest.raises(AlreadyExists):
            await roster.create("tenant", None)
        with pytest.raises(Invalid):
            await roster.ensure("Not so")
        with pytest.raises(NotFound):
            await roster.delete("main", None)
        await roster.delete("tenant", None)
        assert not roster.knows("tenant")

    play(tmp_path, scene)


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
        roster = Roster(Counted(store), store, clock)
        registered = await roster.register(form())
        assert isinstance(registered, WorkerRow)
        assert await roster.run_once() is None
        for _ in range(10):
            clock.advance(LISTED_SILENCE)
            roster.heard(registered.id)
        assert Counted.written == 0
        assert await ids(roster) == [registered.id]
        assert Counted.written == 1
        clock.advance(LISTED_SILENCE)
        roster.heard(registered.id)
        assert (await roster.counts("main"))[0].workers == 1
        clock.advance(LISTED_SILENCE)
        roster.heard(registered.id)
        assert [queue.workers for queue in await roster.queues("main")] == [1]
        await store.close()

    asyncio.run(main())
