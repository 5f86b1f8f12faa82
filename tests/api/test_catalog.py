"""Workflow types for forms, times of cron expressions, and single events."""

from tests.api.support import Http, Worker, fresh


def test_types_come_from_workers(http: Http):
    space = fresh("space")
    assert http.get(f"/workflow-types?namespace={space}").json() == []
    Worker(http, "q", namespace=space, workflows=["Order", "Refund"])
    found = http.get(f"/workflow-types?namespace={space}").json()
    assert [(one["name"], one["queue"], one["input_schema"]) for one in found] == [
        ("Order", "q", None),
        ("Refund", "q", None),
    ]


def test_a_cron_expression_is_tried_before_it_is_saved(http: Http):
    body = {"cron_expr": "0 2 * * *", "timezone": "Europe/Berlin", "count": 3}
    found = http.post("/schedule-preview", body).json()
    assert len(found["fires"]) == 3
    assert all(fire["local"][11:19] == "02:00:00" for fire in found["fires"])
    refused = http.post("/schedule-preview", {"cron_expr": "0 99 * * *"})
    assert (refused.status, refused.json()["code"], refused.json()["field"]) == (400, "bad_cron", "cron_expr")
    assert http.post("/schedule-preview", {"cron_expr": "0 2 * * *", "count": 101}).status == 400
    assert http.post("/schedule-preview", {"cron_expr": "0 2 * * *", "timezone": "Mars/Olympus"}).status == 400


def test_one_event(http: Http):
    name = http.start(input={"n": 1})["workflow_id"]
    found = http.get(f"/workflows/{name}/events/1").json()
    assert (found["event_type"], found["payload"]) == ("WorkflowStarted", {"n": 1})
    assert http.get(f"/workflows/{name}/events/2").status == 404
    assert http.get(f"/workflows/{name}/events/0").status == 404
    assert http.get(f"/workflows/{name}/events/x").status == 400
