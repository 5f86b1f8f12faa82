import json
import threading
from urllib.parse import quote

import pytest

from tests.api.support import Http, Worker, activity, complete, fresh, query_of

RECORD = {
    "id", "namespace", "run_id", "workflow_type", "task_queue", "status", "input", "result", "error", "parent_id",
    "claimed_by", "search_attributes", "archived_at", "archive_uri", "created_at", "updated_at", "completed_at",
    "close_reason", "next_run_id", "stuck", "waiting_on", "workflow_id",
}  # fmt: skip


def listed(http: Http, **query: str) -> list[dict[str, object]]:
    reply = http.get(f"/workflows{query_of(query)}")
    assert reply.status == 200, reply
    return reply.json()


def ids(http: Http, **query: str) -> list[object]:
    return [record["id"] for record in listed(http, **query)]


def test_a_record_has_all_its_fields(http: Http):
    name = http.start()["workflow_id"]
    record = http.describe(name)
    assert record.keys() >= RECORD
    assert record["id"] == record["workflow_id"] == name
    for field in ("close_reason", "next_run_id", "stuck", "completed_at", "result"):
        assert record[field] is None
    (found,) = listed(http, workflow_id=name)
    assert found.keys() >= RECORD
    (found,) = http.get(f"/workflows/{name}/runs").json()
    assert found.keys() >= RECORD


@pytest.mark.parametrize(
    "path", ["", "/events", "/children", "/runs", "/result", "/state", "/state/q", "/events?limit=1", "?run_id=none"]
)
def test_what_is_not_there_is_not_found(http: Http, path: str):
    reply = http.get(f"/workflows/nobody{path}")
    assert reply.status == 404
    what = "state for workflow" if path.startswith("/state") else "workflow"
    assert reply.json()["error"] == f"not found: {what} nobody"
    assert (reply.json()["code"], reply.json()["workflow_id"]) == ("not_found", "nobody")
    assert reply.json().get("run_id") == ("none" if "run_id" in path else None)


@pytest.mark.parametrize(
    "name", ["a b", "a/b", "ä/ö ü", "a%2Fb", "?&=#", "..", "wf\\", "poll", "emoji \U0001f600", "x" * 255, "100%", "+"]
)
def test_odd_ids_come_back_as_they_went(http: Http, name: str):
    namespace = fresh("ns")
    http.start(name, namespace=namespace)
    assert http.describe(name, namespace=namespace)["id"] == name
    path = f"/workflows/{quote(name, safe='')}"
    assert http.post(f"{path}/signal/{quote('go / on', safe='')}?namespace={namespace}").status == 200
    history = http.history(name, namespace=namespace)
    assert history[1]["payload"]["signal"] == "go / on"
    worker = Worker(http, namespace=namespace)
    worker.turn(name, {"type": "RecordSnapshot", "state": {name: 1}})
    assert http.get(f"{path}/state/{quote(name, safe='')}?namespace={namespace}").json()["value"] == 1
    assert ids(http, namespace=namespace) == [name]


def test_lists_are_newest_first_and_filtered(http: Http):
    namespace = fresh("ns")
    names = [
        http.start(f"{kind}-{number}", namespace=namespace, workflow_type=kind, task_queue=f"queue-{number % 2}")[
            "workflow_id"
        ]
        for number, kind in enumerate(["Order", "Refund", "Order", "Order"])
    ]
    http.post(f"/workflows/{names[0]}/terminate?namespace={namespace}")
    assert ids(http, namespace=namespace) == names[::-1]
    assert ids(http, namespace=namespace, status="FAILED") == names[:1]
    assert ids(http, namespace=namespace, status="pending") == names[:0:-1]
    assert ids(http, namespace=namespace, status="open") == names[:0:-1]
    assert ids(http, namespace=namespace, status="closed") == names[:1]
    assert ids(http, namespace=namespace, stuck="true") == []
    assert ids(http, namespace=namespace, stuck="false", status="Closed") == names[:1]
    assert ids(http, namespace=namespace, type="Refund") == names[1:2]
    assert ids(http, namespace=namespace, queue="queue-1") == [names[3], names[1]]
    assert ids(http, namespace=namespace, text="FUND") == names[1:2]
    assert ids(http, namespace=namespace, text="order", status="WAITING") == []
    assert ids(http, namespace=namespace, offset="1", limit="2") == [names[2], names[1]]
    assert ids(http, namespace=fresh("ns")) == []


def test_lists_by_time(http: Http):
    namespace = fresh("ns")
    first = http.start(namespace=namespace)["workflow_id"]
    moment = http.describe(first, namespace=namespace)["created_at"]
    second = http.start(namespace=namespace)["workflow_id"]
    assert ids(http, namespace=namespace, created_after=repr(moment)) == [second]
    after = http.describe(second, namespace=namespace)["created_at"]
    assert ids(http, namespace=namespace, created_before=repr(after)) == [first]
    assert ids(http, namespace=namespace, created_after="-1.7e308", created_before="1.7e308") == [second, first]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"env": "prod"}, ["a", "b"]),
        ({"env": "prod", "n": 5}, ["a"]),
        ({"n": "5"}, ["b"]),
        ({"n": 5.0}, ["a"]),
        ({"ok": True}, ["a"]),
        ({"ok": 1}, []),
        ({"tags": "x"}, ["c"]),
        ({"tags": ["x", "y"]}, ["c"]),
        ({"none": 1}, []),
        ({}, ["a", "b", "c"]),
    ],
)
def test_search_attributes_are_typed(http: Http, wanted: dict[str, object], found: list[str]):
    namespace = fresh("ns")
    http.start("a", namespace=namespace, search_attributes={"env": "prod", "n": 5, "ok": True})
    http.start("b", namespace=namespace, search_attributes={"env": "prod", "n": "5"})
    http.start("c", namespace=namespace, search_attributes={"env": "dev", "tags": ["x", "y"]})
    assert sorted(map(str, ids(http, namespace=namespace, search_attrs=json.dumps(wanted)))) == found


@pytest.mark.parametrize(
    "query",
    [
        {"status": "SLEEPING"},
        {"search_attrs": "{"},
        {"search_attrs": "[1]"},
        {"search_attrs": "5"},
        {"search_attrs": '{"a b": 1}'},
        {"limit": "many"},
        {"limit": "-1"},
        {"limit": "1.5"},
        {"offset": "-1"},
        {"offset": "x"},
        {"cursor": "nowhere"},
        {"created_after": "yesterday"},
        {"created_after": "nan"},
    ],
)
def test_bad_filters_are_refused(http: Http, query: dict[str, str]):
    reply = http.get(f"/workflows{query_of(query)}")
    assert reply.status == 400, reply
    assert reply.json()["field"].partition(".")[0] == next(iter(query))


def test_pages_have_a_cursor_and_a_total(http: Http):
    namespace = fresh("ns")
    names = [http.start(namespace=namespace)["workflow_id"] for _ in range(5)]
    seen: list[object] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        reply = http.get(f"/workflows{query_of({'namespace': namespace, 'limit': '2', **cursor})}")
        assert reply.headers["x-total-count"] == "5"
        seen += [record["id"] for record in reply.json()]
        http.start(namespace=fresh("ns"))
        if "x-next-cursor" in reply.headers:
            cursor = {"cursor": reply.headers["x-next-cursor"]}
    assert seen == names[::-1]
    assert "x-next-cursor" not in reply.headers


def test_runs_and_children_can_be_paged(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    names = [f"{name}-{number}" for number in range(5)]
    child_commands = [
        {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": one, "task_queue": "x"} for one in names
    ]
    worker.turn(name, *child_commands)
    for _ in range(2):
        assert http.post(f"/workflows/{name}/continue-as-new").status == 201
    for path, field, wanted in (("children", "id", names), ("runs", "run_id", None)):
        whole = http.get(f"/workflows/{name}/{path}")
        values = [record[field] for record in whole.json()]
        assert wanted is None or values == wanted
        assert whole.headers["x-total-count"] == str(len(values))
        assert "x-next-cursor" not in whole.headers
        seen: list[str] = []
        query = {"limit": "2"}
        while "limit" in query:
            reply = http.get(f"/workflows/{name}/{path}{query_of(query)}")
            assert reply.headers["x-total-count"] == str(len(values))
            seen += [record[field] for record in reply.json()]
            cursor = reply.headers.get("x-next-cursor")
            query = {} if cursor is None else {"limit": "2", "cursor": cursor}
        assert seen == values
        for wrong in ("limit=0", "limit=x", "cursor=x"):
            assert http.get(f"/workflows/{name}/{path}?{wrong}").status == 400
        assert http.get(f"/workflows/nobody/{path}?limit=1").status == 404


def test_a_huge_limit_is_cut(http: Http):
    assert http.get("/workflows?limit=1000000000").status == 200


def test_a_history_can_be_paged_both_ways(http: Http):
    name = http.start()["workflow_id"]
    for number in range(6):
        http.post(f"/workflows/{name}/signal/s{number}")
    whole = http.history(name)
    assert [event["seq"] for event in whole] == [1, 2, 3, 4, 5, 6, 7]
    assert http.history(name, limit="3") == whole[:3]
    assert http.history(name, limit="3", cursor="3") == whole[3:6]
    assert http.history(name, order="desc", limit="2") == whole[:-3:-1]
    assert http.history(name, order="desc", cursor="3") == whole[1::-1]
    assert http.history(name, cursor="7") == []
    reply = http.get(f"/workflows/{name}/events?limit=2")
    assert (reply.headers["x-next-cursor"], reply.headers["x-total-count"]) == ("2", "7")
    assert "x-next-cursor" not in http.get(f"/workflows/{name}/events?limit=7").headers
    reply = http.get(f"/workflows/{name}/events?limit=5000")
    assert len(reply.json()) == 7


@pytest.mark.parametrize("query", ["limit=0", "limit=70000", "limit=x", "cursor=-1", "cursor=x", "order=up"])
def test_bad_pages_are_refused(http: Http, query: str):
    name = http.start()["workflow_id"]
    assert http.get(f"/workflows/{name}/events?{query}").status == 400


def test_an_event_has_the_fields_of_the_original(http: Http):
    name = http.start(input={"a": 1})["workflow_id"]
    (event,) = http.history(name)
    assert (event["workflow_id"], event["seq"], event["event_type"]) == (name, 1, "WorkflowStarted")
    assert event["payload"] == {"a": 1}
    assert isinstance(event["id"], int)
    assert event["timestamp"] == http.describe(name)["created_at"]


def test_the_events_of_all_runs_are_numbered_in_one_row(http: Http):
    one, two = http.start()["workflow_id"], http.start()["workflow_id"]
    for name in (one, two, one):
        http.post(f"/workflows/{name}/signal/go")
    event_ids = {(name, event["seq"]): event["id"] for name in (one, two) for event in http.history(name)}
    assert sorted(event_ids, key=event_ids.__getitem__) == [(one, 1), (two, 1), (one, 2), (two, 2), (one, 3)]
    assert [event["id"] for event in http.history(one, order="desc", limit="2")] == [
        event_ids[one, 3],
        event_ids[one, 2],
    ]


def test_why_a_run_has_no_result_is_said_alike_everywhere(http: Http):
    queue, namespace = fresh("queue"), fresh("ns")
    worker = Worker(http, queue, namespace=namespace)
    within = {"namespace": namespace, "task_queue": queue}
    broken = {"kind": "NOT_FOUND", "message": "gone", "details": {"a": 1}, "cause": {"message": "inner"}}
    for name, command in {
        "failed": {"type": "FailWorkflow", "error": "gone", "failure": broken},
        "plain": {"type": "FailWorkflow", "error": "no luck"},
        "completed": complete(7),
        "cancelled": {"type": "CancelWorkflow"},
    }.items():
        http.start(name, **within)
        worker.turn(name, command)
    http.start("terminated", **within)
    http.post(f"/workflows/terminated/terminate?namespace={namespace}", {"reason": "fire"})
    http.start("late", **within, run_timeout=0.01)
    event_ids = {
        name: http.get(f"/workflows/{name}/result?namespace={namespace}&wait_secs=10").json()
        for name in ("failed", "plain", "completed", "cancelled", "terminated", "late")
    }
    failures = {name: result["failure"] for name, result in event_ids.items()}
    assert (failures["failed"]["kind"], failures["failed"]["cause"]["message"]) == ("NOT_FOUND", "inner")
    assert (failures["plain"]["kind"], failures["plain"]["message"]) == ("UNKNOWN", "no luck")
    assert (failures["terminated"]["kind"], failures["terminated"]["message"]) == ("CANCELED", "fire")
    assert (failures["late"]["kind"], failures["late"]["timeout_type"]) == ("TIMEOUT", "run")
    assert failures["completed"] is failures["cancelled"] is None
    for record in http.get(f"/workflows?namespace={namespace}").json():
        name = record["id"]
        assert (record["failure"], record["result"]) == (failures[name], event_ids[name]["result"])
        assert http.describe(name, namespace=namespace) == record
        assert http.get(f"/workflows/{name}/runs?namespace={namespace}").json() == [record]


def test_state_is_what_the_last_snapshot_says(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    reply = http.get(f"/workflows/{name}/state")
    assert (reply.status, reply.json()["error"]) == (404, f"not found: state for workflow {name}")
    worker.turn(name, {"type": "RecordSnapshot", "state": {"stage": "build", "none": None}}, activity())
    state = http.get(f"/workflows/{name}/state").json()
    assert (state["state"], state["event_seq"]) == ({"stage": "build", "none": None}, 1)
    assert isinstance(state["created_at"], float)
    assert http.get(f"/workflows/{name}/state/stage").json()["value"] == "build"
    none = http.get(f"/workflows/{name}/state/none")
    assert (none.status, none.json()["value"]) == (200, None)
    reply = http.get(f"/workflows/{name}/state/other")
    assert (reply.status, reply.json()["error"]) == (404, f"not found: query 'other' for workflow {name}")


def test_children_are_oldest_first(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    children = [f"{name}-{letter}" for letter in "abc"]
    worker.turn(name, *({"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": one} for one in children))
    found = http.get(f"/workflows/{name}/children").json()
    assert [child["id"] for child in found] == children
    assert {child["parent_id"] for child in found} == {name}
    assert [child["id"] for child in listed(http, parent_id=name)] == children[::-1]
    assert http.get(f"/workflows/{children[0]}/children").json() == []


def test_the_chain_of_runs(http: Http):
    first = http.start()
    name = first["workflow_id"]
    second = http.post(f"/workflows/{name}/continue-as-new", {"input": 2}).json()
    runs = http.get(f"/workflows/{name}/runs").json()
    assert [run["run_id"] for run in runs] == [second["run_id"], first["run_id"]]
    assert runs[1]["next_run_id"] == second["run_id"]
    assert http.describe(name)["run_id"] == second["run_id"]
    assert http.describe(name, run_id=first["run_id"])["close_reason"] == "continued_as_new"
    assert http.kinds(name, run_id=first["run_id"]) == ["WorkflowStarted", "WorkflowContinuedAsNew"]
    assert len(listed(http, workflow_id=name)) == 2


def test_a_result_is_waited_for(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    assert http.get(f"/workflows/{name}/result").status == 202
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(http.get(f"/workflows/{name}/result?wait_secs=20").json()))
    waiting.start()
    worker.turn(name, complete([1, 2]))
    waiting.join(10)
    assert found[0]["result"] == [1, 2]  # type: ignore[index]


def test_a_result_follows_the_chain(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    first = http.start(task_queue=queue)
    name = first["workflow_id"]
    worker.turn(name, {"type": "ContinueAsNew", "input": 2})
    alone = http.get(f"/workflows/{name}/result?run_id={first['run_id']}&follow=false").json()
    assert (alone["status"], alone["close_reason"]) == ("COMPLETED", "continued_as_new")
    assert http.get(f"/workflows/{name}/result?run_id={first['run_id']}").status == 202
    worker.turn(name, complete("done"))
    last = http.get(f"/workflows/{name}/result?run_id={first['run_id']}").json()
    assert (last["result"], last["close_reason"]) == ("done", None)
    assert last["run_id"] != first["run_id"]


@pytest.mark.parametrize("wait", ["-1", "x", "nan", "inf"])
def test_a_bad_wait_is_refused(http: Http, wait: str):
    name = http.start()["workflow_id"]
    assert http.get(f"/workflows/{name}/result?wait_secs={wait}").status == 400


def test_head_is_get_without_a_body(http: Http):
    name = http.start()["workflow_id"]
    reply = http.send("HEAD", f"/workflows/{name}")
    assert (reply.status, reply.body) == (200, b"")
    assert int(reply.headers["content-length"]) > 100


def test_the_state_of_a_run_without_queries_may_be_optional(http: Http):
    name = http.start()["workflow_id"]
    assert http.get(f"/workflows/{name}/state").status == 404
    optional = http.get(f"/workflows/{name}/state?optional=true")
    assert (optional.status, optional.json()) == (200, None)
    assert http.get(f"/workflows/{name}/state/progress?optional=true").status == 404
