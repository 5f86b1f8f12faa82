"""The engine on a network: its names, pages of other sites, trusted proxies."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from assay.api.call import ApiCall
from assay.api.exposure import Exposure
from assay.server.exposure_config import ExposureConfig, allowed_hosts
from tests.api.support import JSON, PREFIX, Http, serving

PAGE = "https://app.example.com"
PUBLIC = "https://engine.example.com"
BODY = b'{"workflow_type":"T"}'


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:1", True),
        ("127.9.9.9", True),
        ("[::1]:80", True),
        ("[::1]", True),
        ("10.0.0.7:8080", True),
        ("engine.example.com", True),
        ("engine", True),
        ("a.test.example", True),
        ("a.b.test.example:443", True),
        ("[fd00::1]", True),
        ("test.example", False),
        (".test.example", False),
        ("eviltest.example", False),
        ("10.0.0.8", False),
        ("localhost.", False),
        ("localhost:evil", False),
        ("localhost@evil.example", False),
        ("localhost.evil.example", False),
        ("[::1]evil.example", False),
        ("0", False),
        ("", False),
    ],
)
def test_the_names_of_an_engine(host: str, accepted: bool):
    config = ExposureConfig(public_url=PUBLIC, allowed_hosts=("Engine", "*.test.example", "fd00::1"))
    assert config.exposure("10.0.0.7").accepts_host(host) is accepted


def test_every_address_is_a_name_on_all_interfaces_only():
    for host in ("0.0.0.0", "::"):  # noqa: S104  # not bound
        assert ExposureConfig().exposure(host).accepts_host("192.168.1.5:8080")
        assert not ExposureConfig().exposure(host).accepts_host("evil.example")
    assert not ExposureConfig().exposure("10.0.0.7").accepts_host("192.168.1.5")


def test_names_from_the_environment():
    assert allowed_hosts({"ASSAY_ALLOWED_HOSTS": " a , *.b.example,"}) == ("a", "*.b.example")
    assert allowed_hosts({}) == ()


def _call(peer: str, *headers: tuple[bytes, bytes]) -> ApiCall:
    async def nothing() -> dict[str, object]:
        raise AssertionError

    scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": list(headers), "client": (peer, 1)}
    return ApiCall(scope, nothing, {})


@pytest.mark.parametrize(
    ("peer", "entries", "client"),
    [
        ("10.0.0.1", [b"203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [b"1.1.1.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        ("10.0.0.1", [b"1.1.1.1", b"203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [b"203.0.113.7:4711"], "203.0.113.7"),
        ("10.0.0.1", [b"[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.0.0.1", [b"2001:db8::1"], "2001:db8::1"),
        ("::ffff:10.0.0.1", [b"203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [b"1.1.1.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("192.0.2.1", [b"203.0.113.7"], "192.0.2.1"),
    ],
)
def test_the_client_behind_trusted_proxies(peer: str, entries: list[bytes], client: str):
    call = _call(peer, *((b"x-forwarded-for", entry) for entry in entries))
    call.forwarded = Exposure(proxies=(ip_network("10.0.0.0/8"),)).forwarded(call)
    assert call.address == client


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    arguments = ("--public-url", PUBLIC, "--cors-origin", PAGE, "--auth-api-key", "--metrics-public")
    with serving(tmp_path_factory.mktemp("exposed"), *arguments, ASSAY_ALLOWED_HOSTS="a.test,b.test") as server:
        yield server.http()


@pytest.fixture(scope="module")
def key(http: Http) -> str:
    return f"Bearer {http.post('/api-keys', {}).json()['plaintext']}"


def test_names_are_checked_before_everything(http: Http):
    for name in ("a.test", "b.test:80", "engine.example.com", "localhost"):
        assert http.get("/health", Host=name).status == 200
    for path in ("/health", "/nothing", "/workflows"):
        refused = http.get(path, Host="evil.example")
        assert (refused.status, refused.json()["code"]) == (421, "wrong_host")
        assert "--allowed-host" in refused.json()["error"]
    assert http.raw("GET", "/healthz", None, {"Host": "evil.example"}).status == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": PAGE}, 201),
        ({"Origin": PAGE, "Sec-Fetch-Site": "cross-site"}, 201),
        ({"Origin": PUBLIC}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({}, 201),
        ({"Origin": f"{PAGE}:8443"}, 403),
        ({"Origin": f"{PAGE}.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": PUBLIC, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://proxy.example", "X-Forwarded-Host": "proxy.example"}, 403),
    ],
)
def test_changes_of_pages(http: Http, key: str, headers: dict[str, str], status: int):
    reply = http.raw("POST", f"{PREFIX}/workflows", BODY, {**JSON, "Authorization": key, **headers})
    assert reply.status == status, reply
    if status == 403:
        assert reply.json()["code"] == "cross_origin"
        assert "access-control-allow-origin" not in reply.headers
    else:
        assert reply.headers.get("access-control-allow-origin") == (PAGE if headers.get("Origin") == PAGE else None)


def test_a_preflight_of_an_allowed_page_needs_no_credential(http: Http):
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    reply = http.raw("OPTIONS", f"{PREFIX}/workflows", None, {"Origin": PAGE, **asked})
    assert reply.status == 204
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert reply.headers["access-control-allow-methods"] == "GET, HEAD, POST, PUT, PATCH, DELETE"
    wanted = "authorization, content-type, idempotency-key, last-event-id"
    assert reply.headers["access-control-allow-headers"] == wanted
    assert "access-control-allow-credentials" not in reply.headers
    for origin in ("https://evil.example", "null"):
        refused = http.raw("OPTIONS", f"{PREFIX}/workflows", None, {"Origin": origin, **asked})
        assert refused.status == 401
        assert not any(name.startswith("access-control") for name in refused.headers)
    assert http.raw("OPTIONS", "/healthz", None, {}).status == 405


def test_answers_to_an_allowed_page_can_be_read(http: Http, key: str):
    reply = http.get("/workflows", Origin=PAGE, Authorization=key)
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert "x-total-count" in reply.headers["access-control-expose-headers"]
    assert http.get("/workflows", Origin=PAGE).headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in http.get("/workflows", Authorization=key).headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothing",
        "/api/v1",
        "/api/v1/",
        "/api/v1/health/",
        "/api/v1/x/health",
        "//api/v1/workflows",
        "/api//v1/workflows",
        "/API/V1/workflows",
        "/api/v1/workflows;a",
        "/api/v1/workflows%2f1",
        "/x/%2e%2e/api/v1/workflows",
        "/api/v1/%2e%2e/v1/health",
        "/%61pi/v1/workflows",
        "/api/v1/HEALTH",
    ],
)
def test_strangers_learn_nothing_of_paths(http: Http, path: str):
    for method in ("GET", "HEAD", "POST", "DELETE", "TRACE", "OPTIONS"):
        assert http.raw(method, path, None, {"X-HTTP-Method-Override": "GET"}).status == 401, method


def test_metrics_can_be_public(http: Http):
    assert http.raw("GET", "/metrics").status == 200


def test_a_proxy_that_is_trusted_names_the_host_and_the_scheme(tmp_path: Path):
    with serving(tmp_path, "--trusted-proxy", "127.0.0.1") as server:
        http = server.http()
        own = {"Origin": "https://proxy.example", "X-Forwarded-Host": "proxy.example", "X-Forwarded-Proto": "https"}
        reply = http.raw("POST", f"{PREFIX}/workflows", BODY, {**JSON, **own})
        assert reply.status == 201
        assert reply.headers["strict-transport-security"].startswith("max-age=")
        assert "strict-transport-security" not in http.get("/health").headers
        other = {**own, "Origin": "https://evil.example"}
        assert http.raw("POST", f"{PREFIX}/workflows", BODY, {**JSON, **other}).status == 403
