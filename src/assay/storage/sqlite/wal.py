"""The write-ahead log of a SQLite file: the check of its identity, and the preallocation of space.

A commit that extends the file waits for the disk twice as long as other commits. SQLite appends the frames of a commit
after the last frames and validates frames by checksums, therefore zeros at the end are as harmless as the old frames of
a checkpointed log. A checkpointed log restarts at its beginning and overwrites itself. Without preallocation the first
thousand pages after every start would be slow, for a short program all of its commits.
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from assay.storage.ports import Replaced
from assay.storage.sqlite.lock import Identity, identity_of

WAL_HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
"""Sizes of the headers of the log and of each frame."""
SPARE_FRAMES: Final = 8
"""The minimum of preallocated frames before a commit: a small commit has three."""
EXTEND_FRAMES: Final = 64
"""The number of frames to preallocate at a time."""
TIMESTAMP_TICK_SECONDS: Final = 0.02
"""Longer than a tick of the clock for file timestamps: two changes within a tick have the same timestamp."""


class Wal:
    """The log of a database, from the first commit of its writer.

    SQLite creates the log before the first commit and keeps the file until the last connection is closed: a checkpoint,
    even with truncation, leaves the same file at the same path.
    """

    def __init__(self, database: Path, page_size: int) -> None:
        self._database = str(database)
        self._log = f"{database}-wal"
        self._frame = FRAME_HEADER_BYTES + page_size
        self._frames = 0
        self._descriptor = -1
        self._log_is: Identity | None = None
        self._database_is = identity_of(database)
        self._folder = os.open(database.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._changed_at = self._settled_at = -1
        self._seen_at = 0.0

    def check(self) -> None:
        """Raise `Replaced` unless the database and its log are the files that the writer has open (I1).

        Called after every commit. Deleting or renaming a file changes the timestamp of its folder. A single `fstat` is
        therefore enough while the timestamp stays the same, once the timestamp is older than a tick.
        """
        changed_at = os.fstat(self._folder).st_ctime_ns
        if changed_at == self._settled_at:
            return
        self._compare()
        now = time.monotonic()
        if changed_at != self._changed_at:
            self._changed_at, self._seen_at = changed_at, now
        elif now - self._seen_at > TIMESTAMP_TICK_SECONDS:
            self._settled_at = changed_at

    def _compare(self) -> None:
        """Raise `Replaced` unless both paths name the files that are open.

        The open descriptor prevents the reuse of the inode, therefore a path with the same inode names the same file.
        Closing the descriptor is harmless: SQLite takes its locks in the other two files.
        """
        try:
            if self._log_is is None:
                self._descriptor = os.open(self._log, os.O_WRONLY | os.O_CLOEXEC)
                opened = os.fstat(self._descriptor)
                self._log_is = opened.st_dev, opened.st_ino
            if identity_of(self._log) == self._log_is and identity_of(self._database) == self._database_is:
                return
        except OSError as error:
            raise _replaced(self._database, error.strerror or str(error)) from None
        raise _replaced(self._database, "another file has its name")

    def keep(self, used: int) -> None:
        """Preallocate space for a small commit after `used` frames; only between transactions, and after `check`."""
        if used + SPARE_FRAMES > self._frames:
            try:
                self._extend(used + EXTEND_FRAMES)
            except OSError:
                self._frames = sys.maxsize  # only an optimization: on a full disk the next commit fails by itself

    def size(self) -> int:
        """Return the size of the log in bytes; 0 before the first commit."""
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0

    def forget(self) -> None:
        """Note that the log was truncated."""
        self._frames = 0

    def close(self) -> None:
        """Close the descriptors."""
        for descriptor in (self._folder, self._descriptor):
            if descriptor >= 0:
                os.close(descriptor)
        self._folder = self._descriptor = -1

    def _extend(self, frames: int) -> None:
        size, wanted = os.fstat(self._descriptor).st_size, WAL_HEADER_BYTES + frames * self._frame
        if size < wanted:
            os.pwrite(self._descriptor, bytes(wanted - size), size)
        self._frames = (max(size, wanted) - WAL_HEADER_BYTES) // self._frame


def _replaced(database: str, reason: str) -> Replaced:
    return Replaced(
        f"{database} or its WAL was deleted or replaced while an engine used it ({reason}): connect again to open the"
        " file anew, and do not open, copy or move it in the process of its engine"
    )
