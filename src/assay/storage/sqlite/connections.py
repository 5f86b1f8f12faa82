"""Connections to a SQLite file: their settings, and the translation of their errors.

SQLITE_IOERR*, CORRUPT, NOTADB, CANTOPEN, READONLY   Broken: stop; the transaction may be on disk
SQLITE_FULL, BUSY                                    Rejected: SQLite has rolled the transaction back
SQLITE_CONSTRAINT                                    Conflict
any other error                                      OutcomeUnknown from COMMIT, Rejected before COMMIT
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final
from urllib.parse import quote

import apsw

from assay.core.model.errors import AssayError, Invalid
from assay.storage.ports import Broken, Conflict, OutcomeUnknown, ReadTooLong, Rejected

_BROKEN = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError)
_UNDONE = (apsw.FullError, apsw.BusyError, apsw.LockedError)

PROGRESS_STEPS: Final = 10_000
"""Steps of SQLite's virtual machine between two checks of the clock: about a millisecond."""

STATEMENT_CACHE_SIZE = 400
"""Each row of an `executemany` takes the next entry of apsw's statement cache and evicts its statement. With fewer
entries than rows in a batch, SQLite would parse the statements again for every batch."""
_PRAGMAS = "PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0;"
# The page cache is small on purpose: a commit that has split a page scans the whole cache, and other pages are in the
# file cache of the system.
_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8192;"
)
_READER_PRAGMAS = "PRAGMA query_only = ON; PRAGMA wal_autocheckpoint = 0;"


class WriteLocked(Rejected):
    """Another process holds the write lock of the file; no transaction was begun."""


def translated(error: apsw.Error, *, committing: bool = False) -> AssayError:
    """Return the engine's error for a driver's error."""
    text = f"SQLite: {error} ({type(error).__name__})"
    if isinstance(error, _BROKEN):
        return Broken(text)
    if isinstance(error, _UNDONE):
        return Rejected(text)
    if isinstance(error, apsw.ConstraintError):
        return Conflict(text)
    return OutcomeUnknown(text) if committing else Rejected(text)


def create(path: Path) -> None:
    """Create an empty file, durably and readable by its owner only; keep an existing file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    os.close(descriptor)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_writer(path: Path, on_commit: Callable[[int], None]) -> apsw.Connection:
    """Return the only connection that writes and checkpoints; each commit calls `on_commit` with the WAL's pages."""

    def hook(_connection: apsw.Connection, _name: str, pages: int) -> int:
        on_commit(pages)
        return apsw.SQLITE_OK

    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENT_CACHE_SIZE)
    _set(connection, _PRAGMAS + _WRITER_PRAGMAS)
    connection.set_wal_hook(hook)
    mode, synchronous = connection.pragma("journal_mode"), connection.pragma("synchronous")
    if mode != "wal" or synchronous != 2:
        connection.close()
        raise Broken(f"{path} cannot be made durable: journal_mode={mode}, synchronous={synchronous}")
    return connection


def open_reader(path: Path) -> apsw.Connection:
    """Return a connection that reads and never checkpoints, not even on close: only the writer does."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=200)
    _set(connection, _PRAGMAS + _READER_PRAGMAS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def open_read_only(path: Path) -> apsw.Connection:
    """Open a file of another process; the connection can neither write to it nor delete its WAL."""
    name = str(path)
    try:
        connection = _read_only(name)
    except apsw.CantOpenError:
        # A WAL-mode file needs its `-shm` file, which cannot be created in a read-only folder. Without a WAL the file
        # is complete, and no engine of this user can begin to write beside it.
        if os.access(path.parent, os.W_OK) or os.path.exists(f"{name}-wal"):
            raise
        connection = _read_only(f"file:{quote(name)}?immutable=1")
    return connection


def _read_only(name: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags, statementcachesize=200)
    try:
        _set(connection, _PRAGMAS + _READER_PRAGMAS)
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()  # SQLite opens the files with the first read
    except BaseException:
        connection.close()
        raise
    return connection


def _set(connection: apsw.Connection, pragmas: str) -> None:
    for _ in connection.execute(pragmas):
        pass


def rows(connection: apsw.Connection, text: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return all rows of a statement; the cursor is exhausted, therefore no read transaction stays open."""
    try:
        return connection.execute(text, arguments).fetchall()
    except apsw.Error as error:
        raise translated(error) from error
    except UnicodeEncodeError as error:
        raise Invalid(f"SQLite cannot store this value: {error}") from error


def rows_within(
    connection: apsw.Connection, text: str, arguments: tuple[Any, ...], seconds: float | None
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement; raise `ReadTooLong` after `seconds`, because a snapshot keeps the WAL long."""
    end = float("inf") if seconds is None else time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, PROGRESS_STEPS)
    try:
        return rows(connection, text, arguments)
    except AssayError as error:
        if isinstance(error.__cause__, apsw.InterruptError) and time.monotonic() > end:
            raise ReadTooLong(seconds or 0) from None
        raise


def sync_time(folder: Path) -> float:
    """Return the usual time in seconds in which the disk makes a small write durable."""
    taken = []
    with TemporaryFile(dir=folder, buffering=0) as file:
        # A WAL is mostly overwritten in place. The first write is not measured: growing a file takes longer.
        file.write(b"\0" * 4096)
        os.fdatasync(file.fileno())
        for _ in range(9):
            file.seek(0)
            file.write(b"\1" * 4096)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - begin)
    # The first quartile measures the disk itself, without the momentary load of other programs.
    return statistics.quantiles(taken, n=4)[0]
