"""Connections by purpose: callers' reads can exhaust their own pool and no other, and end after their time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from assay.core.model.errors import Unavailable
from assay.core.model.ids import WorkflowId
from assay.storage import search_slots
from assay.storage.ports import Broken, Changes, ReadTooLong, RunFilter, TooManyReads
from assay.storage.postgres import connections, pools
from assay.storage.postgres.store import PostgresStore
from assay.storage.search_slots import SearchSlots
from assay.wire.errors import status_of
from tests.core.support import MAIN, started
from tests.storage.support import StoredWorld, Stores

ALL = RunFilter(namespace=MAIN)


@asynccontextmanager
async def exhausted(*taken: pools.ConnectionPool) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for pool in taken:
            for _ in range(pool.size):
                await stack.enter_async_context(pool.connection())
        yield


async def test_searches_delay_neither_writes_nor_deadlines_nor_reads_by_key(postgres: PostgresStore):
    async with exhausted(postgres._pools.searches), asyncio.timeout(3):
        world = await StoredWorld(postgres).do(started("a"))
        assert await postgres.due(0, 0, 10) == []
        assert list(await postgres.leases()) == []
        assert [event.seq for event in await postgres.events(world.newest[WorkflowId("a")].run_id)] == [1]
        assert await postgres.describe(MAIN, "a", None) is not None


async def test_callers_reads_delay_neither_writes_nor_deadlines(postgres: PostgresStore):
    async with exhausted(postgres._pools.searches, postgres._pools.reads), asyncio.timeout(3):
        await StoredWorld(postgres).do(started("a"))
        assert await postgres.next_due() == (None, None)
        assert list(await postgres.messages(0, 10)) == []


async def test_a_search_that_takes_too_long_is_ended(engines: Stores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(pools._FOR_SEARCHES, "statement_timeout", "50ms")
    store = await engines.open()
    with pytest.raises(ReadTooLong, match="longer than 5 s") as caught:
        await store.search("SELECT pg_sleep(30)")
    assert (caught.value.code, status_of(caught.value)) == ("read_too_long", 503)
    assert await store.list_runs(ALL) == []


async def test_searches_that_find_no_slot_are_refused(postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search_slots, "SEARCH_WAIT_SECONDS", 0.05)
    running = [asyncio.create_task(postgres.search("SELECT pg_sleep(0.5)")) for _ in range(pools.SEARCH_CONNECTIONS)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyReads) as caught:
        await postgres.list_runs(ALL)
    assert (caught.value.code, status_of(caught.value)) == ("too_many_reads", 503)
    await asyncio.gather(*running)
    assert await postgres.list_runs(ALL) == []


async def test_reads_that_find_no_connection_are_refused_once(postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pools, "ACQUIRE_SECONDS", 0.05)
    async with exhausted(postgres._pools.reads):
        with pytest.raises(TooManyReads):
            await postgres.describe(MAIN, "a", None)


async def test_the_line_for_searches_is_short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search_slots, "MAX_WAITING_SEARCHES", 1)
    slots = SearchSlots(1)
    async with slots.reserved():
        waiting = asyncio.create_task(slots.reserved().__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(TooManyReads, match="1 searches wait already"):
            await slots.reserved().__aenter__()
    await waiting


@pytest.mark.parametrize("name", ["reads", "searches"])
async def test_callers_reads_cannot_write(postgres: PostgresStore, name: str):
    pool: Any = getattr(postgres._pools, name)
    found = await pool.fetch("SHOW default_transaction_read_only", ())
    assert found[0][0] == "on"


async def test_an_engine_too_old_for_a_new_schema_stops_writing(postgres: PostgresStore):
    """Another engine has migrated the database while this one ran (I26)."""
    world = StoredWorld(postgres)
    world.take(started("a"))
    changes: Changes = world.changes()
    record = "INSERT INTO schema_versions VALUES (9001, 9001, 9001, 0, '')"
    await postgres.change([(record, ())])
    try:
        await postgres.clock()
        with pytest.raises(Broken, match="for schema 9001"):
            await postgres.write(changes)
        with pytest.raises(Broken):
            await postgres.change([(record, ())])
    finally:
        async with postgres._pools.writes.connection() as connection:
            await connection.execute("DELETE FROM schema_versions WHERE version = 9001")
    await postgres.clock()
    await postgres.write(changes)


class Pooler:
    """A connection through a pooler, which announces a process id of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def get_server_pid(self) -> int:
        return -1


async def test_a_pooler_of_transactions_is_refused(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def lend() -> Any:
        return connection

    connection = await connections.connect(database)
    try:
        await connections.refuse_transaction_pooling(connection, database)
        assert caplog.text == ""
        await connections.refuse_transaction_pooling(Pooler(connection), database)
        assert "must pool sessions" in caplog.text
        monkeypatch.setattr(connections, "connect", lambda _: lend())
        with pytest.raises(Unavailable, match="pools transactions: connect to the server directly"):
            await connections.refuse_transaction_pooling(Pooler(connection), database)
    finally:
        await connection.close()
