"""A whole program in a test: a real engine on a real database file, its clock in hand, and workers that come and go."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from assay.core.model.events import Event
from assay.core.model.ids import SECOND
from assay.embedded.transport import EmbeddedTransport
from assay.engine.clock import SystemClock
from assay.engine.engine import Committed, Engine
from assay.sdk.app import App
from assay.sdk.client.client import Client
from assay.sdk.client.handle import Handle
from assay.sdk.worker.engine_worker import EngineWorker
from assay.sdk.worker.worker import Worker

TASKS, ACTIVITIES = 50, 50


class Place:
    """An engine, its client, and the means to make things happen there."""

    def __init__(self, client: Client) -> None:
        self.client = client
        transport = client.transport
        assert isinstance(transport, EmbeddedTransport)
        self.engine: Engine = transport._engine
        self._heard = asyncio.Event()
        self._log: list[tuple[str, Event]] = []
        self.engine.on_commit(self._note)

    def _note(self, committed: Committed) -> None:
        for run, events in committed.events:
            self._log.extend((run.workflow_id, recorded.event) for recorded in events)
        self._heard.set()

    def skip(self, seconds: float) -> None:
        """Time goes by, and what is due happens."""
        clock = self.engine._clock
        assert isinstance(clock, SystemClock)
        wall, by = clock._wall, round(seconds * SECOND)
        clock._wall = lambda: wall() + by
        clock._steady.offset += by
        clock._offset += by
        self.engine._loops["timekeeper"].wake()

    async def recorded(self, kind: type[Event], workflow_id: str, times: int = 1) -> list[Any]:
        """Wait until an event of this kind is recorded for a workflow, that many times."""
        while True:
            found = [event for name, event in self._log if name == workflow_id and isinstance(event, kind)]
            if len(found) >= times:
                return found
            self._heard.clear()
            await self._heard.wait()

    async def until(self, true: Callable[[], Any]) -> Any:
        """Wait until something in a worker is the case."""
        while not true():  # nothing in there tells when it changes
            await asyncio.sleep(0.002)
        return true()

    async def start(self, workflow: Any, workflow_id: str, input: Any = None, **options: Any) -> Handle[Any]:
        """Start a workflow."""
        return await self.client.start(workflow, input, workflow_id=workflow_id, **options)

    async def run(self, workflow: Any, workflow_id: str, input: Any = None, **options: Any) -> Any:
        """Start a workflow and wait for its result."""
        return await (await self.start(workflow, workflow_id, input, **options)).result()

    @asynccontextmanager
    async def worker(
        self, app: App | None = None, *, clean: bool = True, **options: Any
    ) -> AsyncIterator[EngineWorker]:
        """A worker; when it goes and has finished everything, all its slots are free."""
        settled = {"max_concurrent_workflows": TASKS, "max_concurrent_activities": ACTIVITIES, **options}
        options = Worker(self.client, app=app, **settled).options
        worker = EngineWorker(self.client.transport, app or self.client.app, options)  # type: ignore[arg-type]
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)
        try:
            yield worker
        finally:
            worker.stop()
            await running
        if clean:
            slots = settled["max_concurrent_workflows"], settled["max_concurrent_activities"]
            assert (worker.slots.tasks, worker.slots.activities) == slots, "a slot was lost or found"


@asynccontextmanager
async def place(folder: Path, app: App) -> AsyncIterator[Place]:
    """An engine on a database in `folder`."""
    async with await Client.connect(f"sqlite://{folder}/engine.db", app=app) as client:
        yield Place(client)


@asynccontextmanager
async def served(folder: Path, app: App, **options: Any) -> AsyncIterator[Place]:
    """An engine and one worker."""
    async with place(folder, app) as found, found.worker(**options):
        yield found


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine function."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **options), 60))

    return run
