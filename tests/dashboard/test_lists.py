"""Schedules, workers, queues and settings in a browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.api.support import complete, fresh, until
from tests.dashboard.board import Board, fail, wait_for

pytestmark = pytest.mark.browser


def schedule(board: Board, name: str) -> dict[str, object]:
    found = board.http.get(f"/schedules/{name}?namespace={board.namespace}")
    return dict(found.json()) if found.status == 200 else {}


def test_a_schedule_from_its_creation_to_its_end(board: Board):
    board.expected.append("400")
    board.open("schedules")
    expect(board.page.get_by_text("No schedules.")).to_be_visible()
    board.button("New schedule").click()
    dialog = board.dialog("New schedule")
    dialog.get_by_label("Name").fill("nightly")
    dialog.get_by_label("Workflow type").fill("Report")
    dialog.get_by_label("Cron").fill("bad cron")
    dialog.get_by_label("Timezone").fill("Europe/Berlin")
    dialog.get_by_label("Input (JSON)").fill('{"n": 12345678901234567890}')
    dialog.get_by_role("button", name="Create schedule").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The cron expression 'bad cron'")
    expect(dialog.get_by_label("Name")).to_have_value("nightly")
    dialog.get_by_label("Cron").fill("0 0 2 * * *")
    dialog.get_by_role("button", name="Create schedule").click()
    row = board.page.locator('tr[data-testid=schedule-row][data-name="nightly"]')
    expect(row).to_contain_text("Europe/Berlin")
    expect(row).to_contain_text("active")
    assert b"12345678901234567890" in board.http.get(f"/schedules/nightly?namespace={board.namespace}").body

    board.button("Edit nightly").click()
    dialog = board.dialog("Edit nightly")
    dialog.get_by_label("Cron").fill("0 30 3 * * *")
    with board.page.expect_request(lambda request: request.method == "PATCH") as patch:
        dialog.get_by_role("button", name="Save").click()
    assert patch.value.post_data_json == {"cron_expr": "0 30 3 * * *"}
    expect(row).to_contain_text("0 30 3 * * *")

    board.button("Pause nightly").click()
    dialog = board.dialog("Pause nightly?")
    dialog.get_by_label("Reason").fill("holidays")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(row).to_contain_text("paused")
    assert schedule(board, "nightly")["pause_reason"] == "holidays"
    board.button("Resume nightly").click()
    expect(row).to_contain_text("active")
    expect(board.page.get_by_role("status", name="Notifications")).to_contain_text("its next run is in")

    board.button("Run nightly now").click()
    board.dialog("Start nightly now?").get_by_role("button", name="Run now").click()
    until(lambda: schedule(board, "nightly")["last_workflow_id"] is not None)

    board.page.get_by_role("link", name="nightly", exact=True).click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text("nightly")
    expect(board.page.get_by_role("table", name="Next fires").locator("tbody tr")).to_have_count(10)
    expect(board.page.get_by_role("table", name="Recent fires").locator("tbody tr")).to_have_count(1)
    board.button("Delete nightly").click()
    dialog = board.dialog("Delete nightly?")
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    dialog.get_by_label("Type nightly to confirm").fill("nightly")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    until(lambda: schedule(board, "nightly") == {})


def test_workers_show_queue_load_and_state(board: Board):
    queue = fresh("queue")
    worker = board.worker(queue, workflows=["Order"], activities=["charge"], max_concurrent_activities=7)
    board.open("workers")
    row = board.page.locator(f'tr[data-testid=worker-row][data-id="{worker.id}"]')
    expect(row).to_contain_text(queue)
    expect(row).to_contain_text("healthy")
    expect(row).to_contain_text(re.compile(r"0 of \d+"))
    expect(row).to_contain_text(re.compile(r"just now|\d s ago"))
    row.get_by_role("link").first.click()
    expect(board.page.get_by_role("heading", level=1)).to_have_text(worker.id)
    expect(board.page.locator("main")).to_contain_text("charge")
    expect(board.page.locator("main")).to_contain_text("test")


def test_queues_show_work_without_a_worker(board: Board):
    board.start("one", task_queue="images")
    board.start("two", task_queue="images")
    board.open("queues")
    row = board.page.locator('tr[data-testid=queue-row][data-name="images"]')
    expect(row).to_contain_text("No worker")
    listed = board.http.get(f"/queues?namespace={board.namespace}").json()[0]
    assert listed["pending_workflow_tasks"] == 2
    expect(row.locator("td").nth(1)).to_have_text("2")
    expect(board.page.get_by_role("contentinfo")).to_contain_text("1 queue without a worker")


def test_settings_make_and_delete_namespaces(board: Board):
    board.expected.append("409")
    name = board.namespace
    board.open("settings")
    version = board.http.get("/version").json()
    expect(board.page.get_by_role("region", name="Engine")).to_contain_text(version["version"])
    expect(board.page.get_by_role("region", name="Engine")).to_contain_text(version["build_profile"])
    board.button("Create namespace").click()
    dialog = board.dialog("Create namespace")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Create namespace").click()
    row = board.page.locator(f'tr[data-testid=namespace-row][data-name="{name}"]')
    expect(row).to_be_visible()
    expect(board.button("Delete namespace main")).to_be_disabled()
    board.start("open")
    board.button(f"Delete namespace {name}").click()
    dialog = board.dialog(f"Delete namespace {name}?")
    dialog.get_by_label(f"Type {name} to confirm").fill(name)
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(dialog.get_by_role("alert")).to_contain_text("open")
    board.http.post(f"/workflows/open/terminate?namespace={name}", {"reason": "x"})
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(row).to_have_count(0)


def test_failures_are_groups_with_counts(board: Board):
    for number in range(3):
        board.running(f"a-{number}", fail(f"card {number} declined"))
    board.running("b-0", fail("no route to host"))
    board.open("failures")
    rows = board.page.get_by_role("table", name="Failures").get_by_test_id("failure-row")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="declined")).to_contain_text("3 runs")
    rows.filter(has_text="no route").get_by_role("button", name="Resolve").click()
    expect(rows).to_have_count(1)
    rows.first.get_by_role("link", name="Show runs").click()
    expect(board.page.locator("tr[data-testid=run-row]")).to_have_count(3)
    board.page.go_back()
    rows.first.get_by_role("link").first.click()
    expect(board.page.locator("main")).to_contain_text("3, 3 of them open")


def test_blocked_runs_and_those_that_need_a_person_are_found(board: Board):
    board.running("asks", wait_for("approve"))
    board.start("lost", task_queue="nobody")
    board.running("done", complete())
    board.open()
    status = board.page.get_by_role("group", name="Status")
    status.get_by_role("button", name="Needs a person", exact=True).click()
    expect(board.row("asks")).to_be_visible()
    expect(board.row("lost")).to_have_count(0)
    status.get_by_role("button", name="Blocked", exact=True).click()
    expect(board.row("lost")).to_be_visible()
    expect(board.row("asks")).to_have_count(0)
    expect(status.get_by_role("button", name="All", exact=True)).to_have_attribute("data-count", "3")
