"""What is measured of the server at which size, and what must be reached beside Restate."""

from __future__ import annotations

from benchmarks.plan import (
    CPU_UNIT,
    INLINE,
    QUEUED,
    Bound,
    Case,
    Measure,
    at_least,
    at_most,
    growth,
    milliseconds,
    within,
)

PROCESSES = ("engine", "worker", "client")


def server_cases(*, quick: bool) -> list[Case]:
    """W1 to W7 and the idle engine; both sides do the same number, as they are fast enough for it."""
    return [*_throughput(quick=quick), *_latencies(quick=quick), *_growth(quick=quick), *_waiting(quick=quick)]


def _rate(key: str, unit: str, required: dict[str, Bound]) -> tuple[Measure, ...]:
    each = (Measure(f"{name}_cpu_us", f"{CPU_UNIT}, {name}") for name in PROCESSES)
    return (Measure(key, unit, required), Measure("cpu_us", CPU_UNIT), *each)


def _case(name: str, measures: tuple[Measure, ...], size: dict[str, float], *styles: str) -> Case:
    return Case(name, name.split()[0], measures, size, size, styles or (QUEUED, INLINE))


def _throughput(*, quick: bool) -> list[Case]:
    part = 4 if quick else 1
    workflows = _rate("workflows_per_s", "workflows/s", {QUEUED: at_least(2), INLINE: at_least(2)})
    activities = _rate("activities_per_s", "activities/s", {QUEUED: at_least(2.5), INLINE: at_least(3)})
    wide = _rate("activities_per_s", "activities/s", {QUEUED: at_least(3)})
    return [
        _case("W1 one activity", workflows, {"n": 4_000 // part, "k": 1}),
        _case("W2 ten activities", activities, {"n": 1_200 // part, "k": 10}),
        _case("W3 1,000 at once", wide, {"k": 1_000, "times": 1 if quick else 3}),
    ]


def _latencies(*, quick: bool) -> list[Case]:
    part = 4 if quick else 1
    half = at_most(0.5)
    return [
        _case("W4 start to result", milliseconds({QUEUED: half, INLINE: half}), {"n": 400 // part}),
        _case("W5 signal to result", milliseconds({QUEUED: half}), {"n": 100 // part, "pause": 0.05}, QUEUED),
    ]


def _growth(*, quick: bool) -> list[Case]:
    required = {QUEUED: at_most(0.8), INLINE: at_most(0.5)}
    times = 1 if quick else 5
    return [
        growth(100, 2 * times, 2 * times, required),
        growth(1_000, 1 if quick else 3, 1 if quick else 3, required),
        growth(10_000, 1, 0 if quick else 1, required),
    ]


def _waiting(*, quick: bool) -> list[Case]:
    late = milliseconds({QUEUED: within(50, "ms")}, of="p99", keys="p50 p99 max")
    idle = (
        Measure("rss_mb", "RSS MB", {QUEUED: within(100, "MB")}),
        Measure("cpu_percent", "CPU %", {QUEUED: within(1, "%")}),
        Measure("written_bytes", "bytes written", {QUEUED: within(0, "bytes")}),
    )
    return [
        _case("W7 1,000 timers, late", late, {"n": 1_000, "secs": 2 if quick else 5}, QUEUED),
        _case("idle engine", idle, {"secs": 5 if quick else 20}, QUEUED),
    ]
