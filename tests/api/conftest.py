import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import Http, Server, serving, sound
from tests.temporary_postgres import shared_postgres


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests, also of several processes."""
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    with serving(folder) as server:
        yield server
    assert sound(f"sqlite://{folder}/assay-workflow.db") == []


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()
