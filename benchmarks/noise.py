"""How much of the machine others use while something is measured; only Linux tells."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

NOISY_CORES = 0.2
"""A repetition during which others used more than this is marked."""

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """Measures, from its making to `foreign_cores`, the cores used by processes that are not `ours`."""

    def __init__(self, ours: Iterable[int]) -> None:
        self._roots = tuple(ours)
        self._begin = time.perf_counter()
        self._busy = _machine_seconds()
        self._own = _tree_seconds(self._roots)

    def foreign_cores(self) -> float:
        """Cores used by others since."""
        own = _tree_seconds(self._roots) - self._own
        taken = time.perf_counter() - self._begin
        return max(0.0, (_machine_seconds() - self._busy - own) / taken)


async def wait_for_quiet(ours: Iterable[int], patience: float) -> None:
    """Return when others use little, or when patience ends."""
    roots = tuple(ours)
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        meter = Meter(roots)
        await asyncio.sleep(0.25)
        if meter.foreign_cores() <= NOISY_CORES:
            return


def _machine_seconds() -> float:
    """The CPU time that the machine has used, or that its host has given to others."""
    try:
        first = (PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return 0.0
    user, nice, system, *_, steal, _guest, _guest_nice = (int(part) for part in first.split()[1:11])
    return (user + nice + system + steal) / _TICKS


def _tree_seconds(roots: Iterable[int]) -> float:
    return sum(_seconds(process) for root in roots for process in _tree(root))


def _tree(root: int) -> list[int]:
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
