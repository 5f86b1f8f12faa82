import pytest

from benchmarks.plan import INLINE, QUEUED, Case, at_least, at_most, embedded_cases, within
from benchmarks.server_plan import server_cases

REQUIRED_OF_THE_SERVER = {
    "W1 one activity": {"workflows_per_s": ("≥ 2x", "≥ 2x")},
    "W2 ten activities": {"activities_per_s": ("≥ 2.5x", "≥ 3x")},
    "W3 1,000 at once": {"activities_per_s": ("≥ 3x", None)},
    "W4 start to result": {"p50": ("≤ 0.5x", "≤ 0.5x")},
    "W5 signal to result": {"p50": ("≤ 0.5x", None)},
    "W6 K=100": {"ms_per_activity": ("≤ 0.8x", "≤ 0.5x")},
    "W6 K=1,000": {"ms_per_activity": ("≤ 0.8x", "≤ 0.5x")},
    "W6 K=10,000": {"ms_per_activity": ("≤ 0.8x", "≤ 0.5x")},
    "W7 1,000 timers, late": {"p99": ("≤ 50 ms", None)},
    "idle engine": {
        "rss_mb": ("≤ 100 MB", None),
        "cpu_percent": ("≤ 1 %", None),
        "written_bytes": ("≤ 0 bytes", None),
    },
}


def required(case: Case) -> dict[str, tuple[str | None, str | None]]:
    """What a case requires, by measure: queued, inline."""
    found = {}
    for measure in case.measures:
        if measure.required:
            queued, inline = (measure.required.get(style) for style in (QUEUED, INLINE))
            found[measure.key] = (queued and str(queued), inline and str(inline))
    return found


@pytest.mark.parametrize("quick", [True, False])
def test_the_server_has_to_reach_what_its_table_says(quick: bool):
    assert {case.name: required(case) for case in server_cases(quick=quick)} == REQUIRED_OF_THE_SERVER


@pytest.mark.parametrize("cases", [embedded_cases, server_cases])
def test_quick_is_the_same_but_smaller(cases):
    full, quick = cases(quick=False), cases(quick=True)
    assert [(case.name, case.workload, case.styles) for case in quick] == [
        (case.name, case.workload, case.styles) for case in full
    ]
    assert all(small.size[key] <= case.size[key] for small, case in zip(quick, full, strict=True) for key in case.size)


def test_what_is_required_of_a_style_is_measured_in_it():
    for case in [*embedded_cases(quick=False), *server_cases(quick=False)]:
        assert all(set(measure.required) <= set(case.styles) for measure in case.measures), case.name


def test_the_server_and_its_reference_do_the_same_work():
    assert all(case.reference_size == case.size for case in server_cases(quick=False))


def test_a_bound_holds_by_the_ratio_or_by_itself():
    assert at_least(2).holds(20, 10) is True
    assert at_least(2).holds(19, 10) is False
    assert at_most(0.5).holds(5, 10) is True
    assert at_most(0.5).holds(5, None) is None
    assert within(50, "ms").holds(50, None) is True
    assert within(0, "bytes").holds(1, 4096) is False
