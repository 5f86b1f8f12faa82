"""An engine whose patience with clients is short, for the tests of its limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import Http, Server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("impatient")
    server = Server(folder, python=("-m", "tests.server.impatient"), PYTHONPATH=str(ROOT))
    try:
        yield server
        assert server.process.poll() is None
        assert "Traceback" not in server.errors.read_text()
    finally:
        server.close()


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()
