"""Dispatch: leases in the transaction that made the work ready, oldest task first, the holder of a run preferred."""

import asyncio

from assay.core.model.commands import ScheduleActivity
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import SECOND, Namespace, WorkflowId
from assay.core.model.requests import Advance, ReleaseTask, Signal, StartWorkflow, Terminate
from assay.core.model.slots import Slots
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")


def start(workflow_id: str, kind: str = "T", queue: str = "default") -> StartWorkflow:
    return StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(workflow_id), workflow_type=kind, task_queue=queue)


def names(worker: NotingWorker) -> list[str]:
    return [grant.key.workflow_id for grant in worker.grants]


def test_a_waiting_worker_gets_the_task_with_the_start(with_engine):
    async def body(engine, clock):
        worker = NotingWorker()
        engine.add_worker(worker)
        started = await engine.submit(start("a"))
        assert names(worker) == ["a"]
        grant = worker.grants[0]
        assert isinstance(grant, TaskGrant)
        assert (grant.epoch, [recorded.seq for recorded in grant.tail]) == (1, [1])
        assert (await engine.reads.run("main", "a")).run.run_id == started.key.run_id

    with_engine(body)


def test_work_waits_in_line_oldest_first(with_engine):
    async def body(engine, clock):
        for name in ("a", "b", "c"):
            await engine.submit(start(name))
            clock.advance(SECOND)
        worker = NotingWorker(tasks=2)
        engine.add_worker(worker)
        await engine.find_work(worker)
        await engine._committer.drain()
        assert names(worker) == ["a", "b"]
        worker.slots.tasks += 1
        engine.offer_work(worker)
        await engine._committer.drain()
        assert names(worker) == ["a", "b", "c"]

    with_engine(body)


def test_types_and_queues_nobody_serves_hold_nobody_up(with_engine):
    async def body(engine, clock):
        worker = NotingWorker(tasks=5)
        worker.workflows = frozenset({"Known"})
        engine.add_worker(worker)
        await engine.submit(start("a", "Unknown"))
        await engine.submit(start("b", "Known", queue="other"))
        await engine.submit(start("c", "Known"))
        assert names(worker) == ["c"]
        assert engine._dispatcher.depth()[MAIN, "other"] == (1, 0)

    with_engine(body)


def test_the_worker_that_holds_a_run_comes_first(with_engine):
    async def body(engine, clock):
        first, second = NotingWorker("w-1", tasks=5), NotingWorker("w-2", tasks=5)
        engine.add_worker(first)
        key = (await engine.submit(start("a"))).key
        await engine.submit(Advance(key.run_id, first.worker, 1, 1))
        engine.add_worker(second)
        second.held.add(key.run_id)
        await engine.submit(Signal(MAIN, WorkflowId("a"), name="go"))
        assert names(second) == ["a"]

    with_engine(body)


def test_a_stale_entry_costs_one_refusal_and_no_hand(with_engine):
    async def body(engine, clock):
        await engine.submit(start("gone"))
        await engine.submit(Terminate(MAIN, WorkflowId("gone")))
        worker = NotingWorker()
        engine.add_worker(worker)
        await engine._committer.drain()
        assert (names(worker), worker.slots.tasks) == ([], 1)

    with_engine(body)


def test_an_activity_is_leased_with_the_turn_that_orders_it(with_engine):
    async def body(engine, clock):
        worker = NotingWorker(activities=1)
        engine.add_worker(worker)
        key = (await engine.submit(start("a"))).key
        orders = (ScheduleActivity(1, "charge"), ScheduleActivity(2, "ship"))
        await engine.submit(Advance(key.run_id, worker.worker, 1, 1, orders))
        given = [grant.activity.name for grant in worker.grants if isinstance(grant, ActivityGrant)]
        assert given == ["charge"]
        assert engine._dispatcher.depth()[MAIN, "default"] == (0, 1)

    with_engine(body)


def test_activities_for_processes_are_leased_as_far_as_there_are_idle_ones(with_engine):
    async def body(engine, clock):
        worker = NotingWorker(activities=9)
        worker.slots = Slots(worker.slots.tasks, worker.slots.activities, frozenset({"computes"}), 1)
        engine.add_worker(worker)

        def given() -> list[str]:
            return sorted(grant.activity.name for grant in worker.grants if isinstance(grant, ActivityGrant))

        key = (await engine.submit(start("a"))).key
        names = ("computes", "computes", "computes", "calls")
        orders = tuple(ScheduleActivity(seq, name) for seq, name in enumerate(names, 1))
        await engine.submit(Advance(key.run_id, worker.worker, 1, 1, orders))
        assert given() == ["calls", "computes"], "others need no process"
        assert (worker.slots.activities, worker.slots.processes) == (7, 0)
        worker.slots.processes += 1
        engine.offer_work(worker)
        await engine._committer.drain()
        assert given() == ["calls", "computes", "computes"]
        other = NotingWorker("w-2", activities=9)
        engine.add_worker(other)
        await engine._committer.drain()
        assert [grant.activity.name for grant in other.grants] == ["computes"], "another worker has room"

    with_engine(body)


def test_a_lease_that_is_refused_gives_its_process_back(with_engine):
    async def body(engine, clock):
        first = NotingWorker(activities=0)
        engine.add_worker(first)
        key = (await engine.submit(start("a"))).key
        await engine.submit(Advance(key.run_id, first.worker, 1, 1, (ScheduleActivity(1, "computes"),)))
        await engine.submit(Terminate(MAIN, WorkflowId("a")))
        worker = NotingWorker("w-2")
        worker.slots = Slots(worker.slots.tasks, worker.slots.activities, frozenset({"computes"}), 1)
        engine.add_worker(worker)
        await engine._committer.drain()
        assert (worker.grants, worker.slots.activities, worker.slots.processes) == ([], 1, 1)

    with_engine(body)


def test_the_holder_of_a_task_hears_of_new_events(with_engine):
    async def body(engine, clock):
        worker = NotingWorker()
        engine.add_worker(worker)
        key = (await engine.submit(start("a"))).key
        await engine.submit(Signal(MAIN, WorkflowId("a"), name="go"))
        assert worker.notified == [key.run_id]
        await engine.submit(ReleaseTask(key.run_id, worker.worker, 1))
        worker.slots.tasks += 1
        engine.offer_work(worker)
        await engine._committer.drain()
        assert len(worker.grants[-1].tail) == 2

    with_engine(body)


def test_an_expired_lease_goes_to_another_worker(with_engine):
    async def body(engine, clock):
        first = NotingWorker("w-1")
        engine.add_worker(first)
        await engine.submit(start("a"))
        engine.remove_worker(first)
        second = NotingWorker("w-2")
        engine.add_worker(second)
        clock.advance(11 * SECOND)
        await engine._timekeeper.run_once()
        await asyncio.wait_for(second.given.wait(), 10)
        assert second.grants[0].epoch == 2

    with_engine(body)
