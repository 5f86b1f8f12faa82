import asyncio
import json
import socket
import threading
import time

import pytest

from tests.api.support import Http, Server, Worker, activity, claimed, complete, fresh, holds, serving


def test_an_idle_poll_is_null(http: Http):
    worker = Worker(http, fresh("queue"))
    reply = http.post("/workflow-tasks/poll", {"queue": worker.queue, "worker_id": worker.id})
    assert (reply.status, reply.body) == (200, b"null")
    reply = http.post("/tasks/poll", {"queue": worker.queue, "worker_id": worker.id})
    assert (reply.status, reply.json()) == (200, {"task": None})


def test_a_task_has_the_whole_history_parsed(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    started = http.start(task_queue=queue, input={"who": "world"})
    task = worker.task()
    assert task is not None
    assert (task["workflow_id"], task["namespace"], task["workflow_type"]) == (started["workflow_id"], "main", "Order")
    assert (task["task_queue"], task["input"], task["run_id"]) == (queue, {"who": "world"}, started["run_id"])
    (event,) = task["history"]
    assert event.keys() == {"seq", "event_type", "payload", "timestamp"}
    assert (event["seq"], event["event_type"], event["payload"]) == (1, "WorkflowStarted", {"who": "world"})
    assert http.describe(started["workflow_id"])["status"] == "RUNNING"


def test_a_task_is_given_to_one_worker(http: Http):
    queue = fresh("queue")
    one, two = Worker(http, queue), Worker(http, queue)
    http.start(task_queue=queue)
    assert one.task() is not None
    assert two.task() is None


def test_oldest_first(http: Http):
    queue = fresh("queue")
    names = [http.start(task_queue=queue)["workflow_id"] for _ in range(3)]
    worker = Worker(http, queue)
    tasks = [worker.task() for _ in range(3)]
    assert [task["workflow_id"] for task in tasks if task] == names


def test_hello(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue, input={"who": "world"})["workflow_id"]
    worker.turn(name, activity(1, "greet", task_queue=queue, input={"who": "world"}))
    task = worker.activity()
    assert task is not None
    assert task["input"] == '{"who":"world"}'
    assert (task["name"], task["attempt"], task["status"], task["claimed_by"]) == ("greet", 1, "RUNNING", worker.id)
    assert isinstance(task["id"], int)
    reply = worker.complete(task, {"message": "hello, world"})
    assert (reply.status, reply.body) == (200, b"")
    last = worker.turn(name, complete({"greeting": "hello, world"}))
    assert [event["event_type"] for event in last["history"]] == [
        "WorkflowStarted", "ActivityScheduled", "ActivityCompleted"
    ]  # fmt: skip
    assert last["history"][1]["payload"]["input"] == {"who": "world"}
    payload = last["history"][2]["payload"]
    assert (payload["activity_seq"], payload["result"], payload["error"]) == (1, {"message": "hello, world"}, None)
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "WorkflowCompleted"]
    assert http.history(name)[-1]["payload"] == {"greeting": "hello, world"}


def test_input_is_text_as_the_original_writes_it(http: Http):
    worker, name = claimed(http)
    given = {"b": 1.0, "a": ["é", None], "n": 10**25}
    worker.commands(name, activity(1, task_queue=worker.queue, input=given), activity(2, task_queue=worker.queue))
    first, second = worker.activity(), worker.activity()
    assert first is not None
    assert second is not None
    assert first["input"] == '{"a":["é",null],"b":1.0,"n":10000000000000000000000000}'
    assert second["input"] is None


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b"[ ]", b'{"result": null}'])
def test_a_result_may_be_nothing(http: Http, body: bytes):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    assert http.post(f"/tasks/{task['id']}/complete", body).status == 200
    assert http.history(name)[-1]["payload"]["result"] is None


def test_reports_are_heard_once(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    assert worker.complete(task, 1).status == 200
    assert worker.complete(task, 1).status == 200
    reply = worker.complete(task, 2)
    assert (reply.status, reply.json()["code"]) == (409, "already_reported")
    assert worker.fail(task).status == 409
    assert http.post(f"/tasks/{task['id']}/heartbeat").status == 409
    assert http.kinds(name).count("ActivityCompleted") == 1


def test_the_same_report_is_welcome_after_the_run_has_closed(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    worker.complete(task, 1)
    worker.turn(name, complete())
    assert worker.complete(task, 1).status == 200
    assert worker.complete(task, 2).status == 409


def test_failures_are_tried_again_after_a_while(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue, max_attempts=2, initial_interval_secs=0.5))
    first = worker.activity()
    assert first is not None
    assert worker.fail(first, "once").status == 200
    assert worker.fail(first, "once").status == 200
    assert worker.activity() is None
    began = time.monotonic()
    second = worker.activity(wait_secs=10)
    assert second is not None
    assert time.monotonic() - began > 0.3
    assert (second["attempt"], second["id"] != first["id"]) == (2, True)
    assert worker.complete(first, "late").status == 409
    assert worker.fail(second, "twice").status == 200
    event = http.history(name)[-1]
    assert event["event_type"] == "ActivityFailed"
    assert (event["payload"]["error"], event["payload"]["final_attempt"]) == ("twice", 2)
    assert http.kinds(name).count("ActivityFailed") == 1


def test_details_of_a_heartbeat_go_to_the_next_attempt(http: Http):
    worker, name = claimed(http)
    worker.commands(
        name, activity(task_queue=worker.queue, heartbeat_timeout_secs=0.3, max_attempts=2, initial_interval_secs=0)
    )
    first = worker.activity()
    assert first is not None
    assert first["heartbeat_details"] is None
    assert http.post(f"/tasks/{first['id']}/heartbeat", {"details": {"at": 7}}).status == 200
    second = worker.activity(wait_secs=10)
    assert second is not None
    assert second["heartbeat_details"] == {"at": 7}


def test_start_to_close_is_enforced(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue, start_to_close_secs=0.2, max_attempts=1))
    assert worker.activity() is not None
    task = worker.task(wait_secs=10)
    assert task is not None
    payload = task["history"][-1]["payload"]
    assert (task["history"][-1]["event_type"], payload["timeout_type"]) == ("ActivityFailed", "start_to_close")


@pytest.mark.parametrize("path", ["complete", "fail", "heartbeat"])
def test_unknown_tasks_are_not_found(http: Http, path: str):
    body = {"error": "x"}
    assert http.post(f"/tasks/999999999/{path}", body).status == 404
    assert http.post(f"/tasks/x/{path}", body).status == 400


def test_a_failure_needs_a_sentence(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    for body in (b"", b"[]", {"error": 5}, {}):
        assert http.post(f"/tasks/{task['id']}/fail", body).status == 422


# commands


def test_commands_of_somebody_else_are_refused(http: Http):
    worker, name = claimed(http)
    stranger = Worker(http, worker.queue)
    reply = stranger.commands(name, complete("stolen"))
    assert (reply.status, reply.json()["code"]) == (409, "stale_task")
    assert http.kinds(name) == ["WorkflowStarted"]
    assert worker.commands(name, complete("own")).status == 200
    reply = worker.commands(name, complete("again"))
    assert (reply.status, reply.json()["code"]) == (409, "run_closed")
    assert worker.commands("nobody", complete()).status == 404


def test_a_list_is_all_or_nothing(http: Http):
    worker, name = claimed(http)
    reply = worker.commands(name, activity(1), activity(2, backoff_coefficient=0))
    assert reply.status == 400
    assert http.kinds(name) == ["WorkflowStarted"]
    assert worker.commands(name, activity(1), activity(2)).status == 200
    assert http.kinds(name) == ["WorkflowStarted", "ActivityScheduled", "ActivityScheduled"]


def test_an_empty_list_releases_the_task(http: Http):
    for body in ([], {}, None):
        worker, name = claimed(http)
        path = f"/workflow-tasks/{name}/commands"
        assert http.post(path, {"worker_id": worker.id, "commands": body}).status == 200
        assert http.describe(name)["claimed_by"] is None
        assert worker.task() is None


def test_blanks_in_an_empty_table_of_commands_say_nothing(http: Http):
    for content in ("[ ]", "{\n}", '[{"type": "RecordSnapshot", "state": [ ]}]'):
        worker, name = claimed(http)
        body = f'{{"worker_id": "{worker.id}", "commands": {content}}}'.encode()
        assert http.post(f"/workflow-tasks/{name}/commands", body).status == 200
    assert http.get(f"/workflows/{name}/state").json()["state"] == {}


def test_an_activity_may_be_ordered_in_the_words_of_a_start(http: Http):
    worker, name = claimed(http)
    policy = {
        "maximum_attempts": 5,
        "initial_interval": "2s",
        "maximumInterval": 90,
        "non_retryable_error_types": "Bad",
    }
    limits = {"start_to_close": "1h30m", "schedule_to_start": 60, "schedule_to_close": "1d", "heartbeat": "10s"}
    worker.commands(
        name,
        activity(1, retry_policy=policy, **limits),
        activity(2, retry_policy=[], start_to_close=5, start_to_close_secs=7, max_attempts=1),
        {"type": "ScheduleTimer", "seq": 1, "duration_secs": "1h"},
        {"type": "ScheduleTimer", "seq": 2, "duration_secs": 3600},
        {"type": "CancelTimer", "command_id": 2},
        {"type": "RequestCancelActivity", "command_id": 2},
    )
    events = http.history(name)
    one, two = [event["payload"]["options"] for event in events if event["event_type"] == "ActivityScheduled"]
    assert one["retry_policy"] == {
        "maximum_attempts": 5,
        "initial_interval": 2,
        "backoff_coefficient": 2,
        "maximum_interval": 90,
        "non_retryable_error_types": ["Bad"],
    }
    assert (one["start_to_close"], one["heartbeat_timeout"]) == (5400, 10)
    assert (one["schedule_to_start"], one["schedule_to_close"]) == (60, 86400)
    assert (two["start_to_close"], two["retry_policy"]["maximum_attempts"]) == (7, 1)
    timers = [event["payload"] for event in events if event["event_type"].startswith("Timer")]
    assert [timer.get("duration_secs") for timer in timers] == [3600, 3600, None]
    assert [event["event_type"] for event in events][-2:] == ["ActivityCancelRequested", "ActivityCancelled"]


@pytest.mark.parametrize(
    ("command", "status", "field"),
    [
        (activity(start_to_close="soon"), 400, "commands[0].start_to_close"),
        (activity(start_to_close_secs="5"), 400, "commands[0].start_to_close_secs"),
        (activity(heartbeat_timeout_secs="-5s"), 400, "commands[0].heartbeat_timeout_secs"),
        ({"type": "ScheduleTimer", "duration_secs": "x"}, 400, "commands[0].duration_secs"),
        (activity(retry_policy={"maximum_attempts": 1.5}), 400, "commands[0].retry_policy.maximum_attempts"),
        (activity(retry_policy="often"), 422, "commands[0].retry_policy"),
        (activity(start_to_close_secs=-1), 400, "start_to_close_secs"),
        (activity(initial_interval_secs=9, maximum_interval_secs=3), 400, "maximum_interval_secs"),
    ],
)
def test_what_makes_no_sense_in_those_words_is_refused(http: Http, command: dict[str, object], status: int, field: str):
    worker, name = claimed(http)
    reply = worker.commands(name, command)
    assert (reply.status, reply.json()["field"]) == (status, field)
    assert http.kinds(name) == ["WorkflowStarted"]


@pytest.mark.parametrize("how_long", [0.2, "200ms", "0.2s"])
def test_how_long_to_wait_may_be_a_text(http: Http, how_long: float | str):
    queue = fresh("queue")
    worker = Worker(http, queue)
    began = time.monotonic()
    assert worker.task(wait_secs=how_long) is None
    body = {"queue": queue, "worker_id": worker.id}
    assert http.post(f"/tasks/poll?wait_secs={how_long}", body).json() == {"task": None}
    name = http.start()["workflow_id"]
    assert http.get(f"/workflows/{name}/result?wait_secs={how_long}").status == 202
    assert time.monotonic() - began > 0.6
    for wrong in ("soon", "-1", "-1s", "nan", "inf"):
        reply = http.post(f"/tasks/poll?wait_secs={wrong}", body)
        assert (reply.status, reply.json()["field"]) == (400, "wait_secs")


def test_an_activity_that_is_tried_again_is_scheduled_for_its_next_attempt(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(task_queue=worker.queue, initial_interval_secs=1.5))
    first = worker.activity()
    assert first is not None
    ordered = http.history(name)[1]["timestamp"]
    assert first["scheduled_at"] == http.get(f"/activities/{first['id']}").json()["scheduled_at"] == ordered
    worker.fail(first)
    waiting = http.get(f"/activities/{first['id']}").json()
    assert (waiting["status"], waiting["attempt"]) == ("PENDING", 2)
    assert 1.5 <= waiting["scheduled_at"] - first["started_at"] < 6
    second = worker.activity(wait_secs=10)
    assert second is not None
    assert waiting["scheduled_at"] <= second["scheduled_at"] <= second["started_at"]
    assert worker.complete(second).status == 200
    assert http.get(f"/activities/{first['id']}").json()["scheduled_at"] == second["scheduled_at"]


def test_a_report_that_comes_too_late_is_told_which_run_it_was_about(http: Http):
    worker, name = claimed(http)
    about = {"workflow_id": name, "run_id": http.describe(name)["run_id"]}
    worker.commands(name, activity(task_queue=worker.queue))
    task = worker.activity()
    assert task is not None
    assert worker.complete(task, 1).status == 200
    for reply in (worker.complete(task, 2), worker.fail(task), worker.commands(name, activity(2))):
        assert reply.status == 409
        assert reply.json().items() >= about.items()


def test_a_token_is_for_the_workflow_that_the_path_names(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    names = [http.start(task_queue=queue)["workflow_id"] for _ in range(2)]
    tasks = [worker.task(), worker.task()]
    tokens = {task["workflow_id"]: task["task_token"] for task in tasks if task}
    one, two = names
    for path in (two, "nobody"):
        for action, body in (("commands", {"commands": [complete()]}), ("heartbeat", {})):
            reply = http.post(
                f"/workflow-tasks/{path}/{action}", {"worker_id": worker.id, "task_token": tokens[one], **body}
            )
            assert (reply.status, reply.json()["code"]) == (404, "unknown_task")
    assert http.kinds(one) == ["WorkflowStarted"]
    assert worker.commands(one, complete(), task_token=tokens[one]).status == 200
    assert worker.commands(two, complete(), task_token=tokens[one]).status == 404  # also of a run that has ended
    assert worker.commands(two, complete(), task_token=tokens[two]).status == 200


def test_an_activity_may_have_the_number_0(http: Http):
    worker, name = claimed(http)
    reply = worker.commands(name, activity(0, task_queue=worker.queue))
    assert reply.status == 200
    task = worker.activity()
    assert task is not None
    path, token = f"/tasks/{task['id']}", {"task_token": task["task_token"]}
    assert http.post(f"{path}/heartbeat", token).status == 200
    assert worker.commands(name, complete(), **token).status == 404
    assert http.post(f"{path}/complete", {"result": 1, **token}).status == 200


def test_a_task_that_cannot_be_done_is_given_up_and_comes_again_later(http: Http):
    worker, name = claimed(http)
    given_up = {"type": "FailTask", "reason": "no_handler", "message": "no Order here"}
    reply = worker.commands(name, activity(), given_up, complete("never"))
    assert (reply.status, reply.body) == (200, b"")
    record = http.describe(name)
    assert (record["status"], record["claimed_by"]) == ("RUNNING", None)
    stuck = record["stuck"]
    assert (stuck["reason"], stuck["message"], stuck["attempt"]) == ("no_handler", "no Order here", 1)
    assert http.kinds(name) == ["WorkflowStarted"]
    assert worker.task() is None
    assert worker.task(wait_secs=10) is not None
    assert worker.commands(name, given_up).status == 200
    again = http.describe(name)["stuck"]
    assert (again["attempt"], again["next_try_at"] - stuck["next_try_at"] >= 2) == (2, True)
    assert worker.task(wait_secs=10) is not None
    assert worker.commands(name, complete("at last")).status == 200
    assert (http.describe(name)["result"], http.describe(name)["stuck"]) == ("at last", None)
    assert worker.commands(name, given_up).status == 409


@pytest.mark.parametrize(
    ("report", "reason", "message"),
    [
        ({}, "task_failed", ""),
        ({"reason": None, "message": "x"}, "task_failed", "x"),
        ({"reason": "non_determinism", "message": "step 3"}, "non_determinism", "step 3"),
        ({"reason": "unsupported_version", "message": "pay"}, "unsupported_version", "pay"),
        ({"reason": "divergence", "message": "step 3"}, "task_failed", "divergence: step 3"),
        ({"reason": "divergence"}, "task_failed", "divergence"),
    ],
)
def test_why_a_task_is_stuck_is_said_in_few_words(http: Http, report: dict[str, str], reason: str, message: str):
    worker, name = claimed(http)
    assert worker.commands(name, {"type": "FailTask", **report}).status == 200
    stuck = http.describe(name)["stuck"]
    assert (stuck["reason"], stuck["message"]) == (reason, message)


def test_an_activity_has_the_context_of_its_run_and_the_values_of_the_call_over_it(http: Http):
    worker, name = claimed(http, context={"tenant": "t", "n": 1}, actor="ada", scope=["read"])
    queue = {"task_queue": worker.queue}
    worker.commands(name, activity(1, **queue), activity(2, context={"n": None, "call": [1]}, **queue))
    tasks = [worker.activity(), worker.activity()]
    assert [task["context"] for task in tasks if task] == [
        {"tenant": "t", "n": 1},
        {"tenant": "t", "n": None, "call": [1]},
    ]
    assert {(task["actor"], *task["scope"]) for task in tasks if task} == {("ada", "read")}


def test_a_child_has_the_context_of_its_parent_and_the_values_of_the_command_over_it(http: Http):
    worker, name = claimed(http, context={"tenant": "t", "n": 1}, actor="ada", scope=["read"])
    child = {"type": "StartChildWorkflow", "workflow_type": "Child", "task_queue": worker.queue}
    names = [fresh("child"), fresh("child")]
    worker.commands(name, {**child, "workflow_id": names[0]}, {**child, "workflow_id": names[1], "context": {"n": 2}})
    records = [http.describe(one) for one in names]
    assert [record["context"] for record in records] == [{"tenant": "t", "n": 1}, {"tenant": "t", "n": 2}]
    assert {(record["actor"], *record["scope"]) for record in records} == {("ada", "read")}


@pytest.mark.parametrize("context", [[1], "x", 7])
def test_a_context_of_an_activity_is_an_object(http: Http, context: object):
    worker, name = claimed(http)
    assert worker.commands(name, activity(1, context=context)).status in (400, 422)


def version(number: int, change_id: str = "pay") -> dict[str, object]:
    return {"type": "RecordVersion", "change_id": change_id, "version": number}


def test_a_version_is_recorded_once_and_another_fails_the_task(http: Http):
    worker, name = claimed(http)
    assert worker.commands(name, version(2), version(2)).status == 200
    http.post(f"/workflows/{name}/signal/go")
    worker.turn(name, version(2))
    http.post(f"/workflows/{name}/signal/go")
    assert worker.task() is not None
    reply = worker.commands(name, activity(1), version(3))
    assert (reply.status, reply.json()["code"], reply.json()["kind"]) == (409, "version_conflict", "CONFLICT")
    kinds = ["WorkflowStarted", "VersionRecorded", "SignalReceived", "SignalReceived"]
    assert http.kinds(name) == kinds
    record = http.describe(name)
    assert (record["status"], record["stuck"]["reason"]) == ("RUNNING", "non_determinism")
    assert "version 2 of change 'pay' is recorded, not 3" in record["stuck"]["message"]
    again = worker.task(wait_secs=10)
    assert again is not None
    assert worker.commands(name, version(2), complete("as before")).status == 200
    assert http.describe(name)["result"] == "as before"


@pytest.mark.parametrize("command", [version(-1), version(2**31), version(1, ""), version(1, "x" * 256)])
def test_a_malformed_version_is_refused(http: Http, command: dict[str, object]):
    worker, name = claimed(http)
    assert worker.commands(name, command).status == 400


def test_runs_are_listed_by_their_versions(http: Http):
    worker, name = claimed(http)
    change = fresh("change")
    assert worker.commands(name, version(2, change)).status == 200

    def found(wanted: str) -> list[str]:
        return [record["id"] for record in http.get(f"/workflows?change_version={wanted}").json()]

    assert found(change) == found(f"{change}:2") == [name]
    assert found(f"{change}:1") == found(f"{change}:x") == []


def test_a_reopened_run_has_been_passed_up_to_the_last_echo_of_its_copy(http: Http):
    worker, name = claimed(http)
    worker.commands(name, activity(1, task_queue=worker.queue, max_attempts=1))
    worker.complete(worker.activity())
    worker.turn(name, activity(2, task_queue=worker.queue, max_attempts=1))
    http.post(f"/workflows/{name}/signal/unseen")
    worker.fail(worker.activity())
    worker.turn(name, {"type": "FailWorkflow", "error": "broken"})
    reply = http.post(f"/workflows/{name}/retry", {"requested_by": "ada", "reason": "fixed"})
    assert reply.status == 200, reply
    task = worker.task()
    kinds = [event["event_type"] for event in task["history"]]
    assert kinds == ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "ActivityScheduled", "SignalReceived"]
    assert task["replay_until"] == 3


def test_a_close_that_has_not_seen_everything_is_refused(http: Http):
    worker, name = claimed(http)
    http.post(f"/workflows/{name}/signal/wait")
    reply = worker.commands(name, complete())
    assert (reply.status, reply.json()["code"]) == (409, "unhandled_events")
    about = {"workflow_id": name, "run_id": http.describe(name)["run_id"]}
    assert reply.json().items() >= about.items()
    task = worker.turn(name, complete("seen"))
    assert [event["event_type"] for event in task["history"]] == ["WorkflowStarted", "SignalReceived"]


def test_a_cancel_is_never_refused_for_that(http: Http):
    worker, name = claimed(http)
    http.post(f"/workflows/{name}/signal/wait")
    assert worker.commands(name, {"type": "CancelWorkflow"}).status == 200


def test_commands_are_read_with_tolerance(http: Http):
    worker, name = claimed(http)
    reply = worker.commands(
        name,
        {"type": "DanceTheTango", "seq": 1},
        {"no": "type"},
        {"type": "RecordSnapshot", "state": []},
        {"type": "ScheduleActivity", "name": "first", "task_queue": None, "max_attempts": None, "more": 1},
        {"type": "ScheduleTimer", "duration_secs": 3600},
        {"type": "UpsertSearchAttributes", "patch": []},
        {"type": "RecordSideEffect", "seq": 1.0, "name": "x", "value": None},
        {"type": "WaitForSignal", "name": "go", "timer_seq": 0},
    )
    assert reply.status == 200, reply
    events = http.history(name)
    assert [event["event_type"] for event in events] == [
        "WorkflowStarted", "ActivityScheduled", "TimerScheduled", "AttributesUpserted", "SideEffectRecorded",
        "WorkflowAwaitingSignal",
    ]  # fmt: skip
    assert (events[1]["payload"]["activity_seq"], events[1]["payload"]["task_queue"]) == (0, "default")
    assert (events[2]["payload"]["timer_seq"], events[2]["payload"]["duration_secs"]) == (0, 3600)
    assert events[4]["payload"] == {"side_effect_seq": 1, "name": "x", "value": None}
    assert events[5]["payload"] == {"signal": "go", "timer_seq": 0}
    assert http.get(f"/workflows/{name}/state").json()["state"] == {}


@pytest.mark.parametrize("commands", ["x", 5, [5], [{"type": "ScheduleActivity", "seq": "first"}]])
def test_what_are_no_commands_is_a_wrong_shape(http: Http, commands: object):
    worker, name = claimed(http)
    reply = http.post(f"/workflow-tasks/{name}/commands", {"worker_id": worker.id, "commands": commands})
    assert (reply.status, reply.json()["code"]) == (422, "wrong_shape")
    assert worker.commands(name).status == 200


def test_a_side_effect_makes_a_task_due_at_once(http: Http):
    worker, name = claimed(http)
    worker.commands(name, {"type": "RecordSideEffect", "seq": 1, "name": "id", "value": "r-1"})
    task = worker.turn(name, complete())
    assert task["history"][-1]["payload"]["value"] == "r-1"


def test_timers_fire(http: Http):
    worker, name = claimed(http)
    worker.commands(name, {"type": "ScheduleTimer", "seq": 1, "duration_secs": 0.2})
    task = worker.task(wait_secs=10)
    assert task is not None
    fired = task["history"][-1]
    assert (fired["event_type"], fired["payload"]["timer_seq"]) == ("TimerFired", 1)


def test_repeated_commands_are_recorded_once(http: Http):
    worker, name = claimed(http)
    timer = {"type": "ScheduleTimer", "seq": 1, "duration_secs": 3600}
    child = {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": f"{name}-c"}
    worker.commands(name, activity(1), timer, child)
    http.post(f"/workflows/{name}/signal/again")
    worker.turn(name, activity(1, "other"), timer, child)
    assert http.kinds(name) == [
        "WorkflowStarted", "ActivityScheduled", "TimerScheduled", "ChildWorkflowStarted", "SignalReceived"
    ]  # fmt: skip


def test_a_child_whose_id_belongs_to_somebody_else_has_failed(http: Http):
    stranger = http.start()["workflow_id"]
    worker, name = claimed(http)
    worker.commands(name, {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": stranger})
    task = worker.task()
    assert task is not None
    event = task["history"][-1]
    assert (event["event_type"], event["payload"]["child_workflow_id"]) == ("ChildWorkflowFailed", stranger)


def test_every_end_of_a_child_reaches_its_parent(http: Http):
    for end in ("complete", "fail", "terminate", "cancel"):
        worker, name = claimed(http)
        child = f"{name}-child"
        order = {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": child, "task_queue": worker.queue}
        worker.commands(name, order)
        assert worker.task() is not None
        if end in ("complete", "fail"):
            worker.commands(child, complete(1) if end == "complete" else {"type": "FailWorkflow", "error": "no"})
        else:
            http.post(f"/workflows/{child}/{end}")
            worker.commands(child, {"type": "CancelWorkflow"})
        task = worker.task(wait_secs=5)
        assert task is not None
        expected = "ChildWorkflowCompleted" if end == "complete" else "ChildWorkflowFailed"
        assert [event["event_type"] for event in task["history"]][1:] == ["ChildWorkflowStarted", expected]


def test_search_attributes_are_merged(http: Http):
    worker, name = claimed(http, search_attributes={"env": "prod", "stage": "build"})
    worker.commands(name, {"type": "UpsertSearchAttributes", "patch": {"stage": "deploy", "n": 1}})
    assert http.describe(name)["search_attributes"] == {"env": "prod", "stage": "deploy", "n": 1}


# namespaces, types, leases


def test_workers_get_only_what_they_registered_for(http: Http):
    queue = fresh("queue")
    name = http.start(task_queue=queue, workflow_type="Known")["workflow_id"]
    assert Worker(http, queue, workflows=["Other"]).task() is None
    assert Worker(http, queue, workflows=[]).task() is None
    assert Worker(http, queue, workflows={}).task() is None
    knowing = Worker(http, queue, workflows=["Known"], activities=["b"])
    knowing.turn(name, activity(1, "a", task_queue=queue), activity(2, "b", task_queue=queue))
    found = knowing.activity()
    assert found is not None
    assert found["name"] == "b"
    assert knowing.activity() is None
    assert Worker(http, queue, activities=[]).activity() is None
    assert Worker(http, queue, activities=None).activity() is not None


def test_namespaces_never_cross(http: Http):
    queue, one, two = fresh("queue"), fresh("ns"), fresh("ns")
    http.start("same", namespace=one, task_queue=queue, input=1)
    http.start("same", namespace=two, task_queue=queue, input=2)
    first, second = Worker(http, queue, namespace=one), Worker(http, queue, namespace=two)
    assert Worker(http, queue).task() is None
    task = first.task()
    assert task is not None
    assert (task["namespace"], task["input"]) == (one, 1)
    assert first.task() is None
    assert second.commands("same", complete("stolen")).status == 409
    assert second.task() is not None
    assert second.commands("same", complete(2)).status == 200
    assert first.commands("same", complete(1)).status == 200
    assert http.describe("same", namespace=one)["result"] == 1
    assert http.describe("same", namespace=two)["result"] == 2


def test_a_worker_that_never_registered_serves_main(http: Http):
    queue = fresh("queue")
    name = http.start(task_queue=queue)["workflow_id"]
    task = http.post("/workflow-tasks/poll", {"queue": queue, "worker_id": "made-up"}).json()
    assert task["workflow_id"] == name
    reply = http.post(f"/workflow-tasks/{name}/commands", {"worker_id": "made-up", "commands": [complete()]})
    assert reply.status == 200
    assert http.post("/workers/heartbeat", {"worker_id": "made-up"}).status == 200


def test_a_task_is_due_again_when_its_lease_is_over(http: Http):
    queue = fresh("queue")
    one, two = Worker(http, queue), Worker(http, queue)
    name = http.start(task_queue=queue, task_timeout=0.3)["workflow_id"]
    assert one.task() is not None
    assert two.task() is None
    assert two.task(wait_secs=10) is not None
    reply = one.commands(name, complete("late"))
    assert (reply.status, reply.json()["code"]) == (409, "stale_task")
    assert two.commands(name, complete("right")).status == 200
    assert http.describe(name)["result"] == "right"


def test_a_task_can_be_kept(http: Http):
    worker, name = claimed(http)
    reply = http.post(f"/workflow-tasks/{name}/heartbeat", {"worker_id": worker.id})
    assert reply.status == 200
    assert reply.json()["lease_until"] > http.describe(name)["created_at"] + 29
    assert http.post(f"/workflow-tasks/{name}/heartbeat", {"worker_id": "other"}).status == 409
    assert http.post(f"/workflow-tasks/{name}/heartbeat", {}).status == 422


def test_tokens_fence_exactly(http: Http):
    worker, name = claimed(http, task_timeout=0.3)
    old = http.describe(name)
    assert old["status"] == "RUNNING"
    again = worker.task(wait_secs=10)
    assert again is not None
    token = again["task_token"]
    broken = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    assert worker.commands(name, complete(), task_token=broken).status == 404
    assert worker.commands(name, activity(task_queue=worker.queue), task_token=token).status == 200
    assert worker.commands(name, complete(), task_token=token).status == 409
    task = worker.activity()
    assert task is not None
    path = f"/tasks/{task['id']}/complete"
    assert http.post(path, {"result": 1, "task_token": token}).status == 404
    assert http.post(path, {"result": 1, "task_token": task["task_token"]}).status == 200


@pytest.mark.parametrize("path", ["/workflow-tasks/poll", "/tasks/poll"])
@pytest.mark.parametrize("body", [{}, {"queue": "q"}, {"worker_id": "w"}, {"queue": 1, "worker_id": "w"}, b"[]"])
def test_a_poll_names_its_queue_and_its_worker(http: Http, path: str, body: object):
    assert http.post(path, body).status == 422


# long polls


def test_a_held_poll_gets_the_task_that_comes(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    found: list[dict[str, object] | None] = []
    waiting = threading.Thread(target=lambda: found.append(worker.task(wait_secs=20)))
    waiting.start()
    holds(http, 1)
    began = time.monotonic()
    name = http.start(task_queue=queue)["workflow_id"]
    waiting.join(10)
    assert time.monotonic() - began < 2
    assert found[0] is not None
    assert found[0]["workflow_id"] == name


def test_a_held_poll_ends_when_its_time_is_over(http: Http):
    worker = Worker(http, fresh("queue"))
    began = time.monotonic()
    assert worker.task(wait_secs=0.3) is None
    assert worker.activity(wait_secs=0.3) is None
    assert 0.5 < time.monotonic() - began < 5
    reply = http.post("/tasks/poll?wait_secs=0.1", {"queue": worker.queue, "worker_id": worker.id})
    assert reply.json() == {"task": None}


def test_a_held_workflow_poll_ends_when_an_activity_waits(http: Http):
    """A worker that polls in one loop must not block on its workflow poll while an activity is ready."""
    queue = fresh("queue")
    worker, other = Worker(http, queue), Worker(http, fresh("queue"))
    name = http.start(task_queue=other.queue)["workflow_id"]
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(worker.task(wait_secs=20)))
    waiting.start()
    holds(http, 1)
    other.turn(name, activity(task_queue=queue))
    waiting.join(5)
    assert found == [None]
    began = time.monotonic()
    assert worker.task(wait_secs=20) is None
    assert time.monotonic() - began < 5
    assert worker.activity() is not None


def test_a_task_of_a_caller_who_has_gone_is_free_at_once(server: Server, http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    body = f'{{"queue": "{queue}", "worker_id": "{worker.id}", "wait_secs": 20}}'.encode()
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        head = f"POST /api/v1/workflow-tasks/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        gone.sendall(head.encode() + body)
        holds(http, 1)
    holds(http, 0)
    name = http.start(task_queue=queue)["workflow_id"]
    task = worker.task(wait_secs=5)
    assert task is not None
    assert task["workflow_id"] == name


def test_a_thousand_polls_are_held(tmp_path):
    async def poll(port: int, number: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = json.dumps({"queue": "crowd", "worker_id": f"w-{number}", "wait_secs": 25}).encode()
        head = f"POST /api/v1/tasks/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.startswith(b"content-length"))
        content = await reader.readexactly(length)
        writer.close()
        return answer.split(b"\r\n")[0] + content

    async def main(server: Server, http: Http) -> list[bytes]:
        polls = [asyncio.create_task(poll(server.port, number)) for number in range(1_000)]
        await asyncio.to_thread(holds, http, 1_000)
        began = time.monotonic()
        await asyncio.to_thread(http.start, "lone", task_queue="other")
        assert time.monotonic() - began < 2
        refused = await asyncio.to_thread(
            http.post, "/tasks/poll", {"queue": "crowd", "worker_id": "w", "wait_secs": 5}
        )
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        await asyncio.to_thread(http.post, "/workflows/lone/activities", {"name": "a", "seq": 1, "task_queue": "crowd"})
        await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
        assert sum(one.done() for one in polls) == 1
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        answers = await asyncio.gather(*polls)
        assert (code, time.monotonic() - began < 5) == (0, True)
        return answers

    server = Server(tmp_path)
    try:
        answers = asyncio.run(main(server, server.http()))
    finally:
        server.close()
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert sum(b'"name":"a"' in answer for answer in answers) == 1


def test_the_lease_of_the_original_is_set_by_the_environment(tmp_path):
    with serving(tmp_path, ASSAY_WF_DISPATCH_TIMEOUT_SECS="0.5") as server:
        http = server.http()
        one, two = Worker(http), Worker(http)
        http.start()
        assert one.task() is not None
        assert two.task() is None
        assert two.task(wait_secs=10) is not None


def test_ready_tasks_go_out_by_priority_and_age(http: Http):
    queue = fresh("queue")
    names = {number: http.start(task_queue=queue, priority=number)["workflow_id"] for number in (5, 3, 1, 4, 2)}
    plain = http.start(task_queue=queue)["workflow_id"]
    worker = Worker(http, queue)
    order = [task["workflow_id"] for task in (worker.task() for _ in range(6)) if task]
    assert order == [names[1], names[2], names[3], plain, names[4], names[5]]


def test_ready_activities_go_out_by_their_priority_or_that_of_their_run(http: Http):
    worker, name = claimed(http, priority=4)
    queue = {"task_queue": worker.queue}
    last, own = activity(1, "inherited", **queue), activity(2, "own", priority=2, **queue)
    assert (
        worker.commands(name, last, own, activity(3, "same", **queue), activity(4, "first", priority=1, **queue)).status
        == 200
    )
    order = [task["name"] for task in (worker.activity() for _ in range(4)) if task]
    assert order == ["first", "own", "inherited", "same"]


@pytest.mark.parametrize("priority", [0, 6, "1", 1.5, True, {"priority_key": 1}])
def test_other_priorities_are_refused(http: Http, priority: object):
    reply = http.post("/workflows", {"workflow_type": "Order", "priority": priority})
    assert (reply.status, reply.json()["field"]) == (400, "priority")
    worker, name = claimed(http)
    assert worker.commands(name, activity(1, priority=priority)).status == 400
