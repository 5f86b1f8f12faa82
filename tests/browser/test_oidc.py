"""People who sign in at a real provider, in a real browser; and programs with tokens of that provider."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Response

from tests.api.support import until
from tests.browser.site import Site, site
from tests.http.processes import free_port
from tests.oidc_provider.running import Provider, running

CALLBACK = "/api/v1/engine/workflow/session/callback"
SECRET = {"ASSAY_AUTH_CLIENT_SECRET": "engine secret+%"}
ROTATION_SECONDS = 40
"""A key that is not in the set is fetched at most every 30 seconds."""

pytestmark = pytest.mark.browser


class SignIn:
    """An engine, its provider, and people with browsers."""

    def __init__(self, made: Site, provider: Provider) -> None:
        self.site = made
        self.provider = provider

    def begin(self, visitor: BrowserContext, query: str = "") -> Page:
        """Go to the provider, and give it name and password."""
        page = visitor.new_page()
        page.goto(f"/api/v1/session/oidc{query}")
        assert page.url.startswith(self.provider.url)
        page.fill("input[name=login]", "ada")
        page.fill("input[name=password]", "any")
        page.click("button[type=submit]")
        return page

    def finish(self, page: Page) -> Response:
        """Consent, and return the answer of the callback."""
        with page.expect_response(re.compile(re.escape(CALLBACK))) as answered:
            page.click("button[type=submit]")
        return answered.value

    def session(self, visitor: BrowserContext) -> dict[str, Any]:
        found: dict[str, Any] = visitor.request.get("/api/v1/session").json()
        return found


@contextmanager
def signing_in(
    folder: Path,
    chromium: Browser,
    *flags: str,
    variables: dict[str, str] = SECRET,
    client: str = "engine",
    **settings: Any,
) -> Iterator[SignIn]:
    port = free_port()
    with running(f"http://127.0.0.1:{port}{CALLBACK}", folder / "provider.log", **settings) as provider:
        own = (
            "--port",
            str(port),
            "--auth-issuer",
            provider.url,
            "--auth-audience",
            "assay",
            "--auth-client-id",
            client,
        )
        with site(folder, chromium, *own, *flags, **variables) as made:
            yield SignIn(made, provider)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[SignIn]:
    folder = tmp_path_factory.mktemp("signed")
    with signing_in(folder, chromium, "--auth-roles-claim", "roles", "--auth-label", "Example ID") as made:
        yield made


def test_a_person_signs_in_at_the_provider_and_out_here(signed: SignIn):
    with signed.site.visitor() as visitor:
        before = signed.session(visitor)
        assert (before["authenticated"], before["auth"]) == (False, "jwt")
        assert before["sign_in"] == {"api_key": True, "oidc": "Example ID", "bootstrap": False}
        page = signed.begin(visitor, "?next=/workflow/runs/a%252Fb%3Fns%3Dmain")
        answer = signed.finish(page)
        assert (answer.status, answer.headers["location"]) == (303, "/workflow/runs/a%2Fb?ns=main")
        page.wait_for_url("**/workflow/runs/a%2Fb?ns=main")

        found = signed.session(visitor)
        assert (found["authenticated"], found["user"], found["roles"]) == (True, "ada", {"*": "admin"})
        (cookie,) = [cookie for cookie in visitor.cookies() if cookie["name"].startswith("wf_")]
        assert re.fullmatch("wf_[0-9a-f]{8}", cookie["name"])
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"], cookie["path"]) == (True, "Lax", False, "/")

        page.goto("/api/v1/health")  # a page of the engine itself
        assert page.evaluate("document.cookie") == ""
        change = """csrf => fetch('/api/v1/workflows', {method: 'POST', body: '{"workflow_type": "Order"}',
            headers: {'Content-Type': 'application/json', ...(csrf ? {'X-WF-CSRF': csrf} : {})}}).then(a => a.status)"""
        assert page.evaluate(change, found["csrf"]) == 201
        assert page.evaluate(change, None) == 403
        opened = "new Promise(done => { const s = new EventSource('/api/v1/events/stream'); s.onopen = () => done(1) })"
        assert page.evaluate(opened) == 1

        tab = visitor.new_page()
        tab.goto("/api/v1/health")
        leave = """csrf => fetch('/api/v1/session', {method: 'DELETE',
            headers: {'Content-Type': 'application/json', 'X-WF-CSRF': csrf}}).then(a => a.status)"""
        assert page.evaluate(leave, found["csrf"]) == 204
        assert tab.evaluate("fetch('/api/v1/workflows').then(a => a.status)") == 401
        assert not signed.session(visitor)["authenticated"]


def test_each_sign_in_has_a_session_of_its_own(signed: SignIn):
    with signed.site.visitor() as visitor:
        fixed = {"name": "wf_00000000", "value": "a" * 64, "url": signed.site.url}
        visitor.add_cookies([fixed])  # type: ignore[list-item]
        ids = []
        for _ in range(2):
            page = visitor.new_page()
            page.goto("/api/v1/session/oidc")
            while page.url.startswith(signed.provider.url):  # the provider remembers the second time
                if page.locator("input[name=login]").count():
                    page.fill("input[name=login]", "ada")
                    page.fill("input[name=password]", "any")
                page.click("button[type=submit]")
            ids.append({cookie["name"]: cookie["value"] for cookie in visitor.cookies()})
            page.close()
        own = [name for name in ids[0] if name.startswith("wf_") and name != "wf_00000000"]
        assert len(own) == 1
        assert ids[0][own[0]] != ids[1][own[0]]
        assert len({ids[0][own[0]], ids[1][own[0]], "a" * 64}) == 3


def failed(answer: Response) -> bool:
    return answer.status == 400 and answer.json()["code"] == "oidc_failed"


def changed(visitor: BrowserContext, **fields: str) -> None:
    """Change what the browser keeps of its attempt."""
    (cookie,) = [cookie for cookie in visitor.cookies() if cookie["name"].endswith("-login")]
    attempt = json.loads(base64.urlsafe_b64decode(cookie["value"] + "=="))
    value = base64.urlsafe_b64encode(json.dumps({**attempt, **fields}).encode()).rstrip(b"=").decode()
    visitor.add_cookies([{**cookie, "value": value}])  # type: ignore[list-item]


@pytest.mark.parametrize("field", ["state", "nonce", "verifier"])
def test_an_answer_that_does_not_fit_the_attempt_is_refused(signed: SignIn, field: str):
    with signed.site.visitor() as visitor:
        page = signed.begin(visitor)
        changed(visitor, **{field: "x" * 43})
        assert failed(signed.finish(page))
        assert not signed.session(visitor)["authenticated"]
        assert not [cookie for cookie in visitor.cookies() if cookie["name"].endswith("-login")]


def test_an_answer_counts_once_and_in_its_own_browser(signed: SignIn):
    with signed.site.visitor() as visitor, signed.site.visitor() as other:
        page = signed.begin(visitor)
        (kept,) = [cookie for cookie in visitor.cookies() if cookie["name"].endswith("-login")]
        address = signed.finish(page).url
        stolen = other.request.get(address, max_redirects=0)
        assert (stolen.status, stolen.json()["code"]) == (400, "oidc_failed")
        again = visitor.request.get(address, max_redirects=0)
        assert (again.status, again.json()["code"]) == (400, "oidc_failed")
        other.add_cookies([kept])  # type: ignore[list-item]
        replayed = other.request.get(address, max_redirects=0)  # now the provider has to refuse the code
        assert (replayed.status, replayed.json()["code"]) == (400, "oidc_failed")
        assert not signed.session(other)["authenticated"]


@pytest.mark.parametrize("query", ["", "?code=x", "?code=x&state=y", "?error=access_denied&state=y"])
def test_an_answer_without_an_attempt_is_refused(signed: SignIn, query: str):
    reply = signed.site.http().get(f"/session/callback{query}")
    assert reply.status == 400
    assert reply.json()["code"] == "oidc_failed"


def test_an_answer_of_another_issuer_or_a_refusal_is_refused(signed: SignIn):
    with signed.site.visitor() as visitor:
        begun = visitor.request.get("/api/v1/session/oidc", max_redirects=0)
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["response_type"] == ["code"]
        assert query["code_challenge_method"] == ["S256"]
        assert query["scope"] == ["openid profile email"]
        assert query["redirect_uri"] == [f"{signed.site.url}{CALLBACK}"]
        state = query["state"][0]
        foreign = f"{CALLBACK}?code=x&state={state}&iss=https://evil.example"
        refused = f"{CALLBACK}?error=access_denied&state={state}"
        for address in (foreign, refused):
            begun = visitor.request.get("/api/v1/session/oidc", max_redirects=0)
            mine = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
            answer = visitor.request.get(address.replace(state, mine), max_redirects=0)
            assert (answer.status, answer.json()["code"]) == (400, "oidc_failed")


def test_the_provider_refuses_another_address(signed: SignIn):
    with signed.site.visitor() as visitor:
        page = visitor.new_page()
        # the host of the request is part of the address, and only 127.0.0.1 is registered
        page.goto(f"http://localhost:{urlsplit(signed.site.url).port}/api/v1/session/oidc")
        assert "redirect_uri" in page.content()


@pytest.mark.parametrize(
    "next_path",
    [
        "//evil.example",
        "https://evil.example/workflow/",
        "/\\evil.example",
        "/workflow/../api/v1/health",
        "/workflow/%2e%2e/x",
        "/workflow/%5C..",
        "/workflowx",
        "javascript:alert(1)",
        "/workflow/\r\nset-cookie: a=b",
        "/workflow/" + "x" * 2_000,
    ],
)
def test_a_sign_in_leads_to_the_dashboard_only(signed: SignIn, next_path: str):
    with signed.site.visitor() as visitor:
        begun = visitor.request.get("/api/v1/session/oidc", params={"next": next_path}, max_redirects=0)
        assert begun.status == 303
        (cookie,) = [cookie for cookie in visitor.cookies() if cookie["name"].endswith("-login")]
        assert json.loads(base64.urlsafe_b64decode(cookie["value"] + "=="))["next"] == "/workflow/"


def test_the_path_in_the_cookie_is_not_trusted(signed: SignIn):
    with signed.site.visitor() as visitor:
        page = signed.begin(visitor, "?next=/workflow/runs")
        changed(visitor, next="//evil.example/\u00e9")
        assert signed.finish(page).headers["location"] == "/workflow/"


def test_a_token_of_the_provider_is_a_credential_and_rotation_needs_no_restart(signed: SignIn):
    http = signed.site.http()

    def call() -> int:
        return http.get("/workflows", Authorization=f"Bearer {signed.provider.access_token()}").status

    assert call() == 200
    assert http.get("/workflows", Authorization="Bearer x.y.z").status == 401
    old = signed.provider.access_token()
    signed.provider.rotate()
    # slowly: refused tokens count, and many of them would be refused for their number
    until(lambda: threading.Event().wait(0.5) or call() == 200, ROTATION_SECONDS)
    assert http.get("/workflows", Authorization=f"Bearer {old}").status == 401
    reply = http.post("/session", {"api_key": signed.provider.access_token()})
    assert reply.status == 200
    assert reply.json()["auth"] == "jwt"


def test_a_public_client_and_roles_of_the_access_token(tmp_path: Path, chromium: Browser):
    flags = ("--auth-roles-claim", "roles", "--auth-role", "ops=operator@shop", "--auth-scope", "openid")
    settings: dict[str, Any] = {"roles": ["ops", "unknown"], "id_token_claims": [], "ttl": {"IdToken": 600}}
    with (
        signing_in(tmp_path, chromium, *flags, client="public", variables={}, **settings) as made,
        made.site.visitor() as visitor,
    ):
        assert made.session(visitor)["sign_in"]["oidc"] == "localhost"
        page = made.begin(visitor, "?next=https://evil.example")
        assert made.finish(page).headers["location"] == "/workflow/"
        found = made.session(visitor)
        assert (found["user"], found["roles"]) == ("ada", {"shop": "operator"})
        (cookie,) = [cookie for cookie in visitor.cookies() if re.fullmatch("wf_[0-9a-f]{8}", cookie["name"])]
        lifetime = cookie["expires"] - page.evaluate("Date.now() / 1000")
        assert 500 < lifetime < 601  # the session ends with its token


def test_a_provider_that_is_gone_is_reported(tmp_path: Path, chromium: Browser):
    port = free_port()
    dead = f"http://127.0.0.1:{free_port()}"
    with site(tmp_path, chromium, "--port", str(port), "--auth-issuer", dead, "--auth-client-id", "engine") as made:
        reply = made.http().get("/session/oidc")
        assert (reply.status, reply.json()["code"]) == (503, "issuer_unavailable")
        assert made.http().get("/session").json()["sign_in"]["oidc"] == "127.0.0.1"


def test_without_a_client_there_is_no_sign_in_at_a_provider(open_site: Site):
    for path in ("/session/oidc", "/session/callback"):
        assert open_site.http().get(path).status == 404
