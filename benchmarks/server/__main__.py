"""Measures the engine as a server: `python -m benchmarks.server [W1 W2 ...]`, W1 to W7 on SQLite with durable commits.

Beside the clock it shows the CPU time that each process spent per workflow or activity: on a machine that does other
work at the same time that figure is the one to trust.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

import assay
from benchmarks.contestants.assay_embedded import app
from benchmarks.workloads import Measures, fan_out, growth, latency, signals, throughput, timers

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/api/v1$", re.MULTILINE)
PLAN: dict[str, tuple[Callable[..., Awaitable[Measures]], dict[str, Any], int]] = {
    "W1": (throughput, {"n": 4_000, "k": 1}, 4_000),
    "W2": (throughput, {"n": 800, "k": 10}, 8_000),
    "W3": (fan_out, {"k": 1_000}, 1_000),
    "W4": (latency, {"n": 400}, 400),
    "W5": (signals, {"n": 100, "pause": 0.05}, 100),
    "W6": (growth, {"k": 1_000, "times": 1}, 1_000),
    "W7": (timers, {"n": 1_000, "secs": 5.0}, 1_000),
}
"""What is run, with which numbers, and by how much the CPU time is divided."""


class Remote:
    """See `Engine` of the workloads: a client of the server. A start that is waited for is one request."""

    def __init__(self, client: assay.Client) -> None:
        self._client = client

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        name = f"{kind}_{argument['style']}"
        if kind in ("sig", "timer"):
            return await self._client.start(workflow_type=name, workflow_id=workflow_id, input=argument)
        return self._client.run(name, argument, workflow_id=workflow_id)

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        return await (handle.result() if isinstance(handle, assay.Handle) else handle)

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`."""
        await handle.signal("go", value)


@contextmanager
def process(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the time of the block."""
    with log.open("wb") as out:
        made = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=out, stderr=out)  # noqa: S603
    try:
        yield made
    finally:
        made.send_signal(signal.SIGTERM)
        try:
            made.wait(15)
        except subprocess.TimeoutExpired:
            made.kill()


def said(log: Path, pattern: re.Pattern[str]) -> str:
    """Wait for a line of a log."""
    for _ in range(600):
        found = pattern.search(log.read_text())
        if found:
            return found[1]
        threading.Event().wait(0.05)
    raise TimeoutError(log.read_text())


def cpu(pids: list[int]) -> list[float]:
    """CPU seconds of each process."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return [(int(one[11]) + int(one[12])) / ticks for one in fields]


async def measure(url: str, names: list[str], styles: list[str], pids: list[int]) -> None:
    """Run the workloads and print what came out."""
    client = await assay.Client.connect(url, app=app)
    engine = Remote(client)
    for style in styles:
        await throughput(engine, style, n=300, k=1)  # warm up
    for name in names:
        workload, arguments, count = PLAN[name]
        for style in styles if name not in ("W5", "W7") else ["queued"]:
            before, begin = cpu(pids), time.perf_counter()
            found = await workload(engine, style, **arguments)
            taken = time.perf_counter() - begin
            spent = [(after - earlier) / count * 1e6 for earlier, after in zip(before, cpu(pids), strict=True)]
            figures = "  ".join(f"{key} {value:,.2f}" for key, value in found.items())
            shares = " + ".join(f"{one:.0f}" for one in spent)
            print(f"{name} {style:7} {figures}")
            print(f"   CPU per item, us: engine + worker + client = {shares} = {sum(spent):.0f}  ({taken:.1f} s)")
    await client.close()


def main() -> None:
    """Start engine and worker, and be the client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["W1", "W2", "W4", "W6"], help="W1 to W7")
    parser.add_argument("--style", choices=["queued", "inline", "both"], default="both")
    parser.add_argument("--backend", help="another database than a new SQLite file")
    chosen = parser.parse_args()
    styles = ["queued", "inline"] if chosen.style == "both" else [chosen.style]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        backend = chosen.backend or f"sqlite://{folder}/engine.db"
        serve = ("-m", "assay.cli.main", "serve", "--port", "0", "--backend", backend)
        with process(*serve, log=folder / "engine.log") as engine:
            url = said(folder / "engine.log", ADDRESS)
            with process("-m", "benchmarks.server.worker", url, log=folder / "worker.log") as worker:
                uvloop.run(measure(url, chosen.names, styles, [engine.pid, worker.pid, os.getpid()]))


if __name__ == "__main__":
    main()
