"""The long run: `python -m simulation --seeds 1000 [--start N] [--jobs 2] [--mutant NAME] [--seed N]`."""

import argparse
import sys

from simulation.campaign import Report, clock, hunt, outcomes
from simulation.mutants import MUTANTS, SINGLE_CONDITIONS, Mutant
from simulation.settings import Settings, settings_of
from simulation.world import World


def main() -> int:
    """Do what the command line asks for; 1 if anything was found that should not be, or was not that should."""
    options = _arguments()
    if options.seed is not None:
        return _one(options.seed, options.mutant, tracing=options.trace)
    if options.mutants or options.mutant is not None:
        return _hunt([options.mutant] if options.mutant is not None else list(MUTANTS), options.start)
    return _campaign(options.start, options.seeds, options.jobs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many worlds to live through")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--trace", action="store_true", help="everything that happens in it")
    parser.add_argument("--mutant", choices=sorted(_known()), metavar="NAME", help="with a planted bug")
    parser.add_argument("--mutants", action="store_true", help="hunt every planted bug")
    return parser.parse_args()


def _known() -> dict[str, Mutant]:
    return {**MUTANTS, **{mutant.name: mutant for mutant in SINGLE_CONDITIONS}}


def _campaign(start: int, seeds: int, jobs: int) -> int:
    report, began = Report(), clock()
    for outcome in outcomes(range(start, start + seeds), jobs):
        report.add(outcome)
        if outcome.violations:
            _print(f"seed {outcome.seed}: {'; '.join(outcome.violations[:3])}")
    report.real_seconds = clock() - began
    _print(report.line())
    return 1 if report.failed else 0


def _hunt(names: list[str], start: int) -> int:
    survivors = 0
    for name in names:
        began = clock()
        found = hunt(_known()[name], start)
        survivors += found is None
        taken = f"{clock() - began:.1f} s"
        fate = f"SURVIVED {taken}" if found is None else f"seed {found.seed} after {taken}: {found.violations[0]}"
        _print(f"{name} ({_known()[name].rule}): {fate[:160]}")
    _print(f"simulation: mutants={len(names)} survived={survivors}")
    return 1 if survivors else 0


def _one(seed: int, mutant: str | None, *, tracing: bool) -> int:
    if mutant is None:
        return _live(settings_of(seed), tracing=tracing)
    with _known()[mutant].planted():
        return _live(_known()[mutant].settings(seed), tracing=tracing)


def _live(settings: Settings, *, tracing: bool) -> int:
    outcome = World(settings, tracing=tracing).live()
    for line in (str(settings), *outcome.trace, *outcome.violations):
        _print(line)
    _print(
        f"seed {settings.seed}: {outcome.seconds:.1f} virtual seconds, {outcome.steps} steps, digest {outcome.digest}"
    )
    return 1 if outcome.violations else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
