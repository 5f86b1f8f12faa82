"""Next fires against the brute-force oracle, and properties that hold for every timetable (I11).

`ASSAY_FULL=1` runs all 10,000 expressions in every zone; a plain run takes the first of them.
"""

import os
import random
import time
from datetime import date, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.model.errors import Invalid
from assay.core.schedules.timetable import Timetable, parse_timetable
from tests.core.schedules.cron_oracle import Meaning, Window, meaning, seeded, windows

SECOND = 1_000_000
EXPRESSIONS = 10_000 if os.environ.get("ASSAY_FULL") else 500
ZONES = [
    *["UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/St_Johns"],
    *["America/Sao_Paulo", "America/Havana", "America/Santiago", "America/Nuuk", "Africa/Casablanca", "Africa/Cairo"],
    *["Asia/Tehran", "Asia/Kathmandu", "Asia/Gaza", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia"],
    *["Pacific/Chatham", "Pacific/Kwajalein"],
]
DST = ["skip", "shift", "both"]


@cache
def expressions() -> list[Meaning]:
    chance = seeded(5)
    return [meaning(chance) for _ in range(EXPRESSIONS)]


def test_the_sample_is_what_it_says():
    assert len(ZONES) == 20
    assert {len(meant.text.split()) for meant in expressions()} == {5, 6, 7}
    assert any(meant.either_day for meant in expressions())
    assert 0.2 < sum(meant.interval for meant in expressions()) / EXPRESSIONS < 0.8


@pytest.mark.parametrize("zone", ZONES)
def test_next_fire_agrees_with_a_look_at_every_minute(zone: str):
    chance = seeded(zone)
    looked_at = windows(zone, chance)
    for meant in expressions():
        dst = chance.choice(DST)
        timetable = parsed(meant, zone, dst)
        if timetable is not None:
            for window in looked_at:
                compare(timetable, meant, window, dst, chance)


def timetable_of(expression: str, zone: str = "UTC", dst: str = "skip") -> Timetable | Invalid:
    try:
        return parse_timetable(expression, zone, dst)
    except Invalid as error:
        return error


def parsed(meant: Meaning, zone: str, dst: str) -> Timetable | None:
    answer = timetable_of(meant.text, zone, dst)
    if isinstance(answer, Timetable):
        return answer
    assert answer.code == "never_fires", (meant, answer)
    assert not days_of(meant), meant
    return None


def compare(timetable: Timetable, meant: Meaning, window: Window, dst: str, chance: random.Random) -> None:
    fires = window.fires(meant, dst)
    change = window.start + 3 * 86_400
    for reach in (600, 10_000, 2 * 86_400):
        after = (change + chance.randint(-reach, reach)) * SECOND + chance.choice([0, 1, 500_000, 999_999])
        expected = next((fire for fire in fires.after(after // SECOND + 1)), None)
        found = timetable.next(after, anchor=0)
        described = f"{meant.text!r} in {window.zone} with {dst} after {after}: {found}, expected {expected}"
        if expected is None:
            assert found is None or found >= window.end * SECOND, described
        else:
            assert found == expected * SECOND, described
    if fires.count <= 40:
        start, end = window.start * SECOND, (window.end - 1) * SECOND
        all_of_them = [fire * SECOND for fire in fires.after(window.start + 1)]
        assert timetable.fires_between(start, end, 50, anchor=0) == all_of_them, (meant.text, window.zone, dst)


ALL_DAYS = [date(1970, 1, 1) + timedelta(days) for days in range((date(2101, 1, 1) - date(1970, 1, 1)).days)]


def days_of(meant: Meaning) -> list[int]:
    """The numbers of the days from 1970 to 2100 that an expression names, by looking at each."""
    return [number for number, day in enumerate(ALL_DAYS) if day.month in meant.months and meant.has_day(day)]


def test_far_fires_agree_with_a_look_at_every_day():
    chance = seeded(29)
    before_march = [number for number, day in enumerate(ALL_DAYS) if (day.month, day.day) == (2, 28)]
    for meant in expressions()[: EXPRESSIONS // 5]:
        days = days_of(meant)
        timetable = parsed(meant, "UTC", "skip")
        first = min(meant.hours) * 3600 + min(meant.minutes) * 60 + min(meant.seconds)
        for _ in range(5 if timetable else 0):
            today = chance.choice([chance.randrange(len(ALL_DAYS)), *chance.sample(before_march, 2)])
            expected = next((day for day in days if day > today), None)
            found = timetable.next((today * 86_400 + 86_399) * SECOND, anchor=0)
            assert found == (None if expected is None else (expected * 86_400 + first) * SECOND), meant.text


@pytest.mark.parametrize("dst", DST)
def test_the_fires_do_not_depend_on_when_one_asks(dst: str):
    chance = seeded(dst)
    for meant in expressions()[:300]:
        timetable = parsed(meant, chance.choice(ZONES), dst)
        after = chance.randrange(0, 4 * 10**9) * SECOND
        fire = timetable and timetable.next(after, anchor=0)
        if fire:
            assert fire > after
            assert fire % SECOND == 0
            asked_later = [
                after,
                fire - 1,
                chance.randrange(after, fire),
                chance.randrange(max(after, fire - 9 * 10**9), fire),
            ]
            assert {timetable.next(later, anchor=0) for later in asked_later} == {fire}, meant.text


@given(st.text(max_size=50) | st.text(alphabet="0123456789*/-,?@ \tmonjaevryLW#=TZ", max_size=80))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_timetable_or_invalid(text: str):
    answer = timetable_of(text)
    if isinstance(answer, Invalid):
        assert answer.code in ("bad_cron", "bad_timezone", "never_fires")
        assert len(answer.message) < 1_000


@given(st.text(max_size=50) | st.text(alphabet="abEU/.+-_\0", max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_zone_or_invalid(text: str):
    answer = timetable_of("@daily", text)
    assert isinstance(answer, Timetable) or answer.code == "bad_timezone"


HOSTILE = [
    "0 0 30 2 *",
    "0 0 0 30 2 *",
    "0 0 0 31 2,4,6,9,11 *",
    "*/0 * * * *",
    "*" * 10_000,
    "1," * 5_000,
    " " * 10_000,
    "@every " + "9" * 9_000 + "s",
    "@every " + "1h" * 900,
    "@every 1e18s",
    "@every x" + " " * 1_990 + "y",
    "CRON_TZ=" + "A" * 9_000 + " @daily",
    ",".join(["59"] * 60) + " * * * * *",
    ",".join(["*/2"] * 400) + " * * * * *",
    "* * * * * * " + ",".join(["*/2"] * 400),
    "* * * * * * " + ",".join(["1970-2100/7"] * 150),
    "* * * * * * " + "2100," * 390 + "2100",
    "@" * 2_000,
    "-" * 2_000,
    "9" * 2_000,
    "a-" * 1_000,
    "0 0 0 31 12 1 2099-2100",
    "0 30 2 29 3 * 2026",
    "0 30 2 25-31 3 1",  # from 1980 on, every one of these lies in a gap in Berlin
]


@pytest.mark.parametrize("expression", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_input_costs_less_than_ten_milliseconds(expression: str):
    costs = []
    for _ in range(3):
        start = time.process_time()
        answer = timetable_of(expression, "Europe/Berlin")
        if isinstance(answer, Timetable):
            answer.next(1_800_000_000 * SECOND, anchor=0)
        costs.append(time.process_time() - start)
        assert isinstance(answer, Timetable) or len(answer.message) < 1_000
    assert min(costs) < 0.010
