"""The conversation between the benchmark and a contestant: one JSON line asks, one JSON line answers."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from benchmarks.proc import tree_seconds
from benchmarks.workloads import WORKLOADS, Engine, Measures

Extra = Callable[..., Awaitable[Measures]]


async def serve(
    engine: Engine, extra: Mapping[str, Extra] | None = None, processes: Mapping[str, int] | None = None
) -> None:
    """Say that the engine is ready, then run what is asked for until nobody asks any more.

    `processes` are those beside this one whose CPU time counts, by what they are; this one is the client then.
    """
    known = {**WORKLOADS, **(extra or {})}
    _say({"ready": True})
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        _say(await _answer(known[request["workload"]], engine, request, processes or {}))


async def _answer(
    workload: Extra, engine: Engine, request: dict[str, Any], processes: Mapping[str, int]
) -> dict[str, Any]:
    before = _cpu_seconds(processes)
    try:
        measures = await asyncio.wait_for(workload(engine, request["style"], **request["size"]), request["timeout"])
    except Exception as error:  # noqa: BLE001  # whatever stops a workload is what the table has to say of it
        traceback.print_exc(file=sys.stderr)
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    spent = {name: seconds - before[name] for name, seconds in _cpu_seconds(processes).items()}
    count = request["size"].get("n", 1) * request["size"].get("k", 1) * request["size"].get("times", 1)
    return {"measures": {**measures, **_cpu_measures(spent, count)}, "cpu_seconds": sum(spent.values())}


def _cpu_measures(spent: Mapping[str, float], count: int) -> Measures:
    """Microseconds per activity: of all processes and, where there are several, of each."""
    each = {f"{name}_cpu_us": seconds / count * 1e6 for name, seconds in spent.items()} if len(spent) > 1 else {}
    return {**each, "cpu_us": sum(spent.values()) / count * 1e6}


def _cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    others = {name: tree_seconds([pid]) for name, pid in processes.items()}
    return {**others, "client": usage.ru_utime + usage.ru_stime}


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)
