"""assay on Postgres against Absurd, both on one temporary server with its usual durability."""

from __future__ import annotations

import subprocess
from pathlib import Path

import asyncpg

from benchmarks.environments import environment
from benchmarks.matches import Measured, absurd_command, assay_command
from benchmarks.plan import Case
from benchmarks.process import running
from benchmarks.rounds import Rounds
from tests.temporary_postgres import create_database, temporary_postgres


async def measure_postgres(cases: list[Case], rounds: Rounds, folder: Path) -> Measured:
    """Every case with fresh processes and fresh databases on both sides."""
    absurd = environment("absurd")
    measured: Measured = []
    with temporary_postgres(folder=_open_to_all(folder)) as server:
        await _check_durability(server)
        for case in cases:
            theirs = await create_database(server)
            _create_tables(absurd / "absurdctl", theirs)
            async with (
                running("assay", assay_command(await create_database(server)), folder) as ours,
                running("absurd", absurd_command(theirs), folder) as reference,
            ):
                measured += [(case, one) for one in await rounds.run_rounds(case, ours, reference)]
    return measured


def _open_to_all(folder: Path) -> Path:
    """The server runs as another user when this is root."""
    folder.chmod(0o755)
    return folder


async def _check_durability(server: str) -> None:
    connection = await asyncpg.connect(server)
    try:
        for setting in ("fsync", "synchronous_commit"):
            value = await connection.fetchval("SELECT current_setting($1)", setting)
            assert value == "on", f"{setting} is {value}"
    finally:
        await connection.close()


def _create_tables(absurdctl: Path, dsn: str) -> None:
    for command in (["init", "-d", dsn], ["create-queue", "-d", dsn, "default"]):
        done = subprocess.run([absurdctl, *command], capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise SystemExit(f"absurdctl {command[0]} failed: {done.stdout}{done.stderr}")
