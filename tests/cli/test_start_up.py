"""A plain call is light: what it costs is mostly what it imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import SECONDS, Stub, plain_environment

HEAVY = {"asyncio", "msgspec", "yaml", "logging", "subprocess", "uvicorn", "uvloop", "apsw", "asyncpg", "dataclasses"}
PARTS = ("assay.api", "assay.engine", "assay.storage", "assay.embedded", "assay.server", "assay.wire")
PROGRAM = """
import sys
from assay.cli.main import run
code = run(sys.argv[1:])
print(code, *sys.modules, file=sys.stderr)
"""


def loaded(arguments: list[str], environment: dict[str, str]) -> set[str]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    return set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ["workflow", "list"],
        ["workflow", "list", "--output", "table"],
        ["workflow", "signal", "o", "go"],
        ["schedule", "list"],
        ["--version"],
        ["--help"],
        ["workflow", "--help"],
    ],
)
def test_a_plain_call_imports_little(stub: Stub, tmp_path: Path, arguments: list[str]):
    found = loaded(arguments, plain_environment(tmp_path, ASSAY_ENGINE_URL=stub.url))
    assert found & HEAVY == set()
    assert [name for name in found if name.startswith(PARTS)] == []


def test_help_of_the_program_imports_no_command(tmp_path: Path):
    found = loaded(["--help"], plain_environment(tmp_path))
    assert found & {"assay.cli.workflow", "assay.cli.serve", "http.client"} == set()
