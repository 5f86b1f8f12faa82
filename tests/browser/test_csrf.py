"""Pages of other origins, in a browser that is signed in at the engine or whose engine needs no credential."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.api.support import Http
from tests.browser.site import Site, site

pytestmark = pytest.mark.browser

ATTACKS = {
    "a form": """
        const form = document.createElement('form');
        form.method = 'POST'; form.action = engine + '/api/v1/workflows'; form.target = 'hidden';
        document.body.append(form); form.submit();""",
    "a form whose text is JSON": """
        const form = document.createElement('form');
        form.method = 'POST'; form.action = engine + '/api/v1/workflows'; form.target = 'hidden';
        form.enctype = 'text/plain';
        const field = document.createElement('input');
        field.name = '{"workflow_type": "Evil", "x": "'; field.value = '"}';
        form.append(field); document.body.append(form); form.submit();""",
    "a simple fetch": """
        await fetch(engine + '/api/v1/workflows', {method: 'POST', mode: 'no-cors', credentials: 'include',
            body: '{"workflow_type": "Evil"}'}).catch(() => 0);""",
    "a simple fetch without a body": """
        await fetch(engine + '/api/v1/workflows/w/cancel', {method: 'POST', mode: 'no-cors', credentials: 'include'})
            .catch(() => 0);""",
    "a fetch of JSON": """
        await fetch(engine + '/api/v1/workflows', {method: 'POST', credentials: 'include',
            headers: {'Content-Type': 'application/json'}, body: '{"workflow_type": "Evil"}'}).catch(() => 0);""",
    "a deletion": """
        await fetch(engine + '/api/v1/schedules/s', {method: 'DELETE', credentials: 'include'}).catch(() => 0);""",
    "a patch": """
        await fetch(engine + '/api/v1/schedules/s', {method: 'PATCH', credentials: 'include', body: '{}',
            headers: {'Content-Type': 'application/json'}}).catch(() => 0);""",
    "a beacon": """
        navigator.sendBeacon(engine + '/api/v1/workflows', '{"workflow_type": "Evil"}');""",
    "a sign-out": """
        await fetch(engine + '/api/v1/session', {method: 'DELETE', mode: 'no-cors', credentials: 'include'})
            .catch(() => 0);
        await fetch(engine + '/api/v1/session', {method: 'DELETE', credentials: 'include'}).catch(() => 0);""",
    "a sign-in": """
        await fetch(engine + '/api/v1/session', {method: 'POST', mode: 'no-cors', credentials: 'include',
            body: '{"api_key": "x"}'}).catch(() => 0);""",
    "pictures": """
        for (const path of ['/api/v1/workflows', '/api/v1/workflows/w/cancel', '/api/v1/schedules/s/trigger',
                            '/api/v1/session', '/api/v1/session/callback?code=x&state=y', '/metrics']) {
            await new Promise(done => { const picture = new Image(); picture.onload = picture.onerror = done;
                                        picture.src = engine + path; });
        }""",
    "a socket": """
        const heard = await new Promise(done => {
            const socket = new WebSocket(engine.replace('http', 'ws') + '/api/v1/workers/evil/exchange');
            socket.onopen = () => done('open'); socket.onerror = () => done('refused'); });
        if (heard === 'open') throw Error('the socket is open');""",
    "a reading fetch": """
        let text = '';
        await fetch(engine + '/api/v1/workflows', {credentials: 'include'}).then(a => a.text())
            .then(found => { text = found; }).catch(() => 0);
        if (text) throw Error('the page has read ' + text);""",
    "a reading stream": """
        const heard = await new Promise(done => {
            const stream = new EventSource(engine + '/api/v1/events/stream', {withCredentials: true});
            stream.onopen = () => done('open'); stream.onerror = () => done('refused'); });
        if (heard === 'open') throw Error('the stream is open');""",
}


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another site."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>elsewhere</title><body><iframe name=hidden></iframe>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[int]:
    """The port of another site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


class Victim:
    """A browser that may change everything at its engine."""

    def __init__(self, made: Site, visitor: BrowserContext, key: str | None) -> None:
        self.site = made
        self.visitor = visitor
        self.http: Http = made.http()
        self._own = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.call("POST", "/workflows", {"workflow_type": "Order", "workflow_id": "w"})
        self.call("PUT", "/schedules/s", {"workflow_type": "Order", "cron_expr": "0 0 1 1 *", "overlap_policy": "skip"})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        reply = self.http.send(method, path, body, **self._own)
        assert reply.status < 300, reply
        return reply.json()

    def state(self) -> dict[str, Any]:
        """Everything that a page could have changed."""
        parts = ("/workflows", "/schedules", "/namespaces", "/workers")
        session = self.visitor.request.get("/api/v1/session").json()
        # what a run waits for is told with the time that it has waited
        rows = {part: [{**row, "waiting_on": None} for row in self.call("GET", part)] for part in parts}
        return {**rows, "session": session}


@contextmanager
def victim(folder: Path, chromium: Browser, *, signed_in: bool) -> Iterator[Victim]:
    with (
        site(folder, chromium, *(["--auth-api-key"] if signed_in else [])) as made,
        made.visitor() as visitor,
    ):
        key = None
        if signed_in:
            key = made.http().post("/api-keys", {}).json()["plaintext"]
            page = visitor.new_page()
            page.goto("/api/v1/health")
            sign_in = """key => fetch('/api/v1/session', {method: 'POST', body: JSON.stringify({api_key: key}),
                headers: {'Content-Type': 'application/json'}}).then(answer => answer.status)"""
            assert page.evaluate(sign_in, key) == 200
            page.close()
        yield Victim(made, visitor, key)


@pytest.fixture(scope="module", params=[True, False], ids=["signed in", "without authentication"])
def browsed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, chromium: Browser
) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("victim"), chromium, signed_in=request.param) as made:
        yield made


def attack(page: Page, engine: str, script: str) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.on("websocket", lambda socket: sent.append(socket.url))
    page.evaluate(f"async engine => {{ {script} }}", engine)
    page.wait_for_load_state("networkidle")
    address = engine.removeprefix("http://")
    assert [url for url in sent if address in url] or "sendBeacon" in script, "the attack was not even sent"


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["same site", "cross site"])
def test_a_page_of_another_origin_changes_and_reads_nothing(browsed: Victim, elsewhere: int, host: str, name: str):
    before = browsed.state()
    page = browsed.visitor.new_page()
    page.goto(f"http://{host}:{elsewhere}/")
    attack(page, browsed.site.url, ATTACKS[name])
    page.close()
    assert browsed.state() == before


def test_the_attacks_reach_an_engine_that_has_no_defence(browsed: Victim):
    """The same requests from the engine's own page have their effect, so the attacks are not merely misspelt."""
    page = browsed.visitor.new_page()
    page.goto("/api/v1/health")
    csrf = page.evaluate("fetch('/api/v1/session').then(a => a.json()).then(found => found.csrf)")
    assert (csrf is None) == (browsed.state()["session"]["auth"] == "none")
    change = """csrf => fetch('/api/v1/workflows', {method: 'POST', body: '{"workflow_type": "Evil"}',
        headers: {'Content-Type': 'application/json', ...(csrf ? {'X-WF-CSRF': csrf} : {})}}).then(a => a.status)"""
    assert page.evaluate(change, csrf) == 201
    assert page.evaluate("fetch('/api/v1/workflows').then(a => a.status)") == 200
    page.close()
