"""What is measured: W1 to W7 and the parked workflows, driven against any engine. Standard library only.

A contestant runs this module in its own process, with its own interpreter, so that every engine is driven by the
same code. Each workload returns its measures by name.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

IN_FLIGHT = 64
Measures = dict[str, float]


class Engine(Protocol):
    """What a workload needs of an engine. Kinds of workflows: one, seq, fan, sig, timer."""

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """Start durably; return a handle once that is acknowledged."""
        ...

    async def result(self, handle: Any) -> Any:
        """Wait for the result of a workflow."""
        ...

    async def signal(self, handle: Any, value: Any) -> None:
        """Send a signal to a workflow."""
        ...

    async def execute(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """Start a workflow and wait for its result; an engine that does both in one request says so."""
        return await self.result(await self.start(kind, workflow_id, argument))


async def in_slots(count: int, slots: int, act: Callable[[int], Awaitable[None]]) -> None:
    """A closed loop: each slot acts, waits until that is done, and takes the next number."""
    numbers = iter(range(count))

    async def slot() -> None:
        for number in numbers:
            await act(number)

    await asyncio.gather(*(slot() for _ in range(min(count, slots))))


async def throughput(engine: Engine, style: str, *, n: int, k: int) -> Measures:
    """W1 (k=1) and W2 (k=10): n workflows of k sequential activities, 64 in flight."""
    kind, tag = ("one" if k == 1 else "seq"), _tag()

    async def act(number: int) -> None:
        answer = await engine.execute(kind, f"{tag}-{number}", {"i": number, "k": k, "style": style})
        assert answer["i"] == number, answer

    begin = time.perf_counter()
    await in_slots(n, IN_FLIGHT, act)
    taken = time.perf_counter() - begin
    return {"workflows_per_s": n / taken, "activities_per_s": n * k / taken, "seconds": taken}


async def fan_out(engine: Engine, style: str, *, k: int, times: int) -> Measures:
    """W3: workflows with k activities at once, one workflow at a time; all of them together."""
    begin = time.perf_counter()
    for _ in range(times):
        answer = await engine.execute("fan", _tag(), {"i": 0, "k": k, "style": style})
        assert answer["done"] == k, answer
    taken = time.perf_counter() - begin
    return {"activities_per_s": k * times / taken, "seconds": taken}


async def latency(engine: Engine, style: str, *, n: int) -> Measures:
    """W4: from start to result of one workflow, one after the other."""
    tag, taken = _tag(), []
    for number in range(n):
        begin = time.perf_counter()
        await engine.execute("one", f"{tag}-{number}", {"i": number, "k": 1, "style": style})
        taken.append(time.perf_counter() - begin)
    return in_milliseconds(taken)


async def signals(engine: Engine, style: str, *, n: int, pause: float) -> Measures:
    """W5: from sending a signal to the result of the workflow that waits for it."""
    tag, taken = _tag(), []
    for number in range(n):
        handle = await engine.start("sig", f"{tag}-{number}", {"i": number, "style": style})
        result = asyncio.ensure_future(engine.result(handle))
        await asyncio.sleep(pause)  # it waits by now
        begin = time.perf_counter()
        await engine.signal(handle, {"v": number})
        await result
        taken.append(time.perf_counter() - begin)
    return in_milliseconds(taken)


async def growth(engine: Engine, style: str, *, k: int, times: int) -> Measures:
    """W6: workflows of k sequential activities, one workflow at a time; the median of them."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        answer = await engine.execute("seq", _tag(), {"i": 0, "k": k, "style": style})
        taken.append(time.perf_counter() - begin)
        assert answer["done"] == k, answer
    return {"ms_per_activity": statistics.median(taken) / k * 1e3, "seconds": sum(taken)}


async def timers(engine: Engine, style: str, *, n: int, secs: float) -> Measures:
    """W7: n sleeping workflows; late is what passes beyond the sleep between the acknowledged start and the result."""
    tag, late, starting = _tag(), [], asyncio.Semaphore(IN_FLIGHT)

    async def sleep(number: int) -> None:
        async with starting:
            handle = await engine.start("timer", f"{tag}-{number}", {"i": number, "secs": secs, "style": style})
            started = time.perf_counter()
        await engine.result(handle)
        late.append(time.perf_counter() - started - secs)

    await asyncio.gather(*(sleep(number) for number in range(n)))
    return {**in_milliseconds(late), "early": float(sum(one < 0 for one in late))}


def in_milliseconds(taken: list[float]) -> Measures:
    """The percentiles that are reported."""
    ordered = sorted(taken)
    last = len(ordered) - 1
    picked = {name: ordered[round(share * last)] * 1e3 for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    return {**picked, "max": ordered[last] * 1e3}


def _tag() -> str:
    return f"b-{uuid.uuid4().hex[:12]}"


WORKLOADS: dict[str, Callable[..., Awaitable[Measures]]] = {
    "W1": throughput,
    "W2": throughput,
    "W3": fan_out,
    "W4": latency,
    "W5": signals,
    "W6": growth,
    "W7": timers,
}
