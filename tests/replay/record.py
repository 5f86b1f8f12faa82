"""Keep the history of a program: `python -m tests.replay.record NAME...`; `--all` keeps those that are not kept yet.

A history that is there is never written again: it shows what a release of its time recorded.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from assay.testing.replay import fetch_history
from tests.replay.programs import COURSES, app
from tests.sdk.end_to_end import served

HISTORIES = Path(__file__).parent / "histories"


async def record(name: str, folder: Path) -> list[Path]:
    """Run a program on an engine of its own and write the histories of all runs of its id."""
    async with served(folder, app, clean=False, drain_seconds=0.2) as here:
        await asyncio.wait_for(COURSES[name](here), 30)
        runs = await here.client.list_runs(name)
        histories = [await fetch_history(here.client, name, run["run_id"]) for run in runs]
    written = []
    for number, history in enumerate(histories, 1):
        path = HISTORIES / (f"{name}.json" if len(histories) == 1 else f"{name}-{number}.json")
        path.write_bytes(_anonymous(history.dump()))
        written.append(path)
    return written


def _anonymous(raw: bytes) -> bytes:
    """Tracebacks without the paths of this machine."""
    for prefix in (Path(__file__).parents[2], Path(sys.base_prefix)):
        raw = raw.replace(f"{prefix}/".encode(), b"")
    return raw


def kept(name: str) -> bool:
    return any(HISTORIES.glob(f"{name}.json")) or any(HISTORIES.glob(f"{name}-[0-9].json"))


def main(arguments: list[str]) -> int:
    """Record what is asked for."""
    names = [name for name in COURSES if not kept(name)] if arguments == ["--all"] else arguments
    unknown = [name for name in names if name not in COURSES]
    if unknown or not names:
        known = ", ".join(COURSES)
        sys.stderr.write(f"usage: python -m tests.replay.record NAME...\nprograms: {known}\n")
        return 2
    for name in names:
        if kept(name):
            sys.stderr.write(f"{name} is kept already\n")
            return 1
        with tempfile.TemporaryDirectory() as folder:
            for path in asyncio.run(record(name, Path(folder))):
                sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
