"""Strict mode refuses clocks and random sources in workflow code, and nowhere else."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay import App, Client, Worker

PROGRAM = Path(__file__).with_name("strict_program.py")
ALLOWED = {"logging", "seeded"}


def test_clocks_and_random_sources_raise_in_workflow_code_of_a_strict_worker(tmp_path: Path):
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, PROGRAM, f"sqlite://{tmp_path}/app.db"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (strict, blocking), (lenient, lenient_blocking) = json.loads(done.stdout)
    assert {name for name, found in strict.items() if found == "called"} == ALLOWED
    assert strict["ctx"] is lenient["ctx"] is True
    assert strict["time.time"] == (
        "workflow code called time.time, which returns another value on every replay: use ctx.now(), or"
        " ctx.side_effect, whose value is recorded"
    )
    for name in ("random.randint", "uuid.uuid4", "os.urandom", "secrets.token_hex"):
        assert f"workflow code called {name}, " in strict[name]
    assert "time.time" in blocking
    assert {found for name, found in lenient.items() if name != "ctx"} == {"called"}
    assert float(lenient_blocking) > 0


def test_strict_is_a_flag(tmp_path: Path):
    async def scenario() -> None:
        async with await Client.connect(f"sqlite://{tmp_path}/app.db", app=App()) as client:
            with pytest.raises(assay.Invalid, match="strict must be True or False"):
                Worker(client, strict="yes")  # type: ignore[arg-type]

    asyncio.run(scenario())
