"""Counters and histograms of commits and responses, for Prometheus; the set of labels is bounded."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

from assay.core.model.ids import SECOND
from assay.engine.commit.committer import Committed

LATENCIES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """A histogram: how many values fell into each bucket, and the sum of all values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Count several values."""
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)


class Telemetry:
    """Counts commits and responses."""

    def __init__(self) -> None:
        self.starts = 0
        self.closes: Counter[str] = Counter()
        self.events = 0
        self.expired = 0
        self.attempts: Counter[str] = Counter()
        self.answers: Counter[tuple[str, int]] = Counter()
        self.batch_size = Histogram(SIZES)
        self.commit_seconds = Histogram(LATENCIES)
        self.task_wait = Histogram(LATENCIES)
        self.activity_wait = Histogram(LATENCIES)

    def committed(self, committed: Committed) -> None:
        """Count a batch that is durable now."""
        tally = committed.tally
        self.batch_size.observe(tally.requests)
        self.commit_seconds.observe(tally.seconds)
        self.expired += len(tally.expired)
        self.starts += len(committed.new_runs)
        self.events += sum([len(events) for _, events in committed.events])
        for run, _ in committed.ended:
            self.closes[run.status] += 1
        if tally.task_waits:
            self.task_wait.observe_all([wait / SECOND for wait in tally.task_waits])
        if tally.activity_waits:
            self.activity_wait.observe_all([wait / SECOND for wait in tally.activity_waits])
        for end in committed.attempts:
            self.attempts[end.outcome] += 1

    def answered(self, operation: str, status: int) -> None:
        """Count a response."""
        self.answers[operation, status] += 1
