"""`def` activities that never return: their slot is free when the attempt is over, and their threads are counted."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import assay
from assay import App, Client, Worker
from tests.http.processes import Server


class Hanging:
    """Handlers that hang until the test is over."""

    def __init__(self) -> None:
        self.app = App()
        self.released = threading.Event()

        @self.app.activity
        def hang(ctx: assay.ActivityContext, _: Any) -> str:
            self.released.wait(60)
            return "late"

        @self.app.activity
        def work(ctx: assay.ActivityContext, name: str) -> str:
            return f"done {name}"

        @self.app.activity
        async def glance(ctx: assay.ActivityContext, name: str) -> str:
            return f"seen {name}"

        @self.app.workflow
        async def Hang(ctx: assay.Context, attempts: int) -> str:
            options = {"start_to_close": 0.1, "retry": assay.Retry(max_attempts=attempts, initial_interval=0.01)}
            return await ctx.execute_activity(hang, **options)

        @self.app.workflow
        async def Work(ctx: assay.Context, name: str) -> str:
            return await ctx.execute_activity(work, name)

        @self.app.workflow
        async def Glance(ctx: assay.Context, name: str) -> str:
            return await ctx.execute_activity(glance, name)

    async def hangs(self, client: Client, runs: int, attempts: int = 1) -> None:
        handles = [await client.start("Hang", attempts) for _ in range(runs)]
        for handle in handles:
            with pytest.raises(assay.WorkflowFailed, match="timed out"):
                await handle.result()


def serving(url: str, namespace: str, slots: int, act: Callable[[Hanging, Client, Worker], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        hanging = Hanging()
        async with await Client.connect(url, namespace=namespace, app=hanging.app) as client:
            worker = Worker(client, max_concurrent_activities=slots)
            running = asyncio.create_task(worker.run())
            try:
                return await asyncio.wait_for(act(hanging, client, worker), 25)
            finally:
                hanging.released.set()
                worker.stop()
                await running

    return asyncio.run(main())


async def health(client: Client, expected: tuple[bool, int]) -> None:
    while True:
        if [(record.healthy, record.abandoned_threads) for record in await client.workers.list()] == [expected]:
            return
        await asyncio.sleep(0.02)


def test_activities_that_hang_do_not_keep_their_slots(engine: Server, caplog: pytest.LogCaptureFixture):
    async def act(hanging: Hanging, client: Client, worker: Worker) -> list[str]:
        await health(client, (True, 0))
        await hanging.hangs(client, runs=3, attempts=2)
        found = await asyncio.gather(*(client.run("Work", str(n)) for n in range(8)))
        await health(client, (True, 6))
        hanging.released.set()
        await health(client, (True, 0))
        return found

    assert serving(engine.url, "hung", 6, act) == [f"done {n}" for n in range(8)]
    stacks = [record for record in caplog.records if "the thread is abandoned" in record.getMessage()]
    assert len(stacks) == 6
    assert all("in hang" in record.getMessage() and record.levelno == logging.WARNING for record in stacks)


def test_beyond_its_bound_a_worker_takes_no_def_activities_until_threads_return(
    engine: Server, caplog: pytest.LogCaptureFixture
):
    async def act(hanging: Hanging, client: Client, worker: Worker) -> tuple[str, str]:
        await hanging.hangs(client, runs=3)
        await health(client, (False, 3))
        waiting = await client.start("Work", "later")
        glanced = await client.run("Glance", "at once")
        assert (await client.describe(waiting.workflow_id)).status == "RUNNING"
        hanging.released.set()
        await health(client, (True, 0))
        return glanced, await waiting.result()

    assert serving(engine.url, "bound", 2, act) == ("seen at once", "done later")
    loud = [record for record in caplog.records if "no `def` activities are taken" in record.getMessage()]
    assert [record.levelno for record in loud] == [logging.ERROR]
