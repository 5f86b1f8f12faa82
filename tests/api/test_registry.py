import pytest

from tests.api.support import Http, Server, Worker, activity, fresh


def test_main_is_always_there(http: Http):
    found = http.get("/namespaces").json()
    assert "main" in [row["name"] for row in found]
    assert all(row.keys() == {"name", "created_at"} for row in found)
    assert [row["name"] for row in found] == sorted(row["name"] for row in found)


def test_a_namespace_is_created_once(http: Http):
    name = fresh("ns")
    reply = http.post("/namespaces", {"name": name})
    assert (reply.status, reply.body) == (201, b"")
    reply = http.post("/namespaces", {"name": name})
    assert (reply.status, reply.json()["code"]) == (409, "already_exists")
    assert name in [row["name"] for row in http.get("/namespaces").json()]


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"name": 1}, 422), ({"name": ""}, 400), ({"name": "A B"}, 400), ({"name": "x" * 64}, 400)],
)
def test_bad_namespaces_are_refused(http: Http, body: dict[str, object], status: int):
    assert http.post("/namespaces", body).status == status


def test_a_namespace_is_deleted_when_nobody_uses_it(http: Http):
    name = fresh("ns")
    http.start("busy", namespace=name)
    reply = http.delete(f"/namespaces/{name}")
    assert (reply.status, reply.json()["code"]) == (409, "namespace_in_use")
    http.post(f"/workflows/busy/terminate?namespace={name}")
    reply = http.delete(f"/namespaces/{name}")
    assert (reply.status, reply.body) == (200, b"")
    assert name not in [row["name"] for row in http.get("/namespaces").json()]
    assert http.delete(f"/namespaces/{name}").status == 404
    http.start("again", namespace=name)
    assert name in [row["name"] for row in http.get("/namespaces").json()]


def test_main_cannot_be_deleted(http: Http):
    reply = http.delete("/namespaces/main")
    assert (reply.status, reply.json()["error"]) == (404, "not found: cannot delete the 'main' namespace")


def test_stats_count_by_status(http: Http):
    name = fresh("ns")
    for number in range(3):
        http.start(f"w{number}", namespace=name)
    http.post(f"/workflows/w0/terminate?namespace={name}")
    http.post(f"/workflows/w1/cancel?namespace={name}")
    Worker(http, namespace=name).task()
    stats = http.get(f"/namespaces/{name}").json()
    assert (stats["namespace"], stats["total_workflows"], stats["running"]) == (name, 3, 1)
    assert (stats["failed"], stats["pending"], stats["completed"]) == (1, 0, 0)
    assert (stats["workers"], stats["schedules"]) == (1, 0)


def test_an_unknown_namespace_has_zeros(http: Http):
    reply = http.get("/namespaces/nowhere")
    assert reply.status == 200
    assert {value for name, value in reply.json().items() if name != "namespace"} == {0}
    for path in ("/workflows", "/workers", "/queues"):
        assert http.get(f"{path}?namespace=nowhere").json() == []


def test_every_registration_is_a_new_worker(http: Http):
    namespace = fresh("ns")
    body = {"identity": "me", "queue": "q", "namespace": namespace, "workflows": ["A"], "max_concurrent_workflows": 3}
    ids = [http.post("/workers/register", body).json()["worker_id"] for _ in range(2)]
    assert len(set(ids)) == 2
    assert all(one.startswith("w-") and int(one[2:], 16) >= 0 and len(one) == 18 for one in ids)
    found = http.get(f"/workers?namespace={namespace}").json()
    assert [worker["id"] for worker in found] == ids
    first = found[0]
    assert (first["identity"], first["task_queue"], first["workflows"], first["activities"]) == ("me", "q", ["A"], None)
    assert (first["max_concurrent_workflows"], first["max_concurrent_activities"]) == (3, 10)
    assert first["last_heartbeat"] >= first["registered_at"]
    assert namespace in [row["name"] for row in http.get("/namespaces").json()]


@pytest.mark.parametrize("none", [[], {}])
def test_a_worker_without_activities_may_say_so_as_a_list_or_an_object(http: Http, none: object):
    body = {"identity": "me", "queue": "q", "namespace": fresh("ns"), "workflows": ["A"], "activities": none}
    reply = http.post("/workers/register", body)
    assert reply.status == 200
    (worker,) = http.get(f"/workers?namespace={body['namespace']}").json()
    assert (worker["id"], worker["activities"]) == (reply.json()["worker_id"], [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"identity": "x"}, 422),
        ({"queue": "x"}, 422),
        ({"identity": 1, "queue": "q"}, 422),
        ({"identity": "x", "queue": "q", "workflows": "all"}, 422),
        ({"identity": "x", "queue": "q", "activities": {"charge": 1}}, 422),
        ({"identity": "x", "queue": ""}, 400),
        ({"identity": "x", "queue": "q", "namespace": "no good"}, 400),
        ({"identity": "x", "queue": "q", "max_concurrent_workflows": -1}, 400),
    ],
)
def test_bad_registrations_are_refused(http: Http, body: dict[str, object], status: int):
    assert http.post("/workers/register", body).status == status


def test_a_heartbeat_says_nothing(http: Http):
    reply = http.post("/workers/heartbeat", {"worker_id": Worker(http).id})
    assert (reply.status, reply.body) == (200, b"")
    assert http.post("/workers/heartbeat", {}).status == 422


def test_queues_show_what_waits(http: Http):
    namespace = fresh("ns")
    worker = Worker(http, "work", namespace=namespace)
    http.start("a", namespace=namespace, task_queue="work")
    http.start("b", namespace=namespace, task_queue="lonely")
    worker.turn("a", activity(1, task_queue="work"), activity(2, task_queue="work"), activity(3, task_queue="else"))
    assert worker.activity() is not None
    queues = {row["queue"]: row for row in http.get(f"/queues?namespace={namespace}").json()}
    assert list(queues) == ["else", "lonely", "work"]
    assert (queues["work"]["pending_activities"], queues["work"]["running_activities"]) == (1, 1)
    assert (queues["work"]["workers"], queues["else"]["pending_activities"], queues["else"]["workers"]) == (1, 1, 0)
    assert (queues["lonely"]["pending_workflow_tasks"], queues["lonely"]["pending_activities"]) == (1, 0)
    (found,) = http.get(f"/workers?namespace={namespace}").json()
    assert found["active_tasks"] == 1


def test_registrations_and_namespaces_survive_a_restart(tmp_path):
    server = Server(tmp_path)
    http = server.http()
    worker = Worker(http, "q", namespace="tenant", workflows=["A"])
    http.post("/namespaces", {"name": "empty"})
    http.start("a", namespace="tenant", task_queue="q", workflow_type="A")
    http.start("b", namespace="tenant", task_queue="q", workflow_type="B")
    server.kill()
    server.close()
    server = Server(tmp_path)
    try:
        http = server.http()
        worker.http = http
        assert [row["name"] for row in http.get("/namespaces").json()] == ["empty", "main", "tenant"]
        assert [row["id"] for row in http.get("/workers?namespace=tenant").json()] == [worker.id]
        task = worker.task()
        assert task is not None
        assert task["workflow_id"] == "a"
        assert worker.task() is None
    finally:
        server.close()


def test_every_list_says_how_many_there_are(http: Http):
    namespace = fresh("ns")
    Worker(http, "q", namespace=namespace)
    for number in range(3):
        schedule = {"name": f"s{number}", "workflow_type": "Order", "cron_expr": "@hourly", "namespace": namespace}
        assert http.post("/schedules", schedule).status == 201
    for _ in range(3):
        assert http.post(f"/schedules/s0/trigger?namespace={namespace}", {"overlap_policy": "allow_all"}).status == 200
    for path, total in {
        "workers": 1,
        "queues": 2,
        "schedules": 3,
        "schedules/s0/fires": 3,
        "schedules/s0/preview": 10,
    }.items():
        reply = http.get(f"/{path}?namespace={namespace}")
        assert (path, len(reply.json()), reply.headers["x-total-count"]) == (path, total, str(total))
    reply = http.get(f"/schedules/s0/fires?namespace={namespace}&limit=1")
    assert (len(reply.json()), reply.headers["x-total-count"]) == (1, "3")
    reply = http.get("/namespaces")
    assert reply.headers["x-total-count"] == str(len(reply.json()))


def test_a_bad_name_is_blamed_by_the_word_that_the_caller_used(http: Http):
    reply = http.post("/namespaces", {"name": "Not A Namespace"})
    assert (reply.status, reply.json()["field"]) == (400, "name")
    reply = http.post("/workflows", {"workflow_type": "Order", "namespace": "Not A Namespace"})
    assert (reply.status, reply.json()["field"]) == (400, "namespace")


def test_a_worker_reports_its_health_and_its_record_always_has_it(http: Http):
    namespace = fresh("health")
    body = {"identity": "one", "queue": "default", "namespace": namespace}
    worker = http.post("/workers/register", body).json()["worker_id"]

    def record() -> tuple[bool, int]:
        (found,) = http.get(f"/workers?namespace={namespace}").json()
        return found["healthy"], found["abandoned_threads"]

    assert record() == (True, 0)
    report = {"worker_id": worker, "healthy": False, "abandoned_threads": 3}
    assert http.post("/workers/heartbeat", report).status == 200
    assert http.post("/workers/heartbeat", {"worker_id": worker}).status == 200
    assert record() == (False, 3), "a sign of life alone changes nothing"
    assert http.post("/workers/heartbeat", {"worker_id": worker, "healthy": True, "abandoned_threads": 0}).status == 200
    assert record() == (True, 0)
    assert http.post("/workers/heartbeat", report | {"abandoned_threads": -1}).status in (400, 422)
