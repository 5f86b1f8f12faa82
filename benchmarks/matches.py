"""Who is measured against whom: the commands that start the contestants."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environments import environment, restate_server
from benchmarks.plan import Case
from benchmarks.process import running
from benchmarks.rounds import Repetition, Rounds

Measured = list[tuple[Case, Repetition]]


@dataclass(frozen=True)
class Match:
    """assay in one of its forms, and its reference; a command is made for a case and an empty folder."""

    title: str
    reference: str
    ours: Callable[[Case, Path], list[str]]
    theirs: Callable[[Case, Path], list[str]]

    async def run_rounds(self, cases: list[Case], rounds: Rounds, folder: Path) -> Measured:
        """Every case with fresh processes and fresh files on both sides."""
        measured: Measured = []
        for case in cases:
            with tempfile.TemporaryDirectory(dir=folder) as name:
                place = Path(name)
                async with (
                    running("assay", self.ours(case, place), place) as ours,
                    running(self.reference, self.theirs(case, place), place) as reference,
                ):
                    measured += [(case, one) for one in await rounds.run_rounds(case, ours, reference)]
        return measured


def assay_command(url: str) -> list[str]:
    """assay embedded on a database."""
    return [sys.executable, "-m", "benchmarks.contestants.assay_embedded", url]


def absurd_command(dsn: str) -> list[str]:
    """Absurd on a Postgres database that has its tables."""
    return [str(environment("absurd") / "python"), "-m", "benchmarks.contestants.absurd_postgres", "client", dsn]


def _dbos(case: Case, folder: Path) -> list[str]:
    python = str(environment("dbos") / "python")
    return [python, "-m", "benchmarks.contestants.dbos_sqlite", str(folder), str(case.reference_poll)]


def assay_server_command(folder: Path) -> list[str]:
    """assay as engine, worker and client, on a SQLite file in a folder."""
    return [sys.executable, "-m", "benchmarks.contestants.assay_http", str(folder)]


def _restate(folder: Path) -> list[str]:
    python, server = str(environment("restate") / "python"), str(restate_server())
    return [python, "-m", "benchmarks.contestants.restate_http", server, str(folder)]


EMBEDDED = Match(
    title="embedded on SQLite",
    reference="dbos",
    ours=lambda _, place: assay_command(f"sqlite://{place}/assay.db"),
    theirs=_dbos,
)
SERVER = Match(
    title="engine, worker and client as three processes, SQLite",
    reference="restate",
    ours=lambda _, place: assay_server_command(place),
    theirs=lambda _, place: _restate(place),
)
