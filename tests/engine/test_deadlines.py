"""One deadline for all clocks of a run: set when one is sooner, worked out anew only when it has come."""

from assay.core.model.commands import ScheduleActivity
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import SECOND, Namespace, WorkflowId
from assay.core.model.requests import ActivityOutcome, Advance, Elapse, StartWorkflow
from tests.engine.noting_worker import NotingWorker

MAIN = Namespace("main")


async def two_activities(engine, clock, **options):
    """A run that schedules an activity, and the next a second after the first is done."""
    worker = NotingWorker(tasks=5, activities=5)
    worker.lease = None
    engine.add_worker(worker)
    await engine.submit(
        StartWorkflow(namespace=MAIN, workflow_id=WorkflowId("a"), workflow_type="T", task_queue="default")
    )
    task = worker.grants.pop()
    assert isinstance(task, TaskGrant)
    run_id = task.key.run_id
    command = ScheduleActivity(1, "charge", **options)
    await engine.submit(Advance(run_id, worker.worker, task.epoch, task.last_seq, (command,)))
    set_first = await engine._store.due(clock.now() + 1_000 * SECOND, 0, 10)
    clock.advance(SECOND)
    first = worker.grants.pop()
    assert isinstance(first, ActivityGrant)
    outcome = ActivityOutcome(1, first.activity.attempt_id, clock.now())
    command = ScheduleActivity(2, "charge", **options)
    await engine.submit(Advance(run_id, worker.worker, task.epoch, 2, (command,), (outcome,)))
    return run_id, set_first, worker


def test_a_clock_that_is_stopped_in_time_costs_no_write(with_engine):
    async def body(engine, clock):
        begin = clock.now()
        run_id, (first,), _ = await two_activities(engine, clock)
        assert (first.run_id, first.kind, first.due_at) == (run_id, "run", begin + 300 * SECOND)
        assert await engine._store.due(begin + 1_000 * SECOND, 0, 10) == [first]

    with_engine(body)


def test_a_deadline_that_came_for_nothing_is_set_anew(with_engine):
    async def body(engine, clock):
        begin = clock.now()
        run_id, _, _ = await two_activities(engine, clock)
        clock.advance(299 * SECOND)
        await engine.submit(Elapse(run_id, "run", 0))
        assert [due.due_at for due in await engine._store.due(begin + 1_000 * SECOND, 0, 10)] == [begin + 301 * SECOND]
        assert list((await engine._store.load([run_id], []))[0].activities) == [2]

    with_engine(body)


def test_the_deadline_of_a_run_ends_attempts_whose_time_is_over(with_engine):
    async def body(engine, clock):
        run_id, _, worker = await two_activities(engine, clock, max_attempts=2, initial_interval_secs=0)
        clock.advance(300 * SECOND)
        await engine.submit(Elapse(run_id, "run", 0))
        attempts = [grant.activity.attempt for grant in worker.grants if isinstance(grant, ActivityGrant)]
        assert attempts == [1, 2]
        (due,) = await engine._store.due(clock.now() + 1_000 * SECOND, 0, 10)
        assert due.due_at == clock.now() + 300 * SECOND

    with_engine(body)


def test_a_sooner_clock_moves_the_deadline(with_engine):
    async def body(engine, clock):
        begin = clock.now()
        await two_activities(engine, clock, start_to_close_secs=20)
        assert await engine._store.next_due() == (begin + 20 * SECOND, None)
        run = (await engine._store.load([], [(MAIN, WorkflowId("a"))]))[0]
        assert run.armed == begin + 20 * SECOND

    with_engine(body)


def test_a_run_without_clocks_has_no_deadline_in_the_end(with_engine):
    async def body(engine, clock):
        run_id, _, worker = await two_activities(engine, clock)
        (grant,) = [grant for grant in worker.grants if isinstance(grant, ActivityGrant)]
        outcome = ActivityOutcome(2, grant.activity.attempt_id, clock.now())
        await engine.submit(Advance(run_id, worker.worker, 1, 4, (), (outcome,)))
        clock.advance(300 * SECOND)
        await engine.submit(Elapse(run_id, "run", 0))
        assert await engine._store.next_due() == (None, None)

    with_engine(body)
