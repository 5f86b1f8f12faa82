"""Requests generated from the OpenAPI document, sent to a running server: none may cause a server error.

`make fuzz` sends them for longer and to both databases: FUZZ_SECONDS is the time to spend on each of FUZZ_STORES.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from assay.api.routes.table import ROUTES
from tests.api.support import Http, Server, Worker, activity, complete, serving, sound
from tests.fuzz.hooks import KNOWN_NAMES
from tests.temporary_postgres import create_database, shared_postgres

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = int(os.environ.get("FUZZ_SECONDS", "50"))
STORES: Final = os.environ.get("FUZZ_STORES", "sqlite").split()
# The check that every invalid request is refused is left out: the server accepts an empty list for an empty object and
# an empty parameter for a missing one on purpose.
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
)
QUEUE: Final = "fuzzed"
OPERATIONS: Final = frozenset(route.operation_id for route in ROUTES)


def names_in(http: Http) -> dict[str, list[Any]]:
    """Make some of each kind, and tell what they are called."""
    worker = Worker(http, QUEUE)
    runs = [http.start(task_queue=QUEUE)["workflow_id"] for _ in range(24)]
    state = {"type": "RecordSnapshot", "state": {"state": 1}}
    for run in runs[:12]:
        worker.turn(run, state, activity(task_queue=QUEUE, max_attempts=1))
    for _ in range(3):
        failed = worker.activity()
        assert failed is not None
        assert worker.fail(failed).status == 200
    for run in runs[12:16]:
        worker.turn(run, state, complete({"ok": True}))
    tasks = [task["id"] for _ in range(9) if (task := worker.activity())]
    held = [task["workflow_id"] for _ in range(11) if (task := worker.task())]
    for run in held[-3:]:  # those whose activity failed come last
        assert worker.commands(run, {"type": "FailWorkflow", "error": "broken"}).status == 200
    http.post("/namespaces", {"name": "fuzzed"})
    for name in ("often", "spare", "state"):
        made = http.post("/schedules", {"name": name, "workflow_type": "Order", "cron_expr": "0 3 * * *"})
        assert made.status == 201, made
    return {
        "workflow_id": runs,
        "name": ["often", "fuzzed", "state"],
        "task_id": tasks,
        "activity_id": tasks,
        "worker_id": [worker.id],
        "queue": [QUEUE],
        "namespace": ["main", "main", "fuzzed", "absent"],
        "run_id": [""],
        "cron_expr": ["0 3 * * *", "*/5 * * * * *", "@every 90s"],
        "timezone": ["UTC", "Europe/Berlin"],
        "requested_by": ["somebody"],
        "reason": ["curious"],
    }


def accepted_operations(http: Http) -> set[str]:
    """The operations that have had a request they could say yes to."""
    metrics = http.raw("GET", "/metrics").body.decode()
    return {name for name, status in re.findall(r'operation="(\w+)",status="(\d+)"', metrics) if status < "300"}


def fuzz(server: Server, seconds: int) -> "subprocess.CompletedProcess[str]":
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(ROOT / "tests/fuzz/schemathesis.toml")),
        *("run", f"http://127.0.0.1:{server.port}/api/v1/openapi.json", "--checks", ",".join(CHECKS)),
        *("--max-time", str(seconds)),
    ]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
        "PYTHONPATH": str(ROOT),
        KNOWN_NAMES: json.dumps(names_in(server.http())),
    }
    return subprocess.run(  # noqa: S603
        command, cwd=server.folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(params=STORES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/engine.db"
        return
    with shared_postgres(tmp_path) as server:
        yield asyncio.run(create_database(server))


@pytest.mark.timeout(SECONDS * 2 + 120)
def test_every_answer_is_what_the_description_says(tmp_path: Path, database: str):
    with serving(tmp_path, "--backend", database) as server:
        found = fuzz(server, SECONDS)
        assert found.returncode == 0, found.stdout[-8_000:] + found.stderr[-2_000:]
        assert server.http().get("/health").status == 200
        refused = OPERATIONS - accepted_operations(server.http())
        assert len(refused) < len(OPERATIONS) / 4, f"the requests miss the point: {sorted(refused)}"
    assert sound(database) == []
