"""`python -m benchmarks.instructions [--against TREE]`: CPU instructions per workflow, counted by valgrind.

A count of instructions repeats to about a percent on a busy machine, where times differ by half. Each workload runs in
two sizes, and the difference is divided by the difference of the sizes: starting and stopping cancel out. Work inside
the kernel (fsync, sockets) is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import HOME, ROOT
from benchmarks.plan import INLINE, QUEUED

TIMEOUT_SECONDS = 300
# A store measures the disk to commit on the loop or in a thread; a busy machine would change its choice and the count.
PROGRAM = (
    "import runpy; from assay.storage.sqlite import store; store.SLOW_SYNC_SECONDS = float('inf'); "
    "runpy.run_module('benchmarks.contestants.assay_embedded', run_name='__main__', alter_sys=True)"
)
_COLLECTED = re.compile(r"Collected : (\d+)")


@dataclass(frozen=True)
class Counted:
    """A workload in two sizes, and the number of activities in each."""

    workload: str
    small: dict[str, int]
    large: dict[str, int]

    def activities(self, size: dict[str, int]) -> int:
        """Return how many activities a run of `size` executes."""
        return size.get("n", 1) * size.get("k", 1) * size.get("times", 1)


PLAN = (
    Counted("W1", {"n": 64, "k": 1}, {"n": 512, "k": 1}),
    Counted("W2", {"n": 16, "k": 10}, {"n": 80, "k": 10}),
    Counted("W4", {"n": 10}, {"n": 210}),
    Counted("W6", {"k": 50, "times": 1}, {"k": 650, "times": 1}),
)


def count(tree: Path, workload: str, style: str, size: dict[str, int]) -> int:
    """Return the instructions of a whole process of `tree` that runs one workload."""
    with tempfile.TemporaryDirectory(prefix="instructions-", dir=_scratch()) as folder:
        question = {"workload": workload, "style": style, "size": size, "timeout": TIMEOUT_SECONDS}
        command = [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=no"),
            *(sys.executable, "-c", PROGRAM, f"sqlite://{folder}/counted.db"),
        ]
        done = subprocess.run(  # noqa: S603  # its own arguments
            command,
            input=json.dumps(question) + "\n",
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}", "PYTHONHASHSEED": "0"},
            check=False,
        )
    found = _COLLECTED.search(done.stderr)
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    if found is None or not answers or "measures" not in answers[-1]:
        raise SystemExit(f"{workload} {style} could not be counted:\n{done.stdout}\n{done.stderr[-2_000:]}")
    return int(found[1])


def per_activity(tree: Path, counted: Counted, style: str) -> float:
    """Return the thousands of instructions that one more activity of a workload costs."""
    more = count(tree, counted.workload, style, counted.large) - count(tree, counted.workload, style, counted.small)
    return more / (counted.activities(counted.large) - counted.activities(counted.small)) / 1e3


def main() -> None:
    """Print a row per workload and style; with `--against` also the other tree's count and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--against", type=Path, metavar="TREE", help="a checkout to compare this one with")
    parser.add_argument("--only", metavar="W1,W2", default="", help="only these workloads")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed; Debian's package has its name")
    wanted = {name.strip().upper() for name in options.only.split(",") if name.strip()}
    for counted in PLAN:
        for style in (QUEUED, INLINE):
            if not wanted or counted.workload in wanted:
                _print_row(counted, style, options.against)


def _print_row(counted: Counted, style: str, against: Path | None) -> None:
    ours = per_activity(ROOT, counted, style)
    row = f"{counted.workload} {style:7} {ours:9,.1f} thousand instructions per activity"
    if against is not None:
        theirs = per_activity(against.resolve(), counted, style)
        row += f", before {theirs:9,.1f}, ratio {ours / theirs:.3f}"
    print(row, flush=True)


def _scratch() -> Path:
    HOME.mkdir(exist_ok=True)
    return HOME


if __name__ == "__main__":
    main()
