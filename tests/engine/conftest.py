"""An engine on a real SQLite file, with a clock that tests hold in hand."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from assay.engine.engine import Engine
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock

Body = Callable[[Engine, ManualClock], Awaitable[None]]


@pytest.fixture
def with_engine(tmp_path: Path) -> Callable[[Body], None]:
    """Run a test's body against a fresh engine, and stop the engine after it."""

    def run(body: Body) -> None:
        async def main() -> None:
            clock = ManualClock()
            engine = Engine(SqliteStore(tmp_path / "engine.db", in_thread=False, clock=clock.now), clock)
            await engine.start()
            try:
                await asyncio.wait_for(body(engine, clock), 30)
            finally:
                await engine.stop()

        asyncio.run(main())

    return run
