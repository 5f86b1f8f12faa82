"""`assay dev`: an engine and a worker in one terminal; the worker restarts when a file is saved."""

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
"""The time for a worker to finish its tasks after a file has changed. Then it is killed, and its tasks are retried."""
SKIPPED_FOLDERS: Final = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})

WORKER_STOP_SECONDS: Final = 9.0
ENGINE_STOP_SECONDS: Final = 10.0
"""Time limits for stopping, so that both processes end within ten seconds. The engine stops last, and fast."""
STOP_MARGIN_SECONDS: Final = 0.3
MIN_STOP_SECONDS: Final = 0.5
"""The minimum time for the engine to stop, after a slow worker."""

Stamp = dict[Path, tuple[int, int]]


@click.command(short_help="Run an engine and a worker, and reload the worker when a file is saved.")
@click.argument("target", metavar="PROGRAM")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65_535), help="Port of the engine.")
@click.option("--backend", metavar="URL", help="Database of the engine; see `assay serve --help`.")
@verbose_option
@click.pass_context
def dev(context: click.Context, target: str, port: int, backend: str | None) -> None:
    """Run an engine and a worker, and reload the worker when a file is saved.

    PROGRAM is a Python file, a module, or module:app. The worker serves its workflows and activities. When a Python
    file in the same folder or below is saved, the worker restarts. The engine and the workflows continue.

    The terminal shows the logs of the worker, and a line when a run starts or ends. Ctrl-C stops both processes. They
    also end if this command is killed or the terminal is closed.

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
    """Return the file of the program, whose folder is watched. The program is not imported in this process."""
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
    """A child process that runs an `assay` command, and ends when this process ends."""

    def __init__(self, arguments: Sequence[str], *, piped: bool = False, **variables: str) -> None:
        reading, self._lifeline = os.pipe()
        command = [sys.executable, "-m", "assay.cli.lifeline", str(reading), *arguments]
        # A session of its own: Ctrl-C reaches only the parent, which stops the worker first and then the engine.
        self._process = subprocess.Popen(  # noqa: S603  # our own command, given as a list
            command,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE if piped else None,
            text=True,
            pass_fds=[reading],
            start_new_session=True,
        )
        os.close(reading)

    @property
    def ended(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._process.poll()

    def lines(self) -> Iterator[str]:
        """Return the lines of standard output, if it is piped."""
        yield from self._process.stdout or ()

    def stop(self, seconds: float) -> int:
        """Send SIGTERM, and kill the process after `seconds`; return its exit code, or 70 if it was killed."""
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
    """Run engine and worker until Ctrl-C, SIGTERM or the end of the terminal; return the exit code."""
    stopping = Stopping()
    engine = ChildProcess(engine_command, piped=True)
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
    """An event that SIGINT, SIGTERM and SIGHUP set; a SIGHUP disabled by `nohup` stays disabled."""

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
        """Return the time that a process may take to stop: at most `most`, and not beyond ten seconds in all."""
        if self._since is None:
            return most
        return min(most, max(self._since + STOP_SECONDS - STOP_MARGIN_SECONDS - time.monotonic(), MIN_STOP_SECONDS))


def _await(engine: ChildProcess, url: str, stopping: Stopping) -> None:
    """Wait until the engine prints its address. A request would not do: another engine may use the port."""
    ready = threading.Event()
    threading.Thread(target=_relay, args=(engine, url, ready), name="assay-engine", daemon=True).start()
    end = time.monotonic() + START_TIMEOUT_SECONDS
    while not stopping.is_set() and not ready.wait(0.05):
        if engine.ended is not None:
            raise click.ClickException("the engine did not start; see its output above")
        if time.monotonic() > end:
            raise click.ClickException(f"the engine does not listen at {url}")


def _relay(engine: ChildProcess, url: str, ready: threading.Event) -> None:
    for line in engine.lines():
        with contextlib.suppress(OSError):  # standard output is closed
            click.echo(line, nl=False)
        if url in line:
            ready.set()


def _serve(file: Path, url: str, command: Sequence[str], engine: ChildProcess, stopping: Stopping) -> int:
    """Run a worker until a file changes, the engine ends or a signal arrives; return the worker's exit code."""
    before = _stamps(file)
    worker = ChildProcess(command, ASSAY_ENGINE_URL=url)
    reported = False
    try:
        while not stopping.wait(WATCH_INTERVAL_SECONDS) and engine.ended is None:
            changed = [path for path, stamp in _stamps(file).items() if before.get(path) != stamp]
            if changed:
                _print(f"{changed[0].name} has changed: the worker restarts")
                break
            if worker.ended is not None and not reported:
                reported = True
                _print("the worker has ended; it starts again when a file is saved")
    finally:
        seconds = stopping.seconds_left(WORKER_STOP_SECONDS) if stopping.is_set() else RELOAD_SECONDS
        code = worker.stop(seconds)
    return code


def _print(text: str) -> None:
    from assay.server.logs import colorful

    click.echo(click.style(text, fg="yellow") if colorful(sys.stderr) else text, err=True)


def _stamps(file: Path) -> Stamp:
    """Return modification time and size of each Python file beside and below `file`."""
    found: Stamp = {}
    for path in _sources(file.parent.resolve()):
        with contextlib.suppress(OSError):  # the file was deleted meanwhile
            status = path.stat()
            found[path] = status.st_mtime_ns, status.st_size
    return found


def _sources(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(".py"))
