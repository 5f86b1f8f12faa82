from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import Http, Server, serving, sound


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    with serving(folder) as server:
        yield server
    assert sound(f"sqlite://{folder}/assay-workflow.db") == []


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()
