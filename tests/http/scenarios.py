"""Short programs against an engine in this process or behind HTTP."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from assay import App, Client, Worker


def on(url: str, scenario: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with await Client.connect(url) as client:
            await asyncio.wait_for(scenario(client), 90)

    asyncio.run(main())


def serving(client: Client, app: App, **options: Any) -> AbstractAsyncContextManager[None]:
    @asynccontextmanager
    async def block() -> Any:
        worker = Worker(client, app=app, **options)
        running = asyncio.ensure_future(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running

    return block()


async def settled(client: Client, workflow_id: str, attempts: int = 1) -> Any:
    """Wait until a run is closed, or was stuck that often; return its record."""
    while True:
        record = await client.describe(workflow_id)
        assert record is not None
        if record.completed_at is not None or (record.stuck and record.stuck["attempt"] >= attempts):
            return record
        await asyncio.sleep(0.02)
