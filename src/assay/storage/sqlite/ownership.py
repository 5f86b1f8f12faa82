"""Exclusive ownership of a database file: a single engine at a time, on this machine (I9).

The kernel holds the lock for the process. A restart after kill -9 therefore succeeds at once, and a paused owner keeps
the lock. The content of the lock file is only used for the error message of a second engine.
"""

import fcntl
import os
import re
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assay._version import __version__
from assay.core.model.errors import Unavailable
from assay.core.model.ids import Time, seconds

NETWORK_FILESYSTEMS = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "afs",
            "ceph",
            "glusterfs",
            "lustre",
            "gpfs",
            "beegfs",
            "ocfs2",
            "gfs2",
        ),
        # Folders of the host in virtual machines, also below containers on laptops.
        *("9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fakeowner"),
    }
)
"""File systems without the locks and the shared memory that SQLite needs."""

LOCK_RETRY_SECONDS = (0.02, 0.04, 0.0)
"""Pauses after each attempt to take the lock: `in_use` of another process holds the lock for some microseconds."""

_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Owner(msgspec.Struct, frozen=True):
    """The owner of a database file, as stored in the lock file."""

    pid: int
    host: str
    since: str
    version: str


def _locked(descriptor: int, pause: float) -> bool:
    """Try to take the lock; return False after a pause if another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        threading.Event().wait(pause)
        return False
    return True


def in_use(database: Path) -> bool:
    """Return whether an engine holds the lock of a file; True if this user cannot read the lock file."""
    try:
        descriptor = os.open(database.with_name(f"{database.name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


class FileLock:
    """The lock beside a database file, held until `release` or the end of the process."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        self._database = database
        self._descriptor: int | None = None

    def take(self, now: Time) -> None:
        """Take the lock; raise `Unavailable` with the name of the owner if another engine holds the lock."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not any(_locked(descriptor, pause) for pause in LOCK_RETRY_SECONDS):
            text = self._in_use(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise Unavailable(text, code="store_in_use")
        since = datetime.fromtimestamp(seconds(now), UTC).isoformat(timespec="seconds")
        owner = Owner(os.getpid(), socket.gethostname(), since, __version__)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(owner), 0)
        self._descriptor = descriptor

    def _in_use(self, content: bytes) -> str:
        try:
            owner = msgspec.json.decode(content, type=Owner)
            who = f"process {owner.pid} on {owner.host} (assay {owner.version}) since {owner.since}"
        except msgspec.MsgspecError:
            who = "another process"  # a process that holds the lock and has not written its name yet
        return f"{self._database} is in use by {who}; use Postgres for several engines"

    def release(self) -> None:
        """Release the lock. The file stays: after its removal two engines could lock two files of the same name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def refuse_network(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Refuse a folder on a network file system; accept every folder if the mounts cannot be read."""
    try:
        lines = mounts.read_bytes().splitlines()
    except OSError:
        return
    place, longest, kind = folder.resolve(), -1, ""
    for line in lines:
        _, point, found, *_ = line.split(b" ")
        mounted = Path(os.fsdecode(_ESCAPE.sub(lambda octal: bytes([int(octal[1], 8)]), point)))
        if place.is_relative_to(mounted) and len(mounted.parts) >= longest:
            longest, kind = len(mounted.parts), found.decode()
    if kind in NETWORK_FILESYSTEMS or kind.startswith("fuse."):
        text = f"{folder} is on a network filesystem ({kind}), where SQLite loses data: use a local disk, or Postgres"
        raise Unavailable(text, code="network_filesystem")
