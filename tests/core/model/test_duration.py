import contextlib
import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.model.duration import LONGEST_DURATION, SECOND, format_duration, parse_duration
from assay.core.model.errors import Invalid, Kind


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        (0, 0),
        (90, 90_000_000),
        (1.5, 1_500_000),
        (0.1, 100_000),
        (1e-9, 1),
        (timedelta(hours=1, microseconds=7), 3_600_000_007),
        ("1h30m", 5_400_000_000),
        ("1.5s", 1_500_000),
        (".5s", 500_000),
        ("1.s", 1_000_000),
        ("250ms", 250_000),
        ("10us", 10),
        ("10\u00b5s", 10),
        ("10\u03bcs", 10),
        ("1500ns", 2),
        ("1ns", 1),
        ("2d", 172_800_000_000),
        ("1d2h3m4s5ms6us", 93_784_005_006),
        ("0s", 0),
        (" 1h ", 3_600_000_000),
        ("+1s", 1_000_000),
        ("1m1m", 120_000_000),
        (100 * 365 * 24 * 3600, 100 * 365 * 24 * 3600 * SECOND),
    ],
)
def test_what_people_write_is_read_exactly(value, microseconds):
    assert parse_duration(value) == microseconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-1, "negative"),
        (-0.5, "negative"),
        (timedelta(seconds=-1), "negative"),
        ("-1s", "negative"),
        (math.nan, "finite"),
        (math.inf, "finite"),
        (-math.inf, "finite"),
        (True, "not bool"),
        (None, "not NoneType"),
        ([1], "not list"),
        ("90", "no unit"),
        ("1.5", "no unit"),
        ("", "is not a duration"),
        ("s", "is not a duration"),
        ("1h 30m", "is not a duration"),
        ("1w", "is not a duration"),
        ("1H", "is not a duration"),
        ("1s!", "is not a duration"),
        ("\u0661s", "is not a duration"),
        ("1" * 100 + "s", "101 characters"),
        (LONGEST_DURATION // SECOND + 1, "100 years"),
        (1e300, "100 years"),
        (10**400, "100 years"),
        ("876601h", "100 years"),
    ],
)
def test_what_is_no_duration_is_refused_by_the_name_of_its_option(value, expected):
    with pytest.raises(Invalid, match=expected) as raised:
        parse_duration(value, "start_to_close")
    assert raised.value.code == "invalid_duration"
    assert raised.value.kind is Kind.INVALID
    assert raised.value.field == "start_to_close"
    assert raised.value.message.startswith("start_to_close")


def test_a_number_without_unit_is_told_how_to_write_it():
    with pytest.raises(Invalid, match="write '90s', or the number 90"):
        parse_duration("90")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0s"),
        (7, "7us"),
        (250_000, "250ms"),
        (1_500, "1.5ms"),
        (1_500_000, "1.5s"),
        (5_400_000_000, "1h30m"),
        (60_000_001, "1m0.000001s"),
        (172_800_000_000, "2d"),
        (-1_000_000, "-1s"),
    ],
)
def test_durations_are_shown_for_people(microseconds, text):
    assert format_duration(microseconds) == text


@given(st.integers(0, LONGEST_DURATION))
def test_what_is_shown_reads_back(microseconds):
    assert parse_duration(format_duration(microseconds)) == microseconds


@given(st.timedeltas(timedelta(0), timedelta(days=36_525)))
def test_a_timedelta_loses_nothing(value):
    assert timedelta(microseconds=parse_duration(value)) == value


@given(st.floats(min_value=0, max_value=3e9))
def test_a_float_is_rounded_to_the_nearest_microsecond(value):
    read = parse_duration(value)
    assert abs(read - value * SECOND) <= (0.5 if read != 1 else 1)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(Invalid):
        assert 0 <= parse_duration(text) <= LONGEST_DURATION
