"""What an engine finds that is started on a file: workers over the network live on, and get time to say so (R9)."""

import asyncio
from pathlib import Path

import pytest

from assay.core.ids import SECOND, Namespace, RunId, Time, WorkflowId
from assay.core.requests import StartWorkflow
from assay.engine.clock import ManualClock
from assay.engine.engine import Engine
from assay.storage.sqlite import SqliteStore
from assay.storage.store import Changes, Rejected
from tests.engine.seats import NotingSeat

MAIN = Namespace("main")
LEASE: Time = 10 * SECOND


class FullDisk(SqliteStore):
    """Has no room for a decision."""

    async def write(self, changes: Changes) -> frozenset[RunId]:
        raise Rejected("no room")


async def leave_a_lease(path: Path, clock: ManualClock) -> None:
    """An engine gives a task to a worker, and is gone before that reports."""
    engine = Engine(SqliteStore(path, in_thread=False, clock=clock.now), clock)
    await engine.start()
    engine.sit(NotingSeat())
    await engine.start_workflow(StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("a"), workflow_type="T"))
    await engine.stop()


async def lease_after_start(store: SqliteStore, clock: ManualClock) -> Time | None:
    engine = Engine(store, clock)
    try:
        await engine.start()
        ((until,),) = [[lease.until] for lease in await store.leases()]
        return until
    finally:
        await engine.stop()


def test_a_worker_over_the_network_has_a_full_lease_from_the_start_of_an_engine(tmp_path: Path):
    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        await leave_a_lease(path, clock)
        clock.advance(9 * SECOND)
        store = SqliteStore(path, in_thread=False, clock=clock.now)
        assert await lease_after_start(store, clock) == clock.now() + LEASE

    asyncio.run(main())


def test_an_engine_that_cannot_see_to_that_does_not_start(tmp_path: Path):
    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        await leave_a_lease(path, clock)
        clock.advance(9 * SECOND)
        with pytest.raises(Rejected):
            await lease_after_start(FullDisk(path, in_thread=False, clock=clock.now), clock)

    asyncio.run(main())
