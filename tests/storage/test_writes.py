"""What is written comes back: every kind of change, on every store."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.ids import SECOND, Namespace, RunId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import CANCELLED, COMPLETED, FAILED
from assay.storage.ports import Changes, Conflict, Demand, RequestOutcome
from assay.storage.verify import verify
from tests.core.support import (
    CHILD,
    MAIN,
    ONE,
    ORDER,
    asks_to_cancel,
    bore,
    claims,
    completes,
    delivers,
    elapses,
    fails,
    later,
    leases,
    scheduled,
    signals,
    starts,
    terminates,
    turned,
    turns,
)
from tests.storage.states import DOCUMENT, STATES
from tests.storage.support import AnyStore, StoredWorld, as_stored, history, reloaded, wants


@pytest.mark.parametrize("state", STATES)
async def test_a_run_comes_back_as_it_was(store: AnyStore, state: str):
    world = await StoredWorld(store).do(*STATES[state])
    for run in world.runs.values():
        assert await reloaded(store, run) == as_stored(run)
        assert await history(store, run.run_id) == world.histories[run.run_id]
    assert [violation async for violation in verify(store, world.now)] == []


@pytest.mark.parametrize("state", STATES)
async def test_a_batch_leaves_what_single_writes_leave(store: AnyStore, state: str):
    world = StoredWorld(store)
    for step in STATES[state]:
        world.take(step)
    assert await world.commit() == frozenset()
    for run in world.runs.values():
        assert await reloaded(store, run) == as_stored(run)
        assert await history(store, run.run_id) == world.histories[run.run_id]


async def test_an_empty_write_is_no_trouble(store: AnyStore):
    assert await store.write(Changes()) == frozenset()


async def test_runs_are_found_by_id_and_by_workflow_id(store: AnyStore):
    world = await StoredWorld(store).do(starts(), turned(cmd.ContinueAsNew(ONE)), starts("other"))
    first, second, other = world.runs
    by_id = await store.load([first, other, RunId("nobody")], [])
    assert {run.run_id for run in by_id} == {first, other}
    newest = await store.load([], [(MAIN, ORDER), (MAIN, CHILD)])
    assert [run.run_id for run in newest] == [second]
    both = await store.load([second], [(MAIN, ORDER)])
    assert [run.run_id for run in both] == [second]


async def test_a_history_is_read_in_pages(store: AnyStore):
    world = await StoredWorld(store).do(starts())
    for number in range(1_200):
        world.take(signals(f"s{number % 2}"))
    await world.commit()
    run_id = world.run.run_id
    everything = await store.events(run_id)
    assert [recorded.seq for recorded in everything] == list(range(1, 1_202))
    assert await store.events(run_id, 1_000, 100) == everything[1_000:1_100]
    assert await store.events(run_id, limit=700) == everything[:700]
    assert len(await store.events(run_id, kind="SignalReceived", limit=5)) == 5
    assert len(await store.events(run_id, kind="WorkflowStarted")) == 1
    assert await store.events(RunId("nobody")) == []


async def test_activities_are_found_by_their_id_and_by_those_of_their_attempts(store: AnyStore):
    world = await StoredWorld(store).do(starts(), scheduled(1, input=DOCUMENT), leases(1))
    first = world.activity(1)
    await world.do(fails(1), later(2 * SECOND), elapses("activity", 1), leases(1))
    second = world.activity(1)
    assert first.attempt_id != second.attempt_id
    for number in (first.id, first.attempt_id, second.attempt_id):
        found = await store.activity(number)
        assert found is not None
        assert (found.id, found.attempt, found.attempt_id) == (first.id, 2, second.attempt_id)
        assert (found.input, found.status, found.workflow_id) == (DOCUMENT, "RUNNING", ORDER)
    assert await store.activity(first.id + 1_000_000) is None
    await world.do(completes(1, DOCUMENT))
    done = await store.activity(second.attempt_id)
    assert done is not None
    assert (done.status, done.result, done.completed_at) == (COMPLETED, DOCUMENT, world.now)


async def test_a_failed_activity_says_why(store: AnyStore):
    world = await StoredWorld(store).do(starts(), scheduled(1, max_attempts=1), leases(1), fails(1))
    record = await store.activity(100)
    assert record is not None
    assert (record.status, record.error, record.result) == (FAILED, "broken", NULL)
    assert world.run.activities == {}


async def test_a_withdrawn_activity_is_cancelled(store: AnyStore):
    await StoredWorld(store).do(starts(), scheduled(1), asks_to_cancel())
    record = await store.activity(100)
    assert record is not None
    assert record.status == CANCELLED


async def test_a_snapshot_is_replaced(store: AnyStore):
    world = await StoredWorld(store).do(starts(), turned(cmd.RecordSnapshot(ONE)))
    run_id = world.run.run_id
    found = await store.snapshot(run_id)
    assert found is not None
    assert (found.state, found.event_seq, found.created_at) == (ONE, 1, world.now)
    await world.do(signals(), turned(cmd.RecordSnapshot(DOCUMENT)))
    replaced = await store.snapshot(run_id)
    assert replaced is not None
    assert (replaced.state, replaced.event_seq) == (DOCUMENT, 2)
    assert await store.snapshot(RunId("nobody")) is None


async def test_messages_wait_until_they_are_taken(store: AnyStore):
    world = await StoredWorld(store).do(starts(), bore(), later(SECOND), turned(cmd.CompleteWorkflow(ONE), of=CHILD))
    assert await store.messages(world.now, 10) == []
    (message,) = await store.messages(world.now + 1, 10)
    assert message == next(iter(world.outbox.values()))
    await world.do(delivers("child_closed", ORDER))
    assert await store.messages(world.now + 1, 10) == []


async def test_a_message_that_is_sent_twice_is_kept_once(store: AnyStore):
    world = await StoredWorld(store).do(starts(), bore())
    world.take(turned(cmd.CompleteWorkflow(ONE), of=CHILD))
    changes = world.changes()
    changes.messages *= 2
    await store.write(changes)
    assert len(await store.messages(world.now + 1, 10)) == 1


async def test_an_outcome_is_kept_once(store: AnyStore):
    outcome = RequestOutcome("main", "key-1", b"\x00\xff", 201, bytes(DOCUMENT), 5)
    await store.write(Changes(outcomes=[(None, outcome)]))
    assert await store.outcomes([("main", "key-1"), ("main", "key-2"), ("other", "key-1")]) == [outcome]
    assert await store.outcomes([]) == ()
    with pytest.raises(Conflict):
        await store.write(Changes(outcomes=[(None, outcome)]))


async def test_numbers_are_never_given_twice(store: AnyStore):
    blocks = [(await store.numbers(size), size) for size in (1, 10, 1_000)]
    given = [number for first, size in blocks for number in range(first, first + size)]
    assert len(given) == len(set(given)) == 1_011
    assert min(given) >= 1


async def test_deadlines_come_in_order(store: AnyStore):
    world = await StoredWorld(store).do(starts(), turned(cmd.ScheduleTimer(1, 30), cmd.ScheduleTimer(2, 10)))
    assert await store.next_due() == (world.now + 10 * SECOND, None)
    assert await store.due(world.now + 9 * SECOND, 0, 10) == []
    due = await store.due(world.now + 60 * SECOND, 0, 10)
    assert [(deadline.kind, deadline.ref) for deadline in due] == [("timer", 2), ("timer", 1)]
    assert len(await store.due(world.now + 60 * SECOND, 0, 1)) == 1
    await world.do(terminates())
    assert await store.next_due() == (None, None)


async def test_ready_work_is_found_oldest_first(store: AnyStore):
    world = await StoredWorld(store).do(starts("a"), later(SECOND), starts("b", task_queue="fast"), later(SECOND))
    tasks = await store.ready_tasks([wants("default"), wants("fast")], world.now)
    assert [(task.run_id, task.queue, task.order) for task in tasks] == [
        ("run-1", "default", world.now + 178 * SECOND),
        ("run-2", "fast", world.now + 179 * SECOND),
    ]


async def test_only_wanted_work_is_read(store: AnyStore):
    """Other types, other queues and other namespaces neither come nor take the place of the work that is wanted."""
    world = StoredWorld(store)
    for number in range(12):
        world.take(starts(f"unserved-{number}", workflow_type="Unserved"))
        world.take(starts(f"elsewhere-{number}", workflow_type="T", task_queue="elsewhere"))
    await world.do(later(SECOND), starts("a", workflow_type="T"), later(SECOND), starts("b", workflow_type="U"))
    wanted = [wants("default", "T", limit=2), wants("default", "U", limit=2), wants("other", "T")]
    assert [task.workflow_type for task in await store.ready_tasks(wanted, world.now)] == ["T", "U"]
    assert await store.ready_tasks([Demand(Namespace("foreign"), "default", "T", 10)], world.now) == []


async def test_work_that_somebody_has_is_not_ready(store: AnyStore):
    world = await StoredWorld(store).do(starts(), claims())
    assert await store.ready_tasks([wants("default")], world.now) == []
    await world.do(turns(cmd.ScheduleActivity(1, "charge"), cmd.ScheduleActivity(2, "ship")))
    assert await store.ready_activities([wants("default", "refund"), wants("other")], world.now) == []
    ready = await store.ready_activities([wants("default")], world.now)
    assert {(activity.name, activity.seq) for activity in ready} == {("charge", 1), ("ship", 2)}
    await world.do(leases(1), leases(2))
    later_on = world.now + 60 * SECOND
    assert await store.ready_activities([wants("default")], later_on) == []
    assert await store.ready_tasks([wants("default")], later_on) == []


async def test_a_second_open_run_of_an_id_is_refused(store: AnyStore):
    await StoredWorld(store).do(starts())
    other = StoredWorld(store, "other-")
    other.take(starts())
    changes = other.changes()
    changes.new_runs[0].number = 2
    with pytest.raises(Conflict):
        await store.write(changes)
    assert await store.events(other.run.run_id) == []


async def test_a_second_run_of_a_number_is_refused(store: AnyStore):
    await StoredWorld(store).do(starts(), terminates())
    other = StoredWorld(store, "other-")
    other.take(starts())
    with pytest.raises(Conflict):
        await other.commit()


async def test_a_recorded_event_is_never_written_again(store: AnyStore):
    world = StoredWorld(store)
    world.take(starts())
    changes = world.changes()
    await store.write(changes)
    with pytest.raises(Conflict):
        await store.write(Changes(events=changes.events))
    assert len(await store.events(world.run.run_id)) == 1


async def test_a_conflict_leaves_nothing_of_its_batch(store: AnyStore):
    world = await StoredWorld(store).do(starts())
    other = StoredWorld(store, "other-")
    await other.learn(world.run.run_id)
    other.take(signals())
    other.take(starts("fresh"))
    changes = other.changes()
    changes.events.append(changes.events[0])
    with pytest.raises(Conflict):
        await store.write(changes)
    assert await reloaded(store, world.run) == as_stored(world.run)
    assert await store.load([], [(MAIN, WorkflowId("fresh"))]) == ()


async def test_ready_work_is_found_by_priority_and_age(store: AnyStore):
    world = StoredWorld(store)
    for name, priority in (("last", b"5"), ("first", b"1"), ("usual", b"3"), ("second", b"2")):
        await world.do(starts(name, priority=Payload(priority)))
    await world.do(later(61 * SECOND), starts("later", priority=Payload(b"1")))
    tasks = await store.ready_tasks([wants("default", kind="Order")], world.now)
    names = {run.run_id: run.workflow_id for run in world.runs.values()}
    assert [names[task.run_id] for task in tasks] == ["first", "second", "later", "usual", "last"]


async def test_ready_activities_are_found_by_their_priority_or_that_of_their_run(store: AnyStore):
    world = await StoredWorld(store).do(starts(priority=Payload(b"4")))
    own = cmd.ScheduleActivity(2, "charge", priority=Payload(b"1"))
    await world.do(turned(cmd.ScheduleActivity(1, "charge"), own, cmd.ScheduleActivity(3, "charge")))
    found = await store.ready_activities([wants("default", kind="charge")], world.now)
    assert [activity.seq for activity in found] == [2, 1, 3]
