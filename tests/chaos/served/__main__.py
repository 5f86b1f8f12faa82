"""Faults between processes that talk HTTP: `python -m tests.chaos.served engines --store sqlite`."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.chaos.__main__ import store_url
from tests.chaos.report import Report
from tests.chaos.served import kills, lost_answers, pauses, zombies

Run = Callable[[argparse.Namespace, str, Path], Report]


def _engines(chosen: argparse.Namespace, database: str, folder: Path) -> Report:
    return kills.run(
        kills.Assault("engine", chosen.store, database, folder, chosen.kills or 20, chosen.workflows, chosen.seed)
    )


def _workers(chosen: argparse.Namespace, database: str, folder: Path) -> Report:
    return kills.run(
        kills.Assault("worker", chosen.store, database, folder, chosen.kills or 50, chosen.workflows, chosen.seed, 4)
    )


def _zombies(chosen: argparse.Namespace, database: str, folder: Path) -> Report:
    return zombies.run(zombies.Night(chosen.store, database, folder, chosen.kills or 30))


def _answers(chosen: argparse.Namespace, database: str, folder: Path) -> Report:
    return lost_answers.run(
        lost_answers.Weather(chosen.store, database, folder, chosen.operations, chosen.seed, patience=600.0)
    )


def _pauses(chosen: argparse.Namespace, database: str, folder: Path) -> Report:
    return pauses.run(pauses.Stops(chosen.store, database, folder, chosen.kills or 10))


SCENARIOS: dict[str, Run] = {
    "engines": _engines,
    "workers": _workers,
    "zombies": _zombies,
    "answers": _answers,
    "pauses": _pauses,
}


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # so that no process is left behind, also when this runs in the background


def main() -> int:
    """Run one scenario; the exit code says whether anything was wrong."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.served", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--kills", type=int, help="unless told 20 engines, 50 workers, 30 zombies, 10 pauses")
    parser.add_argument("--workflows", type=int, default=1_000)
    parser.add_argument("--operations", type=int, default=2_000, help="of the proxy's victims")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep ledgers, logs and the SQLite file")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="assay-chaos-"))
    with store_url(chosen.store, folder) as database:
        found = SCENARIOS[chosen.scenario](chosen, database, folder)
    sys.stdout.write("\n".join([*found.sentences(), found.line(), ""]))
    if found.clean and not chosen.keep:
        shutil.rmtree(folder)
    else:
        sys.stdout.write(f"traces are in {folder}\n")
    return 0 if found.clean else 1


if __name__ == "__main__":
    sys.exit(main())
