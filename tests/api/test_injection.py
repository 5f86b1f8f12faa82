"""Characters with a meaning for SQL, HTTP, SSE or a terminal, in every parameter: never a 500, never another's rows."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from assay.api.router import Route
from assay.api.routes.table import ROUTES
from tests.api.support import PREFIX, Http, Listener, Server, serving

NASTY = (
    "' OR '1'='1",
    '" OR ""="',
    "'; DROP TABLE runs; --",
    "1) UNION SELECT digest FROM api_keys --",
    "%",
    "_",
    "\\",
    "a%' ESCAPE '!",
    "$1",
    "?1",
    "$one_of(1)",
    "{0}",
    "0x41",
    "1e400",
    "-1",
    "99999999999999999999",
    "created_at; SELECT pg_sleep(10)",
    '{"a": "b"}',
    '{"$gt": ""}',
    '{"a\' OR 1=1 --": 1}',
    '{"a\\"]": 1}',
    "\u2028\u2029",
    "\x1b[31m",
    "a\r\nSet-Cookie: x=y",
    "😀" * 30,
)
READS = [route for route in ROUTES if route.method == "GET" and route.media == "application/json" and route.query]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("injection"), "--audit") as server:
        http = server.http()
        for n in range(3):
            http.start(f"w{n}", search_attributes={"team": f"t{n}"})
        yield server


@pytest.mark.parametrize("route", READS, ids=lambda route: route.operation_id)
def test_no_parameter_reaches_the_statement(server: Server, route: Route):
    http: Http = server.http()
    path = re.sub(r"{\w+}", "w0", route.path)
    prefix = PREFIX if route.prefixed else ""
    for parameter in route.query:
        if parameter.name in ("wait_secs", "wait"):
            continue
        for text in NASTY:
            reply = http.raw("GET", f"{prefix}{path}?{parameter.name}={quote(text)}")
            assert reply.status < 500, (parameter.name, text, reply)
            assert "set-cookie" not in reply.headers
    assert len(http.get("/workflows").json()) == 3


@pytest.mark.parametrize("text", NASTY)
def test_a_filter_selects_by_equality(server: Server, text: str):
    """A filter with such a text finds a run whose value is that text, and no other."""
    http: Http = server.http()
    for name in ("type", "workflow_type", "parent_id", "queue", "task_queue"):
        reply = http.get(f"/workflows?{name}={quote(text)}")
        assert reply.status in (200, 400), reply
        assert reply.status == 400 or name not in ("type", "parent_id") or reply.json() == []
    assert http.get(f"/audit?actor={quote(text)}").json() == []
    assert http.get(f"/audit?target={quote(text)}").json() == []


def test_ids_with_line_ends_stay_data(server: Server):
    http: Http = server.http()
    stream = Listener(server.port)
    for name in ("a\nevent: forged\ndata: {}", "b\r\nX-Forged: 1", "c\u2028d", "e\x1b[2J"):
        reply = http.post("/workflows", {"workflow_type": "T", "workflow_id": name})
        assert reply.status in (201, 400), reply
        if reply.status == 201:
            assert "x-forged" not in reply.headers
            assert http.describe(name)["id"] == name
    http.start("last")
    stream.until(lambda: any("'last'" in str(event["data"]) for event in stream.events))
    assert "forged" not in stream.kinds()
    stream.close()
    log = server.errors.read_text()
    assert "\x1b" not in log
    assert all(line.startswith("{") for line in log.splitlines() if line)
