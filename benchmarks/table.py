"""The one table: what was measured, against what is required."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from benchmarks.plan import FLAT_CASES, FLATNESS, Bound, Case
from benchmarks.rounds import REFERENCE, Repetition

HEADINGS = ("workload", "style", "measure", "assay", "reference", "ratio", "required", "ok?", "noise")


@dataclass(frozen=True)
class Row:
    """One measure of one workload in one style: medians, and their spread."""

    workload: str
    style: str
    unit: str
    ours: list[float]
    reference: list[float]
    required: Bound | None
    noise: str

    @property
    def ok(self) -> bool | None:
        """Is what is required reached? None where nothing is required or nothing could be compared."""
        if self.required is None or not self.ours:
            return None
        return self.required.holds(_median(self.ours), _median(self.reference) if self.reference else None)

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference's."""
        if not self.ours or not self.reference or not _median(self.reference):
            return None
        return _median(self.ours) / _median(self.reference)

    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}x"
        required = "" if self.required is None else str(self.required)
        verdict = {True: "yes", False: "NO", None: "-" if self.required is None else "?"}[self.ok]
        ours, reference = _spread(self.ours), _spread(self.reference)
        return self.workload, self.style, self.unit, ours, reference, ratio, required, verdict, self.noise

    def record(self) -> dict[str, object]:
        """As the JSON file keeps it."""
        return {**asdict(self), "required": self.required and str(self.required), "ratio": self.ratio, "ok": self.ok}


def rows_of_all(measured: Sequence[tuple[Case, Repetition]]) -> list[Row]:
    """The rows of the table, case by case."""
    cases = {case.name: case for case, _ in measured}
    rows = [
        row for name, case in cases.items() for row in rows_of(case, [one for at, one in measured if at.name == name])
    ]
    return rows + flatness_rows(rows)


def rows_of(case: Case, measured: Sequence[Repetition]) -> list[Row]:
    """The rows of one case."""
    reference = [one for one in measured if one.side == REFERENCE]
    found = []
    for style in case.styles:
        ours = [one for one in measured if one.side == style]
        for measure in case.measures:
            unit = measure.unit if measure.unit != "ms" else f"{measure.key} ms"
            key, required = measure.key, measure.required.get(style)
            noise = _noise([*ours, *reference])
            found.append(Row(case.name, style, unit, _values(ours, key), _values(reference, key), required, noise))
    return found


def flatness_rows(rows: Iterable[Row]) -> list[Row]:
    """How much more an activity costs in a long run than in a short one."""
    by_name = {(row.workload, row.style): row for row in rows}
    found = []
    for style in ("queued", "inline"):
        long, short = (by_name.get((name, style)) for name in FLAT_CASES)
        if long is not None and short is not None and long.ours and short.ours:
            ours, theirs = _quotient(long.ours, short.ours), _quotient(long.reference, short.reference)
            found.append(Row("W6 10,000 / 100", style, "flatness", ours, theirs, FLATNESS, long.noise))
    return found


def _quotient(long: list[float], short: list[float]) -> list[float]:
    return [_median(long) / _median(short)] if long and short else []


def render(rows: Sequence[Row]) -> str:
    """The table as text."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    right = {3, 4, 5}
    shown = [
        "  ".join(cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in enumerate(pairs))
        for pairs in (zip(line, widths, strict=True) for line in lines)
    ]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in shown)


def _values(measured: Iterable[Repetition], key: str) -> list[float]:
    return [one.measures[key] for one in measured if key in one.measures]


def _noise(measured: Sequence[Repetition]) -> str:
    failed = sum(one.error is not None for one in measured)
    noisy = [one.foreign_cores for one in measured if one.noisy]
    parts = [f"{failed} failed"] if failed else []
    if noisy:
        parts.append(f"{len(noisy)}/{len(measured)} noisy, up to {max(noisy):.1f} cores")
    return "; ".join(parts)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return _number(values[0])
    return f"{_number(_median(values))} [{_number(min(values))}..{_number(max(values))}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
