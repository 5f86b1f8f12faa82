"""Reading a file beside the engine that uses it, or after that engine was killed."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from assay.core.model.errors import Invalid, ReadOnly, Unavailable
from assay.storage.ports import Changes, ReadTooLong, RunRecord
from assay.storage.sqlite import connections
from assay.storage.sqlite.ownership import in_use
from assay.storage.sqlite.reader import SqliteReader
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import NOW, starts
from tests.storage.support import StoredWorld

ENDLESS_QUERY = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"

KILLED = """
import asyncio, os, signal, sys
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import NOW, starts
from tests.storage.support import StoredWorld

async def main():
    store = SqliteStore(sys.argv[1], clock=lambda: NOW)
    await store.open()
    await StoredWorld(store).do(starts())
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.db"


async def opened(path: Path, **options: float) -> SqliteReader:
    reader = SqliteReader(path, clock=lambda: NOW, **options)
    await reader.open()
    return reader


async def test_it_can_change_nothing(path: Path):
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    reader = await opened(path)
    for change in (reader.write(Changes()), reader.numbers(1), reader.change([])):
        with pytest.raises(ReadOnly):
            await change
    assert reader._opened[0].readonly("main")
    await reader.close()
    await store.close()


async def test_a_long_read_is_interrupted_and_the_next_one_works(path: Path):
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    reader = await opened(path, seconds=0.05)
    with pytest.raises(ReadTooLong, match="longer than"):
        await reader.query(ENDLESS_QUERY)
    assert await reader.next_due() == (None, None)
    await reader.close()
    await store.close()


def test_the_wal_of_a_killed_engine_is_left_for_the_next_one(path: Path):
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)  # noqa: S603
    wal = path.with_name("engine.db-wal")
    before = wal.read_bytes()

    async def found() -> RunRecord | None:
        reader = await opened(path)
        record = await reader.describe("main", "order-1", None)
        await reader.close()
        return record

    async def restarted() -> RunRecord | None:
        store = SqliteStore(path, clock=lambda: NOW)
        await store.open()
        record = await store.describe("main", "order-1", None)
        await store.close()
        return record

    shown = [asyncio.run(found()) for _ in range(2)]
    assert wal.read_bytes() == before
    again = asyncio.run(restarted())
    assert again is not None
    assert {record and record.run.run_id for record in shown} == {again.run.run_id}


async def test_a_file_that_is_replaced_is_opened_anew(path: Path, tmp_path: Path):
    for name in (path.name, "new.db"):
        store = SqliteStore(tmp_path / name, clock=lambda: NOW)
        await store.open()
        await StoredWorld(store, name).do(starts(name))
        await store.close()
    reader = await opened(path)
    assert await reader.describe("main", path.name, None) is not None
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    os.replace(tmp_path / "new.db", path)
    assert await reader.describe("main", path.name, None) is None
    assert await reader.describe("main", "new.db", None) is not None
    await reader.close()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("INSERT INTO schema_versions SELECT 999, 1, 1, 0, ''", "schema_too_new"),
        ("DELETE FROM schema_versions WHERE version = (SELECT max(version) FROM schema_versions)", "schema_too_old"),
        ("DROP TABLE schema_versions", "foreign_database"),
    ],
)
async def test_another_schema_is_refused(path: Path, statement: str, code: str):
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(Unavailable) as caught:
        await opened(path)
    assert caught.value.code == code


async def test_a_file_that_is_not_there_is_not_made(path: Path):
    with pytest.raises(Invalid, match="there is no file"):
        await opened(path)
    assert list(path.parent.iterdir()) == []


async def test_a_file_without_a_wal_can_be_read_where_no_file_can_be_made(path: Path, monkeypatch: pytest.MonkeyPatch):
    """As root, to whom no folder is closed: SQLite itself is told that it cannot open the file for sharing."""
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    await store.close()
    read_only = connections._read_only

    def refusing(name: str) -> apsw.Connection:
        if "immutable" not in name:
            raise apsw.CantOpenError
        return read_only(name)

    monkeypatch.setattr(connections, "_read_only", refusing)
    monkeypatch.setattr(connections.os, "access", lambda *_: False)
    reader = await opened(path)
    assert await reader.next_due() == (None, None)
    await reader.close()
    assert not path.with_name("engine.db-shm").exists()


async def test_the_lock_is_looked_at_without_being_in_the_way(path: Path):
    assert not in_use(path)
    store = SqliteStore(path, clock=lambda: NOW)
    await store.open()
    assert in_use(path)
    await store.close()
    assert not in_use(path)
