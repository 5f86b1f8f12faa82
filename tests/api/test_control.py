import threading

import pytest

from tests.api.support import Http, Worker, activity, claimed, complete, fresh, until

EMPTY_BODIES = [None, b"", b"null", b"{}", b"[]", b" \n", b"[ ]", b"{\n}", b" [\t\r\n] "]


@pytest.mark.parametrize("body", EMPTY_BODIES)
def test_a_signal_may_have_no_payload(http: Http, body: bytes | None):
    name = http.start()["workflow_id"]
    reply = http.post(f"/workflows/{name}/signal/go", body)
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")
    assert http.history(name)[1]["payload"] == {**http.history(name)[1]["payload"], "signal": "go", "payload": None}


def test_signals_are_recorded_in_order_with_all_they_say(http: Http):
    name = http.start()["workflow_id"]
    http.post(f"/workflows/{name}/signal/one", {"payload": {"a": 1}, "from": "wf://main/x", "context": {"t": 1}})
    http.post(f"/workflows/{name}/signal/two", {"args": [1, 2]})
    http.post(f"/workflows/{name}/signal/three", {"args": ["alone"]})
    http.post(f"/workflows/{name}/signal/four", {"args": []})
    one, two, three, four = [event["payload"] for event in http.history(name)[1:]]
    assert (one["signal"], one["payload"], one["from"], one["context"]) == ("one", {"a": 1}, "wf://main/x", {"t": 1})
    assert (two["payload"], three["payload"], four["payload"]) == ([1, 2], "alone", None)


@pytest.mark.parametrize("path", ["signal/go", "cancel", "terminate"])
def test_a_run_that_is_not_open_is_not_found(http: Http, path: str):
    name = http.start()["workflow_id"]
    http.post(f"/workflows/{name}/terminate")
    run_id = http.describe(name)["run_id"]
    for missing, code, known in ((name, "workflow_closed", run_id), ("nobody", "not_found", None)):
        reply = http.post(f"/workflows/{missing}/{path}")
        assert (reply.status, reply.json()["code"]) == (404, code)
        terminal = "" if path == "signal/go" and missing == "nobody" else " or already terminal"
        assert reply.json()["error"] == f"not found: workflow {missing} not found{terminal}"
        assert (reply.json()["workflow_id"], reply.json().get("run_id")) == (missing, known)
        kept = http.post(f"/workflows/{missing}/{path}", Idempotency_Key=fresh("key"))
        assert {**kept.json(), "request_id": ""} == {**reply.json(), "request_id": ""}
    assert http.kinds(name)[-1] == "WorkflowTerminated"


@pytest.mark.parametrize("body", EMPTY_BODIES)
def test_a_run_that_nobody_has_claimed_is_cancelled_at_once(http: Http, body: bytes | None):
    name = http.start()["workflow_id"]
    assert http.post(f"/workflows/{name}/cancel", body).status == 200
    record = http.describe(name)
    assert (record["status"], record["result"]) == ("CANCELLED", None)
    assert http.kinds(name) == ["WorkflowStarted", "WorkflowCancelRequested", "WorkflowCancelled"]
    assert http.history(name)[1]["payload"] is None


def test_a_claimed_run_is_asked_and_answers(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity())
    assert http.post(f"/workflows/{name}/cancel", {"reason": "enough"}).status == 200
    assert http.post(f"/workflows/{name}/cancel").status == 200
    assert http.describe(name)["status"] == "RUNNING"
    requested = [event for event in http.history(name) if event["event_type"] == "WorkflowCancelRequested"]
    assert [event["payload"] for event in requested] == [{"reason": "enough"}]
    assert worker.activity() is None
    task = worker.task()
    assert task is not None
    assert "WorkflowCancelRequested" in [event["event_type"] for event in task["history"]]
    assert worker.commands(name, {"type": "CancelWorkflow"}).status == 200
    assert http.describe(name)["status"] == "CANCELLED"


def test_a_running_activity_hears_of_a_cancel_by_its_heartbeat(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue, heartbeat_timeout_secs=60))
    task = worker.activity()
    assert task is not None
    reply = http.post(f"/tasks/{task['id']}/heartbeat", {"details": {"at": 1}})
    assert (reply.status, reply.body) == (200, b"")
    http.post(f"/workflows/{name}/cancel")
    reply = http.post(f"/tasks/{task['id']}/heartbeat", b"[]")
    assert (reply.status, reply.json()) == (200, {"cancel_requested": True})


def test_a_cancel_reaches_the_children(http: Http):
    worker, name = claimed(http)
    child = f"{name}-child"
    worker.commands(
        name, {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": child, "task_queue": worker.queue}
    )
    task = worker.task()
    assert task is not None
    assert task["workflow_id"] == child
    worker.commands(child)
    http.post(f"/workflows/{name}/cancel", {"reason": "enough"})
    tasks = [worker.task(wait_secs=5), worker.task(wait_secs=5)]
    assert [task["workflow_id"] for task in tasks if task] == [name, child]
    assert http.history(child)[-1]["payload"]["reason"] == "enough"


def test_a_cancel_with_a_deadline_ends_in_a_termination(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity())
    http.post(f"/workflows/{name}/cancel", {"deadline": 0.2})
    result = http.get(f"/workflows/{name}/result?wait_secs=10").json()
    assert (result["status"], result["close_reason"]) == ("FAILED", "terminated")


@pytest.mark.parametrize("body", EMPTY_BODIES)
def test_terminate_needs_no_reason(http: Http, body: bytes | None):
    name = http.start()["workflow_id"]
    reply = http.post(f"/workflows/{name}/terminate", body)
    assert (reply.status, reply.body) == (200, b"")
    record = http.describe(name)
    assert (record["status"], record["close_reason"], record["error"]) == ("FAILED", "terminated", "terminated")
    assert record["completed_at"] is not None
    assert http.kinds(name) == ["WorkflowStarted", "WorkflowTerminated"]
    assert http.history(name)[-1]["payload"] == {"reason": "terminated"}


def test_terminate_with_a_reason_ends_everything(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    http.post(f"/workflows/{name}/terminate", {"reason": "fire"})
    assert http.describe(name)["error"] == "fire"
    assert worker.complete(task).status == 409
    assert http.get(f"/activities/{task['id']}").json()["status"] == "CANCELLED"
    assert http.kinds(name)[-1] == "WorkflowTerminated"


@pytest.mark.parametrize(("path", "body"), [("cancel", {"reason": 5}), ("terminate", {"reason": []})])
def test_a_reason_is_a_text(http: Http, path: str, body: dict[str, object]):
    name = http.start()["workflow_id"]
    assert http.post(f"/workflows/{name}/{path}", {"reason": 5}).status == 422


@pytest.mark.parametrize("body", EMPTY_BODIES)
def test_continue_as_new_of_an_open_run(http: Http, body: bytes | None):
    first = http.start(search_attributes={"env": "prod"}, input=1)
    name = first["workflow_id"]
    http.post(f"/workflows/{name}/signal/unread", {"payload": 1})
    reply = http.post(f"/workflows/{name}/continue-as-new", body)
    assert reply.status == 201
    assert reply.json()["workflow_id"] == name
    old, new = http.describe(name, run_id=first["run_id"]), http.describe(name)
    assert (old["status"], old["close_reason"]) == ("COMPLETED", "continued_as_new")
    assert old["next_run_id"] == new["run_id"] == reply.json()["run_id"]
    assert (new["input"], new["search_attributes"], new["status"]) == (1, {"env": "prod"}, "PENDING")
    assert http.kinds(name) == ["WorkflowStarted", "SignalReceived"]


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"input": None}, {"item": "book"}),
        ({"keep_input": True}, {"item": "book"}),
        ({"input": None, "keep_input": False}, None),
        ({"keep_input": False}, None),
        ({"input": 5, "keep_input": False}, 5),
    ],
)
def test_the_input_of_the_next_run(http: Http, closed: bool, body: dict[str, object], found: object):
    name, other = http.start(input={"item": "book"})["workflow_id"], fresh("other")
    if closed:
        http.post(f"/workflows/{name}/terminate")
    assert http.post(f"/workflows/{name}/continue-as-new", body).status == 201
    assert http.describe(name)["input"] == found
    assert http.post(f"/workflows/{name}/continue-as-new", {**body, "workflow_id": other}).status == 201
    assert http.describe(other)["input"] == found


def test_an_input_that_is_given_is_not_kept(http: Http):
    name = http.start()["workflow_id"]
    reply = http.post(f"/workflows/{name}/continue-as-new", {"input": 5, "keep_input": True})
    assert (reply.status, reply.json()["field"]) == (400, "keep_input")


def test_continue_as_new_of_a_closed_run_leaves_it_alone(http: Http):
    first = http.start()
    name = first["workflow_id"]
    http.post(f"/workflows/{name}/terminate")
    reply = http.post(f"/workflows/{name}/continue-as-new", {"input": {"x": 1}})
    assert reply.status == 201
    assert http.describe(name)["input"] == {"x": 1}
    assert http.describe(name, run_id=first["run_id"])["status"] == "FAILED"
    assert http.post(f"/workflows/{name}/continue-as-new?run_id={first['run_id']}").status == 409
    assert http.post("/workflows/nobody/continue-as-new").status == 404


def test_continue_as_new_under_another_id(http: Http):
    first = http.start(workflow_type="Chain")
    name, other = first["workflow_id"], fresh("other")
    reply = http.post(f"/workflows/{name}/continue-as-new", {"workflow_id": other, "input": 5})
    assert (reply.status, reply.json()["workflow_id"]) == (201, other)
    new = http.describe(other)
    assert (new["workflow_type"], new["input"], new["first_run_id"]) == ("Chain", 5, new["run_id"])
    assert http.describe(name)["close_reason"] == "continued_as_new"
    for query in ("", "?wait_secs=5", "?follow=false"):
        ended = http.get(f"/workflows/{name}/result{query}")
        assert (ended.status, ended.json()["workflow_id"], ended.json()["run_id"]) == (200, name, first["run_id"])
        assert (ended.json()["status"], ended.json()["close_reason"]) == ("COMPLETED", "continued_as_new")
    assert http.get(f"/workflows/{other}/result").status == 202
    assert http.post(f"/workflows/{name}/continue-as-new", {"workflow_id": other}).status == 409
    assert http.post(f"/workflows/{name}/continue-as-new", {"workflow_id": "  "}).status == 201


# activities from outside


def test_an_activity_is_scheduled_directly_once(http: Http):
    queue = fresh("queue")
    name = http.start()["workflow_id"]
    body = {"name": "charge", "seq": 1, "task_queue": queue, "input": {"n": 1}, "max_attempts": 2}
    first = http.post(f"/workflows/{name}/activities", body)
    assert first.status == 201
    record = first.json()
    assert (record["status"], record["attempt"], record["max_attempts"]) == ("PENDING", 1, 2)
    assert (record["input"], record["workflow_id"], record["seq"]) == ({"n": 1}, name, 1)
    second = http.post(f"/workflows/{name}/activities", {**body, "name": "other"})
    assert (second.status, second.json()) == (201, record)
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled"]
    assert http.describe(name)["status"] == "RUNNING"
    task = Worker(http, queue).activity()
    assert task is not None
    assert task["activity_id"] == record["id"]
    assert http.post(f"/tasks/{task['id']}/complete", {"result": "ok"}).status == 200
    done = http.post(f"/workflows/{name}/activities", body)
    assert (done.status, done.json()["status"], done.json()["result"]) == (201, "COMPLETED", "ok")


def test_durations_of_a_direct_activity_may_be_texts(http: Http):
    name = http.start()["workflow_id"]
    fields = {"start_to_close_secs": "1h30m", "initial_interval_secs": "2s", "maximum_interval_secs": 90}
    fields |= {"schedule_to_start_secs": "1m", "schedule_to_close_secs": "1d", "heartbeat_timeout_secs": "500ms"}
    record = http.post(f"/workflows/{name}/activities", {"name": "a", "seq": 1, "task_queue": "q", **fields}).json()
    assert (record["start_to_close_secs"], record["initial_interval_secs"]) == (5400, 2)
    assert record["heartbeat_timeout_secs"] == 0.5
    options = http.history(name)[1]["payload"]["options"]
    assert (options["retry_policy"]["maximum_interval"], options["schedule_to_close"]) == (90, 86400)


def test_direct_activities_at_once_are_one(http: Http):
    name = http.start()["workflow_id"]
    body = {"name": "charge", "seq": 3, "task_queue": "q"}
    replies: list[dict[str, object]] = []

    def schedule() -> None:
        replies.append(http.post(f"/workflows/{name}/activities", body).json())

    threads = [threading.Thread(target=schedule) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reply["id"] for reply in replies}) == 1
    assert http.kinds(name).count("ActivityScheduled") == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": None}, 422),
        ({"seq": "x"}, 422),
        ({"task_queue": None}, 422),
        ({"seq": -1}, 400),
        ({"name": ""}, 400),
        ({"start_to_close_secs": -1}, 400),
        ({"start_to_close_secs": "5"}, 400),
        ({"heartbeat_timeout_secs": "soon"}, 400),
        ({"backoff_coefficient": 0.1}, 400),
    ],
)
def test_bad_direct_activities_are_refused(http: Http, fields: dict[str, object], status: int):
    name = http.start()["workflow_id"]
    body = {"name": "a", "seq": 1, "task_queue": "q", **fields}
    given = {key: value for key, value in body.items() if value is not None}
    assert http.post(f"/workflows/{name}/activities", given).status == status


@pytest.mark.parametrize("field", ["start_to_close_secs", "initial_interval_secs", "maximum_interval_secs"])
def test_a_duration_of_a_direct_activity_is_blamed_by_its_name(http: Http, field: str):
    name = http.start()["workflow_id"]
    reply = http.post(f"/workflows/{name}/activities", {"name": "a", "seq": 1, "task_queue": "q", field: -1})
    assert (reply.status, reply.json()["field"]) == (400, field)
    body = {"name": "a", "seq": 1, "task_queue": "q", "initial_interval_secs": 9, "maximum_interval_secs": 3}
    assert http.post(f"/workflows/{name}/activities", body).json()["field"] == "maximum_interval_secs"


def test_direct_activities_need_an_open_run(http: Http):
    body = {"name": "a", "seq": 1, "task_queue": "q"}
    assert http.post("/workflows/nobody/activities", body).status == 404
    name = http.start()["workflow_id"]
    http.post(f"/workflows/{name}/terminate")
    assert http.post(f"/workflows/{name}/activities", body).status == 404


def test_an_activity_is_found_by_both_of_its_ids(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue, max_attempts=2, initial_interval_secs=0))
    task = worker.activity()
    assert task is not None
    record = http.get(f"/activities/{task['activity_id']}").json()
    assert record == http.get(f"/activities/{task['id']}").json()
    assert (record["id"], record["status"], record["claimed_by"]) == (task["activity_id"], "RUNNING", worker.id)
    worker.fail(task)
    again = worker.activity(wait_secs=5)
    assert again is not None
    assert again["id"] != task["id"]
    for number in (task["id"], again["id"], task["activity_id"]):
        found = http.get(f"/activities/{number}").json()
        assert (found["id"], found["attempt"]) == (record["id"], 2)


@pytest.mark.parametrize(
    ("number", "status"), [("999999999", 404), ("x", 400), ("-1", 400), ("9" * 19, 404), ("9" * 40, 400)]
)
def test_unknown_activities(http: Http, number: str, status: int):
    reply = http.get(f"/activities/{number}")
    assert reply.status == status
    if status == 404:
        assert reply.json()["error"] == f"not found: activity {number} not found"


# retry


def failed_run(http: Http) -> tuple[Worker, str, str]:
    """A run that failed because its second activity did."""
    queue = fresh("queue")
    worker = Worker(http, queue)
    started = http.start(task_queue=queue)
    name = started["workflow_id"]
    worker.turn(name, activity(1, "reserve", task_queue=queue))
    task = worker.activity()
    assert task is not None
    worker.complete(task, "reserved")
    worker.turn(name, activity(2, "charge", task_queue=queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task, "no money")
    worker.turn(name, {"type": "FailWorkflow", "error": "no money"})
    return worker, name, started["run_id"]


ASKED = {"requested_by": "ada", "reason": "there is money now"}


def test_a_failed_run_goes_on_where_it_failed(http: Http):
    worker, name, run_id = failed_run(http)
    reply = http.post(f"/workflows/{name}/retry", ASKED)
    assert reply.status == 200, reply
    body = reply.json()
    assert (body["workflow_id"], body["status"], body["invalidated_activities"]) == (name, "WAITING", 0)
    assert (body["activity"]["name"], body["activity"]["status"], body["activity"]["attempt"]) == (
        "charge",
        "PENDING",
        1,
    )
    old, new = http.describe(name, run_id=run_id), http.describe(name)
    assert (old["status"], old["next_run_id"], old["error"]) == ("FAILED", new["run_id"], "no money")
    assert body["run_id"] == new["run_id"]
    assert new["status"] == "RUNNING"
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "ActivityScheduled"]
    task = worker.task()
    assert task is not None
    assert [event["event_type"] for event in task["history"]] == http.kinds(name)
    worker.commands(name)
    charge = worker.activity()
    assert charge is not None
    assert charge["activity_id"] == body["activity"]["id"]
    worker.complete(charge, "charged")
    worker.turn(name, complete("paid"))
    assert http.describe(name)["result"] == "paid"
    assert http.describe(name, run_id=run_id)["status"] == "FAILED"


def test_what_cannot_be_retried(http: Http):
    _, name, _ = failed_run(http)
    assert http.post("/workflows/nobody/retry", ASKED).status == 404
    for body in ({}, {"requested_by": "ada"}, {"requested_by": " ", "reason": "x"}, None, b"[]"):
        reply = http.post(f"/workflows/{name}/retry", body)
        assert (reply.status, reply.json()["error"]) == (400, "requested_by and reason are required")
    open_run = http.start()["workflow_id"]
    reply = http.post(f"/workflows/{open_run}/retry", ASKED)
    assert (reply.status, reply.json()["workflow_id"]) == (409, open_run)
    assert reply.json()["run_id"] == http.describe(open_run)["run_id"]
    assert reply.json()["error"] == f"workflow {open_run} is PENDING; only a closed run can be retried"
    assert reply.json()["code"] == "not_retryable"
    http.post(f"/workflows/{open_run}/terminate")
    assert http.post(f"/workflows/{open_run}/retry", ASKED).json()["status"] == "RUNNING"
    for seq in (0, 6, 7):
        reply = http.post(f"/workflows/{name}/retry", {**ASKED, "from_seq": seq})
        assert (reply.status, reply.json()["code"], reply.json()["field"]) == (400, "bad_from_seq", "from_seq")
    assert http.post(f"/workflows/{name}/retry", ASKED).status == 200
    reply = http.post(f"/workflows/{name}/retry", ASKED)
    assert (reply.status, reply.json()["code"]) == (409, "already_continued")


def test_a_retry_of_an_older_run_and_from_an_event(http: Http):
    _, name, run_id = failed_run(http)
    reply = http.post(f"/workflows/{name}/retry", {**ASKED, "run_id": run_id, "from_seq": 1})
    body = reply.json()
    assert (reply.status, body["status"], body["activity"]) == (200, "RUNNING", None)
    assert (body["invalidated_activities"], body["dropped_events"]) == (2, 5)
    assert http.kinds(name) == ["WorkflowStarted"]
    reply = http.post(f"/workflows/{name}/retry", {**ASKED, "run_id": run_id})
    assert (reply.status, reply.json()["code"]) == (409, "already_continued")
    reply = http.post(f"/workflows/{name}/retry", {**ASKED, "run_id": "nobody"})
    assert reply.status == 404


def test_of_two_retries_at_once_one_is_refused(http: Http):
    _, name, run_id = failed_run(http)
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(http.post(f"/workflows/{name}/retry?run_id={run_id}", ASKED).status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409, 409, 409]
    assert len(http.get(f"/workflows/{name}/runs").json()) == 2


def test_a_child_is_not_retried(http: Http):
    worker, name = claimed(http)
    child = f"{name}-child"
    worker.commands(
        name, {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": child, "task_queue": worker.queue}
    )
    worker.turn(child, activity(1, "x", task_queue=worker.queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    worker.turn(child, {"type": "FailWorkflow", "error": "x"})
    reply = http.post(f"/workflows/{child}/retry", ASKED)
    assert (reply.status, reply.json()["code"]) == (409, "is_child")


def test_timers_of_a_retried_run_are_armed(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    timer = {"type": "ScheduleTimer", "seq": 1, "duration_secs": 1}
    worker.turn(name, timer, activity(1, "x", task_queue=queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    worker.turn(name, {"type": "FailWorkflow", "error": "x"})
    assert http.post(f"/workflows/{name}/retry", ASKED).status == 200
    until(lambda: "TimerFired" in http.kinds(name))
