"""`python -m benchmarks.instructions [--against TREE]`: CPU instructions per activity, counted by valgrind.

A count of instructions repeats to about a percent on a busy machine, where times differ by half. Each process runs a
workload once as a warm-up, and is counted while the workload runs again: starting and stopping are left out, and so is
work inside the kernel (fsync, sockets).
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
from pathlib import Path

from benchmarks.environments import HOME, ROOT
from benchmarks.plan import INLINE, QUEUED

TIMEOUT_SECONDS = 300
# Valgrind makes a program fifty times slower. Rules that depend on time would make it another program: a store that
# takes the disk for slow commits in a thread, an engine that finds a worker's clock wrong refuses its turns, and a
# client that waits for long looks for workers.
PROGRAM = """
import importlib, runpy, sys
from contextlib import suppress
for name in ("core.rules.workflow_tasks", "storage.sqlite", "storage.sqlite.store", "sdk.unserved"):
    with suppress(ModuleNotFoundError):  # other checkouts may lack it
        importlib.import_module("assay." + name)
for module in [module for name, module in sys.modules.items() if name.startswith("assay.")]:
    for name in ("SLOW_SYNC", "SLOW_SYNC_SECONDS", "CLOCK_TOLERANCE", "UNSERVED_AFTER_SECONDS"):
        if hasattr(module, name):
            setattr(module, name, 10**9)
runpy.run_module("benchmarks.contestants.assay_embedded", run_name="__main__", alter_sys=True)
"""
_COLLECTED = re.compile(r"Collected : (\d+)")

Size = dict[str, int]
PLAN: dict[str, tuple[Size, Size]] = {
    "W1": ({"n": 64, "k": 1}, {"n": 512, "k": 1}),
    "W2": ({"n": 16, "k": 10}, {"n": 64, "k": 10}),
    "W4": ({"n": 10}, {"n": 200}),
    "W6": ({"k": 50, "times": 1}, {"k": 500, "times": 1}),
}
"""The sizes of the warm-up and of the counted run of each workload."""


class CountedProcess:
    """A contestant below valgrind: runs workloads, counted or not, and gives the count at its end."""

    def __init__(self, tree: Path, folder: str) -> None:
        self._errors = Path(folder, "stderr")
        command = [
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"),
            *("--trace-children=no", sys.executable, "-c", PROGRAM, f"sqlite://{folder}/counted.db"),
        ]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603  # its own arguments
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}", "PYTHONHASHSEED": "0"},
            )
        self._read("ready")

    def run(self, workload: str, style: str, size: Size, *, counted: bool) -> None:
        """Run a workload; raise `SystemExit` with the errors of the process if it fails."""
        question = {"workload": workload, "style": style, "size": size, "timeout": TIMEOUT_SECONDS}
        if counted:
            self._switch("on")
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        self._read("measures")
        if counted:
            self._switch("off")

    def end(self) -> int:
        """End the process; return the number of instructions that were counted."""
        self._process.communicate(timeout=TIMEOUT_SECONDS)
        found = _COLLECTED.search(self._errors.read_text(encoding="utf-8"))
        if found is None:
            raise self._failed("no count")
        return int(found[1])

    def _switch(self, state: str) -> None:
        command = ["callgrind_control", "-i", state, str(self._process.pid)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # its own arguments

    def _read(self, expected: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if expected not in json.loads(line or "{}"):
            raise self._failed(line)

    def _failed(self, problem: str) -> SystemExit:
        return SystemExit(f"cannot be counted: {problem}\n{self._errors.read_text(encoding='utf-8')[-2_000:]}")


def per_activity(tree: Path, workload: str, style: str) -> float:
    """Return the thousands of instructions of `tree` that an activity of a workload costs."""
    warm_up, size = PLAN[workload]
    HOME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="instructions-", dir=HOME) as folder:
        process = CountedProcess(tree, folder)
        process.run(workload, style, warm_up, counted=False)
        process.run(workload, style, size, counted=True)
        activities = size.get("n", 1) * size.get("k", 1) * size.get("times", 1)
        return process.end() / activities / 1e3


def main() -> None:
    """Print a row per workload and style; with `--against` also the other tree's count and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--against", type=Path, metavar="TREE", help="a checkout to compare this one with")
    parser.add_argument("--only", metavar="W1,W2", default="", help="only these workloads")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed; Debian's package has its name")
    wanted = {name.strip().upper() for name in options.only.split(",") if name.strip()}
    for workload in PLAN:
        for style in (QUEUED, INLINE):
            if not wanted or workload in wanted:
                _print_row(workload, style, options.against)


def _print_row(workload: str, style: str, against: Path | None) -> None:
    ours = per_activity(ROOT, workload, style)
    row = f"{workload} {style:7} {ours:9,.1f} thousand instructions per activity"
    if against is not None:
        theirs = per_activity(against.resolve(), workload, style)
        row += f", before {theirs:9,.1f}, ratio {ours / theirs:.3f}"
    print(row, flush=True)


if __name__ == "__main__":
    main()
