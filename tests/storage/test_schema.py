"""Migrations: applied once, recorded, refused when they are not ours (I26, U1-U4)."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from assay.core.model.errors import AssayError, Unavailable
from assay.storage.sql import queries, schema_versions
from assay.storage.sqlite.reader import SqliteReader
from assay.storage.sqlite.store import SqliteStore
from tests.core.support import NOW, starts
from tests.storage.support import AnyStore, StoredWorld, Stores, as_stored, reloaded
from tests.temporary_postgres import create_database

LATEST = len(schema_versions.known())
EVERY = list(range(1, LATEST + 1))

HEADER = "-- min_reader: {0}\n-- min_writer: {0}\n"


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Stores]:
    """A place without tables."""
    if request.param == "sqlite":
        made = Stores(tmp_path / "engine.db")
    else:
        made = Stores(runner.run(create_database(request.getfixturevalue("postgres_server"))))
    yield made
    runner.run(made.close())


def know(monkeypatch: pytest.MonkeyPatch, *more: schema_versions.Migration) -> None:
    """The program knows these migrations beside its own."""
    steps = (*schema_versions.known(), *more)
    monkeypatch.setattr(schema_versions, "known", lambda: steps)


def next_step(
    script: str = "CREATE TABLE added (id $int NOT NULL PRIMARY KEY) $table;", oldest: int = LATEST + 1
) -> schema_versions.Migration:
    return schema_versions.migration(LATEST + 1, HEADER.format(oldest) + script)


async def versions(store: AnyStore) -> list[int]:
    return [row[0] for row in await store.query(queries.SCHEMA_VERSIONS)]


async def test_a_fresh_place_gets_all_steps_and_keeps_its_data(empty: Stores):
    world = await StoredWorld(await empty.open()).do(starts())
    await empty.close()
    store = await empty.open()
    assert await versions(store) == EVERY
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_an_older_place_gets_what_it_lacks(empty: Stores, monkeypatch: pytest.MonkeyPatch):
    world = await StoredWorld(await empty.open()).do(starts())
    await empty.close()
    step = next_step()
    know(monkeypatch, step)
    store = await empty.open()
    assert (await versions(store))[-1] == step.version
    assert await store.query("SELECT count(*) FROM added")
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_a_newer_schema_is_refused_in_words(empty: Stores, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as newer:
        know(newer, next_step())
        await empty.open()
        await empty.close()
    refusal = rf"schema {LATEST + 1}, .* this program is for schema {LATEST}: use a newer"
    with pytest.raises(Unavailable, match=refusal) as caught:
        await empty.open()
    assert caught.value.code == "schema_too_new"


async def test_a_newer_schema_that_allows_older_programs_is_used(empty: Stores, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as newer:
        know(newer, next_step(oldest=LATEST))
        await empty.open()
        await empty.close()
    world = await StoredWorld(await empty.open()).do(starts())
    assert world.run.version == 1


async def test_a_step_with_another_text_is_refused(empty: Stores, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as other:
        know(other, next_step())
        await empty.open()
        await empty.close()
    know(monkeypatch, next_step("CREATE TABLE added (id $text NOT NULL PRIMARY KEY) $table;"))
    with pytest.raises(Unavailable, match="differs from") as caught:
        await empty.open()
    assert caught.value.code == "schema_differs"


async def test_a_step_that_fails_leaves_nothing(empty: Stores, monkeypatch: pytest.MonkeyPatch):
    world = await StoredWorld(await empty.open()).do(starts())
    await empty.close()
    with monkeypatch.context() as broken:
        know(broken, next_step("CREATE TABLE added (id $int) $table; INSERT INTO nowhere VALUES (1);"))
        with pytest.raises(AssayError):
            await empty.open()
    store = await empty.open()
    assert await versions(store) == EVERY
    with pytest.raises(AssayError):
        await store.query("SELECT count(*) FROM added")
    assert await reloaded(store, world.run) == as_stored(world.run)


async def test_an_engine_told_not_to_migrate_refuses_and_changes_nothing(empty: Stores):
    with pytest.raises(Unavailable, match="assay migrate") as caught:
        await empty.open(migrate=False)
    assert caught.value.code == "schema_too_old"
    await empty.open()
    await empty.close()
    assert await versions(await empty.open(migrate=False)) == EVERY


async def test_five_engines_start_at_once(runner: asyncio.Runner, postgres_server: str):
    stores = Stores(await create_database(postgres_server))
    opened = await asyncio.gather(*(stores.open() for _ in range(5)))
    assert [await versions(store) for store in opened] == [EVERY] * 5
    blocks = await asyncio.gather(*(store.numbers(100) for store in opened for _ in range(4)))
    assert len(set(blocks)) == 20
    await stores.close()


async def test_a_file_is_copied_before_it_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stores = Stores(tmp_path / "engine.db")
    world = await StoredWorld(await stores.open()).do(starts())
    await stores.close()
    know(monkeypatch, next_step())
    await stores.open()
    await stores.close()
    copy = tmp_path / f"engine.db.bak-{LATEST}"
    assert copy.stat().st_mode & 0o777 == 0o600
    connection = sqlite3.connect(copy)
    assert connection.execute("SELECT run_id FROM runs").fetchall() == [(world.run.run_id,)]
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'added'").fetchone() == (0,)
    connection.close()


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path):
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE customers (name)")
    connection.close()
    with pytest.raises(Unavailable, match="another program"):
        await SqliteStore(path, clock=lambda: NOW).open()
    with pytest.raises(Unavailable, match="cannot be read"):
        await SqliteReader(path, clock=lambda: 0).open()


def test_known_steps_are_numbered_without_a_gap():
    steps = schema_versions.known()
    assert [step.version for step in steps] == EVERY
    assert all(1 <= step.min_reader <= step.min_writer <= step.version for step in steps)
