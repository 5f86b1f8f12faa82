import json
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from openapi_spec_validator import validate

from assay.api.openapi import description, document
from assay.api.polling_protocol import Sent
from assay.api.routes.table import ROUTES
from assay.api.schemas import Schemas
from assay.core.model.errors import AssayError, Kind
from assay.core.model.events import ActivityOptions
from assay.core.model.ids import SECOND
from assay.core.model.policies import RetryPolicy
from assay.wire import responses
from assay.wire.codes import ErrorCode
from assay.wire.errors import CursorExpired, error_body
from assay.worker_protocol import messages
from tests.api.described import answer_schema, check, check_problem, component, fits
from tests.api.support import OTHER_PREFIX, Http, Listener, Server, Worker, activity, complete, fresh

STREAMED = ["schedule_fired", "workflow_started", "workflow_running", "schedule_skipped"]
COMMITTED = Path(__file__).parents[2] / "docs/reference/openapi.json"


def test_the_description_is_valid():
    validate(description())


def test_the_committed_description_is_this_one():
    assert COMMITTED.read_bytes() == document(), "run `python -m assay.api.openapi > docs/reference/openapi.json`"


def test_every_route_is_described_once():
    names = [route.operation_id for route in ROUTES]
    assert len(names) == len(set(names))
    described = {
        operation["operationId"] for methods in description()["paths"].values() for operation in methods.values()
    }
    assert described == {route.operation_id for route in ROUTES if route.described}


def test_both_prefixes_and_the_command_agree(server: Server, http: Http):
    served = http.get("/openapi.json")
    assert served.body == server.http(OTHER_PREFIX).get("/openapi.json").body == document()
    assert json.loads(served.body)["openapi"].startswith("3.1")


def test_commands_are_typed():
    commands = component("CommandsBody")["properties"]["commands"]["items"]
    assert len(commands["oneOf"]) == len(Sent.__args__)
    assert commands["discriminator"]["propertyName"] == "type"
    assert component("ScheduleActivity")["properties"]["type"] == {"type": "string", "const": "ScheduleActivity"}


def test_no_type_is_taken_for_its_namesake():
    schemas = Schemas({messages.Problem: "Other"})
    for kind, name in (
        (responses.RetryPolicy, "RetryPolicy"),
        (responses.Problem, "Problem"),
        (messages.Problem, "Other"),
    ):
        assert schemas.of(kind) == {"$ref": f"#/components/schemas/{name}"}
    with pytest.raises(TypeError, match="cannot both have the name RetryPolicy"):
        schemas.of(RetryPolicy)


def test_what_workers_of_the_sdk_are_sent_is_described():
    options = ActivityOptions(retry=RetryPolicy(max_attempts=5), heartbeat=SECOND)
    attempt = messages.SentActivity("token", "wf", "run", "Order", 1, 2, 3, 1, "charge", "default", options=options)
    refusal = messages.ReportAnswer(1, messages.Problem("no", "stale_task", "CONFLICT"))
    message = messages.encode(messages.EngineMessage(time=SECOND, activities=[attempt], answers=[refusal]))
    check(json.loads(message), answer_schema("/workers/{worker_id}/exchange", "post"))


def test_every_operation_says_what_its_errors_are():
    for methods in description()["paths"].values():
        for operation in methods.values():
            errors = {status: one for status, one in operation["responses"].items() if status >= "400"}
            assert "default" in errors
            for error in errors.values():
                assert error["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def test_errors_are_typed():
    assert component("Problem")["properties"]["kind"] == {"$ref": "#/components/schemas/Kind"}
    assert component("Kind")["enum"] == [kind.value for kind in Kind]
    assert component("ErrorCode")["enum"] == [code.value for code in ErrorCode]
    assert component("Problem")["properties"]["code"]["anyOf"][0] == {"$ref": "#/components/schemas/ErrorCode"}


def test_a_code_of_a_later_version_is_one_too():
    problem = {"error": "no", "code": "brand_new", "kind": "INVALID"}
    check(problem, component("Problem"))
    assert not fits({**problem, "kind": "NotFound"}, component("Problem"))


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_is_what_is_described(code: ErrorCode):
    check_problem(error_body(AssayError("no", code=code, kind=code.kind)))


def test_errors_with_more_to_say_are_what_is_described(http: Http):
    name = http.start()["workflow_id"]
    schedule = {"name": fresh("often"), "workflow_type": "Order", "cron_expr": "0 3 * * *"}
    replies = {
        "workflow_id": http.post("/workflows", {"workflow_type": "Order", "workflow_id": name}),
        "namespace": http.post("/namespaces", {"name": "main"}),
        "name": [http.post("/schedules", schedule) for _ in range(2)][-1],
        "field": http.post("/workflows", {"workflow_type": 1}),
    }
    for field, reply in replies.items():
        assert field in reply.json()
        check_problem(reply.json())
    check_problem(error_body(CursorExpired("too old", oldest_id=7)))


@pytest.fixture(scope="module")
def world(server: Server) -> dict[str, Any]:
    """Something of everything."""
    http = server.http()
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(
        task_queue=queue, retry_policy={"maximum_attempts": 1}, memo={"a": 1}, search_attributes={"b": 2}
    )["workflow_id"]
    task = worker.turn(name, {"type": "RecordSnapshot", "state": {"q": 1}}, activity(task_queue=queue, max_attempts=1))
    attempt = worker.activity()
    assert attempt is not None
    worker.fail(attempt)
    worker.turn(name, {"type": "FailWorkflow", "error": "x", "failure": {"message": "x", "cause": {"message": "y"}}})
    waiting = http.start(task_queue=queue)["workflow_id"]
    worker.turn(waiting, {"type": "WaitForSignal", "name": "go"})
    done = http.start(task_queue=queue)["workflow_id"]
    worker.turn(done, complete({"x": 1}))
    return {"name": name, "task": task, "attempt": attempt, "waiting": waiting, "done": done, "queue": queue}


@pytest.mark.parametrize(
    "path",
    [
        "/workflows",
        "/workflows/{name}",
        "/workflows/{name}/runs",
        "/workflows/{name}/children",
        "/workflows/{name}/events",
        "/workflows/{name}/state",
        "/workflows/{name}/state/q",
        "/workflows/{name}/result",
        "/workflows/{done}/result",
        "/workflows/{waiting}",
        "/activities/{activity}",
        "/workers",
        "/queues",
        "/namespaces",
        "/namespaces/main",
        "/health",
        "/version",
    ],
)
def test_answers_are_what_is_described(http: Http, world: dict[str, Any], path: str):
    reply = http.get(path.format(**world, activity=world["attempt"]["activity_id"]))
    assert reply.status == 200
    described = (
        path.replace("{name}", "{workflow_id}")
        .replace("{done}", "{workflow_id}")
        .replace("{waiting}", "{workflow_id}")
        .replace("{activity}", "{activity_id}")
        .replace("state/q", "state/{name}")
        .replace("namespaces/main", "namespaces/{name}")
    )
    check(reply.json(), answer_schema(described))


def test_tasks_are_what_is_described(http: Http, world: dict[str, Any]):
    check(world["task"], answer_schema("/workflow-tasks/poll", "post"))
    check(None, answer_schema("/workflow-tasks/poll", "post"))
    check(world["attempt"], answer_schema("/tasks/poll", "post"))
    check({"task": None}, answer_schema("/tasks/poll", "post"))
    started = http.post("/workflows", {"workflow_type": "Order"}).json()
    check(started, answer_schema("/workflows", "post", "201"))


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/workflows/{name}", responses.WorkflowRecord),
        ("/workflows/{name}/state", responses.StateAnswer),
        ("/activities/{activity}", responses.ActivityRecord),
        ("/namespaces/main", responses.NamespaceStats),
        ("/version", responses.Version),
    ],
)
def test_no_field_is_left_undescribed(http: Http, world: dict[str, Any], path: str, shape: type[msgspec.Struct]):
    record = http.get(path.format(**world, activity=world["attempt"]["activity_id"])).json()
    assert record.keys() == set(get_type_hints(shape))


@pytest.mark.parametrize(("key", "shape"), [("task", responses.WorkflowTask), ("attempt", responses.ActivityTask)])
def test_no_field_of_a_task_is_left_undescribed(world: dict[str, Any], key: str, shape: type[msgspec.Struct]):
    assert world[key].keys() == set(get_type_hints(shape))


def test_frames_of_the_stream_are_what_is_described(server: Server, http: Http):
    name, queue = fresh("schedule"), fresh("queue")
    listener = Listener(server.port, f"?last_event_id=0&kind={','.join(STREAMED)}")
    try:
        http.post("/schedules", {"name": name, "workflow_type": "Order", "cron_expr": "@yearly", "task_queue": queue})
        http.post(f"/schedules/{name}/trigger")
        http.post(f"/schedules/{name}/trigger")
        assert Worker(http, queue).task() is not None
        for kind in STREAMED:
            frame = listener.wait(kind)[-1]["data"]
            check(frame, component("StreamEvent"))
            assert set(frame) == set(description()["components"]["schemas"]["StreamEvent"]["properties"])
    finally:
        listener.close()
    parameters = description()["paths"]["/api/v1/events/stream"]["get"]["parameters"]
    assert ("Last-Event-ID", "header") in [(parameter["name"], parameter["in"]) for parameter in parameters]
