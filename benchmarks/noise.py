"""How much of the machine others use while something is measured; only Linux tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from benchmarks.proc import machine_seconds, tree_seconds

NOISY_CORES = 0.2
"""A repetition during which others used more than this is marked."""


class Meter:
    """Measures, from its making to `foreign_cores`, the cores used by processes that are not `ours`."""

    def __init__(self, ours: Iterable[int]) -> None:
        self._roots = tuple(ours)
        self._begin = time.perf_counter()
        self._busy = machine_seconds()
        self._own = tree_seconds(self._roots)

    def foreign_cores(self) -> float:
        """Cores used by others since."""
        own = tree_seconds(self._roots) - self._own
        taken = time.perf_counter() - self._begin
        return max(0.0, (machine_seconds() - self._busy - own) / taken)


async def wait_for_quiet(ours: Iterable[int], patience: float) -> None:
    """Return when others use little, or when patience ends."""
    roots = tuple(ours)
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        meter = Meter(roots)
        await asyncio.sleep(0.25)
        if meter.foreign_cores() <= NOISY_CORES:
            return
