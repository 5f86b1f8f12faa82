"""Engine, worker and client really run, and nothing of them is left."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.matches import assay_server_command
from benchmarks.plan import INLINE, QUEUED
from benchmarks.proc import tree
from benchmarks.process import running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of other processes")


async def one_of_each(folder: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Answers of a small W2 in both styles, of W5 and of the idle engine; and the processes that gave them."""
    async with running("assay", assay_server_command(folder), folder) as ours:
        answers = [await ours.ask("W2", style, {"n": 8, "k": 3}) for style in (QUEUED, INLINE)]
        answers.append(await ours.ask("W5", QUEUED, {"n": 2, "pause": 0.01}))
        answers.append(await ours.ask("idle", QUEUED, {"secs": 0.2}))
        return answers, tree(ours.pid)


def test_three_processes_answer_and_are_gone(tmp_path: Path):
    (queued, inline, signals, idle), processes = asyncio.run(one_of_each(tmp_path))
    assert [one.get("error") for one in (queued, inline, signals, idle)] == [None] * 4
    for answer in (queued, inline):
        measures = answer["measures"]
        parts = [measures[f"{name}_cpu_us"] for name in ("engine", "worker", "client")]
        assert measures["cpu_us"] == pytest.approx(sum(parts))
        assert measures["activities_per_s"] > 0
    assert signals["measures"]["p50"] > 0
    assert idle["measures"]["rss_mb"] > 1
    assert len(processes) >= 3
    assert [pid for pid in processes if os.path.exists(f"/proc/{pid}")] == []
