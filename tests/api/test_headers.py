"""Every answer has exactly the headers that protect browsers, whatever its route and status."""

import re
from collections.abc import Iterator

import pytest

from assay.api.router import Route
from assay.api.routes.table import ROUTES
from tests.api.support import PREFIX, Http, Listener, Server, serving

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
PROTECTING = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ANSWERED = [route for route in ROUTES if route.media != "text/event-stream"]
FORBIDDEN = ("server", "x-powered-by", "access-control-allow-origin", "strict-transport-security")


@pytest.fixture(scope="module", params=["no-auth", "api-key"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ("--auth-api-key",) if request.param == "api-key" else ()
    with serving(tmp_path_factory.mktemp("headers"), *flags) as server:
        yield server


def check(headers: dict[str, str], media: str) -> None:
    assert {name: headers.get(name) for name in PROTECTING} == PROTECTING
    assert [name for name in FORBIDDEN if name in headers] == []
    if media == "application/json":
        assert headers["content-security-policy"] == POLICY
        assert headers["cache-control"] == "no-store"
    else:
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.media != "text/event-stream"], ids=lambda route: route.operation_id
)
def test_each_route(server: Server, route: Route):
    http: Http = server.http()
    path = (PREFIX if route.prefixed else "") + re.sub(r"{\w+}", "1", route.path)
    body = b"{}" if route.method in ("POST", "PUT", "PATCH") else None
    reply = http.raw(route.method, path, body, {"Content-Type": "application/json"} if body else {})
    media = "application/json" if reply.headers.get("content-type", "").startswith("application/json") else route.media
    check(reply.headers, media)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nothing", {}, (404,)),
        ("GET", f"{PREFIX}/nothing", {}, (404, 401)),
        ("DELETE", f"{PREFIX}/health", {}, (405, 401)),
        ("GET", f"{PREFIX}/health", {"Host": "evil.example"}, (421,)),
        ("POST", f"{PREFIX}/workflows", {"Origin": "https://evil.example"}, (403,)),
        ("GET", f"{PREFIX}/health?{'x' * 9_000}", {}, (414,)),
        ("GET", f"{PREFIX}/health", {"X-Long": "x" * 17_000}, (431,)),
        ("OPTIONS", f"{PREFIX}/workflows", {"Origin": "https://evil.example"}, (405, 401)),
    ],
)
def test_errors(server: Server, method: str, path: str, headers: dict[str, str], status: tuple[int, ...]):
    reply = server.http().raw(method, path, None, headers)
    assert reply.status in status
    check(reply.headers, "application/json")


def test_streams(server: Server):
    stream = Listener(server.port)
    check(stream.headers, "text/event-stream")
    stream.close()
