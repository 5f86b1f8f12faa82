"""Many worlds, one after the other: `python -m assay.testing.simulation --seeds 1000`."""

import argparse
import contextlib
import sys
import time

from assay.testing.simulation.mutants import MUTANTS
from assay.testing.simulation.settings import settings_of
from assay.testing.simulation.world import Outcome, simulate


def main() -> int:
    """Run the seeds that were asked for; 1 if any of them breaks a rule."""
    wanted = _arguments()
    mutant = None if wanted.mutant is None else MUTANTS[wanted.mutant]
    seeds = range(wanted.start, wanted.start + wanted.seeds) if wanted.seed is None else [wanted.seed]
    began, broken, events = time.perf_counter(), 0, 0
    with contextlib.nullcontext() if mutant is None else mutant.planted():
        for seed in seeds:
            settings = settings_of(seed) if mutant is None else mutant.settings(seed)
            outcome = simulate(settings, tracing=wanted.trace)
            events += outcome.events
            broken += bool(outcome.violations)
            _show(outcome)
    taken = time.perf_counter() - began
    _say(f"seeds={len(seeds)} broken={broken} events={events} seeds_per_second={len(seeds) / taken:.1f}")
    return 1 if broken else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m assay.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--trace", action="store_true", help="show what happens")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), metavar="NAME", help="with this bug planted")
    return parser.parse_args()


def _show(outcome: Outcome) -> None:
    for line in outcome.trace:
        _say(line)
    for violation in outcome.violations:
        _say(f"seed {outcome.seed}: {violation}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
