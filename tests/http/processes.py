"""Engines and workers as processes of their own, to be killed, stopped and started again."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 12.0
ADDRESS = re.compile(r"API +(http://[^/]+)/api/v1$", re.MULTILINE)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Process:
    """One process; its output is in a file."""

    def __init__(
        self,
        command: list[str],
        log: Path,
        variables: Mapping[str, str] | None = None,
        *,
        with_stdin: bool = False,
        cwd: Path = ROOT,
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, *command],
                cwd=cwd,
                env={**os.environ, **(variables or {})},
                stdin=subprocess.PIPE if with_stdin else None,
                stdout=out,
                stderr=out,
                text=True,
            )

    def write_line(self, word: str) -> None:
        """Say the one thing that it waits for."""
        assert self._process.stdin is not None
        with self._process.stdin as ear:
            ear.write(f"{word}\n")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, pattern: "re.Pattern[str]", seconds: float = START_SECONDS) -> "re.Match[str]":
        """Wait until its output matches."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = pattern.search(self.log_text())
            if found:
                return found
            if not self.alive:
                break
            threading.Event().wait(0.02)
        raise AssertionError(f"{pattern.pattern!r} was not said:\n{self.log_text()}")

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM; the exit code, or a failure if it takes too long."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

    def end(self) -> None:
        """Whatever it does, let it be gone."""
        if self.alive:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


class Server:
    """An engine that can be killed and started again at the same address."""

    def __init__(self, folder: Path, database: str | None = None, name: str = "server", **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = database or f"sqlite://{folder}/engine.db"
        self._folder = folder
        self._name = name
        self._variables = variables
        self._lives = 0
        self.process = self._begun()
        self.wait_until_ready()

    def _begun(self) -> Process:
        self._lives += 1
        # a machine whose wall clock a test sets, if the variables name one
        module = "tests.chaos.served.stepping" if "CHAOS_CLOCK" in self._variables else "assay.cli.main"
        command = ["-m", module, "serve", "--port", str(self.port), "--backend", self.database]
        return Process(command, self._folder / f"{self._name}-{self._lives}.log", self._variables)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def start(self) -> None:
        """Start it again."""
        self.begin()
        self.wait_until_ready()

    def begin(self) -> None:
        """Start it again, and do not wait for it."""
        self.process = self._begun()

    def wait_until_ready(self) -> None:
        """Until it listens."""
        self.process.wait_for(ADDRESS)


@contextmanager
def server(folder: Path, database: str | None = None, **variables: str) -> Iterator[Server]:
    """An engine for the time of the block."""
    made = Server(folder, database, **variables)
    try:
        yield made
    finally:
        made.process.end()


READY = re.compile("connected to http")


@contextmanager
def worker(folder: Path, url: str, *arguments: str, name: str = "worker") -> Iterator[Process]:
    """A process that serves `tests.http.program`."""
    made = Process(["-m", "tests.http.program", url, str(folder), *arguments], folder / f"{name}.log")
    try:
        made.wait_for(READY)
        yield made
    finally:
        made.end()
