"""An engine that starts on an existing file: remote workers are still alive, and get one lease to reconnect."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from assay.core.model.ids import SECOND, Namespace, RunId, Time, WorkflowId
from assay.core.model.requests import StartWorkflow
from assay.engine.engine import Engine
from assay.storage.ports import Changes, Demand, ReadyActivity, Rejected
from assay.storage.sqlite.store import SqliteStore
from tests.clocks import ManualClock
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")
LEASE: Time = 10 * SECOND


class FullDisk(SqliteStore):
    """Has no room for a decision."""

    async def write(self, changes: Changes) -> frozenset[RunId]:
        raise Rejected("no room")


class BusyDisk(SqliteStore):
    """Refuses to read activities, until it is told otherwise."""

    busy = True

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> list[ReadyActivity]:
        if self.busy:
            raise Rejected("the disk is busy")
        return await super().ready_activities(demands, now)


async def leave_a_lease(path: Path, clock: ManualClock, worker: NotingWorker | None = None) -> None:
    """An engine gives the task of `a` to a worker and has one of `b` left, and is gone before the worker reports."""
    engine = Engine(SqliteStore(path, in_thread=False, clock=clock.now), clock)
    await engine.start()
    engine.add_worker(worker or NotingWorker())
    for name in ("a", "b"):
        await engine.submit(StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(name), workflow_type="T"))
    await engine.stop()


async def lease_after_start(store: SqliteStore, clock: ManualClock, task_lease: Time = LEASE) -> Time | None:
    engine = Engine(store, clock, task_lease=task_lease)
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


def test_a_shorter_lease_of_tasks_is_all_that_a_worker_gets(tmp_path: Path):
    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        await leave_a_lease(path, clock)
        clock.advance(9 * SECOND)
        store = SqliteStore(path, in_thread=False, clock=clock.now)
        assert await lease_after_start(store, clock, 2 * SECOND) == clock.now() + 2 * SECOND

    asyncio.run(main())


def test_what_was_lost_with_the_engine_before_goes_out_after_what_has_waited_longer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The lease is voided before the store is read, but its task is the newer one: the order of work is by creation."""

    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        old = NotingWorker()
        old.local, old.lease = True, None  # a worker in the engine's own process
        await leave_a_lease(path, clock, old)
        clock.advance(SECOND)
        engine = Engine(SqliteStore(path, in_thread=False, clock=clock.now), clock)
        with caplog.at_level(logging.INFO, "assay.engine"):
            await engine.start()
        assert "took over 1 leases of workers that ended with the previous engine" in caplog.messages
        try:
            new = NotingWorker("w-2")
            engine.add_worker(new)
            await engine.find_work(new)
            await engine._committer.drain()
            assert [grant.key.workflow_id for grant in new.grants] == ["b"]
            new.slots.tasks += 1
            engine.offer_work(new)
            await engine._committer.drain()
            assert [grant.key.workflow_id for grant in new.grants] == ["b", "a"]
        finally:
            await engine.stop()

    asyncio.run(main())


def test_an_engine_that_cannot_see_to_that_does_not_start(tmp_path: Path):
    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        await leave_a_lease(path, clock)
        clock.advance(9 * SECOND)
        with pytest.raises(Rejected):
            await lease_after_start(FullDisk(path, in_thread=False, clock=clock.now), clock)

    asyncio.run(main())


def test_work_that_was_read_before_a_read_failed_is_read_again(tmp_path: Path):
    """Tasks are read first: a failure at the activities must not leave them marked as read and queued nowhere."""

    async def main() -> None:
        clock, path = ManualClock(), tmp_path / "engine.db"
        await leave_a_lease(path, clock)
        store = BusyDisk(path, in_thread=False, clock=clock.now)
        engine = Engine(store, clock)
        await engine.start()
        try:
            new = NotingWorker("w-2")
            new.workflows, new.activities = frozenset({"T"}), frozenset({"Z"})  # read in the order of names
            engine.add_worker(new)
            with pytest.raises(Rejected):
                await engine._reader.find_work(new)
            store.busy = False
            await engine.find_work(new)
            await engine._committer.drain()
            assert [grant.key.workflow_id for grant in new.grants] == ["b"]
        finally:
            await engine.stop()

    asyncio.run(main())
