import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.processes import Server, server
from tests.temporary_postgres import create_database, shared_postgres


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests, also of several processes."""
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """A database of its own."""
    return asyncio.run(create_database(postgres_server))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running engine for all tests of a file, on each kind of store; tests keep to ids of their own."""
    folder: Path = tmp_path_factory.mktemp("engine")
    database = None
    if request.param == "postgres":
        database = asyncio.run(create_database(request.getfixturevalue("postgres_server")))
    with server(folder, database) as made:
        yield made


@pytest.fixture(params=["embedded", "served"])
def url(request: pytest.FixtureRequest, engine: Server, tmp_path: Path) -> str:
    """An engine in this process or behind HTTP, on each kind of store."""
    if request.param == "served":
        return engine.url
    if engine.database.startswith("sqlite"):
        return f"sqlite://{tmp_path}/own.db"
    return asyncio.run(create_database(request.getfixturevalue("postgres_server")))
