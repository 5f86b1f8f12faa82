import asyncio
import socket
import threading
import time
from collections import Counter

import pytest

from assay.api.stream import MAX_EVENT_STREAMS
from tests.api.support import (
    PREFIX,
    Http,
    Listener,
    NotStarted,
    Server,
    Worker,
    activity,
    complete,
    fresh,
    gauge,
    serving,
    until,
)


@pytest.fixture
def listen(server: Server):
    opened: list[Listener] = []

    def open_one(query: str = "", last: object = None) -> Listener:
        listener = Listener(server.port, query, None if last is None else str(last))
        opened.append(listener)
        return listener

    yield open_one
    for listener in opened:
        listener.close()


def test_frames_carry_both_shapes(http: Http, listen):
    listener = listen()
    assert listener.headers["content-type"] == "text/event-stream; charset=utf-8"
    name = http.start()["workflow_id"]
    (event,) = listener.wait("workflow_started")
    data = event["data"]
    assert data["id"] == event["id"] > 0
    assert (data["event_type"], data["kind"], data["subsystem"]) == ("workflow_started", "workflow_started", "workflow")
    assert (data["workflow_id"], data["namespace"], data["payload"]["workflow_id"]) == (name, "main", name)
    assert data["payload"]["namespace"] == "main"
    assert data["ts"] == http.describe(name)["created_at"]


def test_the_life_of_a_run(http: Http, listen):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    listener = listen(f"?workflow_id={name}", last=0)
    listener.wait("workflow_started")
    assert worker.task() is not None
    (running,) = listener.wait("workflow_running")
    assert running["data"]["payload"]["workflow_id"] == name
    worker.commands(name, activity(1, "charge", task_queue=queue))
    (inserted,) = listener.wait("activity_inserted")
    facts = inserted["data"]["payload"]
    assert (facts["name"], facts["task_queue"], facts["activity_seq"]) == ("charge", queue, 1)
    assert isinstance(facts["activity_id"], int)
    http.post(f"/workflows/{name}/signal/go", {"payload": {"secret": "x"}})
    (signalled,) = listener.wait("signal_received")
    assert signalled["data"]["payload"]["signal_name"] == "go"
    assert "secret" not in str(signalled)
    task = worker.activity()
    assert task is not None
    worker.complete(task)
    worker.turn(name, complete())
    listener.wait("workflow_completed")
    assert listener.kinds() == [
        "workflow_started", "workflow_running", "activity_inserted", "signal_received", "activity_completed",
        "workflow_completed",
    ]  # fmt: skip
    numbers = [event["id"] for event in listener.events]
    assert numbers == sorted(set(numbers))
    again = listen(f"?workflow_id={name}", last=0)
    again.wait("workflow_completed")
    assert again.kinds() == listener.kinds()


@pytest.mark.parametrize(("path", "kind"), [("terminate", "workflow_terminated"), ("cancel", "workflow_cancelled")])
def test_every_end_has_its_kind(http: Http, listen, path: str, kind: str):
    listener = listen()
    name = http.start()["workflow_id"]
    http.post(f"/workflows/{name}/{path}")
    assert listener.wait(kind)[0]["data"]["workflow_id"] == name
    assert "workflow_running" not in listener.kinds()


@pytest.mark.parametrize("how", ["by command", "by request", "to another id", "by a start"])
def test_a_run_ends_before_its_successor_begins(http: Http, listen, how: str):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name, ended = http.start(task_queue=queue)["workflow_id"], "workflow_continued_as_new"
    listener = listen()
    if how == "by command":
        worker.turn(name, {"type": "ContinueAsNew", "input": 1})
    elif how == "by a start":
        http.start(name, id_conflict_policy="terminate_existing")
        ended = "workflow_terminated"
    else:
        body = {"workflow_id": fresh()} if how == "to another id" else {}
        assert http.post(f"/workflows/{name}/continue-as-new", body).status == 201
    listener.wait("workflow_started")
    assert [kind for kind in listener.kinds() if kind != "workflow_running"] == [ended, "workflow_started"]
    numbers = [event["id"] for event in listener.events]
    assert numbers == sorted(numbers)


def test_a_retry_is_told_with_what_it_is_about(http: Http, listen):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, activity(7, task_queue=queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    worker.turn(name, {"type": "FailWorkflow", "error": "x"})
    listener = listen(f"?workflow_id={name}")
    retried = http.post(f"/workflows/{name}/retry", {"requested_by": "ada", "reason": "again"}).json()
    (requested,) = listener.wait("workflow_retry_requested")
    listener.wait("activity_inserted")
    assert listener.kinds() == ["workflow_retry_requested", "workflow_started", "activity_inserted"]
    facts = requested["data"]["payload"]
    expected = (name, retried["activity"]["id"], 7)
    assert (facts["workflow_id"], facts["activity_id"], facts["activity_seq"]) == expected
    again = listen(f"?workflow_id={name}&kind=workflow_retry_requested", last=0)
    assert again.wait("workflow_retry_requested") == [requested]


def test_without_a_cursor_only_what_is_new(http: Http, listen):
    http.start()
    listener = listen()
    name = http.start()["workflow_id"]
    listener.wait("workflow_started")
    assert [event["data"]["workflow_id"] for event in listener.events] == [name]


@pytest.mark.parametrize("how", ["header", "query"])
def test_resuming_leaves_no_gap(http: Http, listen, how: str):
    name = http.start()["workflow_id"]
    first = listen(f"?workflow_id={name}", last=0)
    first.wait("workflow_started")
    for number in range(20):
        http.post(f"/workflows/{name}/signal/s{number}")
    seen = first.wait("signal_received", 20)
    middle = seen[9]["id"]
    second = (
        listen(f"?workflow_id={name}", last=middle)
        if how == "header"
        else listen(f"?workflow_id={name}&last_event_id={middle}")
    )
    for number in range(20, 25):
        http.post(f"/workflows/{name}/signal/s{number}")
    rest = second.wait("signal_received", 15)
    assert [event["data"]["payload"]["signal_name"] for event in rest] == [f"s{number}" for number in range(10, 25)]


@pytest.mark.parametrize("last", ["", "abc", "-5", "1.5"])
def test_a_cursor_that_is_none_is_ignored(http: Http, listen, last: str):
    http.start()
    listener = listen(last=last)
    name = http.start()["workflow_id"]
    listener.wait("workflow_started")
    assert [event["data"]["workflow_id"] for event in listener.events] == [name]


@pytest.mark.parametrize("header", ["", "abc", "-5"])
def test_a_header_that_is_no_cursor_leaves_that_of_the_query(http: Http, listen, header: str):
    name = http.start()["workflow_id"]
    listener = listen(f"?workflow_id={name}&last_event_id=0", last=header)
    listener.wait("workflow_started")


def test_a_cursor_from_the_future_waits_for_what_comes(http: Http, listen):
    listener = listen(last=10**15)
    name = http.start()["workflow_id"]
    assert listener.wait("workflow_started")[0]["data"]["workflow_id"] == name


def test_namespaces_are_told_apart(http: Http, listen):
    one, two = fresh("ns"), fresh("ns")
    main, first, second, both, everything = (
        listen(), listen(f"?namespace={one}"), listen(f"?ns={two}"), listen(f"?ns={one},{two}"), listen("?namespace=*")
    )  # fmt: skip
    http.start("a", namespace=one)
    http.start("b", namespace=two)
    name = http.start()["workflow_id"]
    everything.wait("workflow_started", 3)
    both.wait("workflow_started", 2)
    for listener, expected in ((main, name), (first, "a"), (second, "b")):
        listener.wait("workflow_started")
        assert {event["data"]["workflow_id"] for event in listener.events} == {expected}


def test_kinds_and_subsystems_are_filtered(http: Http, listen):
    listeners = [
        listen("?kind=signal_received,workflow_terminated"),
        listen("?kind=signal_received&kind=workflow_terminated&subsystem=workflow,auth"),
    ]
    nothing = listen("?subsystem=auth")
    name = http.start()["workflow_id"]
    http.post(f"/workflows/{name}/signal/go")
    http.post(f"/workflows/{name}/terminate")
    for listener in listeners:
        listener.wait("workflow_terminated")
        assert listener.kinds() == ["signal_received", "workflow_terminated"]
    assert nothing.kinds() == []


def test_a_long_backlog_is_read_to_its_end_while_more_is_written(http: Http, listen):
    """Many pages of the past, and a writer that does not wait for them (I24)."""
    name = http.start()["workflow_id"]
    start = listen(f"?workflow_id={name}", last=0).wait("workflow_started")[0]["id"]
    body = b"{}"
    for number in range(1_200):
        http.post(f"/workflows/{name}/signal/a{number}", body)
    stop = threading.Event()
    sent: list[str] = []

    def write() -> None:
        while not stop.is_set():
            sent.append(f"b{len(sent)}")
            http.post(f"/workflows/{name}/signal/{sent[-1]}", body)

    writer = threading.Thread(target=write)
    writer.start()
    listeners = [listen(f"?workflow_id={name}", last=start) for _ in range(3)]
    until(lambda: len(sent) > 100, 60)
    stop.set()
    writer.join()
    expected = [f"a{number}" for number in range(1_200)] + sent
    for listener in listeners:
        got = listener.wait("signal_received", len(expected))
        assert [event["data"]["payload"]["signal_name"] for event in got] == expected


def test_a_client_that_does_not_read_is_cut_off(server: Server, http: Http):
    slow = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(f"GET {PREFIX}/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    until(lambda: gauge(http, "assay_event_streams") == 1)
    commands = [{"type": "WaitForSignal", "name": "n" * 900}] * 1_500

    def flooded() -> bool:
        worker.turn(name, {"type": "RecordSideEffect", "seq": 1}, *commands)
        return gauge(http, "assay_event_streams") == 0

    until(flooded, 60)
    slow.close()


def test_no_more_streams_are_open_than_may_be_however_many_come_at_once(tmp_path):
    async def ask(port: int, query: str) -> tuple[int, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {PREFIX}/events/stream{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return int((await reader.readline()).split()[1]), writer

    async def all_at_once(server: Server) -> None:
        requested = [
            ask(server.port, "?last_event_id=0" if number % 2 else "") for number in range(MAX_EVENT_STREAMS + 20)
        ]
        answers = await asyncio.gather(*requested)
        assert Counter(status for status, _ in answers) == {200: MAX_EVENT_STREAMS, 429: 20}
        for _, writer in answers:
            writer.close()

    with serving(tmp_path) as server:
        http = server.http()
        for _ in range(2):
            asyncio.run(all_at_once(server))
            until(lambda: gauge(http, "assay_event_streams") == 0)


def test_streams_end_when_the_engine_stops(tmp_path):
    server = Server(tmp_path)
    listener = Listener(server.port)
    began = time.monotonic()
    assert server.stop() == 0
    listener.until(lambda: listener.ended)
    assert time.monotonic() - began < 5
    listener.close()
    server.close()


def test_ids_go_on_after_a_restart(tmp_path):
    server = Server(tmp_path)
    first = Listener(server.port)
    name = server.http().start()["workflow_id"]
    seen = first.wait("workflow_started")[0]["id"]
    first.close()
    server.http().post(f"/workflows/{name}/signal/missed")
    server.kill()
    server.close()
    server = Server(tmp_path)
    second = Listener(server.port, last=str(seen))
    try:
        missed = second.wait("signal_received")[0]
        assert missed["id"] > seen
        assert second.kinds() == ["signal_received"]
    finally:
        second.close()
        server.close()


def test_a_cursor_from_before_the_retention_is_gone(tmp_path):
    with serving(tmp_path, ASSAY_EVENTS_TTL_SECS="1") as server:
        http = server.http()
        name = http.start()["workflow_id"]
        http.post(f"/workflows/{name}/signal/first")
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 1.1)
        refusal = http.get("/events/stream?last_event_id=0").json()
        assert refusal["code"] == "gone"
        resumed = Listener(server.port, last=str(refusal["oldest_id"]))
        http.post(f"/workflows/{name}/signal/second")
        assert len(resumed.wait("signal_received")) == 1
        resumed.close()
        history = http.kinds(name)
        assert history == ["WorkflowStarted", "SignalReceived", "SignalReceived"], "histories are kept for good"
        live = Listener(server.port)
        assert live.status == 200
        live.close()


def test_who_missed_nothing_of_its_namespace_goes_on(tmp_path):
    with serving(tmp_path, ASSAY_EVENTS_TTL_SECS="1") as server:
        http = server.http()
        live = Listener(server.port)
        name = http.start()["workflow_id"]
        seen = live.wait("workflow_started")[0]["id"]
        live.close()
        http.start(namespace="other")
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 1.1)
        assert http.get(f"/events/stream?last_event_id={seen}&namespace=*").status == 410
        back = Listener(server.port, last=str(seen))
        assert back.status == 200
        http.post(f"/workflows/{name}/signal/go")
        back.wait("signal_received")
        assert back.kinds() == ["signal_received"]
        back.close()


def test_what_can_still_be_had_begins_after_the_id_that_is_told(tmp_path):
    with serving(tmp_path, ASSAY_EVENTS_TTL_SECS="3") as server:
        http = server.http()
        name = http.start()["workflow_id"]
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 3.1)
        http.post(f"/workflows/{name}/signal/still")
        refusal = http.get("/events/stream?last_event_id=0").json()
        back = Listener(server.port, last=str(refusal["oldest_id"]))
        assert back.wait("signal_received")[0]["id"] > refusal["oldest_id"]
        assert back.kinds() == ["signal_received"]
        back.close()


def test_how_long_events_are_told_must_be_a_time(tmp_path):
    with pytest.raises(NotStarted, match="ASSAY_EVENTS_TTL_SECS"):
        Server(tmp_path, ASSAY_EVENTS_TTL_SECS="forever")
