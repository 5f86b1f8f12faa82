"""The list of runs in a browser: filters, pages, actions, selection, and news that move nothing."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

from tests.api.support import complete, fresh, until
from tests.dashboard.board import Board, wait_for

pytestmark = pytest.mark.browser

TO = "\N{EN DASH}"


def many(board: Board, count: int, **fields: object) -> list[str]:
    """Start runs `run-0001` and so on; the newest is the last."""
    names = [f"run-{number:04}" for number in range(1, count + 1)]
    for name in names:
        board.start(name, **fields)
    return names


def test_pages_go_forth_and_back(board: Board):
    many(board, 30)
    board.open(size="25")
    expect(board.page.get_by_text(f"1{TO}25 of 30", exact=True)).to_be_visible()
    first = board.rows()
    assert len(first) == 25
    board.button("Next").click()
    expect(board.page.get_by_text(f"26{TO}30 of 30", exact=True)).to_be_visible()
    assert board.query("cursor")
    assert not set(board.rows()) & set(first)
    board.page.reload()
    expect(board.page.get_by_text(f"26{TO}30 of 30", exact=True)).to_be_visible()
    board.button("Previous").click()
    expect(board.page.get_by_text(f"1{TO}25 of 30", exact=True)).to_be_visible()
    assert board.rows() == first


def test_each_filter_restricts_the_rows_on_the_server(board: Board):
    board.start("needle", workflow_type="Rare", task_queue="special", search_attributes={"env": "prod"})
    many(board, 26)
    board.http.post(f"/workflows/run-0001/terminate?namespace={board.namespace}", {"reason": "x"})
    board.open(size="25")
    expect(board.row("needle")).to_have_count(0)
    fields = {
        "Type": ("Rare", "type"),
        "Queue": ("special", "queue"),
        "Search attributes": ('{"env": "prod"}', "attrs"),
        "Search workflows": ("need", "q"),
    }
    for label, (text, parameter) in fields.items():
        field = board.page.get_by_label(label, exact=True)
        field.fill(text)
        expect(board.row("needle")).to_be_visible()
        assert len(board.rows()) == 1
        assert board.query(parameter) == text
        other = board.page.context.new_page()
        other.goto(board.page.url)
        expect(other.locator("tr[data-testid=run-row]")).to_have_count(1)
        other.close()
        board.button("Clear filters").click()
        expect(board.row("run-0026")).to_be_visible()
    failed = board.page.get_by_role("group", name="Status").get_by_role("button", name="Failed", exact=True)
    failed.click()
    expect(board.row("run-0001")).to_be_visible()
    expect(failed).to_have_attribute("aria-pressed", "true")
    expect(board.row("run-0001").locator(".status")).to_have_text("Terminated")
    assert board.query("status") == "FAILED"


def test_invalid_attributes_leave_the_rows(board: Board):
    board.start("one")
    board.open()
    expect(board.row("one")).to_be_visible()
    field = board.page.get_by_label("Search attributes", exact=True)
    field.fill('{"env": ')
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(board.page.get_by_text(re.compile("^Line 1, column 9"))).to_be_visible()
    expect(board.row("one")).to_be_visible()


def test_nothing_yet_and_nothing_that_matches(board: Board):
    board.open()
    expect(board.page.locator("main")).to_have_attribute("data-state", "empty")
    expect(board.page.get_by_text("No runs yet.")).to_be_visible()
    board.start("one")
    board.open(q="nothing")
    expect(board.page.get_by_text("No run matches.")).to_be_visible()
    board.button("Clear filters").last.click()
    expect(board.row("one")).to_be_visible()


def test_a_start_keeps_every_digit(board: Board):
    board.open()
    board.button("Start workflow").first.click()
    dialog = board.dialog("Start workflow")
    dialog.get_by_label("Workflow type").fill("Order")
    dialog.get_by_label("Workflow id").fill("exact")
    dialog.get_by_label("Queue").fill("pay")
    dialog.get_by_label("Input (JSON)").fill('{"n": 3544790567247868102, "f": 1.0')
    expect(dialog.get_by_role("button", name="Start workflow")).to_be_disabled()
    dialog.get_by_label("Input (JSON)").fill('{"n": 3544790567247868102, "f": 1.0}')
    dialog.get_by_label("Search attributes (JSON)").fill('{"env": "prod"}')
    dialog.get_by_role("button", name="Start workflow").click()
    expect(board.row("exact")).to_be_visible()
    record = board.describe("exact")
    assert (record["task_queue"], record["search_attributes"]) == ("pay", {"env": "prod"})
    raw = board.http.get(f"/workflows/exact?namespace={board.namespace}").body
    assert b'"n":3544790567247868102' in raw
    assert b'"f":1.0' in raw
    board.open_run("exact", tab="data")
    shown = board.page.get_by_role("tree", name="Input")
    expect(shown).to_contain_text("n: 3544790567247868102")
    expect(shown).to_contain_text("f: 1.0")


def test_a_taken_id_keeps_the_fields(board: Board):
    board.expected.append("409")
    board.start("taken")
    board.open()
    board.button("Start workflow").first.click()
    dialog = board.dialog("Start workflow")
    dialog.get_by_label("Workflow type").fill("Order")
    dialog.get_by_label("Workflow id").fill("taken")
    dialog.get_by_role("button", name="Start workflow").click()
    expect(dialog.get_by_role("alert")).to_contain_text("taken")
    expect(dialog.get_by_label("Workflow id")).to_have_value("taken")
    expect(dialog.get_by_label("Workflow type")).to_have_value("Order")


def test_row_actions_ask_first_and_then_act(board: Board):
    worker = board.running("order-1", wait_for("go"))
    board.open()
    board.button("Signal order-1").click()
    dialog = board.dialog("Send signal to order-1")
    expect(dialog.get_by_label("Signal name")).to_have_value("go")
    dialog.get_by_label("Payload (JSON)").fill('{"by": "ana", "n": 12345678901234567890}')
    expect(dialog.get_by_text("As command")).to_be_visible()
    dialog.get_by_role("button", name="Send signal").click()
    expect(dialog).to_be_hidden()
    received = board.http.history("order-1", namespace=board.namespace)[-1]
    assert received["event_type"] == "SignalReceived"
    assert json.dumps(received["payload"]["payload"]) == '{"by": "ana", "n": 12345678901234567890}'

    board.button("Cancel order-1").click()
    board.page.keyboard.press("Escape")
    expect(board.dialog("Cancel order-1?")).to_be_hidden()
    assert "WorkflowCancelRequested" not in board.kinds("order-1")
    board.button("Cancel order-1").click()
    dialog = board.dialog("Cancel order-1?")
    dialog.get_by_label("Reason").fill("wrong branch")
    dialog.get_by_role("button", name="Cancel run").click()
    expect(dialog).to_be_hidden()
    last = board.http.history("order-1", namespace=board.namespace)[-1]
    assert (last["event_type"], last["payload"]["reason"]) == ("WorkflowCancelRequested", "wrong branch")

    board.button("Terminate order-1").click()
    dialog = board.dialog("Terminate order-1?")
    dialog.get_by_role("button", name="Keep running").click()
    expect(dialog).to_be_hidden()
    board.button("Terminate order-1").click()
    dialog.get_by_label("Reason").fill("gone")
    dialog.get_by_role("button", name="Terminate run").dblclick()
    expect(dialog).to_be_hidden()
    expect(board.row("order-1").locator(".status")).to_have_text("Terminated")
    assert board.kinds("order-1").count("WorkflowTerminated") == 1
    assert worker.id


def test_a_refused_action_shows_the_reason_and_keeps_the_fields(board: Board):
    board.expected.append("404")
    worker = board.running("order-1", wait_for("go"))
    board.open()
    board.button("Terminate order-1").click()
    dialog = board.dialog("Terminate order-1?")
    dialog.get_by_label("Reason").fill("too late")
    board.http.post(f"/workflows/order-1/terminate?namespace={board.namespace}", {"reason": "first"})
    assert worker.id
    dialog.get_by_role("button", name="Terminate run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("order-1")
    expect(dialog.get_by_label("Reason")).to_have_value("too late")


def test_a_click_opens_the_panel_and_back_closes_it(board: Board):
    board.start("order-1")
    board.open()
    board.row("order-1").locator("td").nth(5).click()
    panel = board.page.get_by_role("complementary", name="Run")
    expect(panel).to_be_visible()
    assert board.query("wf") == "order-1"
    board.page.go_back()
    expect(panel).to_be_hidden()
    board.page.get_by_role("link", name="order-1", exact=True).click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("order-1")


def test_news_appear_and_change_rows_in_place(board: Board):
    queue = fresh("queue")
    worker = board.worker(queue)
    board.open()
    expect(board.page.get_by_test_id("connection")).to_have_attribute("data-state", "connected")
    board.start("order-1", task_queue=queue)
    expect(board.row("order-1")).to_be_visible(timeout=1_500)
    worker.turn("order-1", complete({"ok": True}))
    expect(board.row("order-1")).to_have_attribute("data-status", "COMPLETED", timeout=1_500)


def test_a_flood_of_starts_moves_nothing(board: Board):
    many(board, 40)
    board.open()
    expect(board.page.get_by_test_id("connection")).to_have_attribute("data-state", "connected")
    board.page.get_by_label("Select run-0030").check()
    board.button("Start workflow").first.click()
    dialog = board.dialog("Start workflow")
    dialog.get_by_label("Workflow id").fill("half typed")
    board.page.locator("main").evaluate("node => node.scrollTo(0, 600)")
    before = board.rows()
    with ThreadPoolExecutor(4) as pool:
        started = time.monotonic()
        list(pool.map(lambda number: board.http.start(f"new-{number}", namespace=board.namespace), range(150)))
        assert time.monotonic() - started < 30
    expect(board.page.locator(".pill")).to_be_visible()
    assert board.rows() == before
    expect(dialog.get_by_label("Workflow id")).to_have_value("half typed")
    expect(dialog.get_by_label("Workflow id")).to_be_focused()
    board.page.keyboard.press("Escape")
    assert board.page.locator("main").evaluate("node => node.scrollTop") == 600
    expect(board.page.get_by_label("Select run-0030")).to_be_checked()
    board.button("New runs").click()
    expect(board.page.locator("tr[data-testid=run-row]").first).to_have_attribute("data-id", re.compile("^new-"))


def test_selected_runs_of_two_pages_are_cancelled_and_no_others(board: Board):
    many(board, 30)
    board.open(size="25")
    board.page.get_by_label("Select run-0030").check()
    board.page.get_by_label("Select run-0028").check()
    board.button("Next").click()
    board.page.get_by_label("Select run-0002").check()
    expect(board.page.get_by_text("3 selected")).to_be_visible()
    board.button("Cancel selected").click()
    dialog = board.dialog("Cancel 3 runs?")
    dialog.get_by_label("Reason").fill("wrong batch")
    dialog.get_by_role("button", name="Cancel 3 runs").click()
    expect(dialog).to_be_hidden()
    touched = [name for name in (f"run-{n:04}" for n in range(1, 31)) if len(board.kinds(name)) > 1]
    assert touched == ["run-0002", "run-0028", "run-0030"]


def test_many_runs_need_their_number_typed(board: Board):
    many(board, 12)
    board.open()
    board.page.get_by_label("Select page").check()
    board.button("Terminate selected").click()
    dialog = board.dialog("Terminate 12 runs?")
    act = dialog.get_by_role("button", name="Terminate 12 runs")
    expect(act).to_be_disabled()
    dialog.get_by_label("Type 12 to confirm").fill("12")
    act.click()
    expect(dialog).to_be_hidden()
    assert all(board.kinds(f"run-{n:04}")[-1] == "WorkflowTerminated" for n in range(1, 13))


def test_the_keyboard_alone_opens_filters_and_signals(board: Board):
    board.running("order-1", wait_for("go"))
    board.open()
    expect(board.row("order-1")).to_be_visible()
    board.page.keyboard.press("j")
    board.page.keyboard.press("s")
    dialog = board.dialog("Send signal to order-1")
    expect(dialog.get_by_label("Signal name")).to_be_focused()
    board.page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    until(lambda: board.kinds("order-1")[-1] == "SignalReceived")
    board.page.keyboard.press("/")
    expect(board.page.get_by_label("Search workflows")).to_be_focused()
    board.page.keyboard.type("order")
    board.page.keyboard.press("Enter")
    expect(board.page).to_have_url(re.compile("q=order"))
    board.page.keyboard.press("Escape")
    board.page.keyboard.press("Enter")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("order-1")
    board.page.keyboard.press("u")
    expect(board.page.get_by_role("heading", level=1)).to_have_text("Workflows")
