"""Protect a database file that this process owns from other SQLite libraries.

Two SQLite libraries in one process, such as apsw's and the one behind Python's `sqlite3`, do not know of each other's
POSIX locks: the kernel grants each of them a lock that the other one holds, and drops the locks of both when any
descriptor of the file is closed, be it by `open(path).close()`. The first connection to be closed then counts as the
last one, moves the WAL into the file and deletes it, and the engine goes on writing to a WAL without a name.

So `sqlite3.connect` is refused for such a file, and where the kernel has locks that belong to a descriptor instead of
the process (Linux), two of them say to every SQLite library, here and in other processes, that the file is in use.
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
"""Start and length of the range that SQLite locks in a database file: shared while a connection is open, exclusively
before the last connection deletes the WAL."""
ALIVE_BYTE: Final = (128, 1)
"""The byte of the `-shm` file on which every connection holds a shared lock. Without one the next connection takes the
file for a leftover and truncates it."""

_REFUSAL: Final = (
    "an engine of this process uses {0}: a second SQLite library in the process would delete its WAL. Read it with"
    " `assay --engine-url sqlite://{0} workflow list`, or from another process; copy it from another process with"
    " `.backup` or `VACUUM INTO`"
)

Identity = tuple[int, int]
_owned: "dict[Identity, OwnedFile]" = {}
_hooked = False


def identity_of(path: str | bytes | Path) -> Identity:
    """Return device and inode of a file, which are the same for all of its names."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


class OwnedFile:
    """A database file of which this process has an open connection in WAL mode."""

    def __init__(self, path: Path) -> None:
        """Protect the file from now on; its `-shm` file must exist."""
        self.path = path
        self._identity = identity_of(path)
        # Never closed before the last connection: closing a descriptor drops the locks of all connections.
        self._descriptors = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in (path, f"{path}-shm")]
        self._lock(fcntl.F_RDLCK)
        _owned[self._identity] = self
        _install_hook()

    def unlock(self) -> None:
        """Let the own writer be the last connection, which needs the exclusive lock."""
        self._lock(fcntl.F_UNLCK)

    def release(self) -> None:
        """Stop protecting the file; call it when all connections are closed, or in a forked child."""
        if _owned.get(self._identity) is self:
            del _owned[self._identity]
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)

    def _lock(self, kind: int) -> None:
        if sys.platform == "linux":
            for descriptor, place in zip(self._descriptors, (SHARED_BYTES, ALIVE_BYTE), strict=True):
                # Where the file system has no such locks, the check after each commit is left.
                with contextlib.suppress(OSError):
                    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, *place, 0))


def _install_hook() -> None:
    """Add the audit hook once per process: a hook cannot be removed."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # Called for every audit event of the process: all others must cost one comparison.
    if event != "sqlite3.connect" or not _owned:
        return
    for name in _names(arguments[0]):
        with contextlib.suppress(OSError, ValueError):
            found = _owned.get(identity_of(name))
            if found is not None:
                import sqlite3

                raise sqlite3.OperationalError(_REFUSAL.format(found.path))


def _names(database: Any) -> Iterator[str]:
    """Yield the paths that an argument of `sqlite3.connect` can stand for; the event does not carry `uri=`."""
    try:
        name = os.fsdecode(database)
    except TypeError:
        return  # sqlite3 itself rejects the argument
    yield name
    if name.startswith("file:"):
        path = name.removeprefix("file:").partition("#")[0].partition("?")[0]
        if path.startswith("//"):
            path = "/" + path[2:].partition("/")[2]  # what stands before is the host: empty, or localhost
        yield unquote(path)
