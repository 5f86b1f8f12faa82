"""The audit over HTTP: a row for each accepted change, counted refusals, filters, pages and permissions."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.support import Http, Reply, Server, fresh, serving
from tests.temporary_postgres import create_database


class Audited:
    """An engine with keys."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.http: Http = server.http()
        self.admin = self.http.post("/api-keys", {"label": "root"}).json()["plaintext"]
        self.shop = self.key(label="shop", role="admin", namespaces=["shop"])
        self.ops = self.key(label="ops", role="operator", namespaces=["shop"])
        self.reader = self.key(label="eve", role="reader", namespaces=["shop"])

    def key(self, **fields: object) -> str:
        made = self.call("POST", "/api-keys", self.admin, fields)
        assert made.status == 201, made
        return str(made.json()["plaintext"])

    def call(self, method: str, path: str, key: str, body: object = None, **headers: str) -> Reply:
        return self.http.send(method, path, body, Authorization=f"Bearer {key}", **headers)

    def rows(self, query: str = "", key: str | None = None) -> list[dict[str, Any]]:
        reply = self.call("GET", f"/audit{query}", key or self.admin)
        assert reply.status == 200, reply
        found: list[dict[str, Any]] = reply.json()
        return found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def audited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    arguments = ["--auth-api-key"]
    if request.param == "postgres":
        database = asyncio.run(create_database(request.getfixturevalue("postgres_server")))
        arguments += ["--backend", database]
    with serving(tmp_path_factory.mktemp("audited"), *arguments) as server:
        yield Audited(server)


def test_each_change_has_one_row(audited: Audited):
    name, plan, space = fresh("w"), fresh("s"), fresh("n")
    ops, root, query = audited.ops, audited.admin, "?namespace=shop"
    definition = {"name": plan, "workflow_type": "T", "cron_expr": "0 0 * * *", "namespace": "shop"}
    start = {"workflow_type": "T", "workflow_id": name, "namespace": "shop"}
    activity = {"name": "a", "seq": 1, "task_queue": "default"}
    changes: list[tuple[str, str, str, object, str, str]] = [
        ("POST", "/workflows", ops, start, "startWorkflow", name),
        ("POST", f"/workflows/{name}/signal/go{query}", ops, {}, "signalWorkflow", name),
        ("POST", f"/workflows/{name}/activities{query}", ops, activity, "scheduleActivity", name),
        ("POST", f"/workflows/{name}/continue-as-new{query}", ops, {}, "continueAsNew", name),
        ("POST", f"/workflows/{name}/cancel{query}", ops, {}, "cancelWorkflow", name),
        (
            "POST",
            f"/workflows/{name}/retry{query}",
            ops,
            {"reason": "x", "requested_by": "nobody"},
            "retryWorkflow",
            name,
        ),
        ("POST", f"/workflows/{name}/terminate{query}", ops, {"reason": "x"}, "terminateWorkflow", name),
        ("POST", "/schedules", ops, definition, "createSchedule", plan),
        ("PATCH", f"/schedules/{plan}{query}", ops, {"cron_expr": "0 1 * * *"}, "patchSchedule", plan),
        ("POST", f"/schedules/{plan}/pause{query}", ops, {"by": "nobody"}, "pauseSchedule", plan),
        ("POST", f"/schedules/{plan}/resume{query}", ops, {}, "resumeSchedule", plan),
        ("POST", f"/schedules/{plan}/trigger{query}", ops, {}, "triggerSchedule", plan),
        ("DELETE", f"/schedules/{plan}{query}", ops, None, "deleteSchedule", plan),
        ("POST", "/namespaces", root, {"name": space}, "createNamespace", space),
        ("DELETE", f"/namespaces/{space}", root, None, "deleteNamespace", space),
    ]
    for method, path, key, body, _, _ in changes:
        reply = audited.call(method, path, key, body, X_Request_Id="r.1")
        assert reply.status < 300, (path, reply)
    found = [row for row in audited.rows("?limit=1000") if row["target"] in (name, plan, space)]
    assert [(row["action"], row["target"]) for row in reversed(found)] == [change[4:] for change in changes]
    for row in found:
        assert (row["outcome"], row["code"], row["count"], row["request_id"]) == ("ok", None, 1, "r.1")
        assert row["address"] == "127.0.0.1"
        assert row["namespace"] == (space if row["target"] == space else "shop")
        assert row["actor"] == ("root" if row["target"] == space else "ops")
        assert row["credential"].startswith("assay_")
    by_action = {row["action"]: row for row in found}
    assert by_action["createSchedule"]["before"] is None
    assert by_action["createSchedule"]["after"]["cron_expr"] == "0 0 * * *"
    patched = by_action["patchSchedule"]
    assert (patched["before"]["cron_expr"], patched["after"]["cron_expr"]) == ("0 0 * * *", "0 1 * * *")
    assert by_action["pauseSchedule"]["after"]["paused_by"] == "ops"  # whatever the body has
    assert (by_action["deleteSchedule"]["after"], by_action["deleteNamespace"]["after"]) == (None, None)
    assert by_action["createNamespace"]["after"] == {"name": space}
    assert by_action["deleteNamespace"]["before"] == {"name": space}
    assert by_action["startWorkflow"]["before"] is None


def test_keys_are_audited_without_their_text(audited: Audited):
    made = audited.call("POST", "/api-keys", audited.shop, {"label": "k", "role": "reader"}).json()
    rotated = audited.call("POST", f"/api-keys/{made['prefix']}/rotate", audited.shop, {"overlap_secs": 0}).json()
    assert audited.call("DELETE", f"/api-keys/{rotated['prefix']}", audited.shop).status == 204
    rows = audited.rows("?actor=shop")[:3]
    assert [row["action"] for row in rows] == ["revokeApiKey", "rotateApiKey", "createApiKey"]
    assert [row["target"] for row in rows] == [rotated["prefix"], made["prefix"], made["prefix"]]
    assert {row["namespace"] for row in rows} == {"shop"}
    assert rows[0]["after"]["revoked_at"] is not None
    assert rows[0]["before"].get("revoked_at") is None
    assert rows[1]["after"]["prefix"] == rotated["prefix"]
    assert rows[2]["before"] is None
    assert "plaintext" not in str(rows)
    for text in (made["plaintext"], rotated["plaintext"], audited.admin):
        assert text not in str(audited.rows("?limit=1000"))


def test_the_first_key_is_audited(audited: Audited):
    first = audited.rows("?action=createApiKey&limit=1000")[-1]
    assert (first["actor"], first["credential"], first["after"]["label"]) == (None, None, "root")


def test_refusals_are_counted_by_minute(audited: Audited):
    for n in range(7):
        reply = audited.call("POST", f"/workflows/x{n}/terminate?namespace=shop", audited.reader, {})
        assert reply.status == 403
    found = audited.rows("?outcome=refused&actor=eve&action=terminateWorkflow")
    assert sum(row["count"] for row in found) == 7
    assert len(found) <= 2  # two if a minute has ended meanwhile
    assert found[-1]["code"] == "forbidden"
    assert (found[-1]["namespace"], found[-1]["target"]) == ("shop", "x0")


def test_failures_repetitions_and_reads_are_no_rows(audited: Audited):
    name = fresh("w")
    start = {"workflow_type": "T", "workflow_id": name, "namespace": "shop"}
    for _ in range(3):
        assert audited.call("POST", "/workflows", audited.ops, start, Idempotency_Key=name).status == 201
    assert audited.call("POST", "/workflows", audited.ops, start).status == 409
    assert audited.call("GET", f"/workflows/{name}?namespace=shop", audited.ops).status == 200
    assert audited.call("POST", "/workflows/nobody/cancel?namespace=shop", audited.ops, {}).status == 404
    assert audited.call("POST", "/namespaces", audited.admin, {"name": "shop"}).status == 409
    assert len(audited.rows(f"?target={name}")) == 1
    assert audited.rows("?target=nobody") == []
    assert audited.rows("?action=createNamespace&target=shop") == []


def test_workers_are_not_audited(audited: Audited):
    body = {"queue": "default", "namespace": "shop", "identity": "x"}
    worker = audited.call("POST", "/workers/register", audited.ops, body).json()["worker_id"]
    audited.call("POST", "/workflow-tasks/poll", audited.ops, {"queue": "default", "worker_id": worker})
    assert audited.rows("?action=registerWorker") == []


def test_pages_and_filters(audited: Audited):
    every = audited.rows("?limit=1000")
    assert [row["id"] for row in every] == sorted((row["id"] for row in every), reverse=True)
    pages: list[dict[str, Any]] = []
    query = "?limit=3"
    while True:
        reply = audited.call("GET", f"/audit{query}", audited.admin)
        pages += reply.json()
        if "x-next-cursor" not in reply.headers:
            break
        query = f"?limit=3&cursor={reply.headers['x-next-cursor']}"
    assert pages == every
    middle = every[len(every) // 2]["at"]
    assert audited.rows(f"?limit=1000&after={middle}") == [row for row in every if row["at"] >= middle]
    assert audited.rows(f"?limit=1000&before={middle}") == [row for row in every if row["at"] < middle]
    for name in ("actor", "action", "target", "outcome", "namespace"):
        value = every[0][name]
        assert audited.rows(f"?limit=1000&{name}={value}") == [row for row in every if row[name] == value], name
    for bad in ("limit=0", "limit=x", "cursor=x", "cursor=-1", "outcome=x", "after=x", "after=1e300", "before=-1"):
        assert audited.call("GET", f"/audit?{bad}", audited.admin).status == 400, bad
    assert audited.rows("?actor=%27%20OR%201=1%20--") == []


def test_admins_see_the_rows_of_their_namespaces(audited: Audited):
    own = audited.rows("?limit=1000", audited.shop)
    assert own
    assert {row["namespace"] for row in own} == {"shop"}
    for path, key, status in (
        ("/audit?namespace=other", audited.shop, 404),
        ("/audit?namespace=*", audited.shop, 403),
        ("/audit", audited.ops, 403),
        ("/audit?namespace=shop", audited.reader, 403),
    ):
        assert audited.call("GET", path, key).status == status, path
    for method in ("DELETE", "POST", "PATCH", "PUT"):
        assert audited.call(method, "/audit", audited.admin, {}).status == 405
    assert "audit" in audited.call("GET", "/session", audited.admin).json()["features"]


def test_retries_have_the_name_of_the_caller(audited: Audited):
    name, query = fresh("w"), "?namespace=shop"
    start = {"workflow_type": "T", "workflow_id": name, "namespace": "shop"}
    assert audited.call("POST", "/workflows", audited.ops, start).status == 201
    assert audited.call("POST", f"/workflows/{name}/cancel{query}", audited.ops, {}).status == 200
    body = {"reason": "again"}  # without `requested_by`, which callers without a credential have to give
    assert audited.call("POST", f"/workflows/{name}/retry{query}", audited.ops, body).status == 200
    definition = {"workflow_type": "T", "cron_expr": "0 0 * * *", "paused": True, "paused_by": "somebody else"}
    put = audited.call("PUT", f"/schedules/{name}{query}", audited.ops, definition)
    assert put.json()["paused_by"] == "ops"


def test_without_authentication_the_audit_is_on_demand(tmp_path: Path):
    with serving(tmp_path) as server:
        http = server.http()
        http.start()
        assert http.get("/audit").json() == []
        assert "audit" not in http.get("/session").json()["features"]
    with serving(tmp_path, "--audit") as server:
        http = server.http()
        name = http.start()["workflow_id"]
        (row,) = http.get("/audit").json()
        assert (row["actor"], row["credential"], row["target"]) == (None, None, name)
        assert "audit" in http.get("/session").json()["features"]
    with serving(tmp_path, "--read-only") as server:
        assert len(server.http().get("/audit").json()) == 1
