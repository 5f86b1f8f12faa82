"""All histories as one stream: in order of commits, on both databases."""

import asyncio

import asyncpg
import pytest

from assay.storage.ports import BEGINNING, Entry
from assay.storage.postgres.store import PostgresStore
from assay.storage.sql.journal import SqlJournal
from tests.core.support import signalled, started
from tests.storage.support import AnyStore, StoredWorld, at


@pytest.fixture
def journal(store: AnyStore) -> SqlJournal:
    return SqlJournal(store)


async def all_of(journal: SqlJournal, count: int) -> list[Entry]:
    """So many entries; a transaction of another test on the same server holds back what is younger than it."""
    while len(entries := list(await journal.after(BEGINNING, 100))) < count:
        await asyncio.sleep(0.01)
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
    told = [(entry.workflow_id, entry.seq, entry.kind) for entry in entries]
    assert told == [
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


async def test_what_is_not_certain_is_not_read(postgres: PostgresStore):
    """Later transactions wait for one that began earlier and may yet commit (4.6)."""
    journal, world = SqlJournal(postgres), StoredWorld(postgres)
    world.take(started("before"))
    await world.commit()
    await all_of(journal, 1)
    slow = await asyncpg.connect(postgres._dsn)
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("SELECT pg_current_xact_id()")
    world.take(started("after"))
    await world.commit()
    assert [entry.workflow_id for entry in await journal.after(BEGINNING, 10)] == ["before"]
    assert (await journal.head())[1] == (await journal.after(BEGINNING, 10))[0].id
    await transaction.rollback()
    await slow.close()
    assert [entry.workflow_id for entry in await all_of(journal, 2)] == ["before", "after"]
