"""assay, embedded in the client's process: `python -m benchmarks.contestants.assay_embedded <url>`."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import uvloop

import assay
from benchmarks.contestants.assay_workflows import app
from benchmarks.contestants.session import serve
from benchmarks.workloads import IN_FLIGHT, Engine, Measures, in_slots

parked_runs: set[int] = set()


@app.workflow
async def parked_queued(ctx: Any, a: dict[str, Any]) -> Any:
    parked_runs.add(a["i"])  # for the benchmark, not for the workflow
    return await ctx.wait_for_signal("go")


class Assay(Engine):
    """See `Engine`."""

    def __init__(self, client: assay.Client) -> None:
        self._client = client

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        name = f"{kind}_{argument['style']}"
        return await self._client.start(workflow_type=name, workflow_id=workflow_id, input=argument)

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        return await handle.result()

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`."""
        await handle.signal("go", value)

    async def wake(self, workflow_id: str, value: Any) -> Any:
        """Signal a workflow of which no handle was kept, and wait for its result."""
        await self._client.signal(workflow_id, "go", value)
        return await self._client.result(workflow_id)


async def parked(engine: Assay, style: str, *, n: int) -> Measures:
    """n workflows that wait for a signal: memory and threads, and whether early and late ones still complete."""
    empty, loop = _status("VmRSS"), asyncio.get_running_loop()

    async def park(number: int) -> None:
        await engine.start("parked", f"p-{number}", {"i": number, "style": style})

    begin = loop.time()
    await in_slots(n, 4 * IN_FLIGHT, park)
    while len(parked_runs) < n:  # noqa: ASYNC110  # an event would have to cross into workflow code
        await asyncio.sleep(0.05)
    taken = loop.time() - begin
    await asyncio.sleep(2)
    gc.collect()
    full, threads = _status("VmRSS"), _status("Threads")
    woken = [await engine.wake(f"p-{number}", {"v": number}) for number in sorted({0, n // 2, n - 1})]
    assert [one["v"] for one in woken] == sorted({0, n // 2, n - 1}), woken
    return {
        "rss_mb": full * 1024 / 1e6,
        "peak_rss_mb": _status("VmHWM") * 1024 / 1e6,
        "empty_rss_mb": empty * 1024 / 1e6,
        "threads": threads,
        "woken": len(woken),
        "starts_per_s": n / taken,
    }


def _status(field: str) -> int:
    """A number from this process's status: kilobytes, or a count."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


async def main(url: str) -> None:
    """Serve and be asked, in one process."""
    client = await assay.Client.connect(url, app=app)
    worker = assay.Worker(client, app=app)
    running = asyncio.create_task(worker.run())
    try:
        await serve(Assay(client), {"parked": parked})
    finally:
        worker.stop()
        await running
        await client.close()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
