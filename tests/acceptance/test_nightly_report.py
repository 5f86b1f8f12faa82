"""Seed 000 as it is written: `assay serve`, a worker, and the seed's own calls, under both prefixes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.api.support import OTHER_PREFIX, PREFIX, Listener, Server, serving

ROOT = Path(__file__).parents[2]
SECONDS = 60
SCHEDULE = """{
    "namespace": "main",
    "name": "nightly-report",
    "workflow_type": "NightlyReport",
    "cron_expr": "*/5 * * * * *",
    "task_queue": "default",
    "input": {"region": "eu-west-1"}
}"""
"""The body of the seed's first call, letter for letter."""

EVENTS = [
    "WorkflowStarted",
    "SideEffectRecorded",
    "ActivityScheduled",
    "ActivityCompleted",
    *("ChildWorkflowStarted", "ChildWorkflowCompleted") * 3,
    "WorkflowCompleted",
]
"""The seed's events: the example's children run one after the other."""

CHILD_EVENTS = ["WorkflowStarted", "ActivityScheduled", "ActivityCompleted", "WorkflowCompleted"]


class Curl:
    """The seed's `curl`."""

    def __init__(self, server: Server, prefix: str) -> None:
        self._engine = f"http://localhost:{server.port}{prefix}"

    def __call__(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        headers = {} if body is None else {"Content-Type": "application/json"}
        data = None if body is None else body.encode()
        request = Request(self._engine + path, data, headers, method=method)  # noqa: S310  # an address of our own
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            content = answer.read()
            return answer.status, json.loads(content) if content else None

    def get(self, path: str) -> Any:
        status, found = self("GET", path)
        assert status == 200
        return found

    def kinds(self, workflow_id: str) -> list[str]:
        return [event["event_type"] for event in self.get(f"/workflows/{quote(workflow_id)}/events")]


@contextmanager
def working(server: Server) -> Iterator[None]:
    """The example's worker in a process of its own; it ends well when it is asked to."""
    environment = {**os.environ, "ASSAY_ENGINE_URL": f"http://localhost:{server.port}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "examples.nightly_report", "listen"]
    with subprocess.Popen(command, cwd=server.folder, env=environment, stdout=subprocess.DEVNULL) as worker:  # noqa: S603
        try:
            yield
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(SECONDS) == 0
        finally:
            worker.kill()


@pytest.mark.parametrize("prefix", [PREFIX, OTHER_PREFIX])
def test_the_seed_does_what_it_says(tmp_path: Path, prefix: str):
    with serving(tmp_path) as server, working(server):
        curl = Curl(server, prefix)
        listener = Listener(server.port, "?kind=schedule_fired,workflow_completed")
        status, created = curl("POST", "/schedules", SCHEDULE)
        assert (status, created["name"], created["paused"]) == (201, "nightly-report", False)
        report = listener.wait("schedule_fired")[0]["data"]["workflow_id"]
        status, paused = curl("POST", "/schedules/nightly-report/pause?namespace=main")
        assert (status, paused["paused"]) == (200, True)
        listener.until(lambda: completed(listener, report), SECONDS)
        listener.close()
        assert_reported(curl, report)


def completed(listener: Listener, workflow_id: str) -> bool:
    found = [event["data"] for event in listener.events if event["event"] == "workflow_completed"]
    return workflow_id in [event["workflow_id"] for event in found]


def assert_reported(curl: Curl, report: str) -> None:
    """What to look for, as the seed lists it."""
    record = curl.get(f"/workflows/{report}")
    due = record["scheduled_for"]
    assert (record["id"], record["status"], due % 5) == (f"nightly-report-{due:.0f}", "COMPLETED", 0)
    assert (record["result"]["region"], record["result"]["anomalies_handled"]) == ("eu-west-1", 3)
    assert curl.kinds(report) == EVENTS
    children = curl.get(f"/workflows/{report}/children")
    issued = record["result"]["report_id"]
    assert [child["id"] for child in children] == [f"{issued}-anomaly-{number}" for number in (1, 2, 3)]
    for child in children:
        assert (child["parent_id"], child["workflow_type"], child["status"]) == (report, "HandleAnomaly", "COMPLETED")
        assert curl.kinds(child["id"]) == CHILD_EVENTS
    (worker,) = curl.get("/workers")
    assert worker["task_queue"] == "default"
    (fire,) = [fire for fire in curl.get("/schedules/nightly-report/fires") if fire["workflow_id"] == report]
    assert (fire["outcome"], fire["due_at"]) == ("started", due)
    assert 0 <= fire["fired_at"] - due < 1
