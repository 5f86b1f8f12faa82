"""What the system knows of processes and of itself: CPU time, memory, writes to the disk. Only Linux tells."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """The CPU time that the machine has used, or that its host has given to others."""
    try:
        first = (PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return 0.0
    user, nice, system, *_, steal, _guest, _guest_nice = (int(part) for part in first.split()[1:11])
    return (user + nice + system + steal) / _TICKS


def tree_seconds(roots: Iterable[int]) -> float:
    """The CPU time of processes and their descendants."""
    return sum(_seconds(process) for root in roots for process in tree(root))


def resident_bytes(root: int) -> int:
    """The memory of a process and its descendants; `OSError` where the system does not tell."""
    return sum(_number(process, "status", "VmRSS") * 1024 for process in tree(root))


def written_bytes(root: int) -> int:
    """What a process and its descendants have sent to the disk; `OSError` where the system does not tell."""
    return sum(_number(process, "io", "write_bytes") for process in tree(root))


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    found, open_ends = [], [root]
    while open_ends:
        process = open_ends.pop()
        found.append(process)
        with contextlib.suppress(OSError):
            for thread in (PROC / str(process) / "task").iterdir():
                open_ends += [int(child) for child in (thread / "children").read_text(encoding="ascii").split()]
    return found


def _seconds(process: int) -> float:
    """The CPU time of a process, with that of children it has buried: a database's connections come and go."""
    with contextlib.suppress(OSError):
        fields = (PROC / str(process) / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return sum(int(part) for part in fields[11:15]) / _TICKS
    return 0.0


def _number(process: int, file: str, field: str) -> int:
    lines = (PROC / str(process) / file).read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
