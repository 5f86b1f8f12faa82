"""What runs and schedules wait for, over HTTP, with workers that poll."""

from typing import Any

import pytest

from tests.api.support import Http, Worker, activity, fresh


def explained(http: Http, name: str) -> tuple[str, str, str]:
    """Kind, attention and summary, the same in every place that shows them."""
    found = http.get(f"/workflows/{name}/waiting").json()
    (listed,) = http.get(f"/workflows?workflow_id={name}").json()
    (run,) = http.get(f"/workflows/{name}/runs").json()
    for record in (http.describe(name), listed, run):
        assert record["waiting_on"]["kind"] == found["waiting_on"]["kind"]
        assert record["waiting_on"]["attention"] == found["waiting_on"]["attention"]
        assert record["stuck"] == found["stuck"]
    waiting = found["waiting_on"]
    assert waiting["waits"][0]["sentence"] == waiting["summary"]
    return waiting["kind"], waiting["attention"], waiting["summary"]


@pytest.fixture
def queue() -> str:
    return fresh("queue")


def test_a_queue_without_a_worker(http: Http, queue: str):
    name = http.start(task_queue=queue)["workflow_id"]
    assert explained(http, name) == ("no_worker", "operator", f"No worker serves queue '{queue}'.")


def test_a_run_that_waits_for_a_worker_of_its_queue(http: Http, queue: str):
    Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    sentence = f"Ready to go on; waits 0 s for a worker of queue '{queue}' (1 queued, 1 workers)."
    assert explained(http, name) == ("task_queued", "none", sentence)


def test_a_signal_and_its_time_out(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    timer = {"type": "ScheduleTimer", "seq": 0, "duration_secs": 7_200}
    worker.turn(name, timer, {"type": "WaitForSignal", "name": "approve", "timer_seq": 0})
    sentence = "Waits 0 s for signal 'approve'; gives up in 2 h."
    assert explained(http, name) == ("signal", "person", sentence)
    assert http.describe(name)["waiting_on"]["signal"] == "approve"
    assert len(http.describe(name)["waiting_on"]["waits"]) == 1


def test_a_worker_that_names_no_wait_waits_for_a_signal(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name)
    assert explained(http, name) == ("signal", "person", "Waits 0 s for a signal.")


def test_an_activity_from_its_queue_to_its_next_try(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    retried: dict[str, Any] = {"max_attempts": 5, "initial_interval_secs": 50}
    worker.turn(name, activity(task_queue=queue, name="charge", **retried))
    sentence = f"Activity 'charge' waits 0 s in queue '{queue}' (1 queued, 1 workers)."
    assert explained(http, name) == ("activity_queued", "none", sentence)
    attempt = worker.activity()
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("activity_running", "none")
    assert summary.startswith("Activity 'charge' runs on worker '")
    assert summary.endswith("' 0 s, attempt 1 of 5.")
    worker.fail(attempt, "card declined")
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("activity_retry", "watch")
    assert summary == "Activity 'charge' failed 1 of 5 times; next try in 50 s. Last error: card declined"


def test_an_activity_on_a_queue_without_a_worker(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, activity(task_queue=f"{queue}-images", name="resize"))
    assert explained(http, name) == ("no_worker", "operator", f"No worker serves queue '{queue}-images'.")


def test_a_closed_run_waits_for_nothing(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, {"type": "CompleteWorkflow"})
    found = http.get(f"/workflows/{name}/waiting").json()
    assert (found["status"], found["waiting_on"], found["history_length"]) == ("COMPLETED", None, 2)
    assert http.describe(name)["waiting_on"] is None


def test_an_unknown_run_is_not_found(http: Http):
    assert http.get("/workflows/nobody/waiting").status == 404


def test_a_cancelled_run_that_still_has_code_to_end(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name)
    http.post(f"/workflows/{name}/cancel", {"reason": "obsolete", "deadline_secs": 60})
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("cancelling", "watch")
    assert summary.startswith("Was asked to cancel 0 s ago; its code has not ended yet")
    assert http.describe(name)["waiting_on"]["waits"][0]["reason"] == "obsolete"


def test_a_start_delay(http: Http, queue: str):
    name = http.start(task_queue=queue, start_delay=3_600)["workflow_id"]
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("start_delay", "none")
    assert summary.startswith("Starts in 1 h (")


def test_a_timer(http: Http, queue: str):
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, {"type": "ScheduleTimer", "seq": 0, "duration_secs": 3_600})
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("timer", "none")
    assert summary.startswith("Timer fires in 1 h (")


def test_a_parent_says_what_its_child_waits_for(http: Http, queue: str):
    worker = Worker(http, queue)
    name, child = http.start(task_queue=queue)["workflow_id"], fresh("child")
    start = {
        "type": "StartChildWorkflow",
        "workflow_type": "Child",
        "workflow_id": child,
        "task_queue": f"{queue}-none",
    }
    worker.turn(name, start)
    kind, attention, summary = explained(http, name)
    assert (kind, attention) == ("child", "operator")
    assert summary == f"Child '{child}' is open 0 s: No worker serves queue '{queue}-none'."


def test_a_schedule_says_when_it_fires_and_by_whom_it_is_paused(http: Http):
    name = fresh("nightly")
    body = {"name": name, "workflow_type": "Report", "cron_expr": "0 2 * * *", "timezone": "Europe/Berlin"}
    made = http.post("/schedules", body).json()
    assert made["waiting_on"]["kind"] == "schedule_next"
    assert made["waiting_on"]["summary"].endswith("02:00 Europe/Berlin).")
    http.post(f"/schedules/{name}/pause", {"by": "ana", "reason": "holidays"})
    waiting = http.get(f"/schedules/{name}").json()["waiting_on"]
    assert (waiting["kind"], waiting["summary"]) == ("schedule_paused", "Paused by ana 0 s ago: holidays.")
