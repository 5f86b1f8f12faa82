"""Browser sessions over HTTP: cookies, CSRF, sign-out, and the ends of sessions on several engines."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.browsers import WITHIN_SECONDS, Browser, Keyed, stream_of
from tests.api.support import serving, until

COOKIE = re.compile(r"wf_[0-9a-f]{8}=[0-9a-f]{64}; Max-Age=(\d+); Path=/; HttpOnly; SameSite=Lax")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with serving(tmp_path_factory.mktemp("keyed"), "--auth-api-key") as server:
        yield Keyed(server)


def test_a_person_signs_in_and_out(keyed: Keyed):
    browser = Browser(keyed.http)
    reply = browser.sign_in(keyed.make(label="ada", role="operator", namespaces=["shop"])["plaintext"])
    found = COOKIE.fullmatch(reply.headers["set-cookie"])
    assert found is not None, reply.headers
    assert 43_190 <= int(found[1]) <= 43_200
    described = {
        "authenticated": True,
        "user": "ada",
        "roles": {"shop": "operator"},
        "csrf": browser.csrf,
        "auth": "api-key",
        "sign_in": {"api_key": True, "oidc": None, "bootstrap": False},
        "features": ["batches", "failures", "audit"],
    }
    assert re.fullmatch("[0-9a-f]{64}", browser.csrf)
    assert reply.json() == described
    assert browser.session() == described
    assert browser.send("GET", "/workflows?namespace=shop").status == 200
    assert browser.send("POST", "/workflows", {"workflow_type": "Order", "namespace": "shop"}).status == 201
    assert browser.send("GET", "/workflows?namespace=main").status == 404

    signed_out = browser.send("DELETE", "/session")
    assert (signed_out.status, signed_out.body) == (204, b"")
    assert re.fullmatch(r"wf_[0-9a-f]{8}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax", signed_out.headers["set-cookie"])
    assert browser.session()["authenticated"] is False
    assert browser.send("GET", "/workflows?namespace=shop").status == 401
    assert browser.send("DELETE", "/session").status == 204


def test_a_wrong_credential_begins_no_session(keyed: Keyed):
    browser = Browser(keyed.http)
    for key in ("assay_" + "0" * 64, "", "x"):
        reply = browser.sign_in(key)
        assert (reply.status, reply.json()["code"]) == (401, "unauthorized")
        assert "set-cookie" not in reply.headers
    assert browser.send("POST", "/session", {}).status == 422
    assert browser.send("POST", "/session", {"api_key": keyed.admin}, Origin="http://evil.example").status == 403
    assert browser.send("POST", "/session", {"api_key": keyed.admin}, Content_Type="text/plain").status == 415


def test_each_sign_in_changes_the_id_and_ends_the_session_before(keyed: Keyed):
    browser = keyed.browser()
    before = browser.cookie
    assert browser.sign_in(keyed.admin).status == 200
    assert browser.cookie != before
    assert browser.session()["authenticated"]
    browser.cookie = before
    assert not browser.session()["authenticated"]


def test_an_id_that_the_browser_chose_is_never_taken_over(keyed: Keyed):
    browser = keyed.browser()
    name = browser.cookie.partition("=")[0]
    fixed = Browser(keyed.http)
    fixed.cookie = f"{name}={'a' * 64}"
    assert fixed.sign_in(keyed.admin).status == 200
    assert fixed.cookie != f"{name}={'a' * 64}"
    for chosen in ("a" * 64, "b", "", "' OR 1=1 --", "%00", browser.cookie.partition("=")[2].upper()):
        fixed.cookie = f"{name}={chosen}"
        assert fixed.send("GET", "/workflows").status == 401, chosen


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"X_WF_CSRF": None}, 403, "csrf_failed"),
        ({"X_WF_CSRF": "0" * 64}, 403, "csrf_failed"),
        ({"Origin": None}, 403, "csrf_failed"),
        ({"Origin": "http://evil.example"}, 403, "cross_origin"),
        ({"Origin": "null"}, 403, "cross_origin"),
        ({"Origin": None, "Sec_Fetch_Site": "same-site"}, 403, "cross_origin"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "cross_origin"),
        ({"Content_Type": None}, 415, "unsupported_media_type"),
        ({"Content_Type": "text/plain"}, 415, "unsupported_media_type"),
    ],
    ids=str,
)
def test_a_change_by_cookie_needs_origin_token_and_type(
    keyed: Keyed, method: str, headers: dict[str, str | None], status: int, code: str
):
    browser = keyed.browser()
    path = {"POST": "/namespaces", "PUT": "/schedules/n", "PATCH": "/schedules/n", "DELETE": "/session"}[method]
    reply = browser.send(method, path, None, **headers)
    assert (reply.status, reply.json()["code"]) == (status, code)
    assert browser.session()["authenticated"]
    assert browser.send("POST", "/nowhere", None, **headers).json()["code"] == code  # also before routing


def test_the_browsers_own_verdict_replaces_an_origin(keyed: Keyed):
    browser = keyed.browser()
    reply = browser.send("POST", "/workflows", {"workflow_type": "Order"}, Origin=None, Sec_Fetch_Site="same-origin")
    assert reply.status == 201


def test_a_header_comes_before_the_cookie_and_needs_no_token(keyed: Keyed):
    browser = keyed.browser()
    reader = keyed.make(role="reader")["plaintext"]
    own = {"Authorization": f"Bearer {reader}", "X_WF_CSRF": None, "Origin": None}
    assert browser.send("POST", "/workflows", {"workflow_type": "Order"}, **own).json()["code"] == "forbidden"
    admin = {**own, "Authorization": f"Bearer {keyed.admin}"}
    assert browser.send("POST", "/workflows", {"workflow_type": "Order"}, **admin).status == 201
    described = browser.send("GET", "/session", **own).json()
    assert (described["csrf"], described["roles"]) == (None, {"*": "reader"})
    ignored = browser.send("DELETE", "/session", **own)
    assert (ignored.status, ignored.headers.get("set-cookie")) == (204, None)
    assert browser.session()["authenticated"]
    assert browser.send("GET", "/workflows", Authorization="Basic YTpi").status == 401
    wrong = browser.send("GET", "/session", Authorization="Bearer assay_" + "0" * 64)
    assert wrong.status == 401


def test_workers_have_no_cookies(keyed: Keyed):
    browser = keyed.browser()
    assert browser.send("POST", "/workers/register", {"identity": "x", "queue": "default"}).status == 401
    assert browser.send("POST", "/tasks/poll", {"queue": "default"}).status == 401


def test_a_session_ends_with_its_key(keyed: Keyed):
    key = keyed.make(role="reader")
    browser = keyed.browser(key["plaintext"])
    assert browser.send("GET", "/workflows").status == 200
    assert keyed.call("DELETE", f"/api-keys/{key['prefix']}").status == 204
    assert browser.send("GET", "/workflows").status == 401
    assert not browser.session()["authenticated"]

    rotated = keyed.make(role="reader")
    browser = keyed.browser(rotated["plaintext"])
    assert keyed.call("POST", f"/api-keys/{rotated['prefix']}/rotate", {"overlap_secs": 0}).status == 201
    assert browser.send("GET", "/workflows").status == 401


def test_a_session_is_no_longer_than_its_key(keyed: Keyed):
    now = keyed.http.get("/session").headers  # the engine's own clock may differ from the test's
    assert now
    made = keyed.make(role="reader")
    ends = keyed.make(role="reader", expires_at=float(made["created_at"]) + 2)
    browser = Browser(keyed.http)
    reply = browser.sign_in(ends["plaintext"])
    assert int(re.findall(r"Max-Age=(\d+)", reply.headers["set-cookie"])[0]) <= 2
    assert browser.send("GET", "/workflows").status == 200
    until(lambda: browser.send("GET", "/workflows").status == 401, WITHIN_SECONDS)


@pytest.mark.parametrize("end", ["sign-out", "revocation"])
def test_a_stream_takes_the_cookie_and_ends_with_the_session(keyed: Keyed, end: str):
    key = keyed.make(role="reader")
    browser = keyed.browser(key["plaintext"])
    with stream_of(browser) as stream:
        assert stream.status == 200
        assert stream.readline() == b": connected\n"
        if end == "sign-out":
            assert browser.send("DELETE", "/session").status == 204
        else:
            assert keyed.call("DELETE", f"/api-keys/{key['prefix']}").status == 204
        assert stream.read() == b"\n"


def test_sessions_survive_a_restart(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        keyed = Keyed(server)
        browser = keyed.browser()
    with serving(tmp_path, "--auth-api-key") as server:
        browser.http = server.http()
        assert browser.send("GET", "/workflows").status == 200
        assert browser.session()["authenticated"]
    with serving(tmp_path, "--auth-api-key", "--read-only") as server:
        # in memory: the sessions of this process are its own, under a cookie of their own
        beside = Browser(server.http())
        beside.cookie = browser.cookie
        assert not beside.session()["authenticated"]
        assert beside.sign_in(keyed.admin).status == 200
        assert beside.cookie.partition("=")[0] != browser.cookie.partition("=")[0]
        assert beside.send("GET", "/workflows").status == 200
        ticket = beside.send("POST", "/sse-ticket", {"namespace": "main"})
        assert ticket.status == 201, ticket
        with stream_of(beside, f"?ticket={ticket.json()['ticket']}", Accept="text/event-stream") as stream:
            assert stream.status == 200
        assert beside.send("DELETE", "/session").status == 204
        assert beside.send("GET", "/workflows").status == 401


def test_without_authentication_there_is_nothing_to_sign_in_to(tmp_path: Path):
    with serving(tmp_path) as server:
        http = server.http()
        reply = http.post("/session", {"api_key": "x"})
        assert "set-cookie" not in reply.headers
        assert reply.json() == http.get("/session").json()
        assert (reply.json()["authenticated"], reply.json()["roles"]) == (True, {"*": "admin"})
        assert http.delete("/session").status == 204
        assert http.post("/sse-ticket", {}).status == 201


SECURE = re.compile(r"__Host-wf=[0-9a-f]{64}; Max-Age=\d+; Path=/; HttpOnly; SameSite=Lax; Secure")


def test_cookies_are_bound_to_the_host_where_browsers_use_https(tmp_path: Path):
    flags = ("--auth-api-key", "--public-url", "https://engine.example")
    with serving(tmp_path, *flags) as server:
        keyed = Keyed(server)
        browser = Browser(keyed.http)
        origin = {"Origin": "https://engine.example", "Host": "engine.example"}
        reply = browser.send("POST", "/session", {"api_key": keyed.admin}, **origin)
        assert SECURE.fullmatch(reply.headers["set-cookie"])
        browser.cookie, browser.csrf = reply.headers["set-cookie"].partition(";")[0], reply.json()["csrf"]
        assert browser.send("POST", "/workflows", {"workflow_type": "Order"}, **origin).status == 201
        plain = browser.cookie.replace("__Host-wf", "wf_00000000")
        assert browser.send("GET", "/workflows", Cookie=plain).status == 401
        assert "; Secure" in browser.send("DELETE", "/session", **origin).headers["set-cookie"]


def test_a_trusted_proxy_says_that_browsers_use_https(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key", "--trusted-proxy", "127.0.0.1") as server:
        keyed = Keyed(server)
        browser = Browser(keyed.http)
        reply = browser.send("POST", "/session", {"api_key": keyed.admin}, X_Forwarded_Proto="https")
        assert SECURE.fullmatch(reply.headers["set-cookie"])
        assert COOKIE.fullmatch(browser.send("POST", "/session", {"api_key": keyed.admin}).headers["set-cookie"])
    with serving(tmp_path, "--auth-api-key") as server:
        browser = Browser(server.http())
        reply = browser.send("POST", "/session", {"api_key": keyed.admin}, X_Forwarded_Proto="https")
        assert COOKIE.fullmatch(reply.headers["set-cookie"])
