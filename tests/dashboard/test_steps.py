"""The steps of a run in a browser: circles, connectors, actions, the log, and its live tail."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.api.support import until
from tests.dashboard.board import Board, fail, snapshot, wait_for

pytestmark = pytest.mark.browser

GLYPHS = {"waiting": "○", "done": "✓", "failed": "✕", "cancelled": "⊘", "skipped": "·"}


def steps(*statuses: str, **more: Any) -> dict[str, Any]:
    listed = [{"name": f"Step {number}", "status": status} for number, status in enumerate(statuses, 1)]
    return snapshot(pipeline_state={"steps": listed, **more})


def test_steps_come_first_with_glyphs_and_texts(board: Board):
    board.running(
        "order-1", steps("done", "running", "waiting", "failed", "cancelled", "skipped", "paused"), wait_for("x")
    )
    board.open_run("order-1")
    tab = board.page.locator('.detail-tab[data-tab="pipeline"]')
    expect(tab).to_have_text("Steps")
    expect(tab).to_have_class(re.compile("active"))
    expect(board.page.get_by_role("tab").first).to_have_text("Steps")
    items = board.page.get_by_role("list", name="Steps").get_by_test_id("step")
    expect(items).to_have_count(7)
    for item in items.all():
        status, text = item.get_attribute("data-status"), item.locator(".step-status").inner_text()
        circle = item.locator(".step-circle")
        if status == "running":
            expect(circle.locator("svg.step-spinner")).to_be_visible()
        else:
            expect(circle).to_have_text(GLYPHS[str(status)])
        assert text == ("paused" if item.get_attribute("data-step-idx") == "7" else status)
    connectors = board.page.locator(".pipeline-connector").evaluate_all("nodes => nodes.map(node => node.classList[1])")
    assert connectors == ["partial", "muted", "muted", "muted", "muted", "muted"]


def test_an_action_is_posted_on_one_click(board: Board):
    first = {"name": "Approval", "status": "running", "actions": ["approve", "reject"]}
    worker = board.running("order-1", snapshot(pipeline_state={"steps": [first]}), wait_for("step_action"))
    board.open_run("order-1")
    board.page.evaluate("localStorage.setItem('assay.user', 'alice')")
    with board.page.expect_request(re.compile("/api/v1/engine/workflow/workflows/order-1/signal/step_action")) as sent:
        board.page.locator('.pipeline-step-action[data-action="approve"]').click()
    assert sent.value.post_data_json == {"payload": {"step": "Approval", "action": "approve", "user": "alice"}}
    expect(board.page.get_by_role("status", name="Notifications")).to_contain_text(
        "Sent approve for Approval as alice."
    )
    worker.turn("order-1", snapshot(pipeline_state={"steps": [{"name": "Approval", "status": "done"}]}), wait_for("x"))
    expect(board.page.get_by_test_id("step")).to_have_attribute("data-status", "done", timeout=2_500)
    expect(board.button("approve")).to_have_count(0)


def polls(board: Board) -> int:
    return sum("/state/pipeline_state" in request.url for request in board.requests)


def test_the_tail_is_live_only_while_it_is_shown(board: Board):
    worker = board.running("order-1", steps("running"), wait_for("x"))
    board.open_run("order-1")
    circle = board.page.locator(".step-circle")
    circle.evaluate("node => { node.dataset.mark = 'kept' }")
    before, since = polls(board), time.monotonic()
    board.page.wait_for_timeout(3_000)
    assert abs(polls(board) - before - (time.monotonic() - since)) <= 1.5
    assert circle.get_attribute("data-mark") == "kept"
    board.tab("Summary").click()
    before = polls(board)
    board.page.wait_for_timeout(1_500)
    assert polls(board) == before
    board.tab("Steps").click()
    board.http.post(f"/workflows/order-1/signal/x?namespace={board.namespace}")
    worker.turn("order-1", fail("broken"))
    expect(board.page.get_by_test_id("step")).to_have_attribute("data-status", "failed")
    before = polls(board)
    board.page.wait_for_timeout(1_500)
    assert polls(board) - before <= 1


def test_a_failed_run_ends_its_steps(board: Board):
    board.running("order-1", steps("done", "running", "waiting"), fail("broken"))
    board.open_run("order-1")
    found = board.page.get_by_test_id("step")
    expect(found.nth(2)).to_have_attribute("data-status", "skipped")
    assert found.evaluate_all("nodes => nodes.map(node => node.dataset.status)") == ["done", "failed", "skipped"]


def test_a_circle_filters_the_log_and_the_lock_keeps_its_place(board: Board):
    lines = [{"time": "14:32:01", "msg": f"line {number}", "step": number % 2 + 1} for number in range(60)]
    worker = board.running("order-1", steps("done", "running", log=[{"msg": "always"}, *lines]), wait_for("x"))
    board.open_run("order-1")
    shown = board.page.locator(".pipeline-log-line:not(.hidden)")
    expect(shown).to_have_count(61)
    circle = board.button("Step 1 Step 1")
    circle.click()
    expect(shown).to_have_count(31)
    assert board.query("step") == "1"
    expect(board.page.locator(".pipeline-step.selected")).to_have_count(1)
    circle.click()
    expect(shown).to_have_count(61)
    log = board.page.get_by_role("log", name="Step log")
    assert log.evaluate("node => node.scrollHeight - node.scrollTop - node.clientHeight") < 2
    board.button("Scroll lock").click()
    expect(board.button("Scroll lock")).to_have_attribute("aria-pressed", "true")
    log.evaluate("node => node.scrollTo(0, 100)")
    board.http.post(f"/workflows/order-1/signal/x?namespace={board.namespace}")
    worker.turn("order-1", steps("done", "running", log=[{"msg": "always"}, *lines, {"msg": "new"}]), wait_for("y"))
    expect(shown).to_have_count(62, timeout=2_500)
    assert log.evaluate("node => node.scrollTop") == 100
    expect(board.page.get_by_text("1 new line")).to_be_visible()


def test_a_running_step_counts_down(board: Board):
    step = {"name": "Approval", "status": "running", "expires_at": time.time() + 45}  # noqa: TID251  # what a workflow shows
    board.running("order-1", snapshot(pipeline_state={"steps": [step]}), wait_for("x"))
    board.open_run("order-1")
    left = board.page.locator(".urgent")
    expect(left).to_have_text(re.compile(r"expires in \d+ s"))
    first = left.inner_text()
    until(lambda: left.inner_text() != first)
