"""`assay dev` with a real engine and a real worker, on a terminal and without, and what is left of them."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from assay.cli import dev
from tests.api.support import until
from tests.cli.support import PROGRAM, Cli, outcome, plain_environment, spawn, terminal
from tests.http.processes import Process, Server, free_port, server

GREETER = """
from assay import workflow

@workflow.define
async def Greet(ctx, name): return f"hello {name}"
"""
CONNECTED = re.compile("connected to http")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "worker.py"
    path.write_text(GREETER)
    return path


def command(file: Path, port: int, *options: str) -> list[str]:
    return ["dev", str(file), "--port", str(port), "--backend", f"sqlite://{file.parent}/dev.db", *options]


@contextmanager
def developing(file: Path, port: int) -> Iterator[Process]:
    made = Process([*PROGRAM[1:], *command(file, port)], file.with_suffix(".log"))
    try:
        yield made
    finally:
        made.end()


def test_dev_serves_reloads_and_shows_tracebacks(tmp_path: Path):
    template = "from assay import workflow\n\n@workflow.define\nasync def Say(ctx): return {!r}\n"
    file = tmp_path / "worker.py"
    file.write_text(template.format("first"))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with developing(file, port) as made:
        made.wait_for(CONNECTED)
        assert outcome(url, "Say", None, "default") == "first"
        made.wait_for(re.compile(r"\S+ \(Say\) started\n\S+ \(Say\) completed after \d"))
        file.write_text("from assay import workflow\nraise ValueError('a slip')\n")
        made.wait_for(re.compile("ValueError: a slip"))
        file.write_text(template.format("second, and better"))
        made.wait_for(re.compile(r"a slip(.|\n)*connected to http"))
        assert outcome(url, "Say", None, "default") == "second, and better"
        made._process.send_signal(signal.SIGINT)
        assert made._process.wait(20) == 0
    assert "Traceback" in made.log_text()


def test_the_engine_of_somebody_else_is_not_worked_for(tmp_path: Path, file: Path):
    with server(tmp_path) as other:
        result = failed(file, other)
        assert result.count("\n") == 2
        assert f"cannot listen on 127.0.0.1:{other.port}: Address already in use; choose another --port" in result
        assert "Error: the engine did not start; see its output above" in result
        result = spawn(["worker", "list", "--engine-url", other.url], plain_environment(tmp_path)).out
        assert result == "[]\n"


def failed(file: Path, other: Server) -> str:
    done = subprocess.run(  # noqa: S603
        [*PROGRAM, *command(file, other.port)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


# what is left


def processes(*columns: str) -> list[list[str]]:
    listed = subprocess.run(  # noqa: S603
        ["ps", "-A", *(f"-o{column}=" for column in columns)],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split() for line in listed.stdout.splitlines()]


def children(parent: int) -> list[int]:
    return [int(pid) for pid, ppid in processes("pid", "ppid") if int(ppid) == parent]


def alive(pids: Sequence[int]) -> list[int]:
    """Those that run; one that nobody has buried yet does not."""
    return [int(pid) for pid, state in processes("pid", "stat") if int(pid) in pids and not state.startswith("Z")]


@pytest.mark.parametrize("end", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_engine_and_worker_end_with_it(file: Path, end: signal.Signals):
    with developing(file, free_port()) as made:
        made.wait_for(CONNECTED)
        pids = children(made.pid)
        assert len(alive(pids)) == 2
        os.kill(made.pid, end)
        assert made._process.wait(20) == (-9 if end == signal.SIGKILL else 0)
        until(lambda: alive(pids) == [])


def test_who_wants_to_outlive_the_terminal_does(file: Path):
    """`nohup` ignores SIGHUP, and so do its children."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with developing(file, port := free_port()) as made:
            made.wait_for(CONNECTED)
            os.kill(made.pid, signal.SIGHUP)
            assert outcome(f"http://127.0.0.1:{port}", "Greet", "you", "default") == "hello you"
            assert made.stop(20) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


# what it says


@pytest.mark.parametrize("plain", [True, False])
def test_colours_are_for_those_who_want_them(file: Path, plain: bool):
    file.write_text("raise ValueError('a slip')\n")
    wishes = {"NO_COLOR": "1"} if plain else {}
    with terminal([*PROGRAM, *command(file, free_port())], plain_environment(file.parent, **wishes)) as screen:
        shown = screen.until("starts again when a file is saved")
    assert ("\x1b[33mthe worker has ended" in shown) == (not plain)
    assert ("\x1b[" in shown) == (not plain)


def test_verbose_is_passed_on(bare: Cli, file: Path, monkeypatch: pytest.MonkeyPatch):
    requests: list[list[str]] = []
    monkeypatch.setattr(dev, "develop", lambda _file, _url, engine, worker: requests.extend([engine, worker]) or 0)
    assert bare("-v", "dev", str(file)).code == 0
    assert requests == [["--verbose", "serve", "--port", "8080"], ["--verbose", "run", str(file)]]
