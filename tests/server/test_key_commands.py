"""Keys without a running engine: `assay serve --generate-api-key` and `--list-api-keys`."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import asyncpg
import pytest

from tests.api.support import serving
from tests.temporary_postgres import create_database, shared_postgres

SECONDS = 60
KEY = re.compile(r"assay_[0-9a-f]{64}\n")


def run(folder: Path, *flags: str, backend: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "assay", "serve", *flags, "--backend", backend]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "DATABASE_"))}
    return subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False, env=plain
    )


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/keys.db"
        return
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield asyncio.run(create_database(dsn))


def execute(backend: str, statement: str) -> None:
    if backend.startswith("sqlite"):
        with apsw.Connection(backend.removeprefix("sqlite://")) as connection:
            connection.execute(statement)
        return

    async def act() -> None:
        connection = await asyncpg.connect(backend)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(act())


def test_keys_before_and_beside_an_engine(backend: str, tmp_path: Path):
    none = run(tmp_path, "--list-api-keys", backend=backend)
    assert (none.returncode, none.stdout) == (0, "No API keys configured.\n")
    # The other flags of authentication are ignored, also if they do not fit together.
    first = run(tmp_path, "--generate-api-key", "--auth-audience", "x", backend=backend)
    assert first.returncode == 0, first.stderr
    assert KEY.fullmatch(first.stdout)
    assert first.stderr
    assert first.stdout.strip() not in first.stderr
    with serving(tmp_path, "--auth-api-key", "--backend", backend) as server:
        http = server.http()
        assert http.get("/session").json()["sign_in"]["bootstrap"] is False
        assert http.post("/api-keys", {}).status == 401
        second = run(tmp_path, "--generate-api-key", "--label", "second", backend=backend)
        assert second.returncode == 0, second.stderr
        for made in (first, second):
            session = http.get("/session", Authorization=f"Bearer {made.stdout.strip()}").json()
            assert session["roles"] == {"*": "admin"}
        listed = run(tmp_path, "--list-api-keys", backend=backend)
        assert listed.returncode == 0
        shown = [f"  {made.stdout[:14]}... {label}" for made, label in ((second, "second"), (first, "generated"))]
        assert listed.stdout.splitlines() == shown


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM schema_versions WHERE version = (SELECT max(version) FROM schema_versions)",
        "INSERT INTO schema_versions SELECT 9999, 9999, 9999, applied_at, checksum FROM schema_versions LIMIT 1",
    ],
    ids=["older", "newer"],
)
def test_a_database_of_another_version_is_refused(backend: str, tmp_path: Path, change: str):
    assert run(tmp_path, "--generate-api-key", backend=backend).returncode == 0
    execute(backend, change)
    for flag in ("--generate-api-key", "--list-api-keys"):
        refused = run(tmp_path, flag, backend=backend)
        assert refused.returncode == 1
        assert "assay migrate" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert refused.stdout == ""


def test_a_file_of_another_program_is_refused_in_words(tmp_path: Path):
    file = tmp_path / "other.db"
    with apsw.Connection(str(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
    refused = run(tmp_path, "--generate-api-key", backend=f"sqlite://{file}")
    assert refused.returncode == 1
    assert "another program" in refused.stderr
    assert "Traceback" not in refused.stderr
