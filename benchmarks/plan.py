"""What is measured at which size, and what must be reached: the tables of `docs/explanation/benchmarks.md`, as data.

The server's is in `server_plan.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

QUEUED, INLINE = "queued", "inline"
CPU_UNIT = "CPU us/activity"
"""Of all processes of the contestant. It says less than a rate, but others on the machine disturb it far less."""


@dataclass(frozen=True)
class Bound:
    """What a measure must reach: against the reference, or by itself."""

    limit: float
    at_least: bool = False
    of_reference: bool = True
    unit: str = ""

    def holds(self, ours: float, reference: float | None) -> bool | None:
        """Is it reached? None when there is nothing to compare with."""
        if self.of_reference:
            if not reference:
                return None
            ours = ours / reference
        return ours >= self.limit if self.at_least else ours <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.limit:.3g}" + ("x" if self.of_reference else self.unit)


def at_least(ratio: float) -> Bound:
    """Our number divided by the reference's is at least this."""
    return Bound(ratio, at_least=True)


def at_most(ratio: float) -> Bound:
    """Our number divided by the reference's is at most this."""
    return Bound(ratio)


@dataclass(frozen=True)
class Measure:
    """One row of the table per style: which measure, and what is required of it by style."""

    key: str
    unit: str
    required: dict[str, Bound] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A workload at one size; `size` is ours, `reference_size` the reference's, None to leave it out."""

    name: str
    workload: str
    measures: tuple[Measure, ...]
    size: dict[str, Any]
    reference_size: dict[str, Any] | None
    styles: tuple[str, ...] = (QUEUED, INLINE)
    reference_poll: float = 1.0
    """Seconds between the reference's looks for messages; its default, except where the workload depends on it."""


def within(limit: float, unit: str) -> Bound:
    """Our number is at most this, whatever the reference's is."""
    return Bound(limit, of_reference=False, unit=f" {unit}")


def milliseconds(
    required: dict[str, Bound] | None = None, *, of: str = "p50", keys: str = "p50 p95 p99"
) -> tuple[Measure, ...]:
    """A row for each percentile; something may be required of one of them."""
    return tuple(Measure(key, "ms", (required or {}) if key == of else {}) for key in keys.split())


def growth(k: int, times: int, reference_times: int, required: dict[str, Bound]) -> Case:
    """W6 at one length; without the reference if it is to run no times."""
    return Case(
        f"W6 K={k:,}",
        "W6",
        (Measure("ms_per_activity", "ms/activity", required),),
        {"k": k, "times": times},
        {"k": k, "times": reference_times} if reference_times else None,
    )


def embedded_cases(*, quick: bool) -> list[Case]:
    """W1 to W7 against DBOS on SQLite; a reference's n is never so small that 64 are not in flight most of the time.

    Both sides of a throughput take about as long: a machine that is faster and slower by turns then is so for both.
    """
    part = 4 if quick else 1
    secs = 2 if quick else 5
    per_activity = {QUEUED: at_most(1 / 3), INLINE: at_most(1 / 4)}
    return [
        Case(
            "W1 one activity",
            "W1",
            (
                Measure("workflows_per_s", "workflows/s", {QUEUED: at_least(25), INLINE: at_least(30)}),
                Measure("cpu_us", CPU_UNIT),
            ),
            {"n": 20_000 // part, "k": 1},
            {"n": 256 if quick else 600, "k": 1},
        ),
        Case(
            "W2 ten activities",
            "W2",
            (
                Measure("activities_per_s", "activities/s", {QUEUED: at_least(30), INLINE: at_least(40)}),
                Measure("cpu_us", CPU_UNIT),
            ),
            {"n": 6_000 // part, "k": 10},
            {"n": 128 if quick else 192, "k": 10},
        ),
        Case(
            "W3 1,000 at once",
            "W3",
            (Measure("activities_per_s", "activities/s", {QUEUED: at_least(20)}), Measure("cpu_us", CPU_UNIT)),
            {"k": 1_000, "times": 5 if quick else 20},  # about as long as the reference needs for one
            {"k": 1_000, "times": 1},
        ),
        Case(
            "W4 start to result",
            "W4",
            milliseconds({QUEUED: at_most(1 / 4), INLINE: at_most(1 / 4)}),
            {"n": 400 // part},
            {"n": 200 // part},
        ),
        Case(
            "W5 signal to result",
            "W5",
            milliseconds(),
            {"n": 80 // part, "pause": 0.02},
            {"n": 80 // part, "pause": 0.05},
            (QUEUED,),
            reference_poll=0.01,
        ),
        growth(100, 10 // part, 3 // min(part, 3), per_activity),
        growth(1_000, 3 // min(part, 3), 1, per_activity),
        growth(10_000, 1, 0 if quick else 1, per_activity),
        Case(
            "W7 1,000 timers, late",
            "W7",
            milliseconds({QUEUED: within(50, "ms")}, of="p99", keys="p50 p99 max"),
            {"n": 1_000, "secs": secs},
            {"n": 1_000 // part, "secs": secs},
            (QUEUED,),
        ),
    ]


FLATNESS = Bound(1.3, of_reference=False)
FLAT_CASES = ("W6 K=10,000", "W6 K=100")


def postgres_cases(*, quick: bool) -> list[Case]:
    """W1 and W2 against Absurd on Postgres."""
    part = 4 if quick else 1
    return [
        Case(
            "W1 one activity",
            "W1",
            (Measure("workflows_per_s", "workflows/s", {QUEUED: at_least(2), INLINE: at_least(2)}),),
            {"n": 3_000 // part, "k": 1},
            {"n": 400 if quick else 1_600, "k": 1},
        ),
        Case(
            "W2 ten activities",
            "W2",
            (Measure("activities_per_s", "activities/s", {QUEUED: at_least(4), INLINE: at_least(4)}),),
            {"n": 600 // part, "k": 10},
            {"n": 128 if quick else 256, "k": 10},
        ),
    ]


PARKED = 100_000
PARKED_MEGABYTES = 400
