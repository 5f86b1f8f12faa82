"""The dashboard while its engine is away, and open to a network."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.api.support import Server
from tests.browser.site import Site, site
from tests.dashboard.board import visiting

pytestmark = pytest.mark.browser

AWAY = ["Failed to load resource", "net::ERR"]
"""What the browser reports of requests that reach nobody."""


def test_after_a_restart_everything_that_happened_is_shown(built: Path, chromium: Browser, tmp_path: Path):
    database = f"sqlite://{tmp_path}/w.db"
    first = Server(tmp_path, "--backend", database)
    try:
        with visiting(Site(first, chromium)) as board:
            board.expected += AWAY
            board.start("before")
            board.open()
            connection = board.page.get_by_test_id("connection")
            expect(connection).to_have_attribute("data-state", "connected")
            first.stop()
            expect(connection).to_have_attribute("data-state", "disconnected")
            second = Server(tmp_path, "--backend", database, "--port", str(first.port))
            try:
                body = {"workflow_type": "Order", "workflow_id": "after", "namespace": board.namespace}
                assert second.http().post("/workflows", body).status == 201
                expect(connection).to_have_attribute("data-state", "connected", timeout=20_000)
                expect(board.row("after")).to_be_visible(timeout=20_000)
                assert sorted(board.rows()) == ["after", "before"]
            finally:
                second.close()
    finally:
        first.close()


def test_an_open_address_has_a_banner(built: Path, chromium: Browser, tmp_path: Path):
    with site(tmp_path, chromium, "--host", "0.0.0.0", "--no-auth") as shown, visiting(shown) as board:  # noqa: S104
        board.open()
        expect(board.page.get_by_text("Anyone who can reach this server can do everything (no auth).")).to_be_visible()
