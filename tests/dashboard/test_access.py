"""Access to the dashboard in a browser: signing in and out, roles, hostile texts, contrast and names for everybody."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.support import activity, fresh
from tests.browser.site import Site, site
from tests.dashboard.board import Board, snapshot, visiting, wait_for
from tests.dashboard.built import SOURCES

pytestmark = pytest.mark.browser
THOROUGH = pytest.mark.thorough

VIEWS = ["", "schedules", "workers", "queues", "settings", "nothing-here"]
TABS = ["steps", "summary", "timeline", "events", "tree", "state", "data", "attempts"]
PAYLOADS = [
    "<script>boom()</script>",
    "<img src=x onerror=boom()>",
    '"><svg onload=boom()>',
    "'\"><iframe src=javascript:boom()>",
    "javascript:boom()",
    "{{constructor.constructor('boom()')()}}",
    "</textarea><script>boom()</script>",
    "<a href=javascript:boom()>x</a>",
]
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def guarded(built: Path, chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("guarded"), chromium, "--auth-api-key") as made:
        yield made


@pytest.fixture(scope="module")
def keys(guarded: Site) -> dict[str, str]:
    """A key for each role in the namespace `shop`."""
    http = guarded.http()
    admin = http.post("/api-keys", {"label": "root"}).json()["plaintext"]
    bearer = {"Authorization": f"Bearer {admin}"}
    made = {
        role: http.post("/api-keys", {"label": role, "role": role, "namespaces": ["shop"]}, **bearer).json()[
            "plaintext"
        ]
        for role in ("reader", "operator")
    }
    http.post("/workflows", {"workflow_type": "Order", "workflow_id": "order-1", "namespace": "shop"}, **bearer)
    return {"admin": admin, **made}


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_every_view_leads_to_the_sign_in_and_back(guarded: Site, keys: dict[str, str]):
    with visiting(guarded) as board:
        board.expected.append("401")
        board.page.goto(f"{guarded.url}/workflow/workflows/order-1?ns=shop&tab=events")
        expect(board.page.get_by_role("heading", level=1)).to_have_text("Sign in")
        sign_in(board.page, "assay_wrong")
        expect(board.page.get_by_role("alert")).to_have_text("This key is not valid.")
        expect(board.page.get_by_label("API key")).to_have_value("assay_wrong")
        sign_in(board.page, keys["operator"])
        expect(board.page.get_by_role("heading", level=1)).to_have_text("order-1")
        expect(board.page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
        stored = board.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
        assert keys["operator"] not in stored
        other = board.page.context.new_page()
        other.goto(f"{guarded.url}/workflow/?ns=shop")
        expect(other.locator("tr[data-testid=run-row]")).to_have_count(1)
        board.page.get_by_role("button", name="Account").click()
        board.page.get_by_role("menuitem", name="Sign out").click()
        for page in (board.page, other):
            expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_reader_sees_disabled_actions_with_the_reason(guarded: Site, keys: dict[str, str]):
    with visiting(guarded) as board:
        board.page.goto(f"{guarded.url}/workflow/workflows/order-1?ns=shop")
        sign_in(board.page, keys["reader"])
        terminate = board.page.get_by_role("button", name="Terminate")
        expect(terminate).to_be_disabled()
        expect(terminate).to_have_attribute("title", "Needs the operator role in shop.")


@pytest.mark.parametrize(
    "target", ["https://evil.test/", "//evil.test", "javascript:alert(1)", "/api/v1/docs", "\\evil"]
)
def test_the_sign_in_leads_below_the_dashboard_only(board: Board, target: str):
    board.page.goto(f"{board.site.url}/workflow/login?next={target}")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("Workflows")
    assert board.page.url.startswith(f"{board.site.url}/workflow/")


def test_without_authentication_the_sign_in_leads_on(board: Board):
    board.page.goto(f"{board.site.url}/workflow/login?next=/workflow/queues")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("Queues")


def hostile(board: Board, text: str) -> None:
    """Put a hostile text wherever a caller can put text."""
    queue = text[:40]
    worker = board.worker(queue, workflows=[text], activities=[text])
    steps = {
        "steps": [{"name": text, "status": text, "actions": [text]}],
        "log": [{"time": text, "msg": text}],
        "status": text,
    }
    board.start(
        text, workflow_type=text, task_queue=queue, input={text: text}, search_attributes={"k": text}, memo={text: text}
    )
    commands = (snapshot(pipeline_state=steps, q=text), activity(1, text, task_queue="nobody"), wait_for(text))
    worker.turn(text, *commands)
    board.http.post(
        "/schedules",
        {
            "name": text,
            "workflow_type": text,
            "cron_expr": "0 0 2 * * *",
            "namespace": board.namespace,
            "input": {text: text},
        },
    )


@pytest.mark.parametrize("text", [PAYLOADS[0], *(pytest.param(text, marks=THOROUGH) for text in PAYLOADS[1:])])
def test_hostile_texts_are_shown_and_never_run(board: Board, text: str):
    boom: list[str] = []
    board.page.expose_function("boom", lambda: boom.append("ran"))
    board.page.on("dialog", lambda dialog: (boom.append("dialog"), dialog.dismiss()))
    hostile(board, text)
    for view in ("", "schedules", "workers", "queues"):
        board.open(view)
        expect(board.page.locator("main")).to_contain_text(text[:20])
    for tab in TABS:
        board.open_run(text, tab=tab)
    added = board.page.evaluate(
        "document.querySelectorAll('main script, main iframe, main img, main [onerror], main [onload]').length"
    )
    assert (boom, added) == ([], 0)


def findings(page: Page) -> list[str]:
    """Serious findings of axe on the page."""
    script = (SOURCES / "node_modules/axe-core/axe.min.js").read_text()
    page.evaluate(script)
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]


@pytest.fixture
def furnished(board: Board) -> Board:
    steps = [{"name": "Approval", "status": "running", "actions": ["approve"]}, {"name": "Ship", "status": "waiting"}]
    board.running(
        "order-1", snapshot(pipeline_state={"steps": steps, "log": [{"msg": "a"}]}), activity(1), wait_for("go")
    )
    board.start("blocked", task_queue="nobody")
    board.start("ended")
    board.http.post(f"/workflows/ended/terminate?namespace={board.namespace}", {"reason": "x"})
    body = {"name": fresh("s"), "workflow_type": "Order", "cron_expr": "0 0 2 * * *", "namespace": board.namespace}
    board.http.post("/schedules", body)
    return board


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=THOROUGH)])
def test_axe_finds_nothing_serious(furnished: Board, theme: str):
    board = furnished
    board.expected.append("404")
    # The policy of the page refuses evaluated scripts; the check itself is no part of the page.
    board.page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    for view in VIEWS:
        board.open(view)
        assert findings(board.page) == [], view
    for tab in TABS:
        board.open_run("order-1", tab=tab)
        expect(board.page.get_by_role("tabpanel")).to_be_visible()
        assert findings(board.page) == [], tab
    for name in ("Signal", "Cancel", "Terminate", "Continue as new"):
        board.button(name).click()
        expect(board.page.get_by_role("dialog")).to_be_visible()
        assert findings(board.page) == [], name
        board.page.keyboard.press("Escape")


PAGES = [*VIEWS[1:-1], *(f"workflows/order-1?tab={tab}" for tab in TABS)]


@pytest.mark.parametrize("view", ["", *(pytest.param(view, marks=THOROUGH) for view in PAGES)])
def test_a_phone_scrolls_in_one_direction(furnished: Board, view: str):
    page = furnished.page
    page.set_viewport_size({"width": 360, "height": 780})
    separator = "&" if "?" in view else "?"
    page.goto(f"{furnished.site.url}/workflow/{view}{separator}ns={furnished.namespace}")
    furnished.ready()
    wide = page.evaluate("[document.documentElement.scrollWidth, document.getElementById('content').scrollWidth]")
    assert max(wide) <= 360, wide


def test_no_page_may_frame_the_dashboard(board: Board):
    board.expected += ["frame-ancestors", "Refused to frame", "Framing", "ERR_BLOCKED_BY_RESPONSE"]
    board.page.route(
        "**/host", lambda route: route.fulfill(body='<iframe src="/workflow/"></iframe>', content_type="text/html")
    )
    board.page.goto(f"{board.site.url}/host")
    board.page.wait_for_timeout(500)
    frame = board.page.frames[1]
    assert frame.locator("main").count() == 0
