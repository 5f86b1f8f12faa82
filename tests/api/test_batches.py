"""Bulk actions over HTTP: previewed, started once, exact."""

import time

from tests.api.support import Http, Worker, complete, fresh


def started(http: Http, space: str, count: int) -> list[str]:
    bodies = [{"workflow_type": "Order", "task_queue": "q"} for _ in range(count)]
    return [http.post(f"/workflows?namespace={space}", body).json()["workflow_id"] for body in bodies]


def finished(http: Http, batch_id: str) -> dict[str, object]:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        found: dict[str, object] = http.get(f"/batches/{batch_id}").json()
        if found["state"] != "running":
            return found
    raise TimeoutError(batch_id)


def test_a_batch_acts_on_exactly_what_was_previewed(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    names = started(http, space, 5)
    worker.turn(names[0], complete(1))
    body = {"action": "terminate", "filter": {"queue": "q"}, "reason": "obsolete", "dry_run": True}
    preview = http.post(f"/batches?namespace={space}", body).json()
    assert (preview["matched"], preview["will_act"], preview["will_skip"]) == (5, 4, {"workflow_closed": 1})
    assert len(preview["sample"]) == 5
    assert http.get(f"/batches?namespace={space}").json() == []
    (later,) = started(http, space, 1)
    begun = http.post("/batches", {"token": preview["token"]})
    assert begun.status == 202
    batch_id = begun.json()["batch_id"]
    assert http.post("/batches", {"token": preview["token"]}).json() == {"batch_id": batch_id}
    done = finished(http, batch_id)
    assert (done["state"], done["total"], done["succeeded"], done["skipped"]) == ("done", 5, 4, 1)
    assert (done["done"], done["refused"], done["action"], done["reason"]) == (5, 0, "terminate", "obsolete")
    statuses = {run["id"]: run["close_reason"] for run in http.get(f"/workflows?namespace={space}").json()}
    assert [statuses[name] for name in names[1:]] == ["terminated"] * 4
    assert statuses[later] is None
    (skipped,) = http.get(f"/batches/{batch_id}/items?outcome=skipped").json()
    assert (skipped["workflow_id"], skipped["code"]) == (names[0], "workflow_closed")
    assert [one["batch_id"] for one in http.get(f"/batches?namespace={space}").json()] == [batch_id]


def test_signals_and_retries_by_run_id(http: Http):
    space = fresh("space")
    worker = Worker(http, "q", namespace=space)
    names = started(http, space, 2)
    runs = [run["run_id"] for run in http.get(f"/workflows?namespace={space}").json()]
    body = {"action": "signal", "arguments": {"name": "go", "payload": {"n": 1}}, "run_ids": runs, "dry_run": True}
    token = http.post(f"/batches?namespace={space}", body).json()["token"]
    assert finished(http, http.post("/batches", {"token": token}).json()["batch_id"])["succeeded"] == 2
    signals = [event for name in names for event in http.get(f"/workflows/{name}/events?namespace={space}").json()]
    assert [event["payload"]["signal"] for event in signals if event["event_type"] == "SignalReceived"] == ["go", "go"]
    worker.turn(names[0], {"type": "FailWorkflow", "error": "declined"})
    body = {"action": "retry", "filter": {"status": "failed"}, "dry_run": True}
    token = http.post(f"/batches?namespace={space}", body).json()["token"]
    batch_id = http.post("/batches", {"token": token}).json()["batch_id"]
    assert finished(http, batch_id)["succeeded"] == 1
    (item,) = http.get(f"/batches/{batch_id}/items").json()
    assert item["new_run_id"] not in (None, item["run_id"])


def test_refusals(http: Http):
    assert http.post("/batches", {"token": "nothing"}).json()["code"] == "token_expired"
    assert http.post("/batches", {"action": "dance", "filter": {}, "dry_run": True}).status == 400
    assert http.post("/batches", {"action": "cancel", "dry_run": True}).status == 400
    assert http.post("/batches", {"action": "cancel", "filter": {}}).status == 400
    assert http.get("/batches/nothing").status == 404
    assert http.post("/batches/nothing/stop").status == 404
