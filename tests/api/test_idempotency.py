import json
import threading

import pytest

from tests.api.support import PREFIX, Http, Server, Worker, activity, complete, fresh

RETRY = {"requested_by": "ada", "reason": "again"}


def twice(http: Http, path: str, body: object, method: str = "POST"):
    key = fresh("key")
    first = http.send(method, path, body, Idempotency_Key=key)
    second = http.send(method, path, body, Idempotency_Key=key)
    assert "idempotent-replay" not in first.headers
    assert second.headers["idempotent-replay"] == "true"
    assert (second.status, second.body) == (first.status, first.body)
    return first, key


def test_a_start_happens_once(http: Http):
    queue = fresh("queue")
    first, key = twice(http, "/workflows", {"workflow_type": "Order", "task_queue": queue})
    assert first.status == 201
    assert len(http.get(f"/workflows?queue={queue}").json()) == 1
    other = http.post("/workflows", {"workflow_type": "Order", "task_queue": "x"}, Idempotency_Key=key)
    assert (other.status, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_signal_happens_once(http: Http):
    name = http.start()["workflow_id"]
    twice(http, f"/workflows/{name}/signal/go", {"payload": 1})
    twice(http, f"/workflows/{name}/signal/go", {"payload": 1})
    assert http.kinds(name).count("SignalReceived") == 2


def test_the_same_key_for_another_run_is_refused(http: Http):
    one, two, key = http.start()["workflow_id"], http.start()["workflow_id"], fresh("key")
    assert http.post(f"/workflows/{one}/signal/go", {}, Idempotency_Key=key).status == 200
    assert http.post(f"/workflows/{two}/signal/go", {}, Idempotency_Key=key).status == 422
    assert http.post(f"/workflows/{one}/cancel", {}, Idempotency_Key=key).status == 422


def test_refusals_are_kept_too(http: Http):
    name, key = fresh(), fresh("key")
    first = http.post(f"/workflows/{name}/cancel", {}, Idempotency_Key=key)
    http.start(name)
    second = http.post(f"/workflows/{name}/cancel", {}, Idempotency_Key=key)
    assert (first.status, second.status) == (404, 404)
    assert second.headers["idempotent-replay"] == "true"
    assert http.describe(name)["status"] == "PENDING"


def test_a_key_of_one_namespace_is_refused_for_another(http: Http):
    key, one, two = fresh("key"), fresh("ns"), fresh("ns")
    assert http.post("/namespaces", {"name": one}, Idempotency_Key=key).status == 201
    other = http.post("/namespaces", {"name": two}, Idempotency_Key=key)
    assert (other.status, other.json()["code"]) == (422, "idempotency_key_reused")
    assert two not in [row["name"] for row in http.get("/namespaces").json()]
    assert http.post("/namespaces", {"name": one}, Idempotency_Key=key).headers["idempotent-replay"] == "true"
    assert http.post("/namespaces", {"name": two}).status == 201
    key = fresh("key")
    assert http.delete(f"/namespaces/{one}", Idempotency_Key=key).status == 200
    assert http.delete(f"/namespaces/{two}", Idempotency_Key=key).status == 422
    assert http.delete(f"/namespaces/{one}", Idempotency_Key=key).headers["idempotent-replay"] == "true"


def test_keys_belong_to_a_namespace(http: Http):
    key, one, two = fresh("key"), fresh("ns"), fresh("ns")
    for namespace in (one, two):
        body = {"workflow_type": "Order", "workflow_id": "w", "namespace": namespace}
        assert http.post("/workflows", body, Idempotency_Key=key).status == 201


def test_both_prefixes_are_one_route(server: Server, http: Http):
    key, body = fresh("key"), {"workflow_type": "Order", "workflow_id": fresh()}
    http.post("/workflows", body, Idempotency_Key=key)
    reply = server.http("/api/v1/engine/workflow").post("/workflows", body, Idempotency_Key=key)
    assert reply.headers["idempotent-replay"] == "true"


def test_every_change_of_a_run_takes_a_key(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    twice(http, f"/workflows/{name}/activities", {"name": "direct", "seq": 50, "task_queue": "x"})
    assert worker.task() is not None
    commands = {"worker_id": worker.id, "commands": [activity(51, task_queue=queue)]}
    twice(http, f"/workflow-tasks/{name}/commands", commands)
    task = worker.activity()
    assert task is not None
    twice(http, f"/tasks/{task['id']}/heartbeat", {"details": 1})
    twice(http, f"/tasks/{task['id']}/complete", {"result": 1})
    twice(http, f"/workflows/{name}/cancel", {"reason": "x"})
    twice(http, f"/workflows/{name}/continue-as-new", {"input": 1})
    twice(http, f"/workflows/{name}/terminate", {})
    assert http.kinds(name)[-1] == "WorkflowTerminated"
    assert len(http.get(f"/workflows/{name}/runs").json()) == 2


def test_registrations_and_namespaces_take_a_key(http: Http):
    namespace = fresh("ns")
    twice(http, "/namespaces", {"name": namespace})
    first, _ = twice(http, "/workers/register", {"identity": "x", "queue": "q", "namespace": namespace})
    assert [row["id"] for row in http.get(f"/workers?namespace={namespace}").json()] == [first.json()["worker_id"]]
    twice(http, f"/namespaces/{namespace}", None, "DELETE")


def test_a_retry_takes_a_key(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    worker.turn(name, activity(task_queue=queue, max_attempts=1))
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    worker.turn(name, {"type": "FailWorkflow", "error": "x"})
    first, _ = twice(http, f"/workflows/{name}/retry", RETRY)
    assert first.status == 200


def test_a_record_is_shown_again_as_it_was(http: Http):
    queue, key = fresh("queue"), fresh("key")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    path, body = f"/workflows/{name}/activities", {"name": "direct", "seq": 1, "task_queue": queue, "max_attempts": 1}
    first = http.post(path, body, Idempotency_Key=key)
    assert (first.status, first.json()["status"], first.json()["attempt"]) == (201, "PENDING", 1)
    assert first.json() == http.get(f"/activities/{first.json()['id']}").json()
    task = worker.activity()
    assert task is not None
    worker.fail(task)
    again = http.post(path, body, Idempotency_Key=key)
    assert (again.status, again.body, again.headers["idempotent-replay"]) == (201, first.body, "true")
    late = http.post(path, body, Idempotency_Key=fresh("key"))
    assert (late.status, late.json()) == (201, http.get(f"/activities/{task['id']}").json())
    worker.turn(name, {"type": "FailWorkflow", "error": "x"})
    retried = http.post(f"/workflows/{name}/retry", RETRY, Idempotency_Key=key + "-retry")
    assert retried.json()["activity"] == http.get(f"/activities/{retried.json()['activity']['id']}").json()
    task = worker.activity()
    assert task is not None
    worker.complete(task)
    again = http.post(f"/workflows/{name}/retry", RETRY, Idempotency_Key=key + "-retry")
    assert (again.status, again.body, again.headers["idempotent-replay"]) == (200, retried.body, "true")


def test_starting_and_waiting_with_a_key(http: Http):
    queue, key = fresh("queue"), fresh("key")
    worker = Worker(http, queue)
    body = {"workflow_type": "Order", "task_queue": queue}
    assert http.post("/workflows?wait_secs=0.1", body, Idempotency_Key=key).status == 202
    task = worker.task()
    assert task is not None
    worker.commands(task["workflow_id"], complete("once"))
    again = http.post("/workflows?wait_secs=5", body, Idempotency_Key=key)
    assert (again.status, again.json()["result"]) == (201, "once")
    assert again.headers["idempotent-replay"] == "true"


def test_one_effect_however_many_at_once(http: Http):
    key, name = fresh("key"), http.start()["workflow_id"]
    bodies: list[bytes] = []

    def send() -> None:
        bodies.append(http.post(f"/workflows/{name}/continue-as-new", {"input": 1}, Idempotency_Key=key).body)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(bodies)) == 1
    assert len(http.get(f"/workflows/{name}/runs").json()) == 2


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_bad_keys_are_refused(http: Http, key: str):
    body = json.dumps({"workflow_type": "Order"}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    reply = http.raw("POST", f"{PREFIX}/workflows", body, headers)
    assert (reply.status, reply.json()["field"]) == (400, "Idempotency-Key")


def test_a_key_is_remembered_over_a_kill(tmp_path):
    server = Server(tmp_path)
    body = {"workflow_type": "Order", "workflow_id": "once"}
    first = server.http().post("/workflows", body, Idempotency_Key="k")
    server.kill()
    server.close()
    server = Server(tmp_path)
    try:
        second = server.http().post("/workflows", body, Idempotency_Key="k")
        assert (second.status, second.body) == (201, first.body)
        assert second.headers["idempotent-replay"] == "true"
    finally:
        server.close()
