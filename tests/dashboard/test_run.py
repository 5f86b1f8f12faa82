"""The page of a run in a browser: tabs, why line, timeline, events, tree, state, failures and actions."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.api.support import activity, complete, fresh, until
from tests.dashboard.board import CAUSES, Board, child, fail, snapshot, timer, wait_for

pytestmark = pytest.mark.browser


def test_every_tab_has_its_address(board: Board):
    board.running("order-1", wait_for("go"))
    board.open_run("order-1")
    for name in ("Timeline", "Events", "Tree", "State", "Data", "Attempts", "Summary"):
        board.tab(name).click()
        assert board.query("tab") == name.lower()
        board.page.reload()
        expect(board.tab(name)).to_have_attribute("aria-selected", "true")
    board.page.go_back()
    expect(board.tab("Attempts")).to_have_attribute("aria-selected", "true")
    board.page.go_forward()
    expect(board.tab("Summary")).to_have_attribute("aria-selected", "true")
    expect(board.tab("Steps")).to_have_count(0)


def test_the_why_line_says_what_the_engine_says(board: Board):
    board.running("order-1", wait_for("approve"))
    board.open_run("order-1")
    expect(board.why).to_have_attribute("data-kind", "signal")
    expect(board.why).to_have_attribute("data-attention", "person")
    expect(board.why).to_have_text(re.compile(r"^Waits \d+ s for signal 'approve'\.$"))
    first = board.why.inner_text()
    expect(board.why).not_to_have_text(first)
    board.button("Send signal…").click()
    dialog = board.dialog("Send signal to order-1")
    expect(dialog.get_by_label("Signal name")).to_have_value("approve")


def test_a_queue_without_a_worker_is_blocked_and_linked(board: Board):
    board.start("order-1", task_queue="nobody")
    board.open_run("order-1")
    expect(board.why).to_have_text("No worker serves queue 'nobody'.")
    expect(board.status).to_have_text("Blocked")
    expect(board.page).to_have_title("▲ order-1 · Assay Workflow Dashboard")
    board.page.get_by_role("link", name="Show queue").click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("nobody")


def test_a_run_that_closes_changes_its_page(board: Board):
    worker = board.running("order-1", activity(1, task_queue=fresh("queue")))
    board.http.post(f"/workflows/order-1/signal/x?namespace={board.namespace}")
    board.open_run("order-1")
    expect(board.page.get_by_test_id("connection")).to_have_attribute("data-state", "connected")
    expect(board.button("Terminate")).to_be_visible()
    worker.turn("order-1", complete({"done": True}))
    expect(board.status).to_have_text("Completed", timeout=2_000)
    expect(board.button("Start new run")).to_be_visible()
    expect(board.button("Terminate")).to_have_count(0)
    expect(board.why).to_have_text(re.compile("^Completed after "))
    expect(board.page.locator("[aria-live=polite]")).to_have_text("order-1 completed")


def test_the_timeline_has_one_row_for_each_thing(board: Board):
    queue = fresh("queue")
    worker = board.worker(queue)
    board.start("order-1", task_queue=queue)
    worker.turn(
        "order-1",
        activity(1, "charge", task_queue=queue, max_attempts=2, initial_interval_secs=0.01),
        timer(3_600, 2),
        wait_for("go"),
        child("child-1", task_queue="nobody"),
    )
    for _ in range(2):
        until(
            lambda: (found := worker.activity(wait_secs=5)) is not None and worker.fail(found, "no money").status == 200
        )
    board.open_run("order-1", tab="timeline")
    bars = board.page.get_by_role("treegrid", name="Timeline").get_by_test_id("bar")
    expect(bars).to_have_count(4)
    expect(bars.nth(0)).to_have_attribute("data-status", "failed")
    found = bars.evaluate_all("rows => rows.map(row => [row.dataset.kind, row.dataset.status])")
    assert found == [["activity", "failed"], ["timer", "running"], ["signal", "running"], ["child", "running"]]
    assert bars.nth(0).locator(".segment.attempt").count() == 2
    board.button("Zoom in").click()
    assert board.query("t")
    board.button("Fit").click()
    assert board.query("t") is None
    expect(board.page.get_by_role("img", name="Overview")).to_be_visible()
    expect(board.page.get_by_role("switch", name="Fold idle time")).to_be_visible()
    board.tab("Attempts").click()
    rows = board.page.get_by_role("table", name="Attempts").get_by_test_id("attempt-row")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("no money")


def test_events_can_be_chosen_searched_and_downloaded(board: Board, tmp_path: Path):
    board.running("order-1", activity(1, "charge"), timer(60, 2), wait_for("go"))
    board.open_run("order-1", tab="events")
    rows = board.page.get_by_role("table", name="Events").get_by_test_id("event-row")
    expect(rows).to_have_count(4)
    rows.filter(has_text="charge").click()
    assert board.query("event") == "2"
    expect(board.page.get_by_role("tree", name="Event 2")).to_contain_text('name: "charge"')
    board.page.get_by_role("group", name="Kinds of events").get_by_role("button", name="Timers").click()
    expect(rows).to_have_count(1)
    board.page.get_by_role("group", name="Kinds of events").get_by_role("button", name="All").click()
    board.page.get_by_label("Search events").fill("awaiting")
    expect(rows).to_have_count(1)
    with board.page.expect_download() as download:
        board.button("Download history").click()
    saved = tmp_path / "history.json"
    download.value.save_as(saved)
    kinds = [event["event_type"] for event in json.loads(saved.read_text())]
    assert kinds == board.kinds("order-1")


def test_the_tree_shows_parent_and_children(board: Board):
    worker = board.running("parent", child("child-1", task_queue="q"), child("child-2", task_queue="q"))
    board.open_run("parent", tab="tree")
    tree = board.page.get_by_role("tree", name="Tree")
    expect(tree.get_by_role("treeitem")).to_have_count(3)
    tree.get_by_role("link", name="child-1").click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("child-1")
    expect(board.page.get_by_text("parent", exact=True).first).to_be_visible()
    assert worker.id


def test_the_state_shows_each_query_and_changes(board: Board):
    worker = board.running("order-1", snapshot(progress={"done": 1}), wait_for("go"))
    board.open_run("order-1", tab="state")
    shown = board.page.get_by_role("tree", name="State progress")
    expect(shown).to_contain_text("done: 1")
    expect(board.page.get_by_text(re.compile(r"as of event \d+, "))).to_be_visible()
    board.http.post(f"/workflows/order-1/signal/go?namespace={board.namespace}")
    worker.turn("order-1", snapshot(progress={"done": 2}), wait_for("more"))
    expect(shown).to_contain_text("done: 2", timeout=2_500)


def test_a_failure_has_its_causes_and_frames(board: Board):
    board.running("order-1", fail("insufficient funds", failure=CAUSES))
    board.open_run("order-1")
    card = board.page.get_by_role("region", name="Failure")
    types = card.locator(".cause-type").all_inner_texts()
    assert types == ["CardDeclined", "HTTPError"]
    expect(card.get_by_text("client.post()")).to_be_visible()
    expect(card.get_by_text("1 library frame")).to_be_visible()
    expect(card.get_by_text("raise HTTPError")).to_be_hidden()
    expect(board.why).to_have_text(re.compile("CardDeclined: insufficient funds$"))


def test_retry_and_new_runs_lead_to_the_new_run(board: Board):
    worker = board.running("order-1", fail("broken"))
    board.open_run("order-1")
    board.button("Retry").click()
    dialog = board.dialog("Retry order-1?")
    expect(dialog.get_by_role("button", name="Retry run")).to_be_disabled()
    dialog.get_by_label("Reason").fill("fixed")
    dialog.get_by_role("button", name="Retry run").click()
    expect(board.status).to_have_text(re.compile("Running|Pending|Waiting"))
    worker.turn("order-1", complete(1))
    expect(board.status).to_have_text("Completed")
    retry = board.button("Retry")
    expect(retry).to_be_disabled()
    expect(retry).to_have_attribute("title", re.compile("nothing to retry"))
    board.button("Start new run").click()
    dialog = board.dialog("Start order-1 anew?")
    dialog.get_by_label("Input (JSON)").fill('{"again": true}')
    dialog.get_by_role("button", name="Start new run").click()
    expect(board.button("Continue as new")).to_be_visible()
    assert board.describe("order-1")["input"] == {"again": True}
    board.button("Continue as new").click()
    dialog = board.dialog("Continue order-1 as new?")
    expect(dialog.get_by_label("Input (JSON)")).to_have_value('{\n  "again": true\n}')
    dialog.get_by_role("button", name="Continue as new").click()
    expect(dialog).to_be_hidden()
    until(lambda: board.describe("order-1")["previous_run_id"] is not None)


def test_a_run_of_another_namespace_is_found(board: Board):
    board.expected.append("404")
    board.start("far")
    board.page.goto(f"{board.site.url}/workflow/workflows/far?ns=elsewhere")
    expect(board.page.get_by_text("There is no run 'far' in namespace 'elsewhere'.")).to_be_visible()
    board.page.get_by_role("link", name=board.namespace).click()
    expect(board.why).to_be_visible()


def test_a_slash_in_an_id_is_part_of_the_id(board: Board):
    board.start("a/b c?#")
    board.open()
    board.page.get_by_role("link", name="a/b c?#").click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("a/b c?#")
    board.page.reload()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("a/b c?#")
