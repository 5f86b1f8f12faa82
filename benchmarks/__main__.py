"""`python -m benchmarks`: sets up what it needs, measures, prints one table; fails when a requirement is missed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import environments, plan
from benchmarks.parked import measure_parked
from benchmarks.plan import Case
from benchmarks.process import assay_command, dbos_command, running
from benchmarks.profiling import profile
from benchmarks.rounds import Repetition, Rounds
from benchmarks.table import Row, flatness_rows, render, rows_of


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and two repetitions: under two minutes")
    parser.add_argument("--only", metavar="W1,W2", default="", help="only these workloads")
    parser.add_argument("--reps", type=int, help="repetitions of each (3; with --quick 2)")
    parser.add_argument("--postgres", action="store_true", help="W1 and W2 on Postgres, against Absurd")
    parser.add_argument("--memory", action="store_true", help="100,000 parked workflows")
    parser.add_argument("--profile", metavar="W1", help="print where assay's time goes in a workload")
    parser.add_argument("--style", choices=[plan.QUEUED, plan.INLINE], default=plan.QUEUED, help="of the profile")
    parser.add_argument(
        "--patience", type=float, help="seconds to wait for a quiet machine each time (5; with --quick 1)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every repetition in a file")
    return parser.parse_args()


def rounds_of(options: argparse.Namespace) -> Rounds:
    """How often and how patiently, from the command line or by default."""
    repetitions = options.reps or (2 if options.quick else 3)
    return Rounds(repetitions, options.patience if options.patience is not None else 1 if options.quick else 5)


def chosen(cases: list[Case], only: str) -> list[Case]:
    """The cases of the named workloads, or all."""
    wanted = {name.strip().upper() for name in only.split(",") if name.strip()}
    return [case for case in cases if not wanted or case.workload in wanted]


async def measure_embedded(options: argparse.Namespace, rounds: Rounds, folder: Path) -> list[tuple[Case, Repetition]]:
    """Every case with fresh processes and fresh files on both sides."""
    played: list[tuple[Case, Repetition]] = []
    for case in chosen(plan.embedded_cases(quick=options.quick), options.only):
        place = Path(tempfile.mkdtemp(dir=folder))
        async with (
            running("assay", assay_command(f"sqlite://{place}/assay.db"), place) as ours,
            running("dbos", dbos_command(place, case.reference_poll), place) as reference,
        ):
            played += [(case, one) for one in await rounds.play(case, ours, reference)]
    return played


def rows_of_all(played: list[tuple[Case, Repetition]]) -> list[Row]:
    """The rows of the table, case by case."""
    cases = {case.name: case for case, _ in played}
    rows = [
        row for name, case in cases.items() for row in rows_of(case, [one for at, one in played if at.name == name])
    ]
    return rows + flatness_rows(rows)


async def main(options: argparse.Namespace) -> int:
    """Do what the command line says; 1 if a requirement is missed."""
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir=_scratch()) as name:
        folder = Path(name)
        if options.profile:
            (case, *_) = chosen(plan.embedded_cases(quick=options.quick), options.profile)
            print(await profile(case, options.style, folder))
            return 0
        if options.memory:
            return await measure_parked(folder, plan.PARKED // (10 if options.quick else 1))
        rounds = rounds_of(options)
        if options.postgres:
            from benchmarks.postgres import measure_postgres  # only this needs the project's Postgres

            cases = chosen(plan.postgres_cases(quick=options.quick), options.only)
            return report(await measure_postgres(cases, rounds, folder), options, "absurd")
        return report(await measure_embedded(options, rounds, folder), options, "dbos")


def report(played: list[tuple[Case, Repetition]], options: argparse.Namespace, reference: str) -> int:
    """Print the table, keep the repetitions if asked to; 1 if a requirement is missed."""
    rows = rows_of_all(played)
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    print(f"\n{machine}; reference: {environments.versions(reference)}; medians [min..max]\n\n{render(rows)}\n")
    if options.json is not None:
        kept = {
            "machine": machine,
            "rows": [row.record() for row in rows],
            "repetitions": [{**asdict(one), "size": case.size} for case, one in played],
        }
        options.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    missed = [row for row in rows if row.ok is False]
    print(f"{len(missed)} requirements missed" if missed else "every requirement that could be compared is met")
    return 1 if missed else 0


def _scratch() -> str:
    """Where databases go: on the disk of the project, since a temporary folder may be memory, where fsync is free."""
    environments.HOME.mkdir(exist_ok=True)
    return str(environments.HOME)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
