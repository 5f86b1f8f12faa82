"""Namespaces, workers, queues and secrets, alike on both databases."""

import pytest

from assay.core.model import commands as cmd
from assay.core.model.attached_rows import AttachedRows
from assay.core.model.ids import SECOND
from assay.core.registrations import WorkerHealth
from assay.storage.ports import Conflict, NamespaceRow, QueueRow, RequestOutcome, WorkerRow
from assay.storage.sql.registry import SqlRegistry
from tests.core.support import NOW, WORKER, claimed, leased, started, terminated, turned
from tests.storage.support import AnyStore, StoredWorld


@pytest.fixture
def registry(store: AnyStore) -> SqlRegistry:
    return SqlRegistry(store)


def worker(name: str, **fields: object) -> WorkerRow:
    row = {
        "namespace": "main",
        "identity": "me",
        "task_queue": "default",
        "workflows": None,
        "activities": (),
        "max_concurrent_workflows": 10,
        "max_concurrent_activities": 5,
        "registered_at": NOW,
        "last_heartbeat": NOW,
    }
    return WorkerRow(id=name, **{**row, **fields})  # type: ignore[arg-type]


def outcome(key: str) -> RequestOutcome:
    return RequestOutcome("main", key, b"fingerprint", 201, b"{}", NOW)


async def test_namespaces_are_kept_once(registry: SqlRegistry):
    assert await registry.create_namespace(NamespaceRow("b", NOW))
    assert await registry.create_namespace(NamespaceRow("a", NOW + 1))
    assert not await registry.create_namespace(NamespaceRow("b", NOW + 2))
    assert await registry.namespaces() == [NamespaceRow("a", NOW + 1), NamespaceRow("b", NOW)]


async def test_a_change_and_its_outcome_are_one_transaction(store: AnyStore, registry: SqlRegistry):
    await registry.create_namespace(NamespaceRow("a", NOW), AttachedRows(outcome("k")))
    assert list(await store.outcomes([("main", "k")])) == [outcome("k")]
    with pytest.raises(Conflict):
        await registry.create_namespace(NamespaceRow("b", NOW), AttachedRows(outcome("k")))
    assert [row.name for row in await registry.namespaces()] == ["a"]


async def test_a_namespace_with_open_runs_stays(store: AnyStore, registry: SqlRegistry):
    await registry.create_namespace(NamespaceRow("main", NOW))
    world = StoredWorld(store)
    world.take(started())
    await world.commit()
    assert not await registry.delete_namespace("main", AttachedRows(outcome("first")))
    assert not await store.outcomes([("main", "first")])
    world.take(terminated())
    await world.commit()
    assert await registry.delete_namespace("main", AttachedRows(outcome("second")))
    assert len(await store.outcomes([("main", "second")])) == 1
    assert not await registry.delete_namespace("main")


async def test_workers_are_hidden_by_silence_alone(registry: SqlRegistry):
    await registry.register(worker("w-1", workflows=("A", "B")))
    await registry.register(worker("w-2", last_heartbeat=NOW - 100 * SECOND, registered_at=NOW - 100 * SECOND))
    await registry.register(worker("w-3", namespace="other"))
    assert [row.id for row in await registry.workers("main", NOW - 90 * SECOND)] == ["w-1"]
    assert await registry.worker("w-2") is not None
    await registry.seen([("w-2", NOW + 1), ("w-1", NOW - 1), ("nobody", NOW)], {"w-2": WorkerHealth(False, 2)})
    assert [row.id for row in await registry.workers("main", NOW - 90 * SECOND)] == ["w-2", "w-1"]
    assert [row.health for row in await registry.workers("main", 0)] == [WorkerHealth(False, 2), WorkerHealth()]
    first = await registry.worker("w-1")
    assert first == worker("w-1", workflows=("A", "B"))
    assert await registry.worker("nobody") is None


async def test_what_a_namespace_holds(store: AnyStore, registry: SqlRegistry):
    world = StoredWorld(store)
    for step in (started("a"), started("b"), started("c"), claimed(of="b"), terminated(of="c")):
        world.take(step)
    await world.commit()
    await registry.register(worker("w-1"))
    counts = await registry.counts("main", NOW - 1)
    assert (counts.by_status, counts.workers) == ({"PENDING": 1, "RUNNING": 1, "FAILED": 1}, 1)
    nothing = await registry.counts("nowhere", 0)
    assert (nothing.by_status, nothing.workers) == ({}, 0)


async def test_queues_and_holdings(store: AnyStore, registry: SqlRegistry):
    world = StoredWorld(store)
    orders = [cmd.ScheduleActivity(1, "a", "work"), cmd.ScheduleActivity(2, "b", "work")]
    for step in (started(), turned(*orders), leased(1), started("waits", task_queue="lonely")):
        world.take(step)
    await world.commit()
    await registry.register(worker("w-9", task_queue="idle"))
    assert await registry.queues("main", NOW - 1) == [
        QueueRow("idle", workers=1),
        QueueRow("lonely", pending_workflow_tasks=1, oldest_pending_at=NOW),
        QueueRow("work", pending_activities=1, running_activities=1, oldest_pending_at=NOW),
    ]
    assert await registry.holdings([WORKER, "w-9"]) == {WORKER: 1, "w-9": 0}
    assert await registry.queues("other", 0) == []


async def test_a_secret_is_made_once(registry: SqlRegistry):
    assert await registry.secret("name", b"one") == b"one"
    assert await registry.secret("name", b"two") == b"one"
    assert await registry.secret("other", b"two") == b"two"
