"""Kills processes that run workflows, and proves that nothing is lost: `python -m tests.chaos --store sqlite`."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos import report
from tests.chaos.lives import Scenario
from tests.temporary_postgres import temporary_postgres


@contextmanager
def store_url(store: str, folder: Path) -> Iterator[str]:
    """A fresh database for the time of the block."""
    if store == "sqlite":
        yield f"sqlite://{folder / 'chaos.db'}"
    else:
        with temporary_postgres() as dsn:
            yield dsn


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt  # so that no process is left behind, also when this runs in the background


def main() -> int:
    """Run one scenario; the exit code says whether anything was wrong."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workflows", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep ledgers, logs and the SQLite file")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="assay-chaos-"))
    processes = 1 if chosen.store == "sqlite" else 2
    with store_url(chosen.store, folder) as url:
        found = report.run(Scenario(chosen.store, url, folder, chosen.kills, chosen.workflows, chosen.seed, processes))
    sys.stdout.write("\n".join([*found.sentences(), found.line(), ""]))
    if found.clean and not chosen.keep:
        _remove(folder)
    else:
        sys.stdout.write(f"traces are in {folder}\n")
    return 0 if found.clean else 1


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


if __name__ == "__main__":
    sys.exit(main())
