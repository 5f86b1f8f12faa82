"""Many seeds in a row, and what to say about them."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from simulation.mutants import MUTANTS, Mutant
from simulation.settings import Settings, settings_of
from simulation.world import Outcome, simulate

GUARDED = 50
"""Every so many seeds, one is lived through twice: both lives must be the same to the byte."""


class Report(msgspec.Struct):
    """The sum of a campaign."""

    seeds: int = 0
    failed: int = 0
    repeated: int = 0
    runs: int = 0
    events: int = 0
    commits: int = 0
    boots: int = 0
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one seed."""
        self.seeds += 1
        self.failed += bool(outcome.violations)
        self.runs += outcome.runs
        self.events += outcome.events
        self.commits += outcome.commits
        self.boots += outcome.boots
        self.virtual_seconds += outcome.seconds

    def line(self) -> str:
        """One line for people and for logs."""
        rate = self.seeds / self.real_seconds if self.real_seconds else 0.0
        return (
            f"simulation: seeds={self.seeds} failed={self.failed} repeated={self.repeated} runs={self.runs}"
            f" events={self.events} commits={self.commits} boots={self.boots}"
            f" virtual={self.virtual_seconds:.0f}s real={self.real_seconds:.1f}s seeds/s={rate:.1f}"
        )


def live(settings: Settings) -> Outcome:
    """A seed, and every so often the same seed again."""
    outcome = simulate(settings)
    if settings.seed % GUARDED == 0 and not outcome.violations:
        again = simulate(settings)
        if again.digest != outcome.digest:
            return msgspec.structs.replace(outcome, violations=("determinism: two lives of one seed differ",))
    return outcome


def live_seed(seed: int) -> Outcome:
    """A seed as it comes."""
    return live(settings_of(seed))


def outcomes(seeds: Iterable[int], jobs: int = 1) -> Iterator[Outcome]:
    """Every seed's outcome, in order."""
    if jobs <= 1:
        yield from map(live_seed, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork")) as pool:
        yield from pool.map(live_seed, seeds, chunksize=10)


def hunt(mutant: Mutant, start: int = 0, seeds: int | None = None) -> Outcome | None:
    """The first seed that finds a planted bug, or None if none of them does."""
    with mutant.planted():
        for seed in range(start, start + (mutant.seeds if seeds is None else seeds)):
            outcome = simulate(mutant.settings(seed))
            if outcome.violations:
                return outcome
    return None


def clock() -> float:
    """Real seconds, for figures only."""
    return time.perf_counter()


__all__ = ["MUTANTS", "Report", "clock", "hunt", "live", "live_seed", "outcomes"]
