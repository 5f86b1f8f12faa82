"""Short lists, pages in both directions, several namespaces, and activities with their attempts."""

from tests.api.support import Http, Worker, activity, complete, fresh


def test_a_short_list_has_no_documents(http: Http):
    queue = fresh("queue")
    name = http.start(task_queue=queue, input={"big": "x" * 1000}, memo={"a": 1})["workflow_id"]
    (short,) = http.get(f"/workflows?view=summary&workflow_id={name}").json()
    (full,) = http.get(f"/workflows?workflow_id={name}").json()
    assert full.keys() - short.keys() == {"input", "result", "memo", "context", "details", "retry_policy"}
    assert short["waiting_on"]["summary"] == f"No worker serves queue '{queue}'."
    assert "waits" not in short["waiting_on"]
    assert http.get("/workflows?view=other").status == 400


def test_a_failed_run_keeps_its_failure_in_a_short_list(http: Http):
    queue = fresh("queue")
    worker, name = Worker(http, queue), http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, {"type": "FailWorkflow", "error": "e" * 1_000})
    (short,) = http.get(f"/workflows?view=summary&workflow_id={name}").json()
    assert (len(short["error"]), short["failure"]["message"]) == (300, "e" * 1_000)
    (found,) = http.get(f"/workflows?error={'E' * 20}&queue={queue}").json()
    assert found["id"] == name


def test_several_statuses_and_runs(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    started = [http.start(task_queue=queue) for _ in range(3)]
    worker.turn(started[0]["workflow_id"], complete(1))
    found = http.get(f"/workflows?queue={queue}&status=completed,pending").json()
    assert sorted(run["status"] for run in found) == ["COMPLETED", "PENDING", "PENDING"]
    assert [run["status"] for run in http.get(f"/workflows?queue={queue}&status=closed,RUNNING").json()] == [
        "COMPLETED"
    ]
    assert http.get("/workflows?status=pending,nonsense").status == 400
    ids = [run["run_id"] for run in started[:2]]
    assert sorted(run["run_id"] for run in http.get(f"/workflows?run_ids={','.join(ids)}").json()) == sorted(ids)
    assert http.get("/workflows?run_ids=" + ",".join(map(str, range(201)))).status == 400


def test_pages_go_back_as_they_came(http: Http):
    queue = fresh("queue")
    names = [http.start(task_queue=queue)["workflow_id"] for _ in range(7)][::-1]
    first = http.get(f"/workflows?queue={queue}&limit=3")
    assert "x-previous-cursor" not in first.headers
    second = http.get(f"/workflows?queue={queue}&limit=3&cursor={first.headers['x-next-cursor']}")
    assert [run["id"] for run in second.json()] == names[3:6]
    back = http.get(f"/workflows?queue={queue}&limit=3&before={second.headers['x-previous-cursor']}")
    assert [run["id"] for run in back.json()] == names[:3]
    assert "x-previous-cursor" not in back.headers
    assert back.headers["x-next-cursor"] == first.headers["x-next-cursor"]
    partly = http.get(f"/workflows?queue={queue}&limit=2&before={second.headers['x-previous-cursor']}")
    assert [run["id"] for run in partly.json()] == names[1:3]
    assert "x-previous-cursor" in partly.headers


def test_counts_are_exact_capped_or_none(http: Http):
    queue = fresh("queue")
    http.start(task_queue=queue)
    assert http.get(f"/workflows?queue={queue}&count=capped").headers["x-total-count"] == "1"
    assert "x-total-count" not in http.get(f"/workflows?queue={queue}&count=none").headers
    assert http.get("/workflows?count=all").status == 400


def test_an_id_is_found_in_every_namespace(http: Http):
    name, other = fresh("order"), fresh("other")
    http.start(workflow_id=name)
    http.post(f"/workflows?namespace={other}", {"workflow_type": "Order", "workflow_id": name})
    found = http.get(f"/workflows?namespace=*&workflow_id={name}").json()
    assert {run["namespace"] for run in found} == {"main", other}
    assert http.get("/workflows?namespace=*").status == 400


def test_activities_have_all_their_attempts(http: Http):
    queue = fresh("queue")
    worker, name = Worker(http, queue), http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, activity(1, task_queue=queue, max_attempts=2, initial_interval_secs=0.001), activity(2, "ship"))
    worker.fail(worker.activity(), "card declined")
    while (task := worker.activity()) is None:
        pass
    worker.complete(task, {"ok": True})
    first, second = http.get(f"/workflows/{name}/activities").json()
    assert [attempt["outcome"] for attempt in first["attempts"]] == ["failed", "completed"]
    assert [attempt["attempt"] for attempt in first["attempts"]] == [1, 2]
    assert first["attempts"][0]["failure"]["message"] == "card declined"
    assert first["attempts"][1]["worker"] == first["claimed_by"]
    assert (second["name"], second["attempts"], second["status"]) == ("ship", [], "PENDING")
    page = http.get(f"/workflows/{name}/activities?limit=1")
    assert [one["seq"] for one in page.json()] == [1]
    (after,) = http.get(f"/workflows/{name}/activities?cursor={page.headers['x-next-cursor']}").json()
    assert after["seq"] == 2
    assert [one["name"] for one in http.get(f"/workflows/{name}/activities?state=pending").json()] == ["ship"]
    assert http.get("/workflows/nobody/activities").status == 404


def test_errors_carry_the_id_of_their_request(http: Http):
    refused = http.get("/workflows/nobody")
    assert len(refused.headers["x-request-id"]) == 16
    assert refused.json()["request_id"] == refused.headers["x-request-id"]
    own = http.get("/workflows/nobody", X_Request_Id="mine-1")
    assert (own.json()["request_id"], own.headers["x-request-id"]) == ("mine-1", "mine-1")
    assert http.get("/version", X_Request_Id="mine-2").headers["x-request-id"] == "mine-2"
    assert "x-request-id" not in http.get("/version").headers
    assert http.get("/version", X_Request_Id="no good").headers.get("x-request-id") is None
