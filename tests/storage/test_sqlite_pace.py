"""SQLite beside slow disks, foreign locks and long reads: the loop stays free, writes go on, the WAL ends."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from assay.storage.ports import Broken, ReadTooLong, TooManyReads
from assay.storage.sqlite import connections
from assay.storage.sqlite import store as store_module
from assay.storage.sqlite import writer as writer_module
from assay.storage.sqlite.pace import BAD_COMMITS, LAST_COMMITS, CommitPace
from assay.storage.sqlite.store import SqliteStore
from assay.storage.sqlite.writer import SqliteWriter
from tests.core.support import MAIN, NOW, signalled, started
from tests.storage.support import StoredWorld

ENDLESS_QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
SLOW_COMMIT_SECONDS = 0.2
FREE_SECONDS = 0.15


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.db"


@asynccontextmanager
async def opened(path: Path, *, in_thread: bool | None = None) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, in_thread=in_thread, clock=lambda: NOW)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class SlowCursor:
    """The cursor of a writer whose disk takes long to sync while `seconds` is set."""

    def __init__(self, writer: SqliteWriter) -> None:
        self._cursor = writer._cursor
        self.seconds = 0.0
        writer._cursor = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def execute(self, text: str, *arguments: Any) -> Any:
        if text == "COMMIT" and self.seconds:
            threading.Event().wait(self.seconds)
        return self._cursor.execute(text, *arguments)


async def longest_turn(until: "asyncio.Task[Any]") -> float:
    """Return the longest time for which the loop did not turn."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while not until.done():
        begun = loop.time()
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - begun)
    return longest


def test_commits_move_when_the_median_of_a_hundred_is_slow():
    pace = CommitPace(0.001, in_thread=False)
    for _ in range(LAST_COMMITS // 2):
        pace.add(0.002)
        pace.add(0.0002)
    assert not pace.in_thread
    for _ in range(2):
        pace.add(0.002)
        pace.add(0.002)
    assert pace.in_thread
    for _ in range(LAST_COMMITS):
        pace.add(0.0008)  # fast, but not by far
    assert pace.in_thread
    for _ in range(LAST_COMMITS):
        pace.add(0.0002)
    assert not pace.in_thread


def test_a_few_very_slow_commits_are_enough():
    pace = CommitPace(0.001, in_thread=False)
    for _ in range(BAD_COMMITS - 1):
        pace.add(0.05)
    assert not pace.in_thread
    pace.add(0.05)
    assert pace.in_thread


async def test_a_disk_that_becomes_slow_does_not_hold_up_the_loop(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "sync_time", lambda folder: 0.0001)
    async with opened(path) as store:
        assert store.inline
        world, cursor = await StoredWorld(store).do(started("a")), SlowCursor(store._opened())
        cursor.seconds = SLOW_COMMIT_SECONDS
        for _ in range(BAD_COMMITS):
            await world.do(signalled(of="a"))
        assert not store.inline
        writing = asyncio.create_task(world.do(signalled(of="a"), signalled(of="a")))
        assert await longest_turn(writing) < FREE_SECONDS
        await writing
        assert (await store.describe(MAIN, "a", None)) is not None
        cursor.seconds = 0.0
        for _ in range(10 * LAST_COMMITS):
            await world.do(signalled(of="a"))
            if store.inline:
                break
        assert store.inline
        assert len(await store.events(world.newest["a"].run_id)) == world.newest["a"].last_seq  # type: ignore[index]


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_foreign_lock_holds_up_writes_and_nothing_else(path: Path, in_thread: bool):
    async with opened(path, in_thread=in_thread) as store:
        world = await StoredWorld(store).do(started("a"))
        other = apsw.Connection(str(path))
        try:
            other.execute("BEGIN IMMEDIATE")
            writing = asyncio.create_task(world.do(signalled(of="a")))
            waiting = asyncio.create_task(asyncio.sleep(0.3))
            assert await longest_turn(waiting) < FREE_SECONDS
            assert await store.describe(MAIN, "a", None) is not None
            assert not writing.done()
            other.execute("ROLLBACK")
            await asyncio.wait_for(writing, 2)
        finally:
            other.close()


async def test_reads_in_threads_end_after_their_time(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "READ_SECONDS", 0.05)
    monkeypatch.setattr(store_module, "SCAN_SECONDS", 0.1)
    async with opened(path, in_thread=False) as store:
        with pytest.raises(ReadTooLong, match=r"longer than 0.05 s"):
            await store.search(ENDLESS_QUERY)
        with pytest.raises(ReadTooLong):
            await store.query(ENDLESS_QUERY)
        assert await store.search("SELECT 1") == [(1,)]


async def test_long_searches_do_not_delay_reads_of_the_engine(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.storage.search_slots.SEARCH_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(store_module, "READ_SECONDS", 0.5)
    async with opened(path, in_thread=False) as store:
        long = [asyncio.create_task(store.search(ENDLESS_QUERY)) for _ in range(store_module.SEARCH_THREADS)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(store.query("SELECT 1"), 0.4) == [(1,)]
        with pytest.raises(TooManyReads):
            await store.search("SELECT 1")
        assert all(isinstance(end, ReadTooLong) for end in await asyncio.gather(*long, return_exceptions=True))


@pytest.mark.parametrize("in_thread", [False, None])
async def test_searches_cannot_keep_the_wal_long(path: Path, in_thread: bool | None, monkeypatch: pytest.MonkeyPatch):
    """There is always a search under way, and the WAL is cut all the same."""
    monkeypatch.setattr(writer_module, "LARGE_WAL_PAGES", 20)
    monkeypatch.setattr(store_module, "READ_SECONDS", 0.1)
    monkeypatch.setattr(store_module, "TRUNCATE_RETRY_SECONDS", 0.05)
    async with opened(path, in_thread=in_thread) as store:
        world, stop, cuts = await StoredWorld(store).do(started("a")), asyncio.Event(), 0
        truncate = store._opened().truncate

        def counted() -> bool:
            nonlocal cuts
            done = truncate()
            cuts += done
            return done

        monkeypatch.setattr(store._opened(), "truncate", counted)

        async def search() -> None:
            while not stop.is_set():
                with pytest.raises((ReadTooLong, TooManyReads)):
                    await store.search(ENDLESS_QUERY)

        searching = [asyncio.create_task(search()) for _ in range(4)]
        async with asyncio.timeout(10):
            while cuts < 3:
                await world.do(signalled(of="a"))
                await asyncio.sleep(0)
        stop.set()
        await asyncio.gather(*searching)


async def test_a_wal_that_a_foreign_reader_keeps_long_is_cut_when_it_ends(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(writer_module, "LARGE_WAL_PAGES", 5)
    monkeypatch.setattr(store_module, "TRUNCATE_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(store_module, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(store_module, "WAL_WARNING_BYTES", 1)
    async with opened(path, in_thread=False) as store:
        world = await StoredWorld(store).do(started("a"))
        reader = apsw.Connection(str(path))
        try:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchall()
            with caplog.at_level(logging.WARNING):
                for _ in range(8):
                    await world.do(signalled(of="a"))
                await asyncio.sleep(0.1)
            assert "cannot be truncated" in caplog.text
            assert (store.wal_bytes or 0) > 0
        finally:
            reader.close()
        async with asyncio.timeout(5):
            while store.wal_bytes:
                await asyncio.sleep(0.01)


async def test_an_engine_too_old_for_a_new_schema_stops_writing(path: Path):
    """Another program has migrated the file while this engine ran (I26)."""
    async with opened(path, in_thread=False) as store:
        world = await StoredWorld(store).do(started("a"))
        other = apsw.Connection(str(path))
        other.execute("INSERT INTO schema_versions VALUES (9001, 9001, 9001, 0, '')")
        other.close()
        with pytest.raises(Broken, match="for schema 9001"):
            await world.do(signalled(of="a"))


async def test_a_copy_before_a_migration_is_never_readable_by_others(path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(path, in_thread=False) as store:
        writer, modes = store._opened(), []
        fetch = writer.fetch

        def watched(text: str, *arguments: Any) -> Any:
            modes.append(os.stat(arguments[0]).st_mode & 0o777)
            return fetch(text, *arguments)

        monkeypatch.setattr(writer, "fetch", watched)
        before = os.umask(0)
        try:
            writer._back_up(3)
        finally:
            os.umask(before)
    copy = path.with_name("engine.db.bak-3")
    assert modes == [0o600]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.stat().st_size > 0
