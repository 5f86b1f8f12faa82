"""What watching costs: many workflows monitor one run, and all of them receive its end.

python -m benchmarks.watches [--watchers 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from time import perf_counter

from assay import App, Client, Context, Worker

app = App()


@app.workflow
async def Watched(ctx: Context) -> str:
    """Complete at a signal."""
    await ctx.wait_for_signal("end")
    return "ended"


@app.workflow
async def Watcher(ctx: Context, pid: str) -> str:
    """Return the result of another workflow when it ends."""
    await ctx.monitor(pid)
    event = await ctx.events().receive()
    return str(event.value)


async def measure(url: str, watchers: int) -> None:
    """Print the time to set up the monitors, and the time from the end of the run to the last watcher's end."""
    async with await Client.connect(url, app=app) as client:
        worker = Worker(client)
        serving = asyncio.create_task(worker.run())
        target = await client.start(Watched)
        began = perf_counter()
        handles = await asyncio.gather(*(client.start(Watcher, target.pid) for _ in range(watchers)))
        await asyncio.gather(*(handle.signal("ready") for handle in handles))
        watching = perf_counter()
        await target.signal("end")
        results = await asyncio.gather(*(handle.result() for handle in handles))
        ended = perf_counter()
        worker.stop()
        await serving
    if results != ["ended"] * watchers:
        raise SystemExit("a watcher has another result")
    taken = ended - watching
    print(f"{watchers:,} monitors on one run: set up in {watching - began:.2f} s, all ended in {taken:.2f} s")
    print(f"  per watcher: {1e3 * taken / watchers:.2f} ms from the end of the run to the watcher's result")


def main() -> None:
    """Measure on a new SQLite file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watches", description=__doc__)
    parser.add_argument("--watchers", type=int, default=1_000)
    watchers = parser.parse_args().watchers
    with tempfile.TemporaryDirectory(prefix="assay-watches-") as folder:
        asyncio.run(measure(f"sqlite://{folder}/watches.db", watchers))


if __name__ == "__main__":
    main()
