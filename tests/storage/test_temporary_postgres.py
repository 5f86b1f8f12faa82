"""A server for tests is gone afterwards, however the test ended."""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.storage.support import MEMORY
from tests.temporary_postgres import create_database, postgres_binaries, shared_postgres, temporary_postgres

OWNER = """
import sys
from tests.temporary_postgres import temporary_postgres
from tests.storage.support import MEMORY

with temporary_postgres(folder=MEMORY) as dsn:
    print(dsn, flush=True)
    sys.stdin.readline()
"""


def home(dsn: str) -> Path:
    return Path(parse_qs(urlsplit(dsn).query)["host"][0])


def postmaster(dsn: str) -> int:
    return int((home(dsn) / "data" / "postmaster.pid").read_text().splitlines()[0])


async def answer(dsn: str) -> int:
    connection = await asyncpg.connect(dsn)
    found = await connection.fetchval("SELECT 1")
    await connection.close()
    return int(found)


def test_it_serves_databases_and_leaves_nothing(runner: asyncio.Runner):
    with temporary_postgres(folder=MEMORY) as dsn:
        assert runner.run(answer(dsn)) == 1
        databases = [runner.run(create_database(dsn)) for _ in range(2)]
        assert [runner.run(answer(database)) for database in databases] == [1, 1]
        pid = postmaster(dsn)
    assert not home(dsn).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_it_dies_with_its_parent():
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:  # noqa: S603
        assert owner.stdout is not None
        dsn = owner.stdout.readline().strip()
        server = os.pidfd_open(postmaster(dsn))
        owner.send_signal(signal.SIGKILL)
    ended, _, _ = select.select([server], [], [], 30)
    os.close(server)
    shutil.rmtree(home(dsn))
    assert ended


def test_processes_that_meet_share_one(tmp_path: Path):
    with shared_postgres(tmp_path, folder=MEMORY) as first:
        with shared_postgres(tmp_path) as second:
            assert first == second
        assert home(first).exists()
    assert not home(first).exists()


def test_a_version_can_be_chosen():
    assert postgres_binaries().is_dir()
    with pytest.raises(Exception, match="no Postgres found"):
        postgres_binaries(version=1)
