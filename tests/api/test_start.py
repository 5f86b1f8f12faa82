import threading
import time

import pytest

from tests.api.support import OTHER_PREFIX, Http, Server, Worker, activity, complete, fresh, timeless


def test_a_start_is_answered_with_201_and_its_ids(http: Http):
    name = fresh()
    reply = http.post("/workflows", {"workflow_type": "Order", "workflow_id": name, "input": {"n": 1}})
    assert reply.status == 201
    started = reply.json()
    assert (started["workflow_id"], started["status"], started["started"]) == (name, "PENDING", True)
    record = http.describe(name)
    assert record["run_id"] == started["run_id"]
    assert (record["input"], record["task_queue"], record["namespace"]) == ({"n": 1}, "default", "main")
    assert http.kinds(name) == ["WorkflowStarted"]


def test_both_prefixes_serve_the_same(server: Server, http: Http):
    other = server.http(OTHER_PREFIX)
    name = other.start()["workflow_id"]
    assert timeless(http.describe(name)) == timeless(other.describe(name))


def test_a_missing_id_is_generated(http: Http):
    reply = http.post("/workflows", {"workflow_type": "Order"})
    assert reply.status == 201
    assert reply.json()["workflow_id"].startswith("wf-order-")
    again = http.post("/workflows", {"workflow_type": "Order", "workflow_id": None})
    assert again.json()["workflow_id"] != reply.json()["workflow_id"]


def test_an_id_with_an_open_run_is_a_conflict(http: Http):
    first = http.start()
    reply = http.post("/workflows", {"workflow_type": "Order", "workflow_id": first["workflow_id"]})
    assert reply.status == 409
    body = reply.json()
    assert (body["code"], body["kind"]) == ("already_exists", "ALREADY_EXISTS")
    assert (body["workflow_id"], body["run_id"]) == (first["workflow_id"], first["run_id"])
    assert body["status"] == "PENDING"


@pytest.mark.parametrize("policy", [{"id_conflict_policy": "use_existing"}, {"error_if_exists": False}])
def test_an_open_run_can_be_used(http: Http, policy: dict[str, object]):
    first = http.start()
    body = {"workflow_type": "Order", "workflow_id": first["workflow_id"], "input": 2, **policy}
    reply = http.post("/workflows", body)
    assert reply.status == 200
    assert (reply.json()["run_id"], reply.json()["started"]) == (first["run_id"], False)
    assert http.describe(first["workflow_id"])["input"] is None


def test_an_open_run_can_be_replaced(http: Http):
    first = http.start()
    body = {"workflow_type": "Order", "workflow_id": first["workflow_id"], "id_conflict_policy": "terminate_existing"}
    reply = http.post("/workflows", body)
    assert reply.status == 201
    old = http.describe(first["workflow_id"], run_id=first["run_id"])
    assert (old["status"], old["close_reason"]) == ("FAILED", "terminated")
    assert reply.json()["run_id"] != first["run_id"]


def test_a_closed_id_starts_again_unless_its_policy_says_no(http: Http):
    first = http.start()
    name = first["workflow_id"]
    assert http.post(f"/workflows/{name}/terminate").status == 200
    refused = {"workflow_type": "Order", "workflow_id": name, "id_reuse_policy": "reject_duplicate"}
    assert http.post("/workflows", refused).status == 409
    again = http.start(name, id_reuse_policy="allow_duplicate_failed_only")
    assert again["run_id"] != first["run_id"]


def test_a_request_id_is_answered_alike(http: Http):
    first = http.start(request_id=fresh("request"))
    name = first["workflow_id"]
    record = http.post(
        "/workflows", {"workflow_type": "Order", "workflow_id": name, "request_id": f"{first['run_id']}"}
    )
    assert record.status == 409
    key = fresh("request")
    one = http.post("/workflows", {"workflow_type": "Order", "workflow_id": fresh(), "request_id": key})
    two = http.post(
        "/workflows", {"workflow_type": "Order", "workflow_id": one.json()["workflow_id"], "request_id": key}
    )
    assert (two.status, two.json()["run_id"]) == (201, one.json()["run_id"])


@pytest.mark.parametrize("named", [{}, {"workflow_id": "named"}])
def test_a_start_that_is_repeated_finds_its_run_by_the_request_id_alone(http: Http, named: dict[str, str]):
    queue = fresh("queue")
    worker = Worker(http, queue)
    body = {"workflow_type": "Order", "task_queue": queue, "input": {"n": 1, "m": 2}, "request_id": fresh("r"), **named}
    first = http.post("/workflows", body)
    worker.turn(first.json()["workflow_id"], complete())
    for again in (body, {**body, "input": {"m": 2, "n": 1}}):
        second = http.post("/workflows", again)
        assert (second.status, second.json()) == (201, first.json())
    assert len(http.get(f"/workflows?queue={queue}").json()) == 1
    assert http.post("/workflows", {**body, "namespace": fresh("ns")}).json()["run_id"] != first.json()["run_id"]


@pytest.mark.parametrize("other", [{"workflow_type": "Refund"}, {"input": 2}, {"input": None}])
def test_a_request_id_is_for_one_start(http: Http, other: dict[str, object]):
    body = {"workflow_type": "Order", "input": 1, "request_id": fresh("r")}
    first = http.post("/workflows", body).json()
    reply = http.post("/workflows", {**body, **other})
    assert (reply.status, reply.json()["code"], reply.json()["field"]) == (422, "request_id_reused", "request_id")
    assert http.kinds(first["workflow_id"]) == ["WorkflowStarted"]


def test_a_generated_id_is_no_longer_than_an_id_may_be(http: Http):
    assert http.post("/workflows", {"workflow_type": "Ä" * 127}).status == 201


def test_every_option_is_shown_in_the_record(http: Http):
    started = http.start(
        execution_timeout="2h",
        run_timeout=3600,
        task_timeout="5s",
        retry_policy={"maximum_attempts": 4, "initial_interval": "2s", "backoff_coefficient": 3},
        search_attributes={"env": "prod", "n": 5},
        memo={"note": ["any", {"thing": None}]},
        context={"tenant": "t-1"},
        summary="an order",
        details="of many things",
        priority=1,
        signals=[{"name": "first", "payload": {"a": 1}}, {"name": "second", "args": [1, 2]}],
        task_queue="orders",
    )
    record = http.describe(started["workflow_id"])
    assert (record["run_timeout"], record["task_timeout"]) == (3600, 5)
    assert record["execution_deadline"] == pytest.approx(record["created_at"] + 7200)
    assert record["retry_policy"]["maximum_attempts"] == 4
    assert record["search_attributes"] == {"env": "prod", "n": 5}
    assert record["memo"] == {"note": ["any", {"thing": None}]}
    assert (record["context"], record["summary"], record["task_queue"]) == ({"tenant": "t-1"}, "an order", "orders")
    signals = [event["payload"] for event in http.history(started["workflow_id"])[1:]]
    assert [(one["signal"], one["payload"]) for one in signals] == [("first", {"a": 1}), ("second", [1, 2])]


def test_a_run_takes_no_more_signals_at_its_start_than_later(http: Http):
    name, most = fresh(), 10_000
    body = {"workflow_type": "Order", "workflow_id": name, "signals": [{"name": "s", "args": []}] * (most + 1)}
    reply = http.post("/workflows", body)
    assert (reply.status, reply.json()["code"], reply.json()["field"]) == (400, "limit_exceeded", "signals")
    assert http.get(f"/workflows/{name}").status == 404
    assert http.post("/workflows", {**body, "signals": body["signals"][:most]}).status == 201
    refused = http.post(f"/workflows/{name}/signal/more")
    assert (refused.status, refused.json()["code"]) == (429, "too_many_messages")
    assert http.history(name, order="desc", limit="1")[0]["payload"]["payload"] is None


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"run_timeout": "2h", "execution_timeout": "1h"}, 3600),
        ({"run_timeout": "1h", "execution_timeout": "2h"}, 3600),
        ({"execution_timeout": "1h"}, 3600),
        ({"execution_timeout": "1h", "run_timeout": 0}, 3600),
        ({"run_timeout": "1h", "execution_timeout": 0}, 3600),
        ({"run_timeout": 0, "execution_timeout": 0}, None),
        ({}, None),
    ],
)
def test_a_run_may_take_no_longer_than_its_chain(http: Http, fields: dict[str, object], shown: float | None):
    name = http.start(**fields)["workflow_id"]
    assert http.describe(name)["run_timeout"] == shown
    assert http.history(name)[0]["run_timeout"] == shown


def test_a_chain_that_takes_too_long_times_out_as_a_chain(http: Http):
    name = http.start(execution_timeout=0.2, run_timeout=60, retry_policy={"initial_interval": 0.01})["workflow_id"]
    result = http.get(f"/workflows/{name}/result?wait_secs=10").json()
    assert (result["status"], result["timeout_type"]) == ("TIMED_OUT", "execution")
    assert len(http.get(f"/workflows/{name}/runs").json()) == 1


def test_a_delayed_start_gives_no_task_before_its_time(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(start_delay=0.6, task_queue=queue)["workflow_id"]
    began = time.monotonic()
    assert worker.task() is None
    task = worker.task(wait_secs=10)
    assert task is not None
    assert task["workflow_id"] == name
    assert 0.5 < time.monotonic() - began < 5


def test_a_cron_run_waits_for_its_slot_and_comes_again(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(cron_schedule="* * * * * *", task_queue=queue)["workflow_id"]
    first = worker.task(wait_secs=10)
    assert first is not None
    assert worker.commands(name, complete(1)).status == 200
    second = worker.task(wait_secs=10)
    assert second is not None
    assert second["run_id"] != first["run_id"]
    assert http.describe(name, run_id=first["run_id"])["next_run_id"] == second["run_id"]
    http.post(f"/workflows/{name}/terminate")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"workflow_type": ""}, 400),
        ({"workflow_id": ""}, 400),
        ({"task_queue": ""}, 400),
        ({"workflow_id": "x" * 256}, 400),
        ({"workflow_id": "a\u0007b"}, 400),
        ({"execution_timeout": -1}, 400),
        ({"run_timeout": "1 parsec"}, 400),
        ({"run_timeout": True}, 422),
        ({"task_timeout": []}, 422),
        ({"id_conflict_policy": "maybe"}, 400),
        ({"id_reuse_policy": "maybe"}, 400),
        ({"id_reuse_policy": "reject_duplicate", "id_conflict_policy": "terminate_existing"}, 400),
        ({"retry_policy": {"backoff_coefficient": 0.5}}, 400),
        ({"retry_policy": {"maximum_attempts": -1}}, 400),
        ({"retry_policy": {"initial_interval": 10, "maximum_interval": 1}}, 400),
        ({"retry_policy": "often"}, 422),
        ({"cron_schedule": "every now and then"}, 400),
        ({"cron_schedule": "* * * * *", "start_delay": 1}, 400),
        ({"search_attributes": "none"}, 400),
        ({"search_attributes": {"bad key": 1}}, 400),
        ({"memo": [1]}, 400),
        ({"context": 5}, 400),
        ({"namespace": "Not A Namespace"}, 400),
        ({"signals": [{"name": ""}]}, 400),
        ({"signals": [{}]}, 422),
        ({"request_id": ""}, 400),
        ({"request_id": "x" * 256}, 400),
        ({"workflow_type": 5}, 422),
        ({"workflow_id": 5}, 422),
    ],
)
def test_options_that_make_no_sense_are_refused(http: Http, fields: dict[str, object], status: int):
    body = {"workflow_type": "Order", "workflow_id": fresh(), **fields}
    reply = http.post("/workflows", body)
    assert reply.status == status, reply
    assert {"error", "code"} <= reply.json().keys()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron_schedule": "every now and then"}, "cron_schedule"),
        ({"cron_schedule": "CRON_TZ=Nowhere/Land 0 3 * * *"}, "cron_schedule"),
        ({"cron_schedule": "0 0 30 2 *"}, "cron_schedule"),
        ({"retry_policy": {"maximum_attempts": -1}}, "maximum_attempts"),
        ({"retry_policy": {"backoffCoefficient": 0.5}}, "backoffCoefficient"),
        ({"run_timeout": -1}, "run_timeout"),
        ({"id_reuse_policy": "maybe"}, "id_reuse_policy"),
    ],
)
def test_an_option_is_blamed_by_the_name_that_the_caller_gave_it(http: Http, fields: dict[str, object], field: str):
    reply = http.post("/workflows", {"workflow_type": "Order", **fields})
    assert (reply.status, reply.json()["field"]) == (400, field)


def test_a_workflow_waits_up_to_a_hundred_times_its_first_interval(http: Http):
    name = http.start(retry_policy={"initial_interval": "1m"})["workflow_id"]
    assert http.describe(name)["retry_policy"]["maximum_interval"] == 6000


def test_a_missing_type_is_a_wrong_shape(http: Http):
    for body in ({}, {"workflow_id": "x"}, b"", b"null", b"[]", b"{ }", b"[ ]"):
        reply = http.post("/workflows", body)
        assert (reply.status, reply.json()["code"]) == (422, "wrong_shape")
        assert reply.json()["field"] == "workflow_type"


def test_empty_tables_are_empty_whatever_they_look_like(http: Http):
    name = http.start(search_attributes=[], memo=[], context=[], signals={}, retry_policy=[])["workflow_id"]
    record = http.describe(name)
    assert (record["search_attributes"], record["memo"], record["context"]) == ({}, {}, {})


def test_blanks_in_an_empty_table_say_nothing(http: Http):
    body = b'{"workflow_type": "Order", "search_attributes": [ ], "memo": [\n], "signals": { }, "retry_policy": [\t]}'
    name = http.post("/workflows", body).json()["workflow_id"]
    record = http.describe(name)
    assert (record["search_attributes"], record["memo"], record["retry_policy"] is None) == ({}, {}, False)


def test_a_record_has_the_version_of_the_engine_that_began_the_run(http: Http):
    version = http.get("/version").json()["version"]
    queue = fresh("queue")
    name = http.start(task_queue=queue, engine_stamp=True, search_attributes={"env": "prod"})["workflow_id"]
    child = {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": f"{name}-child", "task_queue": "x"}
    Worker(http, queue).turn(name, child, {"type": "ContinueAsNew"})
    records = [http.describe(name), http.describe(f"{name}-child"), http.describe(http.start()["workflow_id"])]
    assert [record["engine_version"] for record in records] == [version] * 3
    assert [record["search_attributes"] for record in records] == [{"env": "prod"}, None, None]
    assert http.history(name)[0]["engine_version"] == version


def test_unknown_fields_and_parameters_are_ignored(http: Http):
    name = fresh()
    body = {"workflow_type": "Order", "workflow_id": name, "status": "COMPLETED", "created_at": 1, "role": "admin"}
    assert http.post("/workflows?colour=blue", body).status == 201
    assert http.describe(name)["status"] == "PENDING"


def test_a_start_in_a_new_namespace_creates_it(http: Http):
    namespace = fresh("ns")
    http.start("same", namespace=namespace)
    assert namespace in [row["name"] for row in http.get("/namespaces").json()]
    assert http.describe("same", namespace=namespace)["namespace"] == namespace
    assert http.get("/workflows/same").status == 404


def test_a_refused_start_creates_no_namespace(http: Http):
    namespace = fresh("ns")
    http.post("/workflows", {"workflow_type": "Order", "namespace": namespace, "cron_schedule": "no"})
    assert namespace not in [row["name"] for row in http.get("/namespaces").json()]


def serve_one(worker: Worker, result: object) -> None:
    task = worker.task(wait_secs=10)
    assert task is not None
    worker.commands(task["workflow_id"], complete(result))


def test_start_and_wait_in_one_request(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    serving = threading.Thread(target=serve_one, args=(worker, {"total": 7}))
    serving.start()
    reply = http.post("/workflows?wait_secs=10", {"workflow_type": "Order", "task_queue": queue})
    serving.join()
    assert reply.status == 201
    body = reply.json()
    assert (body["status"], body["result"], body["error"], body["failure"]) == ("COMPLETED", {"total": 7}, None, None)
    assert {"workflow_id", "run_id", "close_reason"} <= body.keys()


def test_waiting_for_a_run_that_stays_open_is_answered_with_202(http: Http):
    began = time.monotonic()
    reply = http.post("/workflows?wait_secs=0.3", {"workflow_type": "Order", "task_queue": fresh("queue")})
    assert reply.status == 202
    assert (reply.json()["status"], reply.json()["result"]) == ("PENDING", None)
    assert 0.25 < time.monotonic() - began < 5


def test_a_failed_run_is_data(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, {"type": "FailWorkflow", "error": "no luck"})
    reply = http.get(f"/workflows/{name}/result")
    assert (reply.status, reply.json()["status"], reply.json()["error"]) == (200, "FAILED", "no luck")


def test_a_run_time_out_closes_as_timed_out(http: Http):
    name = http.start(run_timeout=0.2)["workflow_id"]
    reply = http.get(f"/workflows/{name}/result?wait_secs=10")
    assert (reply.status, reply.json()["status"], reply.json()["close_reason"]) == (200, "TIMED_OUT", "timed_out")
    assert http.history(name)[-1]["payload"] == {"scope": "run", "error": "workflow run timed out"}


def test_large_and_odd_payloads_come_back_as_they_were(http: Http):
    content = {"text": "é\u2028\U0001f600" * 1000, "big": 10**30, "float": 1.0, "deep": [[[[{}]]]], "empty": [{}, []]}
    name = http.start(input=content)["workflow_id"]
    assert http.describe(name)["input"] == content
    assert b'"float":1.0' in http.get(f"/workflows/{name}").body
    megabyte = "x" * (1024 * 1024)
    name = http.start(input=megabyte)["workflow_id"]
    assert http.describe(name)["input"] == megabyte


def test_an_activity_of_a_run_in_another_queue(http: Http):
    own, other = fresh("queue"), fresh("queue")
    name = http.start(task_queue=own)["workflow_id"]
    Worker(http, own).turn(name, activity(task_queue=other))
    assert Worker(http, own).activity() is None
    assert Worker(http, other).activity() is not None


@pytest.mark.parametrize(
    ("args", "recorded"),
    [
        ([], None),
        ([7], 7),
        ([1, "a"], {"$args": [1, "a"]}),
        ([{"$args": [1]}], {"$args": [{"$args": [1]}]}),
        ([None], None),
    ],
)
def test_several_arguments_are_packed(http: Http, args: list[object], recorded: object):
    name = http.start(args=args)["workflow_id"]
    assert http.describe(name)["input"] == recorded


def test_arguments_and_an_input_exclude_each_other(http: Http):
    reply = http.post("/workflows", {"workflow_type": "Order", "input": 1, "args": [1]})
    assert (reply.status, reply.json()["field"]) == (400, "args")
