"""A run without a handler in any worker is shown as stuck."""

import pytest

from assay.core.model.ids import Namespace, WorkflowId
from assay.core.model.requests import StartWorkflow
from assay.core.model.run import Stuck
from assay.engine.engine import Engine
from assay.storage.ports import RunFilter
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")


def serves(*kinds: str, tasks: int = 1) -> NotingWorker:
    worker = NotingWorker(tasks=tasks)
    worker.workflows = frozenset(kinds)
    return worker


async def stuck(engine: Engine, *workers: NotingWorker) -> Stuck | None:
    for worker in workers:
        engine.add_worker(worker)
    await engine.submit(StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("one"), workflow_type="Nope"))
    return (await engine.reads.run("main", "one")).run.task.stuck


def test_a_type_that_no_worker_of_its_queue_serves_is_stuck(with_engine):
    async def body(engine, clock):
        found = await stuck(engine, serves("B", "A"))
        assert (found.reason, found.attempt, found.next_try_at) == ("no_handler", 0, None)
        listed, total, _ = await engine.reads.page(RunFilter(namespace="main", stuck=True))
        assert ([one.run.workflow_id for one in listed], total) == (["one"], 1)
        assert not await engine.reads.listed(RunFilter(namespace="other", stuck=True))
        assert found.message == "no worker of queue default has a handler for workflow type Nope (registered: A, B)"
        engine.add_worker(serves("Nope"))
        await engine._committer.drain()
        assert (await engine.reads.run("main", "one")).run.task.stuck is None
        assert not await engine.reads.listed(RunFilter(namespace="main", stuck=True))

    with_engine(body)


@pytest.mark.parametrize("workers", [(), (NotingWorker,), (lambda: serves("A"), lambda: serves("Nope", tasks=0))])
def test_a_run_that_waits_for_a_worker_or_a_free_hand_is_not(with_engine, workers):
    async def body(engine, clock):
        assert await stuck(engine, *(worker() for worker in workers)) is None

    with_engine(body)
