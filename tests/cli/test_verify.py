import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from assay import App, Client, __version__
from assay.cli.main import FAILED, USAGE, run
from tests.temporary_postgres import create_database, shared_postgres


def app() -> App:
    made = App()

    @made.workflow
    async def Sum(ctx: Any, numbers: list[int]) -> int:
        await ctx.sleep(0.001)
        return await ctx.execute_activity(add, numbers)

    @made.activity
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    return made


async def lived(url: str) -> None:
    """A little life: runs that completed, one that waits, one that was cancelled."""
    async with await Client.connect(url, app=app()) as client:
        await asyncio.gather(*(client.run("Sum", [number, 1]) for number in range(5)))
        await client.start("Unserved", workflow_id="waits")
        await client.start("Unserved", workflow_id="cancelled")
        await client.cancel("cancelled")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "engine.db"
    asyncio.run(lived(f"sqlite://{path}"))
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.getbasetemp()
    with shared_postgres(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as dsn:
        yield dsn


def change(database: Path, statement: str) -> None:
    connection = apsw.Connection(str(database))
    connection.execute(statement)
    connection.close()


def test_a_sound_database_has_no_violations(database: Path, capsys: pytest.CaptureFixture[str]):
    before = hashlib.sha256(database.read_bytes()).digest()
    assert run(["verify", f"sqlite://{database}"]) == 0
    assert capsys.readouterr() == ("", "no violations\n")
    assert hashlib.sha256(database.read_bytes()).digest() == before


def test_it_works_beside_a_running_engine(database: Path):
    async def main() -> None:
        async with await Client.connect(str(database), app=app()) as client:
            await client.run("Sum", [1, 2])
            verifying = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "assay.cli.main", "verify", str(database), stdout=subprocess.PIPE
            )
            out, _ = await verifying.communicate()
            assert (verifying.returncode, out) == (0, b"")
            await client.run("Sum", [3, 4])

    asyncio.run(main())


def test_each_violation_is_a_line_of_json(database: Path, capsys: pytest.CaptureFixture[str]):
    change(database, "DELETE FROM events WHERE seq = 2")
    assert run(["verify", str(database)]) == FAILED
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert found
    assert all(set(violation) == {"invariant", "run_id", "message"} for violation in found)
    assert "I4" in {violation["invariant"] for violation in found}
    assert err == f"{len(found)} violations\n"


def test_a_terminal_gets_sentences_unless_it_wants_json(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    change(database, "DELETE FROM events WHERE seq = 2")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run(["verify", str(database)]) == FAILED
    assert all(line.startswith("I") for line in capsys.readouterr().out.splitlines())
    assert run(["verify", str(database), "--json"]) == FAILED
    assert all(json.loads(line) for line in capsys.readouterr().out.splitlines())


def test_postgres(server: str, capsys: pytest.CaptureFixture[str]):
    async def make() -> str:
        url = await create_database(server)
        await lived(url)
        return url

    assert run(["verify", asyncio.run(make())]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["verify", "missing.db"], FAILED, "there is no file"),
        (["verify", "ftp://user:secret@host/x"], FAILED, "neither sqlite nor postgres"),
        (["verify"], USAGE, "Missing argument"),
        (["verify", "x.db", "--loud"], USAGE, "No such option"),
        (["very"], USAGE, "No such command"),
    ],
)
def test_errors_are_sentences_and_codes(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert words in err
    assert "secret" not in out + err
    assert "Traceback" not in err


def test_version_and_help(capsys: pytest.CaptureFixture[str]):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"assay {__version__}\n"
    assert run(["verify", "-h"]) == 0
    assert "sqlite://app.db" in capsys.readouterr().out


def test_a_plain_call_stays_light():
    text = "import sys; from assay.cli.main import run; run(['--version']); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert not set(done.stdout.split()) & {"asyncio", "apsw", "asyncpg", "assay.engine", "assay.server.logs"}


def test_a_reader_that_goes_away_is_no_traceback(database: Path):
    change(database, "DELETE FROM events WHERE seq = 2")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "assay.cli.main", "verify", str(database)],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.returncode == FAILED
    assert "Traceback" not in done.stderr
