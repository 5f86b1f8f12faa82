"""`assay dev`: an engine and a worker in one terminal; the worker is started anew whenever a file is saved."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import click

from assay.cli.dev_runs import follow_runs
from assay.cli.options import verbose_of, verbose_option
from assay.core.model.limits import FORCED_EXIT_CODE, STOP_SECONDS

WATCH_INTERVAL_SECONDS: Final = 0.3
START_TIMEOUT_SECONDS: Final = 15.0
RELOAD_SECONDS: Final = 3.0
"""How long a worker whose file has changed may finish what it has begun; then it is killed, and its work repeated."""
SKIPPED_FOLDERS: Final = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})

WORKER_STOP_SECONDS: Final = 9.0
ENGINE_STOP_SECONDS: Final = 10.0
"""How long each may take to stop when all is to end within ten seconds; the engine, which ends last, is quick."""
STOP_MARGIN_SECONDS: Final = 0.3
MIN_STOP_SECONDS: Final = 0.5
"""What is left for the engine after a worker that took its time."""

Stamp = dict[Path, tuple[int, int]]


@click.command(short_help="An engine and a worker in one terminal, reloaded on save.")
@click.argument("target", metavar="PROGRAM")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65_535), help="Port of the engine.")
@click.option("--backend", metavar="URL", help="Database of the engine; see `assay serve --help`.")
@verbose_option
@click.pass_context
def dev(context: click.Context, target: str, port: int, backend: str | None) -> None:
    """Run an engine and a worker that serves PROGRAM, a file, a module or module:app, until Ctrl-C.

    Whenever a Python file beside or below it is saved, the worker starts anew; the engine goes on, and so do the
    workflows. What the worker logs, tracebacks included, is shown here, and a line when a run starts or ends. Both
    processes end with this command, also if it is killed or its terminal closed.

    \b
    Example:
      assay dev worker.py
    """
    options = ["--verbose"] if verbose_of(context) else []
    database = [] if backend is None else ["--backend", backend]
    engine = [*options, "serve", "--port", str(port), *database]
    worker = [*options, "run", target]
    raise click.exceptions.Exit(develop(_watched(target), f"http://127.0.0.1:{port}", engine, worker))


def _watched(target: str) -> Path:
    """Return the file whose folder is watched: the program's own, which is not imported here."""
    from assay.cli.program import is_file, split_target

    name, _ = split_target(target)
    if is_file(name):
        return Path(name)
    place = Path(*name.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    file = next((file for file in found if file.is_file()), None)
    if file is None:
        raise click.UsageError(f"there is no module {name} in this folder")
    return file


class ChildProcess:
    """A process of its own, which ends with this one."""

    def __init__(self, arguments: Sequence[str], *, heard: bool = False, **variables: str) -> None:
        reading, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "assay.cli.lifeline", str(reading), *arguments]
        # Ctrl-C on the terminal is for the parent alone: it stops the worker first, then the engine.
        self._process = subprocess.Popen(  # noqa: S603  # our own command, given as a list
            command,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE if heard else None,
            text=True,
            pass_fds=[reading],
            start_new_session=True,
        )
        os.close(reading)

    @property
    def ended(self) -> int | None:
        """Its exit code, once there is one."""
        return self._process.poll()

    def lines(self) -> Iterator[str]:
        """What it says, if it is heard."""
        yield from self._process.stdout or ()

    def stop(self, seconds: float) -> int:
        """Ask the process to end, and kill it if it does not in time; return its exit code, 70 if it was killed."""
        self._process.terminate()
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            code = FORCED_EXIT_CODE
        os.close(self._lifeline)
        return code


def develop(file: Path, url: str, engine_command: Sequence[str], worker_command: Sequence[str]) -> int:
    """Run until Ctrl-C, SIGTERM or the end of the terminal; the exit code."""
    stopping = Stopping()
    engine = ChildProcess(engine_command, heard=True)
    codes = []
    try:
        _await(engine, url, stopping)
        follow_runs(url, stopping)
        while not stopping.is_set() and engine.ended is None:
            codes = [_serve(file, url, worker_command, engine, stopping)]
    finally:
        codes.append(engine.stop(stopping.seconds_left(ENGINE_STOP_SECONDS)))
    if not stopping.is_set():
        return engine.ended or 1
    return FORCED_EXIT_CODE if FORCED_EXIT_CODE in codes else 0


class Stopping(threading.Event):
    """Set by the first signal to end; a SIGHUP that `nohup` has disabled stays so."""

    def __init__(self) -> None:
        super().__init__()
        self._since: float | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._since = self._since or time.monotonic()
        self.set()

    def seconds_left(self, most: float) -> float:
        """Return how long a process may take to stop: `most`, and no longer than until the end of the ten seconds."""
        if self._since is None:
            return most
        return min(most, max(self._since + STOP_SECONDS - STOP_MARGIN_SECONDS - time.monotonic(), MIN_STOP_SECONDS))


def _await(engine: ChildProcess, url: str, stopping: Stopping) -> None:
    """Wait until the engine says that it listens. To ask at its address is not enough: somebody else may answer."""
    ready = threading.Event()
    threading.Thread(target=_relay, args=(engine, url, ready), name="assay-engine", daemon=True).start()
    end = time.monotonic() + START_TIMEOUT_SECONDS
    while not stopping.is_set() and not ready.wait(0.05):
        if engine.ended is not None:
            raise click.ClickException("the engine did not start; what it said is above")
        if time.monotonic() > end:
            raise click.ClickException(f"the engine does not listen at {url}")


def _relay(engine: ChildProcess, url: str, ready: threading.Event) -> None:
    for line in engine.lines():
        with contextlib.suppress(OSError):  # nobody reads it
            click.echo(line, nl=False)
        if url in line:
            ready.set()


def _serve(file: Path, url: str, command: Sequence[str], engine: ChildProcess, stopping: Stopping) -> int:
    """Run a worker until a file changes, or until all is to end; return its exit code."""
    before = _stamps(file)
    worker = ChildProcess(command, ASSAY_ENGINE_URL=url)
    told = False
    try:
        while not stopping.wait(WATCH_INTERVAL_SECONDS) and engine.ended is None:
            changed = [path for path, stamp in _stamps(file).items() if before.get(path) != stamp]
            if changed:
                _say(f"{changed[0].name} has changed: the worker starts anew")
                break
            if worker.ended is not None and not told:
                told = True
                _say("the worker has ended; it starts again when a file is saved")
    finally:
        seconds = stopping.seconds_left(WORKER_STOP_SECONDS) if stopping.is_set() else RELOAD_SECONDS
        code = worker.stop(seconds)
    return code


def _say(text: str) -> None:
    from assay.server.logs import colorful

    click.echo(click.style(text, fg="yellow") if colorful(sys.stderr) else text, err=True)


def _stamps(file: Path) -> Stamp:
    """When each Python file beside and below `file` was last changed."""
    found: Stamp = {}
    for path in _sources(file.parent.resolve()):
        with contextlib.suppress(OSError):  # deleted in this very moment
            status = path.stat()
            found[path] = status.st_mtime_ns, status.st_size
    return found


def _sources(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(".py"))
