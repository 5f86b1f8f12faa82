import asyncio
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.storage.postgres import PostgresStore
from assay.testing.postgres import create_database, shared_postgres
from tests.storage.support import AnyStore, Stores


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
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


@pytest.fixture
def database(postgres_server: str, runner: asyncio.Runner) -> str:
    """A fresh database on it."""
    return runner.run(create_database(postgres_server))


@pytest.fixture(params=["sqlite", "sqlite in a thread", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Stores]:
    """A place for data, on each kind of store; what was opened is closed."""
    if request.param == "postgres":
        made = Stores(request.getfixturevalue("database"))
    else:
        made = Stores(tmp_path / "engine.db", in_thread=request.param != "sqlite")
    yield made
    runner.run(made.close())


@pytest.fixture
def store(stores: Stores, runner: asyncio.Runner) -> AnyStore:
    """A store that is open and empty."""
    return runner.run(stores.open())


@pytest.fixture
def postgres(database: str, runner: asyncio.Runner) -> Iterator[PostgresStore]:
    made = Stores(database)
    opened = runner.run(made.open())
    assert isinstance(opened, PostgresStore)
    yield opened
    runner.run(made.close())
