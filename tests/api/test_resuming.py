"""What was told live is told again alike: under the same numbers, by every engine, and after a restart (I24)."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Http, Listener, Server, Worker, complete, fresh, holds, serving, until
from tests.temporary_postgres import create_database, temporary_postgres

Frame = tuple[int, str, str]
Serve = Callable[[], Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with temporary_postgres() as dsn:
        yield dsn


@pytest.fixture(params=["sqlite", "postgres"])
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Serve:
    """Starts an engine on a database of this test's own."""
    arguments: tuple[str, ...] = ()
    if request.param == "postgres":
        arguments = ("--backend", asyncio.run(create_database(request.getfixturevalue("postgres"))))
    return lambda: serving(tmp_path, *arguments)


@contextmanager
def listening(server: Server, query: str = "", last: object = None) -> Iterator[Listener]:
    listener = Listener(server.port, query, None if last is None else str(last))
    try:
        assert listener.status == 200
        yield listener
    finally:
        listener.close()


def frames(listener: Listener) -> list[Frame]:
    return [(event["id"], event["event"], str(event["data"]["payload"])) for event in listener.events]


def again(server: Server, live: list[Frame], last: int, query: str = "") -> list[Frame]:
    """What somebody is told who comes back, of what was told before; more has happened since."""
    with listening(server, query, last) as listener:
        mark = server.http().start(fresh("mark"))["workflow_id"]
        listener.until(lambda: any(event["data"]["workflow_id"] == mark for event in listener.events))
        return [frame for frame in frames(listener) if frame[0] <= live[-1][0]]


def taken_up(http: Http, worker: Worker, **fields: Any) -> str:
    """A run that a worker waits for, and takes up in the transaction that starts it."""
    waiting = threading.Thread(target=worker.task, kwargs={"wait_secs": 20})
    waiting.start()
    holds(http, 1)
    name: str = http.start(fresh("at-once"), task_queue=worker.queue, **fields)["workflow_id"]
    waiting.join(20)
    return name


def lives(http: Http) -> dict[str, list[str]]:
    """Runs of every kind of beginning and end, and how often each is taken up."""
    queue = fresh("queue")
    worker = Worker(http, queue)
    later = http.start(fresh("later"), task_queue=queue)["workflow_id"]
    worker.turn(later, complete())
    at_once = taken_up(http, worker)
    worker.commands(at_once, {"type": "WaitForSignal", "name": "go"})
    ended = http.start(fresh("ended"), task_queue=queue)["workflow_id"]
    http.post(f"/workflows/{ended}/signal/early")
    assert worker.task() is not None
    http.post(f"/workflows/{ended}/terminate")
    never = http.start(fresh("never"), task_queue=fresh("nobody"))["workflow_id"]
    http.post(f"/workflows/{never}/terminate")
    http.post(f"/workflows/{at_once}/signal/go")
    worker.turn(at_once, complete())
    return {
        later: ["workflow_started", "workflow_running", "workflow_completed"],
        at_once: [
            "workflow_started", "workflow_running", "workflow_awaiting_signal", "signal_received", "workflow_completed"
        ],
        ended: ["workflow_started", "signal_received", "workflow_running", "workflow_terminated"],
        never: ["workflow_started", "workflow_terminated"],
    }  # fmt: skip


def test_a_claim_has_one_number_whenever_it_is_told(serve: Serve):
    with serve() as server:
        with listening(server) as listener:
            expected = lives(server.http())
            listener.until(lambda: len(listener.events) >= sum(map(len, expected.values())))
            live = frames(listener)
            for name, kinds in expected.items():
                assert [event["event"] for event in listener.events if event["data"]["workflow_id"] == name] == kinds
        assert [number for number, *_ in live] == sorted({number for number, *_ in live})
        for cursor in (0, *(number for number, *_ in live)):
            assert again(server, live, cursor) == [frame for frame in live if frame[0] > cursor]
    with serve() as server:
        assert again(server, live, 0) == live
        running = [frame for frame in live if frame[1] == "workflow_running"]
        assert again(server, live, 0, "?kind=workflow_running,workflow_started") == [
            frame for frame in live if frame[1] in ("workflow_running", "workflow_started")
        ]
        assert len(running) == 3


def test_engines_give_a_claim_the_same_number(postgres: str, tmp_path: Path):
    database = asyncio.run(create_database(postgres))
    with serving(tmp_path, "--backend", database) as one, serving(tmp_path, "--backend", database) as two:
        queue = fresh("queue")
        worker = Worker(two.http(), queue)
        with listening(one) as here, listening(two) as there:
            name = one.http().start(task_queue=queue)["workflow_id"]
            until(lambda: worker.task(wait_secs=5) is not None)
            here.wait("workflow_running")
            there.wait("workflow_running")
            assert frames(here) == frames(there)
        assert again(one, frames(here), 0) == frames(here)
        two.http().post(f"/workflows/{name}/terminate")


def test_what_a_schedule_did_not_start_is_told_again_alike(serve: Serve):
    name = fresh("schedule")
    with serve() as server:
        http = server.http()
        with listening(server) as listener:
            http.post("/schedules", {"name": name, "workflow_type": "Order", "cron_expr": "0 0 1 1 *"})
            first = http.post(f"/schedules/{name}/trigger").json()
            http.post(f"/schedules/{name}/trigger")
            http.post(f"/workflows/{first['workflow_id']}/signal/between")
            http.post(f"/schedules/{name}/trigger")
            http.post(f"/workflows/{first['workflow_id']}/terminate")
            listener.wait("workflow_terminated")
            live = frames(listener)
        assert [kind for _, kind, _ in live] == [
            "schedule_fired", "workflow_started", "schedule_skipped", "signal_received", "schedule_skipped",
            "workflow_terminated",
        ]  # fmt: skip
        for cursor in (0, *(number for number, *_ in live)):
            assert again(server, live, cursor) == [frame for frame in live if frame[0] > cursor]
        assert http.delete(f"/schedules/{name}").status == 200
    with serve() as server:
        assert again(server, live, 0) == live


@pytest.mark.parametrize("kinds", ["", "?kind=workflow_started", "?kind=workflow_started,signal_received"])
def test_one_number_before_an_event_begins_with_it(server: Server, http: Http, kinds: str):
    with listening(server) as listener:
        name = http.start()["workflow_id"]
        http.post(f"/workflows/{name}/signal/go")
        listener.wait("signal_received")
        live = frames(listener)
    for place, (number, kind, _) in enumerate(live):
        wanted = [frame for frame in live[place:] if not kinds or frame[1] in kinds]
        assert again(server, live, number - 1, kinds) == wanted, kind
