"""`namespaces`, `workers` and `queues` of the client: the same calls and records, embedded and over HTTP."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay import AlreadyExists, App, AssayError, Client, Context, Invalid, NotFound, Record, Unavailable, Worker
from assay.sdk.client.registry import Registering
from tests.api.support import fresh, serving
from tests.temporary_postgres import create_database, shared_postgres

SECONDS = 30
NEVER = "0 0 0 1 1 *"
NAMES = ["Not so", "UPPER", "under_score", "ümlaut", "x" * 64, "a/b", ".."]

Test = Callable[[Client], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


@pytest.fixture(params=["sqlite", "postgres", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/engine.db"
    if request.param == "postgres":
        return asyncio.run(create_database(request.getfixturevalue("postgres")))
    found: str = request.getfixturevalue("server")
    return found


def run(url: str, test: Test, app: App | None = None) -> None:
    async def main() -> None:
        async with await Client.connect(url, app=app or App()) as client:
            await asyncio.wait_for(test(client), SECONDS)

    asyncio.run(main())


@asynccontextmanager
async def serving_here(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    yield
    worker.stop()
    await task


async def seen(client: Client, worker: Worker) -> Record:
    """The record of a worker as soon as there is one: over HTTP it first has to connect."""
    while True:
        for record in await client.workers.list(namespace=worker.namespace):
            if record.id == worker.worker:
                return record
        await asyncio.sleep(0.01)


async def names(client: Client) -> list[str]:
    return [record.name for record in await client.namespaces.list()]


def is_wire(records: Any) -> bool:
    """Is it made of what JSON can carry, so that it is the same over HTTP?"""
    return bool(json.loads(json.dumps(records)) == records)


def test_a_namespace_from_its_creation_to_its_end(url: str):
    async def test(client: Client) -> None:
        name = fresh("ns")
        assert await client.namespaces.create(name) is None
        found = await client.namespaces.list()
        assert [record.name for record in found] == sorted(record.name for record in found)
        assert {"main", name} <= {record.name for record in found}
        assert all(isinstance(record, Record) and record.keys() == {"name", "created_at"} for record in found)
        assert all(isinstance(record.created_at, float) for record in found)
        assert await client.namespaces.delete(name) is None
        assert name not in await names(client)
        await client.namespaces.create(name)
        assert name in await names(client)

    run(url, test)


def test_what_is_wrong_is_said(url: str):
    async def test(client: Client) -> None:
        name = fresh("ns")
        await client.namespaces.create(name)
        with pytest.raises(AlreadyExists) as exists:
            await client.namespaces.create(name)
        assert exists.value.existing == {"namespace": name}
        with pytest.raises(NotFound, match="cannot delete the 'main' namespace") as kept:
            await client.namespaces.delete("main")
        assert kept.value.code == "main_namespace"
        with pytest.raises(NotFound) as unknown:
            await client.namespaces.delete("nowhere")
        assert str(unknown.value) == "namespace nowhere"
        for bad in NAMES:
            with pytest.raises(Invalid):
                await client.namespaces.create(bad)
            with pytest.raises(NotFound):
                await client.namespaces.delete(bad)

    run(url, test)


@pytest.mark.parametrize("name", ["", "a\nb", "\ud800", 5, None])
def test_what_no_name_can_be_is_refused_before_it_is_sent(tmp_path: Path, name: Any):
    async def test(client: Client) -> None:
        for call in (client.namespaces.create, client.namespaces.describe, client.namespaces.delete):
            with pytest.raises(Invalid) as caught:
                await call(name)
            assert caught.value.field == "name"
        if name is not None:
            for look in (client.workers.list, client.queues.stats):
                with pytest.raises(Invalid):
                    await look(namespace=name)

    run(f"sqlite://{tmp_path}/engine.db", test)


def test_what_is_in_use_stays(url: str):
    async def test(client: Client) -> None:
        busy, planned = fresh("busy"), fresh("planned")
        await client.start("Report", workflow_id="r-1", namespace=busy)
        await client.schedules.create("nightly", "Report", NEVER, namespace=planned)
        for name in (busy, planned):
            with pytest.raises(AssayError) as refused:
                await client.namespaces.delete(name)
            assert (refused.value.code, refused.value.kind) == ("namespace_in_use", "CONFLICT")
            assert name in await names(client)
        await client.terminate("r-1", namespace=busy)
        await client.schedules.delete("nightly", namespace=planned)
        await client.namespaces.delete(busy)
        await client.namespaces.delete(planned)
        await client.start("Report", workflow_id="r-2", namespace=busy)
        assert busy in await names(client)
        assert planned not in await names(client)

    run(url, test)


def test_use_makes_a_namespace_and_what_is_refused_does_not(url: str):
    async def test(client: Client) -> None:
        started, planned, served, refused = (fresh(word) for word in ("started", "planned", "served", "refused"))
        await client.start("Report", workflow_id="r-1", namespace=started)
        await client.schedules.create("nightly", "Report", NEVER, namespace=planned)
        async with serving_here(worker := Worker(client, "reports", namespace=served)):
            await seen(client, worker)
            assert {started, planned, served} <= set(await names(client))
        with pytest.raises(Invalid):
            await client.start("Report", workflow_id="r-1", namespace=refused, cron_schedule="not a time")
        with pytest.raises(Invalid):
            await client.schedules.create("nightly", "Report", "not a time", namespace=refused)
        with pytest.raises(NotFound):
            await client.signal("r-1", "go", namespace=refused)
        assert await client.describe("r-1", namespace=refused) is None
        assert refused not in await names(client)
        for bad in ("Not so", "under_score"):
            with pytest.raises(Invalid) as caught:
                await client.start("Report", workflow_id="r-1", namespace=bad)
            assert caught.value.field == "namespace"
            with pytest.raises(Invalid):
                await client.schedules.create("nightly", "Report", NEVER, namespace=bad)

    run(url, test)


def test_namespaces_keep_apart_and_count_their_own(url: str):
    app = App()

    @app.workflow
    async def Say(ctx: Context, word: str) -> str:
        return f"{ctx.info().namespace} {word}"

    async def test(client: Client) -> None:
        one, other = fresh("one"), fresh("other")
        async with serving_here(Worker(client, namespace=one)), serving_here(Worker(client, namespace=other)):
            for space in (one, other):
                assert await client.run("Say", space, workflow_id="same", namespace=space) == f"{space} {space}"
            await client.start("Say", workflow_id="later", namespace=one, start_delay="1h")
            await client.schedules.create("nightly", "Say", NEVER, namespace=one)
            await client.cancel("later", namespace=one)
            counted = await client.namespaces.describe(one)
            assert isinstance(counted, Record)
            assert counted == {
                "namespace": one,
                "total_workflows": 2,
                "running": 0,
                "pending": 0,
                "completed": 1,
                "failed": 0,
                "cancelled": 1,
                "timed_out": 0,
                "schedules": 1,
                "workers": 1,
            }
            assert await client.namespaces.stats(one) == counted
            assert (await client.namespaces.describe(other)).total_workflows == 1
            assert [worker.namespace for worker in await client.workers.list(namespace=one)] == [one]

    run(url, test, app)


def test_what_is_not_there_is_empty(url: str):
    async def test(client: Client) -> None:
        counted = await client.namespaces.describe("nowhere")
        assert {value for name, value in counted.items() if name != "namespace"} == {0}
        assert await client.workers.list(namespace="nowhere") == []
        assert await client.queues.stats(namespace="nowhere") == []
        assert "nowhere" not in await names(client)

    run(url, test)


def test_a_worker_is_seen_while_it_runs(url: str):
    app, holding, let_go = App(), asyncio.Event(), asyncio.Event()

    @app.workflow
    async def Hold(ctx: Context) -> None:
        await ctx.execute_activity(hold)

    @app.activity
    async def hold() -> None:
        holding.set()
        await let_go.wait()

    async def test(client: Client) -> None:
        space = fresh("ns")
        worker = Worker(
            client, "work", namespace=space, identity="me", max_concurrent_workflows=3, max_concurrent_activities=4
        )
        async with serving_here(worker):
            await client.start("Hold", workflow_id="h-1", namespace=space, task_queue="work")
            await client.start("Hold", workflow_id="h-2", namespace=space, task_queue="lonely")
            await holding.wait()
            record = await seen(client, worker)
            assert isinstance(record, Record)
            assert record.registered_at <= record.last_heartbeat
            assert record == {
                "id": worker.worker,
                "namespace": space,
                "identity": "me",
                "task_queue": "work",
                "workflows": ["Hold"],
                "activities": ["hold"],
                "max_concurrent_workflows": 3,
                "max_concurrent_activities": 4,
                "active_tasks": 1,
                "healthy": True,
                "abandoned_threads": 0,
                "last_heartbeat": record.last_heartbeat,
                "registered_at": record.registered_at,
            }
            lonely, work = await client.queues.stats(namespace=space)
            assert isinstance(lonely, Record)
            assert work == {
                "queue": "work",
                "pending_activities": 0,
                "running_activities": 1,
                "workers": 1,
                "pending_workflow_tasks": 0,
                "oldest_pending_at": None,
            }
            assert (lonely.queue, lonely.pending_workflow_tasks, lonely.workers) == ("lonely", 1, 0)
            assert lonely.oldest_pending_at == pytest.approx(record.registered_at, abs=SECONDS)
            assert is_wire([record, lonely, work])
            let_go.set()

    run(url, test, app)


def test_the_clients_own_namespace_is_looked_at(url: str):
    async def test(client: Client) -> None:
        tenant = Client(client.transport, namespace=fresh("ns"), app=App())
        async with serving_here(worker := Worker(tenant, "work")):
            await seen(client, worker)
            assert [found.id for found in await tenant.workers.list()] == [worker.worker]
            assert [found.queue for found in await tenant.queues.stats()] == ["work"]
            assert worker.worker not in [found.id for found in await client.workers.list()]

    run(url, test)


def test_a_client_that_is_closed_says_so(url: str):
    async def main() -> None:
        async with await Client.connect(url, app=App()) as client:
            await client.namespaces.list()
        for look in (client.namespaces.list, client.workers.list, client.queues.stats):
            with pytest.raises(Unavailable, match="connect again"):
                await look()

    asyncio.run(main())


def test_a_transport_without_a_registry_is_refused():
    class Bare:
        lease = None

    client = Client(Bare(), app=App())  # type: ignore[arg-type]
    assert not isinstance(client.transport, Registering)
    with pytest.raises(Invalid) as caught:
        asyncio.run(client.namespaces.list())
    assert caught.value.code == "no_registry"
