import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from assay.storage.postgres.store import PostgresStore
from tests.storage.support import MEMORY, AnyStore, Stores
from tests.temporary_postgres import create_database, shared_postgres


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on the loop on which its fixtures were made."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    pyfuncitem.funcargs["runner"].run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests, also of several processes."""
    folder = tmp_path_factory.getbasetemp()
    meeting_place = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with shared_postgres(meeting_place, folder=MEMORY) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def tables(postgres_server: str) -> str:
    """A database with all tables."""

    async def migrated() -> str:
        dsn = await create_database(postgres_server)
        store = PostgresStore(dsn)
        await store.open()
        await store.close()
        return dsn

    return asyncio.run(migrated())


@pytest.fixture
def database(tables: str, runner: asyncio.Runner) -> str:
    """The same for each test, emptied: that is ten times faster than a new one."""

    async def emptied() -> str:
        connection = await asyncpg.connect(tables)
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        emptied = [name for (name,) in names if name not in ("schema_versions", "numbers", "engine", "clock")]
        await connection.execute(f"TRUNCATE {', '.join(emptied)}; UPDATE numbers SET next = 1")  # noqa: S608
        await connection.close()
        return tables

    return runner.run(emptied())


@pytest.fixture(params=["sqlite", "postgres", "postgres by COPY"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stores]:
    """A place for data, on each kind of store, also with rows written as if they were many; it is closed in the end."""
    if request.param == "postgres by COPY":
        monkeypatch.setattr("assay.storage.postgres.store.COPY_MIN_ROWS", 1)
    if request.param.startswith("postgres"):
        made = Stores(request.getfixturevalue("database"))
    else:
        made = Stores(tmp_path / "engine.db", in_thread=False)
    yield made
    runner.run(made.close())


@pytest.fixture
def store(stores: Stores, runner: asyncio.Runner) -> AnyStore:
    """A store that is open and empty."""
    return runner.run(stores.open())


@pytest.fixture
def engines(database: str, runner: asyncio.Runner) -> Iterator[Stores]:
    """A database that several engines may open."""
    made = Stores(database)
    yield made
    runner.run(made.close())


@pytest.fixture
def postgres(engines: Stores, runner: asyncio.Runner) -> PostgresStore:
    opened = runner.run(engines.open())
    assert isinstance(opened, PostgresStore)
    return opened
