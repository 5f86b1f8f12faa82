"""`python -m tests.dashboard.screenshots FOLDER`: pictures of the dashboard, in both themes and two sizes."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.api.support import activity, complete, until
from tests.browser.chromium import launched
from tests.browser.site import site
from tests.dashboard.board import CAUSES, Board, child, fail, snapshot, timer, visiting, wait_for
from tests.dashboard.built import build_script

VIEWS = {
    "workflows": "?ns=shop",
    "steps": "workflows/release-1.4.0?ns=shop",
    "summary": "workflows/import-stock?ns=shop",
    "timeline": "workflows/order-81?ns=shop&tab=timeline",
    "schedules": "schedules?ns=shop",
    "queues": "queues?ns=shop",
}
SIZES = {"": {"width": 1280, "height": 760}, "-phone": {"width": 390, "height": 760}}


def furnish(board: Board) -> None:
    """Runs of a shop, in every state."""
    board.namespace = "shop"
    names = ["Approval", "Tag image", "Deploy", "Health check"]
    steps = [{"name": name, "status": "waiting"} for name in names]
    steps[0] = {"name": names[0], "status": "done"}
    steps[1] = {"name": names[1], "status": "running", "actions": ["retry", "skip"]}
    log = [
        {"time": "14:32:01", "msg": "Approved by alice", "step": 1},
        {"time": "14:32:02", "msg": "Tagging image 1.4.0", "step": 2},
    ]
    shop = board.worker("default", workflows=["Order", "Release", "Import", "Refund"], activities=["pack"])

    def running(name: str, *commands: dict[str, Any], **fields: Any) -> None:
        board.start(name, **fields)
        shop.turn(name, *commands)

    for number in range(60, 72):
        running(f"order-{number}", complete({"parcel": number}))
    worker = board.worker("pay", workflows=["Order"], activities=["reserve", "charge"])
    board.start("order-81", task_queue="pay", input={"order": 81, "total": 120.0}, search_attributes={"env": "prod"})
    worker.turn(
        "order-81",
        activity(1, "reserve", task_queue="pay"),
        activity(2, "charge", task_queue="pay", max_attempts=5, initial_interval_secs=45),
        timer(3_600, 3),
        child("ship-81", task_queue="pay"),
    )
    for _ in range(2):
        found = worker.activity(wait_secs=5)
        assert found is not None
        if found["name"] == "reserve":
            worker.complete(found, {"reserved": True})
        else:
            worker.fail(found, "card declined")
    running(
        "release-1.4.0",
        snapshot(pipeline_state={"status": "running", "steps": steps, "log": log}),
        wait_for("step_action"),
        workflow_type="Release",
    )
    running("import-stock", fail("insufficient funds", failure=CAUSES), workflow_type="Import")
    running("refund-7", wait_for("approve"), workflow_type="Refund")
    board.start("resize-summer", workflow_type="ResizeImages", task_queue="images")
    for name, cron in (("nightly-report", "0 0 2 * * *"), ("sync-stock", "@every 30s")):
        zone = "Europe/Berlin" if name == "nightly-report" else "UTC"
        body = {"name": name, "workflow_type": "Report", "cron_expr": cron, "timezone": zone, "namespace": "shop"}
        board.http.post("/schedules", body)
    until(lambda: board.describe("order-81")["history_length"] >= 5)


def take(folder: Path) -> None:
    """Write a picture of each view in each theme; narrow ones of two views."""
    build_script().ensure_built()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, launched() as chromium, site(Path(place), chromium) as shown:
        with visiting(shown) as board:
            furnish(board)
        for theme in ("light", "dark"):
            for suffix, size in SIZES.items():
                with visiting(shown, color_scheme=theme) as board:
                    board.page.set_viewport_size(size)  # type: ignore[arg-type]
                    for name, path in VIEWS.items():
                        if suffix and name not in ("workflows", "steps"):
                            continue
                        board.page.goto(f"{shown.url}/workflow/{path}")
                        board.ready()
                        board.page.get_by_text("Connected").wait_for()
                        board.page.screenshot(path=folder / f"{name}{suffix}-{theme}.png", animations="disabled")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
