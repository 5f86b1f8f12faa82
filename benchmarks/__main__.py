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
from benchmarks.matches import EMBEDDED, SERVER, Measured
from benchmarks.parked import measure_parked
from benchmarks.plan import Case
from benchmarks.profiling import profile
from benchmarks.rounds import Rounds
from benchmarks.server_plan import server_cases
from benchmarks.table import render, rows_of_all


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and two repetitions: under two minutes")
    parser.add_argument(
        "--only", metavar="W1,W2", default="", help="only these workloads; `idle` is one of the server's"
    )
    parser.add_argument("--reps", type=int, help="repetitions of each (3; with --quick 2)")
    parser.add_argument("--server", action="store_true", help="engine, worker and client apart, against Restate")
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
    return [case for case in cases if not wanted or case.workload.upper() in wanted]


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
        return await measure(options, rounds_of(options), folder)


async def measure(options: argparse.Namespace, rounds: Rounds, folder: Path) -> int:
    """The table that is asked for; 1 if a requirement is missed."""
    if options.postgres:
        from benchmarks.postgres import measure_postgres  # only this needs the project's Postgres

        cases = chosen(plan.postgres_cases(quick=options.quick), options.only)
        return report(await measure_postgres(cases, rounds, folder), options, "embedded on Postgres", "absurd")
    match, of_match = (SERVER, server_cases) if options.server else (EMBEDDED, plan.embedded_cases)
    cases = chosen(of_match(quick=options.quick), options.only)
    return report(await match.run_rounds(cases, rounds, folder), options, match.title, match.reference)


def report(measured: Measured, options: argparse.Namespace, title: str, reference: str) -> int:
    """Print the table, keep the repetitions if asked to; 1 if a requirement is missed."""
    rows, compared = rows_of_all(measured), environments.versions(reference)
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    print(f"\n{title}; {machine}; medians [min..max]\nreference: {compared}\n\n{render(rows)}\n")
    if options.json is not None:
        kept = {
            "title": title,
            "machine": machine,
            "reference": compared,
            "rows": [row.record() for row in rows],
            "repetitions": [{**asdict(one), "size": case.size} for case, one in measured],
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
