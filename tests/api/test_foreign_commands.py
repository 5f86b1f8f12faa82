"""Commands of a worker whose key is for one namespace: other namespaces look empty, and nothing happens there."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.support import Http, Worker, fresh, serving

OWN, FOREIGN = "shop", "other"


class KeyedHttp(Http):
    """Sends a key with each request."""

    key = ""

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return super().send(method, path, body, **{"Authorization": f"Bearer {self.key}", **headers})


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KeyedHttp, KeyedHttp, KeyedHttp]]:
    """An admin, a worker and an operator of `shop`."""
    with serving(tmp_path_factory.mktemp("foreign"), "--auth-api-key") as server:
        found = []
        admin_key = server.http().post("/api-keys", {}).json()["plaintext"]
        for role in ("admin", "worker", "operator"):
            http = KeyedHttp(server.port, server._connections)
            http.key = admin_key
            if role != "admin":
                http.key = http.post("/api-keys", {"role": role, "namespaces": [OWN]}).json()["plaintext"]
            found.append(http)
        yield found[0], found[1], found[2]


def events(http: KeyedHttp, workflow_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"/workflows/{workflow_id}/events?namespace={OWN}").json()
    return found


@pytest.mark.parametrize("who", [1, 2])
def test_children_and_messages_stay_in_the_namespaces_of_the_key(
    clients: tuple[KeyedHttp, KeyedHttp, KeyedHttp], who: int
):
    admin, http = clients[0], clients[who]
    queue, parent, child, target = fresh("q"), fresh("parent"), fresh("child"), fresh("target")
    worker = Worker(http, queue, namespace=OWN)
    for namespace, name in ((OWN, parent), (FOREIGN, target)):
        start = {"workflow_type": "T", "workflow_id": name, "namespace": namespace, "task_queue": queue}
        assert admin.post("/workflows", start).status == 201
    assert worker.task() is not None
    address = admin.get(f"/workflows/{target}?namespace={FOREIGN}").json().get("pid") or f"wf://{FOREIGN}/{target}"
    reply = worker.commands(
        parent,
        {"type": "StartChildWorkflow", "workflow_type": "T", "workflow_id": child, "namespace": FOREIGN, "seq": 1},
        {"type": "StartChildWorkflow", "workflow_type": "T", "workflow_id": f"own-{child}", "seq": 2},
        {"type": "SendMessage", "seq": 1, "to": address, "topic": "t", "args": []},
        {"type": "Watch", "seq": 1, "target": address, "mode": "monitor"},
        {"type": "RequestCancelExternal", "seq": 1, "target": address},
        {"type": "TerminateExternal", "seq": 1, "target": address},
    )
    assert reply.status == 200, reply
    kinds = {event["event_type"]: event for event in events(admin, parent)}
    assert "PERMISSION_DENIED" in str(kinds["ChildWorkflowFailed"])
    assert "ChildWorkflowStarted" in kinds
    for kind in ("MessageSendFailed", "PeerExited", "ExternalCancelFailed", "ExternalTerminateFailed"):
        assert "NOT_FOUND" in str(kinds[kind])
    assert admin.get(f"/workflows/{child}?namespace={FOREIGN}").status == 404
    assert len(admin.get(f"/workflows/{target}/events?namespace={FOREIGN}").json()) == 1


def test_names_in_bodies_are_missing(clients: tuple[KeyedHttp, KeyedHttp, KeyedHttp]):
    _, _, operator = clients
    schedule = {"name": "n", "workflow_type": "T", "cron_expr": "0 0 * * *", "namespace": FOREIGN}
    for method, path, body in (
        ("POST", f"/workflows?namespace={OWN}", {"workflow_type": "T", "namespace": FOREIGN}),
        ("POST", f"/schedules?namespace={OWN}", schedule),
        ("PUT", f"/schedules/n?namespace={OWN}", schedule),
        ("POST", "/workers/register", {"queue": "q", "identity": "x", "namespace": FOREIGN}),
        ("GET", f"/workflows?namespace={OWN}&namespace={FOREIGN}", None),
        ("GET", f"/events/stream?namespace={OWN}&namespace={FOREIGN}", None),
    ):
        reply = operator.send(method, path, body)
        assert (reply.status, reply.json()["error"]) == (404, f"not found: namespace {FOREIGN}"), path


def test_further_fields_have_no_effect(clients: tuple[KeyedHttp, KeyedHttp, KeyedHttp]):
    _, _, operator = clients
    extra = {"status": "COMPLETED", "id": "x", "run_id": "y", "created_at": 1, "role": "admin", "is_admin": True}
    name = fresh("w")
    body = {"workflow_type": "T", "workflow_id": name, "namespace": OWN, **extra}
    assert operator.post("/workflows", body).status == 201
    found = operator.get(f"/workflows/{name}?namespace={OWN}").json()
    assert (found["id"], found["status"]) == (name, "PENDING")
    assert found["created_at"] > 1
    assert found["run_id"] != "y"
