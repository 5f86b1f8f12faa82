"""Files outside the system under test that say what really happened; a line that was appended survives kill -9."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Ledger:
    """Appends JSON lines; several processes may append to one file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()

    def append(self, **line: Any) -> None:
        """Write a line and wait until it is on the disk."""
        self.note(**line)
        os.fsync(self._descriptor)

    def note(self, **line: Any) -> None:
        """Write a line; one system call, so that a kill leaves all of it or nothing."""
        with self._lock:
            os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ledger, oldest first; none if nobody has written."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def effects_file(folder: Path) -> Path:
    """Which activities and steps ran, and what they returned."""
    return folder / "effects.jsonl"


def acks_file(folder: Path, place: int) -> Path:
    """What the client of one process asked for, and what was acknowledged to it."""
    return folder / f"acks-{place}.jsonl"
