"""Engines whose wall clock steps while they serve: nothing fires early, late or twice, and no lease is lost."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import assay
from tests.chaos.served.zombies import until
from tests.http import program
from tests.http.processes import Server, server, worker
from tests.temporary_postgres import temporary_postgres

HOUR = 3_600
app = assay.App()


@app.workflow
async def Sleep(ctx: assay.Context, seconds: float) -> None:
    await ctx.sleep(seconds)


@contextmanager
def stepping(folder: Path, database: str | None = None) -> Iterator[tuple[Server, Callable[[int], None]]]:
    """An engine, and how to set the wall clock of its machine."""
    clock = folder / "clock"
    clock.write_text("0")

    def step(seconds: int) -> None:
        (folder / "next").write_text(str(seconds))
        (folder / "next").rename(clock)

    with server(folder, database, name="stepping", CHAOS_CLOCK=str(clock)) as engine:
        yield engine, step


async def glimpse(client: assay.Client, step: Callable[[int], None]) -> None:
    """The clock is an hour ahead while the engine serves a request and looks at the time, then right again."""
    step(HOUR)
    await client.start(Sleep, 0, workflow_id="glimpse")
    await asyncio.sleep(1.5)
    step(0)


def test_timers_and_leases_end_on_time_after_a_glimpse_of_a_later_hour(tmp_path: Path):
    async def main(engine: Server, step: Callable[[int], None]) -> None:
        program.ledger = program.Ledger(tmp_path / "ledger")
        async with await assay.Client.connect(engine.url, app=app) as client:
            with worker(tmp_path, engine.url, "queue=other") as dying:
                order: dict[str, Any] = {"id": "Slow-1", "seconds": 60.0}
                await client.start("Slow", order, workflow_id=order["id"], task_queue="other")
                await until(lambda: len(program.ledger.lines()) == 1)
                await glimpse(client, step)
                dying.kill()
                killed = time.monotonic()
            own = assay.Worker(client, app=app)
            running = asyncio.create_task(own.run())
            began = time.monotonic()
            await client.start(Sleep, 2, workflow_id="nap")
            await asyncio.wait_for(client.result("nap"), 10)
            assert 2 <= time.monotonic() - began < 6
            own.stop()
            await running
            with worker(tmp_path, engine.url, "queue=other", name="heir"):
                await until(lambda: len(program.ledger.lines()) == 2)
                assert time.monotonic() - killed < 20

    with stepping(tmp_path) as (engine, step):
        asyncio.run(main(engine, step))


def test_the_wall_clock_of_one_engine_counts_for_nothing_on_postgres(tmp_path: Path):
    """Another engine fired timers of the next hour and ended the leases of healthy workers."""

    async def main(first: Server, step: Callable[[int], None]) -> None:
        program.ledger = program.Ledger(tmp_path / "ledger")
        async with await assay.Client.connect(first.url, app=app) as client:
            own = assay.Worker(client, app=app)
            running = asyncio.create_task(own.run())
            await client.start(Sleep, 1_800, workflow_id="long")
            order: dict[str, Any] = {"id": "Slow-1", "seconds": 7.0, "max_attempts": 1}
            await client.start("Slow", order, workflow_id=order["id"], task_queue="other")
            await until(lambda: len(program.ledger.lines()) == 1)
            step(HOUR)
            await asyncio.wait_for(client.result("Slow-1"), 30)
            assert (await client.describe("long")).status == "RUNNING"
            own.stop()
            await running

    with (
        temporary_postgres() as database,
        stepping(tmp_path, database) as (_, step),
        server(tmp_path, database) as first,
        worker(tmp_path, first.url, "queue=other"),
    ):
        asyncio.run(main(first, step))
