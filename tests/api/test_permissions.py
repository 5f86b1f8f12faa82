"""Every route for every role, in its own namespace and in a foreign one: the declared permissions are enforced."""

from collections.abc import Iterator

import pytest

from assay.api.access import NamespaceSource
from assay.api.router import Route
from assay.api.routes.table import ROUTES
from assay.auth.permissions import GRANTED, LOWEST_ROLE, Permission, Role
from tests.api.support import PREFIX, Http, Server, serving

OWN, FOREIGN = "shop", "other"
PUBLIC = {
    "getFront",
    "getDashboard",
    "getDashboardBase",
    "getDashboardList",
    "getDashboardAsset",
    "getDashboardIcon",
    "getIcon",
    "getHealth",
    "getVersion",
    "getOpenApi",
    "getDocs",
    "getDocsFile",
    "getSession",
    "signIn",
    "signOut",
    "beginSignIn",
    "finishSignIn",
    "getLiveness",
    "getReadiness",
}
PERMISSIONS = {
    Permission.READ: {"issueTicket", "previewCron"},
    Permission.ACT: {"readMailbox"},
    Permission.WORK: {
        "registerWorker",
        "heartbeatWorker",
        "exchangeMessages",
        "pollWorkflowTask",
        "submitCommands",
        "extendWorkflowTask",
        "pollActivityTask",
        "completeTask",
        "failTask",
        "heartbeatTask",
    },
    Permission.MANAGE: {
        "createApiKey",
        "listApiKeys",
        "rotateApiKey",
        "revokeApiKey",
        "listAudit",
        "createNamespace",
        "deleteNamespace",
        "getMetrics",
    },
}
BODIES = {
    "startWorkflow": {"workflow_type": "Order", "namespace": "%s"},
    "createSchedule": {"name": "nightly", "workflow_type": "Order", "cron_expr": "0 0 * * *", "namespace": "%s"},
    "putSchedule": {"workflow_type": "Order", "cron_expr": "0 0 * * *", "namespace": "%s"},
    "registerWorker": {"queue": "default", "namespace": "%s", "identity": "test"},
    "retryWorkflow": {"requested_by": "ada", "reason": "test"},
    "scheduleActivity": {"name": "a", "seq": 1},
    "createApiKey": {"namespaces": ["%s"]},
}


class Keys:
    """An engine with a key for each role in `shop`."""

    def __init__(self, server: Server) -> None:
        self.http: Http = server.http()
        self.admin = self.http.post("/api-keys", {"label": "first"}).json()["plaintext"]
        self.by_role = {role: self.make(role=role.value, namespaces=[OWN]) for role in Role}
        self.call("POST", "/workflows", self.admin, {"workflow_type": "Order", "workflow_id": "w", "namespace": OWN})
        self.call(
            "POST", "/workflows", self.admin, {"workflow_type": "Order", "workflow_id": "w", "namespace": FOREIGN}
        )

    def make(self, **fields: object) -> str:
        made = self.call("POST", "/api-keys", self.admin, fields)
        assert made.status == 201, made
        return str(made.json()["plaintext"])

    def call(self, method: str, path: str, key: str | None, body: object = None, prefix: str = PREFIX):
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.http.prefix = prefix
        try:
            return self.http.send(method, path, body, **headers)
        finally:
            self.http.prefix = PREFIX


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    with serving(tmp_path_factory.mktemp("auth"), "--auth-api-key") as server:
        yield Keys(server)


def filled(route: Route, namespace: str) -> tuple[str, object]:
    """Return path and body of a request for a namespace, as far as a refusal needs them."""
    path = route.path
    for name in ("workflow_id", "worker_id", "task_id", "activity_id", "prefix", "file", "seq"):
        path = path.replace(f"{{{name}}}", "1")
    path = path.replace("{name}", namespace if route.access.where is NamespaceSource.PATH else "n")
    body = BODIES.get(route.operation_id, {} if route.method != "GET" else None)
    if isinstance(body, dict):
        body = {
            name: [namespace] if value == ["%s"] else namespace if value == "%s" else value
            for name, value in body.items()
        }
    return f"{path}?namespace={namespace}", body


def permission_of(route: Route) -> Permission | None:
    """Return the permission by the table of the contract, not by the route's own declaration."""
    if route.operation_id in PUBLIC:
        return None
    for permission, operations in PERMISSIONS.items():
        if route.operation_id in operations:
            return permission
    return Permission.READ if route.method == "GET" else Permission.ACT


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)
def test_each_route_declares_the_permission_of_the_contract(route: Route):
    assert route.access.permission == permission_of(route)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)
def test_strangers_see_public_routes_only(keys: Keys, route: Route):
    path, body = filled(route, OWN)
    prefix = PREFIX if route.prefixed else ""
    if route.media == "text/event-stream":
        path += "&kind=none"
    reply = keys.call(route.method, path, None, body, prefix)
    if route.operation_id in PUBLIC:
        assert reply.status != 401
    else:
        assert (reply.status, reply.json()["code"]) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"


IN_ONE_NAMESPACE = [
    route
    for route in ROUTES
    if route.access.where in (NamespaceSource.QUERY, NamespaceSource.PATH) and route.operation_id not in PUBLIC
] + [
    route
    for route in ROUTES
    if route.operation_id in ("startWorkflow", "createSchedule", "putSchedule", "registerWorker")
]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("route", IN_ONE_NAMESPACE, ids=lambda route: route.operation_id)
def test_roles_have_their_permissions_in_their_namespace_and_nothing_elsewhere(keys: Keys, route: Route, role: Role):
    permission = permission_of(route)
    assert permission is not None
    key = keys.by_role[role]
    if permission not in GRANTED[role]:
        own = keys.call(route.method, filled(route, OWN)[0], key, filled(route, OWN)[1])
        assert own.status == 403, own
        assert own.json()["code"] == "forbidden"
        assert own.json()["needs"] == LOWEST_ROLE[permission].value
        assert own.json()["namespace"] == OWN
        assert own.json()["error"] == f"Needs the {LOWEST_ROLE[permission].value} role in {OWN}."
    elif route.method == "GET":
        assert keys.call("GET", filled(route, OWN)[0], key).status != 403
    foreign = keys.call(route.method, filled(route, FOREIGN)[0], key, filled(route, FOREIGN)[1])
    assert foreign.status == 404, foreign
    assert foreign.json()["error"] == f"not found: namespace {FOREIGN}"


def test_nothing_is_told_of_paths_to_strangers(keys: Keys):
    for method, path in (("GET", "/nothing"), ("TRACE", "/workflows"), ("GET", "/x/health"), ("GET", "/health/")):
        assert keys.call(method, path, None).status == 401
    assert keys.call("GET", "/nothing", keys.admin).status == 404
    assert keys.call("PATCH", "/workflows", keys.admin).status == 405


def test_lists_of_namespaces_show_those_of_the_caller(keys: Keys):
    reader = keys.by_role[Role.READER]
    assert [row["name"] for row in keys.call("GET", "/namespaces", reader).json()] == [OWN]
    shown = {row["name"] for row in keys.call("GET", "/namespaces", keys.admin).json()}
    assert shown >= {"main", OWN, FOREIGN}
    worker = keys.call("GET", "/namespaces", keys.by_role[Role.WORKER])
    assert (worker.status, worker.json()["namespace"]) == (403, "*")


def test_a_stream_of_a_foreign_namespace_is_missing(keys: Keys):
    reader = keys.by_role[Role.READER]
    assert keys.call("GET", f"/events/stream?namespace={FOREIGN}", reader).status == 404
    assert keys.call("GET", f"/events/stream?namespace={OWN}", keys.by_role[Role.WORKER]).status == 403


def test_an_activity_of_a_foreign_namespace_is_missing_like_an_unknown_one(keys: Keys):
    wanted = {"name": "a", "seq": 1, "task_queue": "default"}
    made = keys.call("POST", f"/workflows/w/activities?namespace={FOREIGN}", keys.admin, wanted)
    assert made.status == 201, made
    number = made.json()["id"]
    reader = keys.by_role[Role.READER]
    known, unknown = (keys.call("GET", f"/activities/{one}", reader) for one in (number, 999_999))
    assert (known.status, unknown.status) == (404, 404)
    assert known.json()["error"].replace(str(number), "N") == unknown.json()["error"].replace("999999", "N")
    assert keys.call("GET", f"/activities/{number}", keys.admin).status == 200


def test_a_worker_serves_the_queues_of_its_key_only(keys: Keys):
    key = keys.make(role="worker", namespaces=[OWN], queues=["mine"])
    mine = keys.call("POST", "/workers/register", key, {"queue": "mine", "namespace": OWN, "identity": "x"})
    assert mine.status == 200
    other = keys.call("POST", "/workers/register", key, {"queue": "default", "namespace": OWN, "identity": "x"})
    assert (other.status, other.json()["code"]) == (403, "forbidden")
    polled = keys.call("POST", "/tasks/poll", key, {"queue": "default", "worker_id": mine.json()["worker_id"]})
    assert polled.status == 403


def test_metrics_are_for_admins_of_all_namespaces(keys: Keys):
    assert keys.call("GET", "/metrics", None, prefix="").status == 401
    assert keys.call("GET", "/metrics", keys.by_role[Role.ADMIN], prefix="").status == 403
    assert keys.call("GET", "/metrics", keys.admin, prefix="").status == 200


MANAGED = [route for route in ROUTES if permission_of(route) is Permission.MANAGE]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("route", MANAGED, ids=lambda route: route.operation_id)
def test_management_needs_an_admin(keys: Keys, route: Route, role: Role):
    """An admin of one namespace manages its keys and reads its audit, but nothing of all namespaces."""
    path, body = filled(route, OWN)
    if route.access.where is NamespaceSource.SHOWN:
        path = path.partition("?")[0]
    reply = keys.call(route.method, path, keys.by_role[role], body, PREFIX if route.prefixed else "")
    if role is Role.ADMIN and route.access.where is not NamespaceSource.ALL:
        assert reply.status in (200, 201, 204, 404), reply
        return
    assert reply.status == 403, reply
    found = reply.json()
    assert (found["code"], found["kind"], found["needs"]) == ("forbidden", "PERMISSION_DENIED", "admin")
    assert found["namespace"] in ("*", OWN)


def test_a_worker_of_a_foreign_namespace_is_like_an_unknown_one(keys: Keys):
    """Neither its namespace is named, nor does a message of a stranger keep it alive."""
    body = {"queue": "default", "namespace": FOREIGN, "identity": "x"}
    foreign = keys.call("POST", "/workers/register", keys.admin, body).json()["worker_id"]
    key = keys.by_role[Role.WORKER]
    for path, more in (("/workers/heartbeat", {}), ("/tasks/poll", {"queue": "default"})):
        known, unknown = (keys.call("POST", path, key, {"worker_id": one, **more}) for one in (foreign, "nobody"))
        assert (known.status, unknown.status) == (404, 404)
        assert known.json()["error"] == unknown.json()["error"] == "not found: namespace main"
