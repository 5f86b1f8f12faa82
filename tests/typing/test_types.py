"""The public API as type checkers see it: calls are typed by the functions that they name."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


def mypy(program: Path, cache: Path) -> set[int]:
    """Return the lines that mypy refuses, with strict settings."""
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={cache}", "--config-file=", str(program)]
    done = _run(command, {"MYPYPATH": str(SOURCES)})
    found = re.findall(rf"{re.escape(program.name)}:(\d+): error", done.stdout)
    assert found or "Success" in done.stdout, done.stdout + done.stderr
    return set(map(int, found))


def pyright(program: Path, cache: Path) -> set[int]:
    """Return the lines that pyright refuses, with strict settings."""
    shutil.copy(program, cache)
    settings = {"extraPaths": [str(SOURCES)], "include": [program.name], "typeCheckingMode": "standard"}
    (cache / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(cache)]
    done = _run(command, {})
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["summary"]["filesAnalyzed"] == 1, done.stdout
    return {one["range"]["start"]["line"] + 1 for one in found["generalDiagnostics"] if one["severity"] == "error"}


def _run(command: list[str], more: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **more}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)  # noqa: S603  # its own arguments


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright], ids=["mypy", "pyright"])


@CHECKERS
@pytest.mark.timeout(300)
def test_right_calls_are_accepted_with_the_types_of_their_results(check: Callable[..., set[int]], tmp_path: Path):
    assert check(PROGRAMS / "right.py", tmp_path) == set()


@CHECKERS
@pytest.mark.timeout(300)
def test_every_mistake_is_found_and_nothing_else(check: Callable[..., set[int]], tmp_path: Path):
    program = PROGRAMS / "wrong.py"
    lines = program.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "# mistake" in line}
    assert check(program, tmp_path) == marked
