"""An engine that is stopped for longer than a lease while its worker is at work: the worker loses nothing.

The worker runs an activity that may be tried once, and a step, both in threads. Each must be begun once and end well.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import assay
from tests.chaos.report import Report, violations
from tests.chaos.served.zombies import LEASE, until
from tests.http import program
from tests.http.processes import Process, Server, server, worker

PAUSE = 1.2 * LEASE
LONGER = 6.0
"""Seconds that the work goes on after the engine is back."""


@dataclass(frozen=True)
class Stops:
    """How often the engine is stopped."""

    store: str
    database: str
    folder: Path
    pauses: int


async def _paused_once(client: assay.Client, engine: Server, worker: Process, number: int) -> list[str]:
    """Stop the engine once; what went wrong."""
    orders: dict[str, dict[str, Any]] = {
        "Slow": {"id": f"Slow-{number}", "seconds": PAUSE + LONGER, "max_attempts": 1},
        "Patient": {"id": f"Patient-{number}", "seconds": PAUSE + LONGER},
    }
    for kind, order in orders.items():
        await client.start(kind, order, workflow_id=order["id"])
    await until(lambda: len(_begun(number)) == 2)
    engine.process.pause()
    await asyncio.sleep(PAUSE)
    engine.process.resume()
    wrong = []
    for order in orders.values():
        try:
            result: Any = await client.result(order["id"])
        except assay.WorkflowFailedError as error:
            wrong.append(f"{order['id']}: {error}")
        else:
            if str(worker.pid) not in str(result):
                wrong.append(f"{order['id']}: {result}")
    begun = _begun(number)
    return wrong + [f"{name} was begun {begun.count(name)} times" for name in set(begun) if begun.count(name) > 1]


def _begun(number: int) -> list[str]:
    lines = program.ledger.lines()
    return [line[1] for line in lines if line[0] == "begin" and line[1].endswith(f"-{number}")]


def run(stops: Stops) -> Report:
    """Run the scenario and judge what it left behind."""
    began = time.monotonic()
    program.ledger = program.Ledger(stops.folder / "ledger")
    report = Report(f"{stops.store} engine stopped for {PAUSE:g} s")

    async def main(engine: Server, process: Process) -> None:
        async with await assay.Client.connect(engine.url, app=program.app) as client:
            for number in range(stops.pauses):
                report.wrong["lost"] += await _paused_once(client, engine, process, number)

    report.wrong["lost"] = []
    with server(stops.folder, stops.database) as engine, worker(stops.folder, engine.url) as process:
        asyncio.run(main(engine, process))
        assert process.stop() == 0
        assert engine.process.stop() == 0
    report.facts = {"pauses": stops.pauses}
    report.wrong["violations"] = violations(stops.database)
    report.measures = {"seconds": f"{time.monotonic() - began:.0f}"}
    return report
