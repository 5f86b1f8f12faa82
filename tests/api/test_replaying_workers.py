"""Workers that replay by themselves, as those of the original do: they number what they ask for, and repeat it."""

from typing import Any

import pytest

from tests.api.support import Http, Worker, activity, claimed, complete, fresh


def timer(seq: int) -> dict[str, Any]:
    return {"type": "ScheduleTimer", "seq": seq, "duration_secs": 3600}


def effect(seq: int) -> dict[str, Any]:
    return {"type": "RecordSideEffect", "seq": seq, "name": "n", "value": seq}


def recorded(http: Http, name: str, kind: str, field: str) -> list[int]:
    return [event["payload"][field] for event in http.history(name) if event["event_type"] == kind]


KINDS = [
    (activity, "ActivityScheduled", "activity_seq"),
    (timer, "TimerScheduled", "timer_seq"),
    (effect, "SideEffectRecorded", "side_effect_seq"),
]


@pytest.mark.parametrize(("command", "kind", "field"), KINDS)
def test_seqs_in_one_list_may_come_in_any_order_and_each_counts_once(http: Http, command: Any, kind: str, field: str):
    worker, name = claimed(http)
    assert worker.commands(name, *(command(seq) for seq in (2, 1, 2, 1, 0))).status == 200
    assert recorded(http, name, kind, field) == [2, 1, 0]


@pytest.mark.parametrize(("command", "kind", "field"), KINDS)
def test_a_later_turn_may_fill_a_gap_and_repeats_nothing(http: Http, command: Any, kind: str, field: str):
    worker, name = claimed(http)
    assert worker.commands(name, command(4), command(2)).status == 200
    http.post(f"/workflows/{name}/signal/go")
    worker.turn(name, *(command(seq) for seq in range(1, 6)))
    assert recorded(http, name, kind, field) == [4, 2, 1, 3, 5]


def test_an_activity_scheduled_from_outside_takes_no_other_seq_away(http: Http):
    worker, name = claimed(http)
    direct = {"name": "ext", "seq": 100, "task_queue": worker.queue}
    assert http.post(f"/workflows/{name}/activities", direct).status == 201
    worker.commands(name, activity(1, "own", task_queue=worker.queue))
    tasks = [worker.activity(), worker.activity()]
    assert [task["name"] for task in tasks if task] == ["ext", "own"]


def test_a_seq_below_zero_is_refused(http: Http):
    worker, name = claimed(http)
    reply = worker.commands(name, activity(-1))
    assert (reply.status, reply.json()["field"]) == (400, "seq")


def test_a_signal_that_the_worker_has_seen_does_not_go_on_to_the_next_run(http: Http):
    """The code has consumed the signal. Carried over to every new run, the signal would continue the chain for ever."""
    queue = fresh("queue")
    worker, name = Worker(http, queue), http.start(task_queue=queue)["workflow_id"]
    http.post(f"/workflows/{name}/signal/job", {"payload": "before"})
    worker.turn(name, {"type": "ContinueAsNew"})
    worker.turn(name, {"type": "WaitForSignal", "name": "job"})
    http.post(f"/workflows/{name}/signal/job", {"payload": "after"})
    worker.turn(name, {"type": "ContinueAsNew"})
    task = worker.turn(name, complete())
    assert [event["event_type"] for event in task["history"]] == ["WorkflowStarted"]


def test_a_signal_that_the_worker_has_not_seen_keeps_the_run_from_ending(http: Http):
    worker, name = claimed(http)
    http.post(f"/workflows/{name}/signal/job")
    assert worker.commands(name, complete()).status == 409
    assert worker.task() is not None


def test_a_signal_that_the_worker_has_not_seen_goes_on_to_the_next_run(http: Http):
    worker, name = claimed(http)
    http.post(f"/workflows/{name}/signal/job")
    assert worker.commands(name, {"type": "ContinueAsNew"}).status == 200
    task = worker.task()
    assert task is not None
    assert [event["event_type"] for event in task["history"]] == ["WorkflowStarted", "SignalReceived"]


def test_what_becomes_ready_together_goes_out_as_it_was_created(http: Http):
    """The name of the command makes no difference."""
    worker, name = claimed(http)
    names = ["fetch", "build", "deploy", "build"]
    children = [
        {"type": "StartChildWorkflow", "workflow_type": kind, "workflow_id": fresh(kind), "task_queue": worker.queue}
        for kind in "ZMA"
    ]
    orders = [activity(seq, what, task_queue=worker.queue) for seq, what in enumerate(names, 1)]
    assert worker.commands(name, *orders, *children).status == 200
    tasks = [worker.activity() for _ in names]
    assert [task["name"] for task in tasks if task] == names
    turns = [worker.task() for _ in children]
    assert [task["workflow_type"] for task in turns if task] == ["Z", "M", "A"]


def test_an_empty_table_that_looks_like_an_array_is_an_object(http: Http):
    worker, name = claimed(http, search_attributes={"env": "prod"})
    child = fresh("child")
    empty = [
        {"type": "UpsertSearchAttributes", "patch": []},
        {"type": "RecordSnapshot", "state": []},
        {"type": "StartChildWorkflow", "workflow_type": "T", "workflow_id": child, "search_attributes": []},
    ]
    reply = worker.commands(name, *empty)
    assert (reply.status, reply.body) == (200, b"")
    assert http.describe(name)["search_attributes"]["env"] == "prod"
    assert http.get(f"/workflows/{name}/state").json()["state"] == {}
    assert http.describe(child)["status"] == "PENDING"
