"""Room ahead in a write-ahead log: a commit that makes the file longer waits for the disk twice as long as others.

SQLite writes the frames of a commit where the last ones ended and tells by their checksums which of them count, so
zeros after them are as good as what a checkpointed log leaves there. A log begins anew once it is checkpointed and then
overwrites itself; without this the first thousand pages after every start would be slow, and a short program is all
start.
"""

import os
import sys
from pathlib import Path
from typing import Final

HEAD: Final = 32
FRAME_HEAD: Final = 24
"""Bytes before the first frame, and before the page in each."""
AHEAD: Final = 8
"""Frames that must fit: a small commit has three."""
CHUNK: Final = 64
"""Frames to make room for at a time."""


class WalRoom:
    """Keeps the log of one database longer than what is in it."""

    def __init__(self, database: Path, page_size: int) -> None:
        self._log = database.with_name(f"{database.name}-wal")
        self._frame = FRAME_HEAD + page_size
        self._frames = 0

    def keep(self, used: int) -> None:
        """See to it that a small commit after `used` frames overwrites something; only between transactions."""
        if used + AHEAD > self._frames:
            try:
                self._extend(used + CHUNK)
            except OSError:
                self._frames = sys.maxsize  # it was only for speed; if the disk is full, the next commit says so

    def forget(self) -> None:
        """The log was cut."""
        self._frames = 0

    def _extend(self, frames: int) -> None:
        log = os.open(self._log, os.O_WRONLY)
        try:
            size, wanted = os.fstat(log).st_size, HEAD + frames * self._frame
            if size < wanted:
                os.pwrite(log, bytes(wanted - size), size)
            self._frames = (max(size, wanted) - HEAD) // self._frame
        finally:
            os.close(log)
