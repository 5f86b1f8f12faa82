"""What the client's own tests say of an engine in the process holds for one behind HTTP."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EMBEDDED_ONLY = (
    "run_serves_the_work_by_itself",
    "run_leaves_a_queue_to_the_worker",
    "run_of_an_unknown_workflow_fails",
    "run_fails_when_its_worker_does",
    "a_cancelled_run_call_stays_cancelled",
    "queries_signals_and_typed_results",
    "a_failure_comes_back_with_its_fields",
)
"""These count on a worker in the engine's own process, or look into that engine; `test_scenarios` has their like."""


@pytest.mark.parametrize(
    "files",
    [
        ("tests/sdk/client/test_client.py", "tests/embedded/test_continue_and_cancel.py"),
        ("tests/sdk/test_refusals.py", "tests/embedded/test_odd_handlers.py"),
    ],
)
def test_the_tests_of_the_client_pass_over_http(files: tuple[str, ...]):
    words = " or ".join(EMBEDDED_ONLY)
    command = [sys.executable, "-m", "pytest", "-p", "tests.http.over_http", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(  # noqa: S603
        [*command, "-k", f"not ({words})", *files], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert "passed" in ran.stdout
