"""The frame of the dashboard in a browser: navigation, namespaces, theme, white label, mounts and tabs."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.support import gauge, until
from tests.browser.site import Site, site
from tests.dashboard.board import Board, visiting

pytestmark = pytest.mark.browser

LINKS = {
    "Schedules": "schedules",
    "Workers": "workers",
    "Queues": "queues",
    "Settings": "settings",
}


def test_the_footer_shows_the_version_and_the_connection(board: Board):
    board.open()
    version = board.http.get("/version").json()["version"]
    expect(board.page.get_by_test_id("engine-version")).to_have_text(version)
    connection = board.page.get_by_test_id("connection")
    expect(connection).to_have_attribute("data-state", "connected", timeout=2_000)
    expect(connection).to_have_text("Connected")
    expect(board.page.get_by_role("note")).to_have_count(0)


def test_links_lead_to_the_views(board: Board):
    board.open()
    expect(board.page).to_have_title("Assay Workflow Dashboard")
    navigation = board.page.get_by_role("navigation", name="Main")
    for name, view in LINKS.items():
        link = navigation.get_by_role("link", name=name, exact=True)
        link.click()
        board.ready()
        expect(board.page).to_have_url(re.compile(rf"/workflow/{view}\?ns={board.namespace}$"))
        expect(board.page.get_by_role("heading", level=1)).to_have_text(name)
        expect(link).to_have_attribute("aria-current", "page")
        expect(board.page.locator("main")).to_have_attribute("data-view", view)
        expect(board.page).to_have_title(f"{name} · Assay Workflow Dashboard")
        assert board.page.locator("select").first.get_attribute("id") == "namespace"


def test_an_unknown_address_is_nothing_here(board: Board):
    board.expected.append("404")
    board.open("nowhere")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("Nothing here")
    expect(board.page.locator("main")).to_have_attribute("data-view", "nothing")


def test_another_namespace_shows_its_runs(board: Board):
    board.start("here")
    other = f"{board.namespace}-other"
    board.http.start("there", namespace=other)
    board.open()
    expect(board.row("here")).to_be_visible()
    board.page.get_by_label("Namespace").select_option(other)
    expect(board.row("there")).to_be_visible()
    assert board.query("ns") == other
    board.page.reload()
    expect(board.row("there")).to_be_visible()
    board.page.go_back()
    expect(board.row("here")).to_be_visible()


def test_links_of_the_older_form_open_the_panel(board: Board):
    board.start("order-1")
    board.page.goto(f"{board.site.url}/workflow/#ns={board.namespace}&wf=order-1")
    panel = board.page.get_by_role("complementary", name="Run")
    expect(panel.get_by_role("heading", name="order-1")).to_be_visible()
    assert (board.query("ns"), board.query("wf")) == (board.namespace, "order-1")


def test_the_theme_follows_the_system_and_the_switch(site: Site):
    with visiting(site, color_scheme="dark") as board:
        board.page.goto(f"{site.url}/workflow/", wait_until="commit")
        root = board.page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        board.ready().button("Theme").click()
        expect(root).to_have_attribute("data-theme", "light")
        board.page.reload(wait_until="commit")
        expect(root).to_have_attribute("data-theme", "light")


def test_the_sidebar_collapses_and_stays_so(board: Board):
    board.open()
    board.button("Collapse sidebar").click()
    expect(board.page.get_by_text("Settings", exact=True)).to_be_hidden()
    expect(board.page.locator(".brand-mark")).to_be_visible()
    board.page.reload()
    board.ready()
    expect(board.page.locator(".brand-mark")).to_be_visible()
    expect(board.page.get_by_text("Settings", exact=True)).to_be_hidden()


def test_the_skip_link_leads_to_the_content(board: Board):
    board.open()
    board.page.keyboard.press("Tab")
    expect(board.page.get_by_role("link", name="Skip to content")).to_be_focused()
    board.page.keyboard.press("Enter")
    expect(board.page.locator("main")).to_be_focused()


def test_keys_lead_through_the_views(board: Board):
    board.open()
    board.page.keyboard.press("g")
    board.page.keyboard.press("q")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("Queues")
    board.page.keyboard.press("?")
    expect(board.dialog("Keyboard")).to_be_visible()
    board.page.keyboard.press("Escape")
    expect(board.dialog("Keyboard")).to_be_hidden()


def test_eight_tabs_share_one_stream(site: Site):
    until(lambda: gauge(site.http(), "assay_event_streams") == 0)
    with visiting(site) as board:
        pages: list[Page] = [board.page.context.new_page() for _ in range(8)]
        for page in pages:
            page.goto(f"{site.url}/workflow/?ns={board.namespace}")
            expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "connected")
        assert gauge(site.http(), "assay_event_streams") == 1
        board.start("for-all")
        for page in pages:
            expect(page.locator("tr[data-testid=run-row]")).to_have_count(1, timeout=2_000)
    until(lambda: gauge(site.http(), "assay_event_streams") == 0)


SKIN = ":root { --accent: rgb(0, 153, 153); --on-accent: #000 } .brand-name { letter-spacing: 3px }"


def test_a_sheet_of_the_deployment_wins_in_both_themes(built: Path, chromium: Browser, tmp_path: Path):
    values = {"NAME": "Acme <b>", "CSS_URL": "/static/skin.css", "DEFAULT_NAMESPACE": "prod"}
    environment = {f"ASSAY_WHITELABEL_{name}": value for name, value in values.items()}
    with site(tmp_path, chromium, **environment) as own:
        for scheme in ("light", "dark"):
            with visiting(own, color_scheme=scheme) as board:
                board.page.route("**/static/skin.css*", lambda route: route.fulfill(body=SKIN, content_type="text/css"))
                board.page.goto(f"{own.url}/workflow/")
                board.ready()
                style = "node => getComputedStyle(node)"
                primary = board.button("Start workflow")
                expect(primary).to_have_css("background-color", "rgb(0, 153, 153)")
                assert (
                    board.page.locator(".brand-name").evaluate(f"{style.replace('(node)', '(node)')}.letterSpacing")
                    == "3px"
                )
                expect(board.page.locator(".brand-name")).to_have_text("Acme <b>")
                expect(board.page.get_by_label("Namespace")).to_have_value("prod")
                expect(board.page.get_by_role("contentinfo")).to_contain_text("Powered by Assay v")


def test_any_mount_works_without_a_setting(site: Site, built: Path):
    """A proxy that serves the engine below /x/y/: every request of the page stays below it."""
    with visiting(site) as board:
        board.start("order-1")
        prefix = f"{site.url}/x/y"

        def forward(route: object) -> None:
            request = route.request  # type: ignore[attr-defined]
            answer = route.fetch(url=request.url.replace("/x/y", "", 1), max_redirects=0)  # type: ignore[attr-defined]
            route.fulfill(response=answer)  # type: ignore[attr-defined]

        outside: list[str] = []
        board.page.on(
            "request", lambda request: outside.append(request.url) if not request.url.startswith(prefix) else None
        )
        board.page.route(re.compile(r"/x/y/(?!.*events/stream)"), forward)
        board.page.goto(f"{prefix}/workflow/workflows/order-1?ns={board.namespace}")
        board.expected.append("404")  # the event stream is not forwarded
        expect(board.page.get_by_role("heading", level=1)).to_have_text("order-1")
        docs = board.page.get_by_role("link", name="API Docs")
        assert docs.evaluate("link => link.href") == f"{prefix}/api/v1/engine/workflow/docs"
        board.page.get_by_role("link", name="Workflows").first.click()
        expect(board.row("order-1")).to_be_visible()
        assert outside == []
