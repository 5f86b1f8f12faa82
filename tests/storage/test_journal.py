"""All histories as one stream: in order of commits, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from assay.core.model.ids import RunId
from assay.core.model.payload import Payload
from assay.storage.ports import BEGINNING, Changes, JournalEntry
from assay.storage.postgres.horizon import lowest
from assay.storage.postgres.store import PostgresStore
from assay.storage.sql.journal import SqlJournal
from tests.core.support import signalled, started
from tests.storage.support import AnyStore, StoredWorld, at
from tests.temporary_postgres import create_database


@pytest.fixture
def journal(store: AnyStore) -> SqlJournal:
    return SqlJournal(store)


async def all_of(journal: SqlJournal, count: int) -> list[JournalEntry]:
    entries = list(await journal.after(BEGINNING, 100))
    assert len(entries) == count
    return entries


async def test_an_empty_journal_has_no_head(journal: SqlJournal):
    assert await journal.head() == BEGINNING
    assert await journal.position(5) == BEGINNING
    assert list(await journal.after(BEGINNING, 10)) == []


async def test_events_of_all_runs_in_one_order(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    for steps in ([started("a"), started("b")], [signalled(of="a")], [signalled(of="b")]):
        for step in steps:
            world.take(step)
        await world.commit()
    entries = await all_of(journal, 4)
    shown = [(entry.workflow_id, entry.seq, entry.kind) for entry in entries]
    assert shown == [
        ("a", 1, "WorkflowStarted"), ("b", 1, "WorkflowStarted"), ("a", 2, "SignalReceived"), ("b", 2, "SignalReceived")
    ]  # fmt: skip
    assert [entry.position for entry in entries] == sorted(entry.position for entry in entries)
    assert await journal.head() == entries[-1].position
    assert await journal.position(entries[1].id) == entries[1].position
    assert await journal.after(entries[1].position, 1) == entries[2:3]
    assert await journal.position(entries[-1].id + 1_000) == entries[-1].position
    first = entries[0]
    assert (first.namespace, first.workflow_type, first.task_queue) == ("main", "Order", "default")


async def test_the_first_event_since_a_time(store: AnyStore, journal: SqlJournal):
    assert await journal.since(0) is None
    world = StoredWorld(store)
    for second in range(6):
        world.now = at(second)
        await world.do(started(f"w{second}"))
    entries = await all_of(journal, 6)
    ids = [entry.id for entry in entries]
    assert [await journal.since(entry.time) for entry in entries] == ids
    assert await journal.since(at(-1)) == ids[0]
    assert await journal.since(at(2.5)) == ids[3]
    assert await journal.since(at(5.5)) is None


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[Any]:
    """A connection of another program, with an open transaction that is rolled back in the end."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("BEGIN")
        yield connection
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    finally:
        await connection.close()


@asynccontextmanager
async def slow_writer(postgres: PostgresStore, changes: Changes) -> AsyncIterator[asyncio.Task[frozenset[RunId]]]:
    """A write of the store whose transaction has an id, and which goes on to its events at the end of the block."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    class SlowStore(PostgresStore):
        async def _compare_and_set(self, *arguments: Any) -> set[RunId]:
            won = await super()._compare_and_set(*arguments)
            begun.set()
            await go_on.wait()
            return won

    store = SlowStore(postgres._dsn)
    await store.open()
    try:
        writing = asyncio.create_task(store.write(changes))
        await asyncio.wait_for(begun.wait(), 5)
        yield writing
        go_on.set()
        await asyncio.gather(writing, return_exceptions=True)
    finally:
        await store.close()


async def named(journal: SqlJournal) -> list[tuple[str, str]]:
    return [
        (entry.workflow_id, entry.kind)
        for entry in await journal.after(BEGINNING, 10)
        if isinstance(entry, JournalEntry)
    ]


async def test_events_do_not_wait_for_transactions_of_other_programs(postgres: PostgresStore, postgres_server: str):
    """A session that was forgotten, in another database or in this one, must not stop the stream."""
    journal, world = SqlJournal(postgres), StoredWorld(postgres)
    elsewhere = await create_database(postgres_server)
    async with session(elsewhere) as other, session(postgres._dsn) as same:
        for stranger in (other, same):
            await stranger.execute("CREATE TEMP TABLE notes (id int); INSERT INTO notes VALUES (1)")
            assert await stranger.fetchval("SELECT pg_current_xact_id_if_assigned()") is not None
        await world.do(started("a"))
        assert await named(journal) == [("a", "WorkflowStarted")]
        assert await journal.head() == (await journal.after(BEGINNING, 10))[0].position


async def test_a_slow_writer_is_not_skipped(postgres: PostgresStore):
    """Events of later transactions wait for a transaction that may yet commit events with an earlier id (I24)."""
    journal, world, other = SqlJournal(postgres), StoredWorld(postgres), StoredWorld(postgres, "other", 500)
    await world.do(started("slow"))
    world.take(signalled(of="slow"))
    async with slow_writer(postgres, world.changes()) as writing:
        await other.do(started("quick"))
        assert await named(journal) == [("slow", "WorkflowStarted")]
        head = await journal.head()
        assert (await journal.after(BEGINNING, 10))[-1].position == head
        assert await journal.oldest_after(head) is not None
    await writing
    assert await named(journal) == [
        ("slow", "WorkflowStarted"), ("slow", "SignalReceived"), ("quick", "WorkflowStarted")
    ]  # fmt: skip
    assert await journal.oldest_after(await journal.head()) is None


async def test_a_writer_that_crashes_holds_nothing_back(postgres: PostgresStore, database: str):
    journal, world, other = SqlJournal(postgres), StoredWorld(postgres), StoredWorld(postgres, "other", 500)
    await world.do(started("slow"))
    async with session(database) as crashed:
        await crashed.execute("UPDATE runs SET reserved_until = 1")
        await other.do(started("quick"))
        assert await named(journal) == [("slow", "WorkflowStarted")]
        crashed.terminate()
    async with asyncio.timeout(5):
        while len(await named(journal)) < 2:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("end", "running", "horizon"),
    [
        (900, [], 900),
        (900, [901, 950], 900),
        (900, [850, 700], 700),
        (2**32 + 10, [5, 2**32 - 5], 2**32 - 5),
        (3 * 2**32 - 2, [2**32 - 7, 3], 3 * 2**32 - 7),
    ],
)
def test_the_horizon_is_below_all_own_writers(end: int, running: list[int], horizon: int):
    """The ids of running transactions have 32 bits and go round."""
    assert lowest(end, running) == horizon


async def test_a_page_of_large_events_ends_at_its_bytes(store: AnyStore, journal: SqlJournal):
    world = StoredWorld(store)
    large = Payload(b'"%s"' % (b"x" * 1_900_000))
    await world.do(started("a"), *[signalled(of="a", payload=large) for _ in range(8)], signalled(of="a"))
    pages = [await journal.after(BEGINNING, 100)]
    while pages[-1].more:
        pages.append(await journal.after(pages[-1][-1].position, 100))
    entries = [entry for page in pages for entry in page]
    assert [entry.seq for entry in entries] == list(range(1, 11))
    assert {len(entry.payload) > 1_900_000 for entry in entries[1:9]} == {True}
    assert all(sum(len(entry.payload) for entry in page) < 11_000_000 for page in pages)
