"""Commands that read the file of a program in another process, and that are refused when they would change it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Cli

LIVE = [sys.executable, "-m", "tests.embedded.live_program"]

READING = [
    ("workflow list", "approval-1"),
    ("workflow describe approval-1", '"status": "RUNNING"'),
    ("workflow events greet-1", "WorkflowCompleted"),
    ("workflow events greet-1 --follow", "WorkflowCompleted"),
    ("workflow children approval-1", "child-1"),
    ("workflow runs greet-1", "COMPLETED"),
    ("workflow state approval-1 stage", "waiting"),
    ("workflow result greet-1", "Hello Ada"),
    ("workflow wait greet-1", "COMPLETED"),
    ("schedule list", "nightly"),
    ("schedule describe nightly", "0 3 * * *"),
    ("namespace list", "main"),
    ("namespace describe main", '"total_workflows": 3'),
    ("queue stats", "["),
    ("worker list", "["),
]

CHANGING = [
    "workflow start --type Greet",
    "workflow signal approval-1 go",
    "workflow cancel approval-1",
    "workflow terminate approval-1",
    "workflow continue-as-new approval-1",
    "schedule pause nightly",
    "schedule delete nightly",
    "namespace create other",
    "namespace delete other",
]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(  # noqa: S603
        [*LIVE, str(tmp_path / "app.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.fixture
def looking(bare: Cli, program: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_ENGINE_URL", "sqlite://app.db")
    return bare


def test_a_file_in_use_is_read_and_not_changed(looking: Cli):
    for line, expected in READING:
        result = looking(*line.split())
        assert (result.code, result.err) == (0, ""), (line, result)
        assert expected in result.out, (line, result)
    for line in CHANGING:
        result = looking(*line.split())
        assert (result.code, result.out) == (1, ""), (line, result)
        assert "changes need the engine that uses it" in result.err, (line, result)
    assert looking("workflow", "wait", "approval-1", "--timeout", "1").code == 2


def test_a_killed_engine_loses_nothing_by_being_looked_at(looking: Cli, program: subprocess.Popen[str], tmp_path: Path):
    program.send_signal(signal.SIGKILL)
    program.wait()
    wal = (tmp_path / "app.db-wal").read_bytes()
    for _ in range(2):
        result = looking("workflow", "list", "--output", "json")
        assert result.code == 0
        assert result.err.startswith("no engine uses ")
        assert "assay serve --backend sqlite://app.db" in result.err
        assert {run["id"] for run in result.json} == {"greet-1", "approval-1", "child-1"}
    assert (tmp_path / "app.db-wal").read_bytes() == wal
    done = subprocess.run(  # noqa: S603
        [*LIVE, "app.db"], input="", cwd=tmp_path, env=with_tests(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "ready\n", done.stderr
    result = looking("workflow", "list", "--output", "json")
    assert {run["id"] for run in result.json} == {"greet-1", "approval-1", "child-1"}


def with_tests() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def test_a_file_that_is_not_there_is_not_made(bare: Cli, tmp_path: Path):
    before = set(tmp_path.iterdir())
    result = bare("--engine-url", f"sqlite://{tmp_path}/none.db", "workflow", "list")
    assert result.code == 1
    assert result.err == f"error: workflow list: there is no file {tmp_path}/none.db\n"
    assert set(tmp_path.iterdir()) == before


def test_another_schema_is_refused(bare: Cli, tmp_path: Path):
    (tmp_path / "other.db").write_bytes(b"")
    result = bare("--engine-url", f"sqlite://{tmp_path}/other.db", "workflow", "list")
    assert result.code == 1
    assert "cannot be read" in result.err
