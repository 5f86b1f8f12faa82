"""The same over Postgres, and what only Postgres can: several engines on one database."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from assay import Client
from tests.api.support import Http, Listener, Server, Worker, activity, complete, fresh, holds, serving
from tests.temporary_postgres import create_database, temporary_postgres


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with temporary_postgres() as dsn:
        yield asyncio.run(create_database(dsn))


@pytest.fixture(scope="module")
def server(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("one"), "--backend", database) as server:
        yield server


@pytest.fixture(scope="module")
def other(server: Server, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("two"), DATABASE_URL=database) as other:
        yield other


@pytest.fixture
def http(server: Server) -> Http:
    return server.http()


def test_no_password_is_shown(tmp_path: Path, database: str):
    url = database.replace("postgres@", "postgres:hunter2@", 1)
    with serving(tmp_path, "--backend", url) as server:
        assert "hunter2" not in "\n".join(server.greeting) + server.errors.read_text()


def test_a_run_from_start_to_end(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue, input={"n": 1}, search_attributes={"env": "prod"})["workflow_id"]
    worker.turn(name, {"type": "RecordSnapshot", "state": {"at": 1}}, activity(task_queue=queue, input=[1]))
    task = worker.activity()
    assert task is not None
    assert worker.complete(task, "ok").status == 200
    worker.turn(name, complete({"done": True}))
    assert http.get(f"/workflows/{name}/result").json()["result"] == {"done": True}
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "WorkflowCompleted"]
    numbers = [event["id"] for event in http.history(name)]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    assert http.get(f"/workflows/{name}/state/at").json()["value"] == 1
    assert http.get(f"/activities/{task['id']}").json()["result"] == "ok"
    found = http.get('/workflows?search_attrs=%7B"env":"prod"%7D'.replace('"', "%22"))
    assert [record["id"] for record in found.json()] == [name]
    assert found.headers["x-total-count"] == "1"


def without_times(shown: object) -> object:
    """The same without the times at which waits were looked at."""
    if isinstance(shown, dict):
        return {name: without_times(value) for name, value in shown.items() if name not in ("as_of", "until")}
    return [without_times(one) for one in shown] if isinstance(shown, list) else shown


def test_an_engine_in_the_process_shows_what_one_over_http_shows(http: Http, server: Server, database: str):
    queue = fresh("queue")
    worker = Worker(http, queue)
    failing, open_run = http.start(task_queue=queue)["workflow_id"], http.start(task_queue="x")["workflow_id"]
    worker.turn(failing, activity(task_queue=queue), {"type": "FailWorkflow", "error": "no luck"})

    async def seen(url: str) -> list[object]:
        async with await Client.connect(url) as client:
            return [
                await look
                for name in (failing, open_run)
                for look in (client.get_events(name), client.describe(name), client.list(text=name))
            ]

    async def main() -> None:
        over_http = await seen(f"http://127.0.0.1:{server.port}")
        assert without_times(await seen(database)) == without_times(over_http)
        assert [event["id"] for event in over_http[0]] == [event["id"] for event in http.history(failing)]  # type: ignore[attr-defined]

    asyncio.run(main())


def test_conflicts_keys_and_refusals(http: Http):
    name, key = fresh(), fresh("key")
    body = {"workflow_type": "Order", "workflow_id": name}
    assert http.post("/workflows", body, Idempotency_Key=key).status == 201
    assert http.post("/workflows", body, Idempotency_Key=key).headers["idempotent-replay"] == "true"
    assert http.post("/workflows", {**body, "input": 1}, Idempotency_Key=key).status == 422
    assert http.post("/workflows", body).status == 409
    assert http.post("/workflows/nobody/cancel").status == 404


def test_namespaces_workers_and_queues(http: Http):
    namespace = fresh("ns")
    assert http.post("/namespaces", {"name": namespace}, Idempotency_Key="n").status == 201
    assert http.post("/namespaces", {"name": namespace}, Idempotency_Key="n").headers["idempotent-replay"] == "true"
    assert http.post("/namespaces", {"name": namespace}).status == 409
    worker = Worker(http, "q", namespace=namespace, workflows=["A"])
    http.start("a", namespace=namespace, task_queue="q", workflow_type="A")
    assert worker.task() is not None
    (row,) = http.get(f"/workers?namespace={namespace}").json()
    assert (row["id"], row["workflows"], row["active_tasks"]) == (worker.id, ["A"], 1)
    worker.commands("a", activity(task_queue="q"))
    (queue,) = http.get(f"/queues?namespace={namespace}").json()
    assert (queue["pending_activities"], queue["workers"]) == (1, 1)
    assert http.get(f"/namespaces/{namespace}").json()["running"] == 1
    assert http.delete(f"/namespaces/{namespace}", Idempotency_Key="d").status == 409
    http.post(f"/workflows/a/terminate?namespace={namespace}")
    assert http.delete(f"/namespaces/{namespace}", Idempotency_Key="e").status == 200
    assert http.delete(f"/namespaces/{namespace}", Idempotency_Key="e").status == 200


def test_retry_on_postgres(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, activity(task_queue=queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    worker.turn(name, {"type": "FailWorkflow", "error": "x"})
    assert http.post(f"/workflows/{name}/retry", {"requested_by": "a", "reason": "b"}).status == 200
    again = worker.activity(wait_secs=5)
    assert again is not None
    worker.complete(again)
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted"]


def test_engines_share_the_work(http: Http, other: Server):
    queue = fresh("queue")
    there = other.http()
    worker = Worker(there, queue, workflows=["Order"])
    found: list[dict[str, object] | None] = []
    waiting = threading.Thread(target=lambda: found.append(worker.task(wait_secs=20)))
    waiting.start()
    holds(there, 1)
    name = http.start(task_queue=queue)["workflow_id"]
    waiting.join(15)
    assert found[0] is not None
    assert worker.commands(name, activity(task_queue=queue)).status == 200
    here = Worker(http, queue)
    task = here.activity(wait_secs=10)
    assert task is not None
    here.complete(task, 5)
    worker.http = http
    last = worker.task(wait_secs=10)
    assert last is not None
    assert worker.commands(name, complete("shared")).status == 200
    assert there.get(f"/workflows/{name}/result?wait_secs=10").json()["result"] == "shared"


def test_a_stream_hears_all_engines(http: Http, server: Server, other: Server):
    listener = Listener(other.port)
    try:
        one = http.start()["workflow_id"]
        two = other.http().start()["workflow_id"]
        started = listener.wait("workflow_started", 2)
        assert {event["data"]["workflow_id"] for event in started} == {one, two}
    finally:
        listener.close()


def test_no_event_is_lost_to_a_transaction_that_takes_long(http: Http, server: Server, other: Server, database: str):
    """A transaction that began earlier and commits later must not be overtaken by the cursor."""

    async def hold(release: asyncio.Event) -> None:
        connection = await asyncpg.connect(database)
        async with connection.transaction():
            # Like a transaction of an engine: it has a number, and a lock for writing events.
            await connection.execute("LOCK TABLE events IN ROW EXCLUSIVE MODE")
            await connection.execute("SELECT pg_current_xact_id()")
            await release.wait()
        await connection.close()

    async def main() -> None:
        release = asyncio.Event()
        holding = asyncio.create_task(hold(release))
        await asyncio.sleep(0.3)
        listener = await asyncio.to_thread(Listener, server.port)
        try:
            names = [(await asyncio.to_thread(one.start))["workflow_id"] for one in (http, other.http()) * 5]
            await asyncio.sleep(0.5)
            assert listener.kinds() == []
            release.set()
            await holding
            started = await asyncio.to_thread(listener.wait, "workflow_started", 10)
            assert sorted(event["data"]["workflow_id"] for event in started) == sorted(names)
        finally:
            await asyncio.to_thread(listener.close)

    asyncio.run(main())


def test_a_reader_that_comes_back_misses_nothing_of_two_writers(http: Http, server: Server, other: Server):
    listener = Listener(server.port, "?kind=signal_received")
    name = http.start()["workflow_id"]
    listener.close()
    seen: list[str] = []
    last: str | None = "0"
    stop = threading.Event()
    sent: list[str] = []

    def write(client: Http, letter: str) -> None:
        for number in range(60):
            client.post(f"/workflows/{name}/signal/{letter}{number}")
            sent.append(f"{letter}{number}")

    writers = [
        threading.Thread(target=write, args=(client, letter)) for client, letter in ((http, "a"), (other.http(), "b"))
    ]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 60
    while not (stop.is_set() and len(set(seen)) == len(sent)) and time.monotonic() < deadline:
        reader = Listener(server.port, f"?kind=signal_received&workflow_id={name}", last)
        threading.Event().wait(0.15)
        reader.close()
        for event in reader.events:
            seen.append(event["data"]["payload"]["signal_name"])
            last = str(event["id"])
        if not any(writer.is_alive() for writer in writers):
            stop.set()
    assert sorted(seen) == sorted(sent)
    history = [event["payload"]["signal"] for event in http.history(name)[1:]]
    assert seen == history
