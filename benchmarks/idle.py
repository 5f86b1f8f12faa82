"""What an engine costs that has nothing to do: memory, CPU time, writes to the disk. Standard library only."""

from __future__ import annotations

import asyncio

from benchmarks.proc import resident_bytes, tree_seconds, written_bytes
from benchmarks.workloads import Engine, Measures

SETTLE_SECONDS = 3
"""What the work before has left to be done, such as a checkpoint, is done by then."""


class Idle:
    """A workload that watches the engine's process while its worker and its client are connected and do nothing."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    async def __call__(self, engine: Engine, style: str, *, secs: float) -> Measures:
        """Memory at the end; CPU time and writes from the beginning to the end."""
        await asyncio.sleep(SETTLE_SECONDS)
        cpu, written = tree_seconds([self._pid]), written_bytes(self._pid)
        await asyncio.sleep(secs)
        return {
            "rss_mb": resident_bytes(self._pid) / 1e6,
            "cpu_percent": (tree_seconds([self._pid]) - cpu) / secs * 100,
            "written_bytes": written_bytes(self._pid) - written,
        }
