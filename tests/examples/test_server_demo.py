"""The demo of `make run`: three processes, reports that can be watched, and a clean end."""

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-W", "error", "-m", "examples.server_demo"]


def test_reports_are_started_shown_and_finished():
    ran = subprocess.run(  # noqa: S603
        [*COMMAND, "--reports", "2"], cwd=ROOT, capture_output=True, text=True, timeout=90, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"dashboard +http://127\.0\.0\.1:\d+/workflow/\n", ran.stdout)
    assert re.search(r"API docs +http://127\.0\.0\.1:\d+/api/v1/docs", ran.stdout)
    for number in (1, 2):
        lines = [line for line in ran.stdout.splitlines() if line.startswith(f"  report {number} ")]
        assert "started for" in lines[0]
        assert re.search(r"scanned: \d anomal", "\n".join(lines))
        assert re.search(r"done: \d anomal(y|ies) handled$", lines[-1])


def test_an_interrupt_ends_all_three_processes():
    demo = subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        shown = next(line for line in demo.stdout or () if "started for" in line)
        assert "report 1" in shown
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=40)
    finally:
        demo.kill()
    assert (demo.returncode, err) == (0, "")
    assert "stopping" in out
