"""Many runs and a long history in a browser: first rows, a timeline and its zoom stay fast."""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.api.support import activity, fresh
from tests.dashboard.board import Board, timer, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.quiet, pytest.mark.thorough]

RUNS = 10_000
EVENTS = 5_000


def test_the_first_rows_of_many_runs_come_at_once(board: Board):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: board.start(f"run-{number:05}"), range(RUNS)))
    board.open("settings")
    began = time.monotonic()
    board.page.get_by_role("link", name="Workflows", exact=True).click()
    expect(board.page.locator("tr[data-testid=run-row]")).to_have_count(50)
    assert time.monotonic() - began < 1
    expect(board.page.get_by_text("of 10,000", exact=False)).to_be_visible()
    board.page.get_by_label("Search workflows").fill("run-00042")
    expect(board.row("run-00042")).to_be_visible()


def side_effect(seq: int) -> dict[str, Any]:
    return {"type": "RecordSideEffect", "seq": seq, "name": f"note {seq % 7}", "value": seq}


def test_a_long_history_is_drawn_and_zoomed_quickly(board: Board):
    worker = board.worker(fresh("queue"))
    board.start("long", task_queue=worker.queue)
    seq = 0
    while board.describe("long")["history_length"] < EVENTS - 1_000:
        names = range(seq + 1, seq + 500)
        worker.turn(
            "long",
            *(activity(n, f"work {n % 40}", task_queue="nobody") if n < 1_900 else timer(60, n) for n in names),
            side_effect(seq),
        )
        seq += 500
    worker.turn("long", *(timer(60, n) for n in range(seq + 1, seq + 1_000)), wait_for("go"))
    assert board.describe("long")["history_length"] >= EVENTS - 100
    board.open_run("long")
    began = time.monotonic()
    board.tab("Timeline").click()
    expect(board.page.get_by_test_id("bar").first).to_be_visible()
    assert time.monotonic() - began < 2
    assert board.page.evaluate("document.querySelectorAll('*').length") < 3_000
    took = board.page.evaluate(
        """async () => {
            const button = [...document.querySelectorAll('button')].find(one => one.ariaLabel === 'Zoom in');
            const times = [];
            for (let round = 0; round < 9; round += 1) {
                const began = performance.now();
                button.click();
                await new Promise(requestAnimationFrame);
                await new Promise(resolve => setTimeout(resolve));
                times.push(performance.now() - began);
            }
            return times;
        }"""
    )
    assert statistics.median(took) < 50, took
    board.tab("Events").click()
    rows = board.page.get_by_role("table", name="Events")
    expect(rows).to_have_attribute("aria-rowcount", str(board.describe("long")["history_length"] + 1))
    board.page.locator(".events-list").evaluate("node => node.scrollTo(0, node.scrollHeight)")
    expect(board.page.locator(f'tr[data-seq="{board.describe("long")["history_length"]}"]')).to_be_visible()
