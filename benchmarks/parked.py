"""What waiting costs: many workflows that wait for a signal, in one process."""

from __future__ import annotations

from pathlib import Path

from benchmarks.matches import assay_command
from benchmarks.plan import PARKED_MEGABYTES, QUEUED
from benchmarks.process import running

TIMEOUT = 600


async def measure_parked(folder: Path, count: int) -> int:
    """Print what `count` parked workflows cost; 1 if it is more than is allowed."""
    async with running("assay", assay_command(f"sqlite://{folder}/parked.db"), folder) as ours:
        answer = await ours.ask("parked", QUEUED, {"n": count}, TIMEOUT)
    if "error" in answer:
        print(f"parked workflows failed: {answer['error']}")
        return 1
    found = answer["measures"]
    ok = found["rss_mb"] <= PARKED_MEGABYTES
    print(f"{count:,} workflows wait for a signal ({found['starts_per_s']:,.0f} started per second)")
    print(f"  memory   {found['rss_mb']:.0f} MB, peak {found['peak_rss_mb']:.0f}, before {found['empty_rss_mb']:.0f}")
    print(f"  required ≤ {PARKED_MEGABYTES} MB: {'yes' if ok else 'NO'}")
    print(f"  threads  {found['threads']:.0f}")
    print(f"  signalled and completed: {found['woken']:.0f} of {min(count, 3)}")
    return 0 if ok else 1
