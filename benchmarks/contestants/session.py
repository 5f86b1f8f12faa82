"""The conversation between the benchmark and a contestant: one JSON line asks, one JSON line answers."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.workloads import WORKLOADS, Engine, Measures

Extra = Callable[..., Awaitable[Measures]]


async def serve(engine: Engine, extra: dict[str, Extra] | None = None) -> None:
    """Say that the engine is ready, then run what is asked for until nobody asks any more."""
    known = {**WORKLOADS, **(extra or {})}
    _say({"ready": True})
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        _say(await _answer(known[asked["workload"]], engine, asked))


async def _answer(workload: Extra, engine: Engine, asked: dict[str, Any]) -> dict[str, Any]:
    before = _cpu_seconds()
    try:
        measures = await asyncio.wait_for(workload(engine, asked["style"], **asked["size"]), asked["timeout"])
    except Exception as error:  # noqa: BLE001  # whatever stops a workload is what the table has to say of it
        traceback.print_exc(file=sys.stderr)
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    spent = _cpu_seconds() - before
    count = asked["size"].get("n", 1) * asked["size"].get("k", 1) * asked["size"].get("times", 1)
    return {"measures": {**measures, "cpu_us": spent / count * 1e6}, "cpu_seconds": spent}


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
