from benchmarks.plan import INLINE, QUEUED, Case, Measure, at_least, at_most, growth, within
from benchmarks.rounds import REFERENCE, Repetition
from benchmarks.table import HEADINGS, Row, render, rows_of, rows_of_all

RATE = Case(
    "W1 one activity",
    "W1",
    (Measure("rate", "workflows/s", {QUEUED: at_least(2), INLINE: at_least(4)}), Measure("cpu_us", "CPU us")),
    {"n": 10},
    {"n": 10},
)


def repetitions_of(side: str, *rates: float, foreign_cores: float = 0.0) -> list[Repetition]:
    return [Repetition(RATE.name, side, {"rate": rate, "cpu_us": 7.0}, foreign_cores=foreign_cores) for rate in rates]


def by_style(rows: list[Row], unit: str) -> dict[str, Row]:
    return {row.style: row for row in rows if row.unit == unit}


def test_a_ratio_is_median_by_median():
    rows = rows_of(
        RATE,
        [*repetitions_of(QUEUED, 90, 300, 310), *repetitions_of(REFERENCE, 100, 90, 500), *repetitions_of(INLINE, 200)],
    )
    rates = by_style(rows, "workflows/s")
    assert (rates[QUEUED].ratio, rates[QUEUED].ok) == (3.0, True)
    assert (rates[INLINE].ratio, rates[INLINE].ok) == (2.0, False)
    assert rates[QUEUED].cells() == (
        *("W1 one activity", "queued", "workflows/s", "300 [90..310]", "100 [90..500]"),
        *("3x", "≥ 2x", "yes", ""),
    )


def test_nothing_is_required_of_cpu_time():
    rows = rows_of(RATE, [*repetitions_of(QUEUED, 1), *repetitions_of(REFERENCE, 1)])
    assert by_style(rows, "CPU us")[QUEUED].cells()[5:8] == ("1x", "", "-")


def test_without_a_reference_nothing_is_said_of_a_ratio():
    row = by_style(rows_of(RATE, repetitions_of(QUEUED, 300)), "workflows/s")[QUEUED]
    assert (row.ratio, row.ok, row.cells()[7]) == (None, None, "?")


def test_a_bound_of_its_own_needs_no_reference():
    idle = Case("idle engine", "idle", (Measure("written", "bytes", {QUEUED: within(0, "bytes")}),), {}, {}, (QUEUED,))
    (quiet,) = rows_of(idle, [Repetition(idle.name, QUEUED, {"written": 0.0})])
    (busy,) = rows_of(idle, [Repetition(idle.name, QUEUED, {"written": 4096.0})])
    assert (quiet.ok, busy.ok) == (True, False)


def test_failures_and_noise_are_shown():
    failed = Repetition(RATE.name, QUEUED, error="TimeoutError")
    row = rows_of(RATE, [failed, *repetitions_of(QUEUED, 3, foreign_cores=0.7), *repetitions_of(REFERENCE, 1)])[0]
    assert row.ours == [3]
    assert row.noise == "1 failed; 1/3 noisy, up to 0.7 cores"


def test_a_long_run_is_held_against_a_short_one():
    cases = [growth(k, 1, 1, {QUEUED: at_most(0.8)}) for k in (100, 10_000)]
    costs = {QUEUED: (1.0, 1.5), INLINE: (1.0, 1.1)}
    rows = rows_of_all(
        [
            (case, Repetition(case.name, style, {"ms_per_activity": costs[style][at]}))
            for at, case in enumerate(cases)
            for style in (QUEUED, INLINE)
        ]
    )
    assert {row.style: row.ok for row in rows if row.unit == "flatness"} == {QUEUED: False, INLINE: True}


def test_the_table_has_a_line_for_each_row():
    rows = rows_of_all(
        [(RATE, one) for one in (*repetitions_of(QUEUED, 3), *repetitions_of(REFERENCE, 1), *repetitions_of(INLINE, 3))]
    )
    heading, rule, *lines = render(rows).splitlines()
    assert tuple(heading.split()) == HEADINGS
    assert set(rule) == {"-", " "}
    assert len(lines) == 4
