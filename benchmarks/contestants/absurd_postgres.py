"""Absurd on Postgres: `absurd_postgres client|worker <dsn>`; the client starts the worker as its child.

A connection serves one call at a time, so both sides use several; polls are 20 ms apart instead of 250, which is what
makes it fast.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

from absurd_sdk import AsyncAbsurd

from benchmarks.contestants.session import serve
from benchmarks.workloads import Engine

CONNECTIONS = 8
TASKS_PER_CONNECTION = 8
POLL_SECONDS = 0.02
QUEUE = "default"


async def step(a: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "i": a["i"]}


def register(app: AsyncAbsurd) -> None:
    """The workflows of W1 and W2."""

    @app.register_task(name="one")
    async def one(a: dict[str, Any], ctx: Any) -> Any:
        return await ctx.step("step", lambda: step(a))

    @app.register_task(name="seq")
    async def seq(a: dict[str, Any], ctx: Any) -> Any:
        for number in range(a["k"]):
            await ctx.step(f"step{number}", lambda: step(a))
        return {"done": a["k"], "i": a["i"]}


class Absurd(Engine):
    """See `Engine`; it has no way to wait for a result but to ask again and again."""

    def __init__(self, dsn: str) -> None:
        self._connections = itertools.cycle([AsyncAbsurd(dsn, queue_name=QUEUE) for _ in range(CONNECTIONS)])

    async def start(self, kind: str, workflow_id: str, argument: dict[str, Any]) -> Any:
        """See `Engine`."""
        connection = next(self._connections)
        return (await connection.spawn(kind, argument, idempotency_key=workflow_id, queue=QUEUE))["task_id"]

    async def result(self, handle: Any) -> Any:
        """See `Engine`."""
        connection = next(self._connections)
        while True:
            found = await connection.fetch_task_result(handle)
            if found is not None and found.state in ("completed", "failed", "cancelled"):
                assert found.state == "completed", found
                return found.result
            await asyncio.sleep(POLL_SECONDS)

    async def signal(self, handle: Any, value: Any) -> None:
        """See `Engine`; no workload on Postgres needs it."""
        raise NotImplementedError


async def work(dsn: str) -> None:
    """Serve tasks until the process is stopped."""
    serving = []
    for number in range(CONNECTIONS):
        app = AsyncAbsurd(dsn, queue_name=QUEUE)
        register(app)
        worker = app.start_worker(worker_id=f"w{number}", concurrency=TASKS_PER_CONNECTION, poll_interval=POLL_SECONDS)
        serving.append(worker)
    await asyncio.gather(*serving)


async def drive(dsn: str) -> None:
    """Be asked, with a worker beside."""
    arguments = ["-m", "benchmarks.contestants.absurd_postgres", "worker", dsn]
    worker = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=asyncio.subprocess.DEVNULL)
    try:
        await serve(Absurd(dsn))
    finally:
        worker.kill()
        await worker.wait()


if __name__ == "__main__":
    asyncio.run({"client": drive, "worker": work}[sys.argv[1]](sys.argv[2]))
