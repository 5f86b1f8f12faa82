import json
import socket

import pytest

from assay.api.exposure import same_authority
from tests.api.described import check_problem
from tests.api.support import JSON, PREFIX, Http, Server, Worker, fresh

HEADERS = {
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "cache-control",
}


def problem(reply, status: int, code: str) -> None:
    assert reply.status == status, reply
    assert reply.json()["code"] == code
    assert reply.json()["error"]
    check_problem(reply.json())
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/api/v2/workflows", "/api/v1/nothing", "/api/v1/workflows/"])
def test_an_unknown_route_is_not_found(http: Http, path: str):
    problem(http.raw("GET", path), 404, "no_route")


@pytest.mark.parametrize("path", ["/api/v1//workflows", "/api/v1/Workflows", "/api/v1/%77orkflows", "/x/health"])
def test_no_trick_leads_to_a_route(http: Http, path: str):
    assert http.raw("GET", path).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/workflows"), ("PUT", "/health"), ("GET", "/tasks/poll"), ("OPTIONS", "/workflows")],
)
def test_a_wrong_method_is_told_the_right_ones(http: Http, method: str, path: str):
    reply = http.send(method, path)
    problem(reply, 405, "method_not_allowed")
    assert reply.headers["allow"]


@pytest.mark.parametrize(
    "body", [b"{", b"{'a': 1}", b'{"workflow_type": "x"} x', b"\xff\xfe", b'{"a": NaN}', b"\xef\xbb\xbf{}"]
)
def test_bad_json_is_refused(http: Http, body: bytes):
    problem(http.post("/workflows", body), 400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/workflows", b'{"workflow_type": "A", "workflow_type": "B"}'),
        ("/workflows", b'{"workflow_type": "A", "input": {"a": {"b": 1, "c": ":", "b": 2}}}'),
        ("/workflows", b'{"workflow_type": "A", "input": {"a" : 1, "\\u0061" : 2}}'),
        ("/workflows", b'{"workflow_type": "A", "input": [{"a": 1, "a": 1, "b": "\\u003a"}]}'),
        ("/namespaces", b'{"name": "one", "name": "two"}'),
        ("/schedules", b'{"name": "s", "workflow_type": "A", "cron_expr": "@daily", "cron_expr": "@hourly"}'),
        ("/workers/w-1/exchange", b'{"hello": {"queue": "a", "queue": "b"}}'),
    ],
)
def test_a_key_that_comes_twice_is_refused(http: Http, path: str, body: bytes):
    problem(http.post(path, body), 400, "duplicate_key")


def test_texts_may_look_like_keys_that_come_twice(http: Http):
    input = {"a": '"a":1,"a":2', "b": {"a": ":"}, "c": [{"a": "\u003a\\u003a"}]}
    name = http.start(input=input)["workflow_id"]
    assert http.describe(name)["input"] == input


@pytest.mark.parametrize(
    ("input", "code"),
    [
        ('"\\u0000"', "nul_character"),
        ('"\\ud800"', "lone_surrogate"),
        ("1e400", "invalid_json"),
        ("[" * 100 + "]" * 100, "json_too_deep"),
        ("[" * 100_000 + "]" * 100_000, "json_too_deep"),
        ("{" + ",".join(f'"k{n}":1' for n in range(10_001)) + "}", "too_many_keys"),
    ],
)
def test_payloads_that_cannot_be_kept_are_refused(http: Http, input: str, code: str):
    body = f'{{"workflow_type": "Order", "input": {input}}}'.encode()
    problem(http.post("/workflows", body), 400, code)


def test_depth_is_counted_from_the_payload(http: Http):
    inside = "[" * 64 + "]" * 64
    body = f'{{"workflow_type": "Order", "workflow_id": "{fresh()}", "input": {inside}}}'.encode()
    assert http.post("/workflows", body).status == 201


def test_sizes_are_limited(http: Http):
    payload = json.dumps({"workflow_type": "Order", "input": "x" * (2 * 1024 * 1024 + 1)}).encode()
    problem(http.post("/workflows", payload), 413, "payload_too_large")
    body = b'{"workflow_type": "Order", "input": "' + b"x" * (4 * 1024 * 1024) + b'"}'
    problem(http.post("/workflows", body), 413, "body_too_large")


def test_a_chunked_body_is_limited_too(server: Server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        raw.sendall(b"POST /api/v1/workflows HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"x" * 65_536
        for _ in range(80):
            raw.sendall(b"10000\r\n" + chunk + b"\r\n")
        raw.sendall(b"0\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml"]
)
def test_another_explicit_type_is_refused(http: Http, kind: str):
    body = json.dumps({"workflow_type": "Order"}).encode()
    problem(http.raw("POST", f"{PREFIX}/workflows", body, {"Content-Type": kind}), 415, "unsupported_media_type")


@pytest.mark.parametrize("kind", [None, "application/json", "application/json; charset=utf-8", "application/ld+json"])
def test_json_is_json_whatever_it_is_called(http: Http, kind: str | None):
    body = json.dumps({"workflow_type": "Order"}).encode()
    headers = {} if kind is None else {"Content-Type": kind}
    assert http.raw("POST", f"{PREFIX}/workflows", body, headers).status == 201


def test_an_empty_body_may_have_any_type(http: Http):
    name = http.start()["workflow_id"]
    reply = http.raw("POST", f"{PREFIX}/workflows/{name}/cancel", b"", {"Content-Type": "text/plain"})
    assert reply.status == 200


def test_compressed_bodies_are_refused(http: Http):
    reply = http.raw("POST", f"{PREFIX}/workflows", b"{}x", {**JSON, "Content-Encoding": "gzip"})
    problem(reply, 415, "unsupported_encoding")


def test_a_path_must_be_utf8(http: Http):
    problem(http.get("/workflows/%ff"), 400, "invalid_path")


def test_a_query_must_be_readable(http: Http):
    problem(http.get("/workflows?type=%ff"), 400, "invalid_query")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "10.1.2.3", ""])
def test_only_own_names_are_answered(http: Http, host: str):
    for method, path in (("GET", "/health"), ("POST", "/workflows"), ("GET", "/events/stream"), ("GET", "/nothing")):
        problem(http.send(method, path, Host=host), 421, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_own_names_are_answered(http: Http, host: str):
    assert http.send("GET", "/health", Host=host).status == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_pages_of_other_sites_change_nothing(http: Http, headers: dict[str, str]):
    name = http.start()["workflow_id"]
    problem(http.raw("POST", f"{PREFIX}/workflows/{name}/terminate", None, headers), 403, "cross_origin")
    problem(http.raw("DELETE", f"{PREFIX}/namespaces/x", None, headers), 403, "cross_origin")
    assert http.describe(name)["status"] == "PENDING"
    reply = http.raw("GET", f"{PREFIX}/workflows/{name}", None, headers)
    assert reply.status == 200
    assert not any(header.startswith("access-control") for header in reply.headers)


def test_a_page_of_our_own_may_change_things(http: Http):
    name = http.start()["workflow_id"]
    headers = {"Origin": f"http://localhost:{http.port}", "Sec-Fetch-Site": "same-origin"}
    assert http.raw("POST", f"{PREFIX}/workflows/{name}/terminate", None, headers).status == 200


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("http://localhost:8080", "localhost:8080", True),
        ("https://localhost:8080", "localhost:8080", True),  # TLS may end at a proxy
        ("http://LocalHost", "localhost", True),
        ("http://localhost", "localhost:80", True),
        ("https://localhost", "localhost:443", True),
        ("https://localhost:443", "localhost", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("http://192.168.1.5:8080", "192.168.1.5:8080", True),
        ("http://203.0.113.7", "192.168.1.5:8080", False),
        ("http://localhost:3000", "localhost:8080", False),
        ("http://127.0.0.1:8080", "localhost:8080", False),
        ("https://localhost", "localhost:80", False),
        ("http://localhost", "localhost:443", False),
        ("http://localhost.evil.example:8080", "localhost:8080", False),
        ("http://user@localhost:8080", "localhost:8080", False),
        ("http://localhost:8080/", "localhost:8080", False),
        ("http://localhost:x", "localhost:8080", False),
        ("localhost:8080", "localhost:8080", False),
        ("file://", "localhost", False),
        ("null", "null", False),
        ("", "", False),
    ],
)
def test_an_origin_is_our_own_by_host_and_port(origin: str, host: str, same: bool):
    assert same_authority(origin, host) is same


def test_another_page_of_the_same_machine_changes_nothing(http: Http):
    """Browsers send no Sec-Fetch-Site to plain http beyond loopback: the Origin alone must tell the pages apart."""
    body, host = b'{"workflow_type":"T"}', f"localhost:{http.port}"
    for origin in ("http://localhost:3000", f"http://127.0.0.1:{http.port}", "http://203.0.113.7"):
        headers = {"Host": host, "Origin": origin}
        problem(http.raw("POST", f"{PREFIX}/workflows", body, {**headers, **JSON}), 403, "cross_origin")
        problem(http.raw("GET", f"{PREFIX}/workers/w-1/exchange", None, {**UPGRADE, **headers}), 403, "cross_origin")
    assert (
        http.raw("POST", f"{PREFIX}/workflows", body, {"Host": host, "Origin": f"http://{host}", **JSON}).status == 201
    )


@pytest.mark.parametrize("body", [b'{"workflow_type":"T"}', b"{}", b" null "])
@pytest.mark.parametrize("kind", [None, "text/plain", "application/problem+json"])
def test_a_page_sends_bodies_as_json_and_says_so(http: Http, body: bytes, kind: str | None):
    headers = {"Host": f"localhost:{http.port}", "Origin": f"http://localhost:{http.port}"}
    headers |= {} if kind is None else {"Content-Type": kind}
    problem(http.raw("POST", f"{PREFIX}/workflows", body, headers), 415, "unsupported_media_type")


def test_a_program_may_leave_the_type_of_a_body_out(http: Http):
    assert http.raw("POST", f"{PREFIX}/workflows", b'{"workflow_type":"T"}').status == 201


def test_long_urls_and_headers_are_refused(http: Http):
    problem(http.get("/workflows?text=" + "x" * 9_000), 414, "url_too_long")
    problem(http.get("/health", X_Long="x" * 17_000), 431, "headers_too_large")


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/version", {}, 404, "no_route"),
        ("/workflows", {}, 404, "no_route"),
        ("/nothing", {}, 404, "no_route"),
        ("/workers/w-1/exchange?namespace=%FF", {}, 400, "invalid_query"),
        ("/workers/w-1/exchange", {"Host": "evil.example"}, 421, "wrong_host"),
        ("/workers/w-1/exchange", {"Origin": "http://evil.example"}, 403, "cross_origin"),
    ],
)
def test_a_websocket_that_cannot_be_is_refused_in_words(
    server: Server, http: Http, path: str, headers: dict[str, str], status: int, code: str
):
    reply = http.raw("GET", PREFIX + path, None, {**UPGRADE, **headers})
    problem(reply, status, code)
    assert reply.headers.keys() >= HEADERS
    assert "server" not in reply.headers
    assert "handshake" not in server.errors.read_text()


@pytest.mark.parametrize("path", ["/health", "/workflows/nobody", "/nothing", "/docs", "/openapi.json", "/workflows"])
def test_every_answer_has_the_security_headers(http: Http, path: str):
    reply = http.get(path)
    assert reply.headers.keys() >= HEADERS
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert "server" not in reply.headers


@pytest.mark.parametrize("request_", [b"GARBAGE\r\n\r\n", b"GET /api/v1/\xc3\xa4 HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_what_is_no_http_is_refused(server: Server, request_: bytes):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(request_)
        assert raw.recv(100).startswith(b"HTTP/1.1 4")
    assert server.http().get("/health").status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/workflows/a%00b"),
        ("GET", "/workflows?namespace=%00"),
        ("POST", "/workflows/any/terminate?run_id=a%00"),
        ("POST", "/schedules/any/trigger?namespace=%00"),
    ],
)
def test_what_no_database_can_hold_is_refused_at_the_door(http: Http, method: str, path: str):
    reply = http.send(method, path)
    assert reply.status == 400, reply
    assert "U+0000" in reply.json()["error"]


LONG = "\u00e9" * 8_193
"""Two bytes a letter: one letter more than a text may have."""


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/workflows", {"workflow_type": "Order", "summary": LONG}, "summary"),
        ("/workflows", {"workflow_type": "Order", "details": LONG}, "details"),
        ("/workflows", {"workflow_type": "Order", "signals": [{"name": "s", "from": LONG}]}, "from"),
        ("/workflows/{name}/signal/go", {"from": LONG}, "from"),
        ("/workflows/{name}/signal/go", {"message_id": LONG}, "message_id"),
        ("/workflows/{name}/cancel", {"reason": LONG}, "reason"),
        ("/workflows/{name}/terminate", {"reason": LONG}, "reason"),
        ("/workflows/{name}/retry", {"requested_by": "me", "reason": LONG}, "reason"),
        ("/workflows/{name}/retry", {"requested_by": LONG, "reason": "why"}, "requested_by"),
        ("/workflows/{name}/activities", {"name": "a", "seq": 1, "task_queue": "q", "summary": LONG}, "summary"),
        ("/workers/register", {"identity": LONG, "queue": "q"}, "identity"),
        ("/schedules/{name}/pause", {"reason": LONG}, "reason"),
    ],
)
def test_texts_for_people_have_a_limit(http: Http, path: str, body: dict[str, object], field: str):
    name = http.start()["workflow_id"]
    http.post("/schedules", {"name": name, "workflow_type": "Order", "cron_expr": "@yearly"})
    reply = http.post(path.format(name=name), body)
    assert (reply.status, reply.json()["code"], reply.json()["field"]) == (413, "text_too_long", field)
    assert http.kinds(name) == ["WorkflowStarted"]


def test_a_text_may_be_as_long_as_its_limit(http: Http):
    limit = http.get("/version").json()["limits"]["text_bytes"]
    name = http.start(summary=LONG[1:])["workflow_id"]
    assert len(http.describe(name)["summary"].encode()) == limit
    assert http.post(f"/workflows/{name}/terminate", {"reason": "x" * limit}).status == 200


def test_texts_in_commands_have_a_limit(http: Http):
    queue = fresh("queue")
    worker = Worker(http, queue)
    name = http.start(task_queue=queue)["workflow_id"]
    assert worker.task() is not None
    child = {"type": "StartChildWorkflow", "workflow_type": "C", "workflow_id": "c", "summary": LONG}
    for command, field in (
        ({"type": "ScheduleActivity", "name": "a", "summary": LONG}, "summary"),
        ({"type": "CancelWorkflow", "reason": LONG}, "reason"),
        ({"type": "FailTask", "message": LONG}, "message"),
        (child, "summary"),
    ):
        reply = worker.commands(name, command)
        assert (reply.status, reply.json()["field"]) == (413, f"commands[0].{field}")
