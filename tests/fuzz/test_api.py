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

from assay.api.access import PUBLIC
from assay.api.routes.table import ROUTES
from tests.api.support import Http, Reply, Server, Worker, activity, complete, serving, sound
from tests.fuzz.hooks import KNOWN_NAMES
from tests.temporary_postgres import create_database, shared_postgres

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = int(os.environ.get("FUZZ_SECONDS", "50"))
WITH_KEYS_SECONDS: Final = max(15, SECONDS // 3)
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


def answers_by_operation(http: Http) -> dict[tuple[str, str], int]:
    """The number of answers by operation and status."""
    metrics = http.raw("GET", "/metrics").body.decode()
    found = re.findall(r'operation="(\w+)",status="(\d+)"} (\d+)', metrics)
    return {(name, status): int(count) for name, status, count in found}


def accepted_operations(http: Http) -> set[str]:
    """The operations that have had a request they could say yes to."""
    return {name for name, status in answers_by_operation(http) if status < "300"}


class AuthorizedHttp(Http):
    """Plain HTTP with a key."""

    def __init__(self, http: Http, key: str) -> None:
        super().__init__(http.port, http._opened)
        self._own = {"Authorization": f"Bearer {key}"}

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Reply:
        return super().raw(method, path, body, {**self._own, **(headers or {})})


def fuzz(
    server: Server, seconds: int, names: dict[str, list[Any]], *more: str, checks: tuple[str, ...] = CHECKS
) -> "subprocess.CompletedProcess[str]":
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(ROOT / "tests/fuzz/schemathesis.toml")),
        *("run", f"http://127.0.0.1:{server.port}/api/v1/openapi.json", "--checks", ",".join(checks)),
        *("--max-time", str(seconds), *more),
        *(() if "FUZZ_SECONDS" in os.environ else ("--seed", "1")),  # `make test` generates the same requests each time
    ]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
        "PYTHONPATH": str(ROOT),
        KNOWN_NAMES: json.dumps(names),
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
        found = fuzz(server, SECONDS, names_in(server.http()))
        assert found.returncode == 0, found.stdout[-8_000:] + found.stderr[-2_000:]
        assert server.http().get("/health").status == 200
        refused = OPERATIONS - accepted_operations(server.http())
        assert len(refused) < len(OPERATIONS) / 3, f"the requests miss the point: {sorted(refused)}"
    assert sound(database) == []


@pytest.mark.timeout(SECONDS * 2 + 120)
def test_answers_to_an_admin_are_the_same_with_authentication(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        key = server.http().post("/api-keys", {}).json()["plaintext"]
        http = AuthorizedHttp(server.http(), key)
        # the generator finds the key in the list of keys, and would end it
        kept = ("--exclude-operation-id", "revokeApiKey", "--exclude-operation-id", "rotateApiKey")
        # The generator leaves the key out of some requests: their 401 is in the description of the credential alone.
        checks = tuple(check for check in CHECKS if check != "status_code_conformance")
        header = ("--header", f"Authorization: Bearer {key}")
        found = fuzz(server, WITH_KEYS_SECONDS, names_in(http), *header, *kept, checks=checks)
        assert found.returncode == 0, found.stdout[-8_000:] + found.stderr[-2_000:]
        assert http.get("/workflows").status == 200
        accepted = accepted_operations(http)
        assert len(accepted) > len(OPERATIONS) / 2, f"the requests miss the point: {sorted(OPERATIONS - accepted)}"


@pytest.mark.timeout(SECONDS * 2 + 120)
def test_strangers_cause_no_server_error_and_reach_public_routes_only(tmp_path: Path):
    with serving(tmp_path, "--auth-api-key") as server:
        key = server.http().post("/api-keys", {}).json()["plaintext"]
        http = AuthorizedHttp(server.http(), key)
        names, public = names_in(http), {route.operation_id for route in ROUTES if route.access is PUBLIC}
        before = answers_by_operation(http)
        found = fuzz(server, WITH_KEYS_SECONDS, names, checks=("not_a_server_error", "content_type_conformance"))
        assert found.returncode == 0, found.stdout[-8_000:] + found.stderr[-2_000:]
        after = answers_by_operation(http)
        changed = {answer for answer, count in after.items() if count != before.get(answer)}
        assert {name for name, status in changed if status < "400"} - public == {"getMetrics"}  # our own question
        assert len({name for name, status in changed if status == "401"} - public) > len(OPERATIONS) / 2
