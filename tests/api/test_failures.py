"""Failure groups over HTTP: counted, muted, resolved, recurring."""

from tests.api.support import Http, Worker, activity, fresh


def failing(http: Http, worker: Worker, space: str, error: str) -> str:
    body = {"workflow_type": "Order", "task_queue": "q"}
    name: str = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
    worker.turn(name, {"type": "FailWorkflow", "error": error})
    return name


def groups(http: Http, space: str, query: str = "") -> list[dict[str, object]]:
    found: list[dict[str, object]] = http.get(f"/failures?namespace={space}{query}").json()
    return found


def test_runs_that_fail_alike_are_one_group(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    assert groups(http, space) == []
    names = [failing(http, worker, space, f"order {number} declined") for number in range(5)]
    other = failing(http, worker, space, "disk full")
    newest, first = groups(http, space)
    assert (newest["message"], newest["count"], newest["open"]) == ("disk full", 1, 1)
    assert (first["count"], first["open"], first["state"], first["regressed"]) == (5, 5, "open", False)
    assert (first["where"], first["source"], first["workflow_type"]) == ("workflow", "run", "Order")
    assert first["sample"]["id"] == names[-1]  # type: ignore[index]
    assert (len(first["per_hour"]), sum(first["per_hour"])) == (24, 5)  # type: ignore[arg-type]
    found = http.get(f"/workflows?namespace={space}&failure={first['fingerprint']}").json()
    assert {run["id"] for run in found} == set(names)
    assert other not in names
    assert http.get(f"/failures/{first['fingerprint']}?namespace={space}").json()["count"] == 5
    assert http.get(f"/failures/nothing?namespace={space}").status == 404


def test_a_terminated_run_is_no_failure(http: Http):
    space = fresh("space")
    http.post(f"/workflows?namespace={space}", {"workflow_type": "Order", "workflow_id": "a"})
    http.post(f"/workflows/a/terminate?namespace={space}")
    assert groups(http, space) == []


def test_a_retried_run_is_not_open_and_counts_again(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    name = failing(http, worker, space, "declined")
    reply = http.post(f"/workflows/{name}/retry?namespace={space}", {"reason": "fixed", "requested_by": "ana"})
    assert reply.status in (200, 201), reply
    (group,) = groups(http, space)
    assert (group["count"], group["open"]) == (1, 0)
    worker.turn(name, {"type": "FailWorkflow", "error": "declined"})
    (group,) = groups(http, space)
    assert (group["count"], group["open"]) == (2, 1)


def test_mute_resolve_and_recur(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    failing(http, worker, space, "declined")
    path = f"/failures/{groups(http, space)[0]['fingerprint']}?namespace={space}"
    muted = http.send("PATCH", path, {"state": "muted", "until_count": 1, "assignee": "ana", "note": "known"}).json()
    assert (muted["state"], muted["assignee"], muted["note"]) == ("muted", "ana", "known")
    assert groups(http, space, "&state=open") == []
    failing(http, worker, space, "declined")
    assert groups(http, space)[0]["state"] == "open"
    assert http.send("PATCH", path, {"state": "resolved"}).json()["state"] == "resolved"
    failing(http, worker, space, "declined")
    (group,) = groups(http, space)
    assert (group["state"], group["regressed"], group["assignee"]) == ("open", True, "ana")
    assert http.send("PATCH", path, {"state": "ignored"}).status == 400
    assert http.send("PATCH", path, {"until": 5}).status == 400
    assert http.get("/failures?state=ignored").status == 400


def test_stuck_runs_and_activities_between_tries(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    body = {"workflow_type": "Order", "task_queue": "q"}
    stuck = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
    worker.turn(stuck, {"type": "FailTask", "reason": "non_determinism", "message": "step 7 differs"})
    (group,) = groups(http, space)
    assert (group["source"], group["type"], group["open"]) == ("blocked", "non_determinism", 1)
    retrying = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
    worker.turn(retrying, activity(task_queue="q", max_attempts=9, initial_interval_secs=60))
    worker.fail(worker.activity(), "busy 5")
    (failing_now,) = groups(http, space, "&source=attempt")
    assert (failing_now["where"], failing_now["message"], failing_now["count"]) == ("charge", "busy 5", 1)
    assert len(groups(http, space)) == 1


def test_a_run_that_fails_by_an_activity_names_it(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    body = {"workflow_type": "Order", "task_queue": "q"}
    name = http.post(f"/workflows?namespace={space}", body).json()["workflow_id"]
    worker.turn(name, activity(task_queue="q", max_attempts=1))
    worker.fail(worker.activity(), "card declined")
    worker.turn(name, {"type": "FailWorkflow", "error": "card declined"})
    (group,) = groups(http, space)
    assert (group["where"], group["message"]) == ("charge", "card declined")
