"""Protect a database file that this process owns from other SQLite libraries.

Two SQLite libraries in a process, such as apsw's and the library of Python's `sqlite3`, cannot see each other's POSIX
locks: the kernel grants each library a lock held by the other, and drops the locks of both when any descriptor of the
file is closed, even by `open(path).close()`. The first connection to close then takes itself for the last, moves the
WAL into the file and deletes the WAL, and the engine continues to write to an unlinked WAL.

Therefore `sqlite3.connect` is refused for an owned file. On Linux, where locks can belong to a descriptor instead of
the process, two locks also mark the file as in use for every SQLite library, in this and in other processes.
"""

import contextlib
import fcntl
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

SHARED_BYTES: Final = (0x4000_0002, 510)
"""Start and length of the range that SQLite locks in a database file: in shared mode while a connection is open, in
exclusive mode before the last connection deletes the WAL."""
ALIVE_BYTE: Final = (128, 1)
"""The byte of the `-shm` file on which every connection holds a shared lock. Without any lock the next connection
treats the file as stale and truncates it."""

_REFUSAL: Final = (
    "an engine of this process uses {0}: a second SQLite library in the process would delete its WAL. Read it with"
    " `assay --engine-url sqlite://{0} workflow list`, or from another process; copy it from another process with"
    " `.backup` or `VACUUM INTO`"
)

Identity = tuple[int, int]
_owned: "dict[Identity, OwnedFile]" = {}
_hooked = False


def identity_of(path: str | bytes | Path) -> Identity:
    """Return device and inode of a file: the same for all names of the file."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


class OwnedFile:
    """A database file to which this process has an open connection in WAL mode."""

    def __init__(self, path: Path) -> None:
        """Begin to protect the file; its `-shm` file must exist."""
        self.path = path
        self._identity = identity_of(path)
        # Closed only after the last connection: closing a descriptor drops the locks of all connections.
        self._descriptors = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in (path, f"{path}-shm")]
        self._lock(fcntl.F_RDLCK)
        _owned[self._identity] = self
        _install_hook()

    def unlock(self) -> None:
        """Release the locks, because the engine's writer needs the exclusive lock to close as the last connection."""
        self._lock(fcntl.F_UNLCK)

    def release(self) -> None:
        """Stop protecting the file; called after all connections are closed, or in a forked child."""
        if _owned.get(self._identity) is self:
            del _owned[self._identity]
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)

    def _lock(self, kind: int) -> None:
        if sys.platform == "linux":
            for descriptor, place in zip(self._descriptors, (SHARED_BYTES, ALIVE_BYTE), strict=True):
                # On a file system without these locks, the check of the WAL after each commit still protects the file.
                with contextlib.suppress(OSError):
                    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, *place, 0))


def _install_hook() -> None:
    """Add the audit hook once per process: a hook cannot be removed."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # Called for every audit event of the process: other events must cost a single comparison.
    if event != "sqlite3.connect" or not _owned:
        return
    for name in _names(arguments[0]):
        with contextlib.suppress(OSError, ValueError):
            found = _owned.get(identity_of(name))
            if found is not None:
                import sqlite3

                raise sqlite3.OperationalError(_REFUSAL.format(found.path))


def _names(database: Any) -> Iterator[str]:
    """Yield the possible paths of an argument of `sqlite3.connect`; the audit event does not carry `uri=`."""
    try:
        name = os.fsdecode(database)
    except TypeError:
        return  # sqlite3 itself rejects the argument
    yield name
    if name.startswith("file:"):
        path = name.removeprefix("file:").partition("#")[0].partition("?")[0]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]  # skip the host: empty, or localhost
        yield unquote(path)
