import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.support import Http, Server, serving
from tests.browser.site import Site
from tests.dashboard.board import Board, visiting
from tests.dashboard.built import build_script


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built files; built once for all processes of a test run."""
    folder = tmp_path_factory.getbasetemp()
    lock = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "dashboard.lock"
    script = build_script()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        script.ensure_built()
    found: Path = script.BUILT
    return found


@pytest.fixture(scope="module")
def server(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An engine with the built dashboard, for all tests of a file."""
    with serving(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()


@pytest.fixture(scope="module")
def site(built: Path, open_site: Site) -> Site:
    """An engine with the built dashboard and a browser for a file; tests keep to namespaces of their own."""
    return open_site


@pytest.fixture
def board(site: Site) -> Iterator[Board]:
    """A visitor of the dashboard; at the end nothing may have gone wrong in the browser."""
    with visiting(site) as visitor:
        yield visitor
