"""What the client's own tests say of an engine in the process holds for one behind HTTP."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOTH_WAYS = ("test_continue_and_cancel", "test_odd_handlers")
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


def test_the_tests_of_the_client_pass_over_http():
    words = " or ".join(EMBEDDED_ONLY)
    files = ["tests/sdk/test_client.py", *(f"tests/embedded/{name}.py" for name in BOTH_WAYS)]
    command = [sys.executable, "-m", "pytest", "-p", "tests.http.over_http", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(  # noqa: S603
        [*command, "-k", f"not ({words})", *files], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert "passed" in ran.stdout
