import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.cli.main import run
from tests.api.support import Server, Worker, serving
from tests.cli.support import Cli, CommandResult, Stub, plain_environment, stub_engine

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real engine on SQLite, shared; each test has a namespace of its own."""
    with serving(tmp_path_factory.mktemp("engine"), "--backend", "sqlite://w.db") as server:
        yield server


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_engine() as stub:
        yield stub


@pytest.fixture
def namespace() -> str:
    return f"cli-{next(_numbers)}"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """The command line in this process, with nothing set up."""
    kept = plain_environment(tmp_path)
    for name in set(os.environ) - set(kept):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", kept["HOME"])

    def call(*arguments: str) -> CommandResult:
        capfd.readouterr()
        code = run(arguments)
        return CommandResult(code, *capfd.readouterr())

    return call


@pytest.fixture
def cli(bare: Cli, engine: Server, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, with the real engine and a fresh namespace."""
    monkeypatch.setenv("ASSAY_ENGINE_URL", f"http://127.0.0.1:{engine.port}")
    monkeypatch.setenv("ASSAY_NAMESPACE", namespace)
    return bare


@pytest.fixture
def stubbed(bare: Cli, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, with an engine that only listens."""
    monkeypatch.setenv("ASSAY_ENGINE_URL", stub.url)
    return bare


@pytest.fixture
def worker(engine: Server, namespace: str) -> Callable[..., Worker]:
    """Makes workers that do their tasks by hand."""
    return lambda **fields: Worker(engine.http(), namespace=namespace, **fields)
