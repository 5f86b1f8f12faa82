"""Namespaces that several callers or engines create and delete at the same moment."""

import asyncio
from collections.abc import Awaitable

import pytest

from assay.core.model.errors import AlreadyExists, NotFound
from assay.engine.clock import SystemClock
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.engine.worker_registry import WorkerRegistry
from assay.storage.sql.registry import SqlRegistry
from tests.storage.support import AnyStore, Stores

CALLERS = 8


def keyed(name: str) -> IdempotencyKey:
    return IdempotencyKey("main", name, b"the same request", lambda _: (201, b""))


def roster_on(store: AnyStore) -> WorkerRegistry:
    return WorkerRegistry(SqlRegistry(store), store, SystemClock())


async def together(*calls: Awaitable[Rendered | None]) -> list[Rendered | None]:
    return list(await asyncio.gather(*calls))


def replayed(answers: list[Rendered | None]) -> int:
    assert all(answer is not None and answer.status == 201 for answer in answers)
    return sum(answer.replayed for answer in answers if answer is not None)


async def test_one_key_creates_and_deletes_once_however_many_callers_use_it(store: AnyStore):
    worker_registry = roster_on(store)
    created = await together(*(worker_registry.create("team", keyed("create")) for _ in range(CALLERS)))
    assert replayed(created) == CALLERS - 1
    deleted = await together(*(worker_registry.delete("team", keyed("delete")) for _ in range(CALLERS)))
    assert replayed(deleted) == CALLERS - 1
    assert [row.name for row in await worker_registry.namespaces()] == []


async def test_of_two_keys_one_creates_and_the_other_is_refused(store: AnyStore):
    worker_registry = roster_on(store)
    calls = (worker_registry.create("team", keyed(name)) for name in ("one", "two"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists", "Rendered"]
    with pytest.raises(AlreadyExists):
        await worker_registry.create("team", None)
    await worker_registry.delete("team", None)
    with pytest.raises(NotFound):
        await worker_registry.delete("team", keyed("late"))


async def test_a_namespace_deleted_by_another_engine_is_there_again_after_its_use(engines: Stores):
    """An engine uses names from memory; a moment after the use it sees to it that lists show the namespace."""
    first, second = roster_on(await engines.open()), roster_on(await engines.open())
    await second.ensure("team")
    await first.delete("team", None)
    await second.run_once()
    assert [row.name for row in await first.namespaces()] == [], "nobody has used it since"
    assert second.has_namespace("team")
    await second.run_once()
    assert [row.name for row in await first.namespaces()] == ["team"]
