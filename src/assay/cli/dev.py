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
from typing import Final

import click

LOOK_SECONDS: Final = 0.3
START_SECONDS: Final = 15.0
STOP_SECONDS: Final = 10.0
RELOAD_SECONDS: Final = 3.0
"""How long a worker whose file has changed may finish what it has begun; then it is killed, and its work repeated."""
SKIPPED: Final = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})

Stamp = dict[Path, tuple[int, int]]


@click.command(short_help="An engine and a worker in one terminal, reloaded on save.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65_535), help="Port of the engine.")
@click.option("--backend", metavar="URL", help="Database of the engine; see `assay serve --help`.")
def dev(file: Path, port: int, backend: str | None) -> None:
    """Run an engine and a worker that serves FILE, until Ctrl-C.

    Whenever a Python file beside or below FILE is saved, the worker starts anew; the engine goes on, and so do the
    workflows. What the worker logs, tracebacks included, is shown here.

    \b
    Example:
      assay dev worker.py
    """
    raise click.exceptions.Exit(develop(file, port, backend))


class Child:
    """A process of its own, which ends with this one."""

    def __init__(self, arguments: Sequence[str], **variables: str) -> None:
        command = [sys.executable, "-m", "assay.cli.main", *arguments]
        # Ctrl-C on the terminal is for the parent alone: it stops the worker first, then the engine.
        self._process = subprocess.Popen(  # noqa: S603  # our own command, given as a list
            command, env={**os.environ, **variables}, start_new_session=True
        )

    @property
    def ended(self) -> int | None:
        """Its exit code, once there is one."""
        return self._process.poll()

    def stop(self, seconds: float) -> None:
        """Ask it to end, and end it if it does not."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def develop(file: Path, port: int, backend: str | None) -> int:
    """Run until Ctrl-C or SIGTERM; the exit code."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    store = [] if backend is None else ["--backend", backend]
    engine = Child(["serve", "--port", str(port), *store])
    url = f"http://127.0.0.1:{port}"
    try:
        _await(engine, url, stopping)
        while not stopping.is_set() and engine.ended is None:
            _serve(file, url, engine, stopping)
    finally:
        engine.stop(STOP_SECONDS)
    return 0 if stopping.is_set() else engine.ended or 1


def _await(engine: Child, url: str, stopping: threading.Event) -> None:
    """Wait until the engine answers."""
    from urllib.request import urlopen

    end = time.monotonic() + START_SECONDS
    while not stopping.is_set():
        with contextlib.suppress(OSError), urlopen(f"{url}/healthz", timeout=1):  # noqa: S310  # our own
            return
        if engine.ended is not None:
            raise click.ClickException("the engine did not start; what it said is above")
        if time.monotonic() > end:
            raise click.ClickException(f"the engine does not answer at {url}")
        stopping.wait(0.05)


def _serve(file: Path, url: str, engine: Child, stopping: threading.Event) -> None:
    """One life of the worker: until a file changes, or all is to end."""
    before = _stamps(file)
    worker = Child(["run", str(file)], ASSAY_ENGINE_URL=url)
    told = False
    try:
        while not stopping.wait(LOOK_SECONDS) and engine.ended is None:
            changed = [path for path, stamp in _stamps(file).items() if before.get(path) != stamp]
            if changed:
                click.secho(f"{changed[0].name} has changed: the worker starts anew", fg="yellow", err=True)
                return
            if worker.ended is not None and not told:
                told = True
                click.secho("the worker has ended; it starts again when a file is saved", fg="yellow", err=True)
    finally:
        worker.stop(RELOAD_SECONDS)


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
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(".py"))
