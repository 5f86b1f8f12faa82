"""How the program leaves: what it says of output that cannot be written, and to whom."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import PROGRAM, SECONDS, Cli, CommandResult, Stub, plain_environment

ANSWERS = [["--help"], ["--version"], ["completion", "bash"], ["workflow", "list"], ["workflow", "start", "--help"], []]
MISTAKES = [["nonsense"], ["workflow"], ["workflow", "describe"]]


def called(arguments: list[str], stub: Stub, home: Path, **streams: int) -> CommandResult:
    """A call in a process of its own, with standard output or errors going where a test wants them."""
    done = subprocess.run(  # noqa: S603
        [*PROGRAM, *arguments],
        env=plain_environment(home, ASSAY_ENGINE_URL=stub.url),
        timeout=SECONDS,
        check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )
    return CommandResult(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())


@pytest.fixture
def full() -> Iterator[int]:
    """A disk without room."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def left() -> Iterator[int]:
    """A pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_an_answer_that_cannot_be_written_is_one_line(stub: Stub, tmp_path: Path, full: int, arguments: list[str]):
    result = called(arguments, stub, tmp_path, stdout=full)
    assert result.code == 1
    assert result.err == "error: the answer cannot be written: No space left on device\n"


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_reader_that_has_gone_has_enough(stub: Stub, tmp_path: Path, left: int, arguments: list[str]):
    result = called(arguments, stub, tmp_path, stdout=left)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_one_though_nobody_hears_of_it(stub: Stub, tmp_path: Path, left: int, arguments: list[str]):
    assert called(arguments, stub, tmp_path, stderr=left).code == 64
    assert called(["queue", "stats", "--engine-url", "http://127.0.0.1:1"], stub, tmp_path, stderr=left).code == 1


@pytest.mark.parametrize(
    "line",
    ["-v workflow list", "--verbose workflow list", "workflow -v list", "workflow list -v", "-v workflow list -v"],
)
def test_verbose_may_be_said_anywhere(stubbed: Cli, stub: Stub, line: str):
    result = stubbed(*line.split())
    assert (result.code, result.out) == (0, "[]\n")
    assert result.err == f"debug: GET {stub.url}/api/v1/workflows: HTTP 200, 2 bytes\n"
    assert stubbed("workflow", "list").err == ""


@pytest.mark.parametrize("line", ["-v verify w.db", "-v completion bash", "-v --version"])
def test_verbose_belongs_to_the_program(bare: Cli, line: str):
    assert bare(*line.split()).code != 64


@pytest.mark.parametrize("line", ["-v serve", "serve -v"])
def test_verbose_is_heard_by_the_engine(bare: Cli, monkeypatch: pytest.MonkeyPatch, line: str):
    levels: list[str] = []
    monkeypatch.setattr("assay.server.logs.install", levels.append)
    monkeypatch.setattr("assay.server.serve.serve", lambda config, say: 0)
    assert bare(*line.split()).code == 0
    assert levels == ["DEBUG"]


SLOW = """
import threading

print("loading", flush=True)
threading.Event().wait()
"""


def test_control_c_while_the_program_is_being_loaded_is_no_traceback(tmp_path: Path):
    (tmp_path / "click.py").write_text(SLOW)
    environment = plain_environment(tmp_path)
    environment["PYTHONPATH"] = f"{tmp_path}:{environment.get('PYTHONPATH', '')}"
    with subprocess.Popen(  # noqa: S603
        [*PROGRAM, "--help"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (-signal.SIGINT, b"")
