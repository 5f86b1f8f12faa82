"""What an open run waits for: the corpus of cases, and the waits that a run keeps."""

from typing import Any

import msgspec
import pytest

from assay.core.model.commands import WaitForSignal
from assay.core.model.explanation import ATTENTIONS, KINDS
from assay.core.model.ids import SECOND
from assay.core.model.spans import ahead, clock_time, span
from assay.core.rules.waiting import waiting_on
from assay.wire.waits import waiting_record
from tests.core.waiting_cases import cases, facts_of, micro, run_of

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]):
    found = waiting_on(run_of(case["run"], case["now"]), facts_of(case["facts"]), micro(case["now"]) or 0)
    assert (None if found is None else msgspec.to_builtins(waiting_record(found))) == case["expected"]


def test_the_corpus_has_every_kind():
    assert {wait["kind"] for case in CASES if case["expected"] for wait in case["expected"]["waits"]} == set(KINDS)


@pytest.mark.parametrize("case", [case for case in CASES if case["expected"]], ids=lambda case: case["name"])
def test_the_most_telling_wait_comes_first_and_the_worst_one_counts(case: dict[str, Any]):
    expected = case["expected"]
    ranks = [KINDS.index(wait["kind"]) for wait in expected["waits"]]
    assert ranks == sorted(ranks)
    assert expected["summary"] == expected["waits"][0]["sentence"]
    assert expected["attention"] == max((wait["attention"] for wait in expected["waits"]), key=ATTENTIONS.index)
    for wait in expected["waits"]:
        assert wait["since"] is not None or wait["kind"] in ("timer", "idle")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.9, "0 s"), (59.9, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3_599, "59 min 59 s"),
        (3_600, "1 h"), (3_661, "1 h 1 min"), (7_380, "2 h 3 min"), (86_400, "1 d"), (90_061, "1 d 1 h"), (-5, "0 s"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, text: str):
    assert span(round(seconds * SECOND)) == text


def test_a_time_to_come_is_rounded_up():
    assert ahead(SECOND + 1, 0) == "in 2 s"


def test_times_are_utc_with_the_date_of_another_day():
    assert clock_time(3_600 * SECOND, 0) == "01:00 UTC"
    assert clock_time(90_000 * SECOND, 0) == "1970-01-02 01:00 UTC"
    assert clock_time(10**18, 0) == "1000000000000"  # a year that no calendar has


def test_wait_for_signal_is_a_command():
    assert WaitForSignal("paid", None).name == "paid"
