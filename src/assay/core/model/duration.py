"""Durations: parsed from texts such as `"1h30m"`, kept as whole microseconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final

from assay.core.model.errors import Invalid

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LONGEST_DURATION: Final = 36_525 * DAY
"""100 years; the sum of a time and a longer duration may not fit into a database column."""

_UNITS: Final = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "\u00b5s": Fraction(1),  # the micro sign
    "\u03bcs": Fraction(1),  # the Greek letter, with the same look
    "ms": Fraction(1000),
    "s": Fraction(SECOND),
    "m": Fraction(MINUTE),
    "h": Fraction(HOUR),
    "d": Fraction(DAY),
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d)")
_BARE_NUMBER: Final = re.compile(r"[-+]?[0-9]*\.?[0-9]+")
_LONGEST_TEXT: Final = 64

Duration = int | float | str | timedelta


def parse_duration(value: object, name: str = "duration") -> int:
    """Return the microseconds in `value`: seconds, a `timedelta`, or a text such as "1h30m"; `name` is for errors."""
    exact: float | Fraction
    if isinstance(value, str):
        exact = _from_text(value, name)
    elif isinstance(value, timedelta):
        exact = value // timedelta(microseconds=1)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(name, f"expected seconds, a timedelta or a text such as '1h30m', not {type(value).__name__}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _invalid(name, f"must be a finite number of seconds, not {value}")
    else:
        exact = value * SECOND
    if exact < 0:
        raise _invalid(name, "must not be negative")
    if exact > LONGEST_DURATION:
        raise _invalid(name, "must not be longer than 100 years")
    # Only zero may become zero, because zero has a special meaning in options.
    return max(round(exact), 1) if exact else 0


@lru_cache(maxsize=1024)
def _from_text(text: str, name: str) -> int | Fraction:
    """Return the microseconds of a text such as "1h30m"."""
    body = text.strip()
    if len(body) > _LONGEST_TEXT:
        raise _invalid(name, f"a text of {len(body)} characters is not a duration")
    if _BARE_NUMBER.fullmatch(body):
        raise _invalid(name, f"{text!r} has no unit: write '{body}s', or the number {body} for seconds")
    sign = -1 if body.startswith("-") else 1
    digits = body[1:] if body[:1] in ("-", "+") else body
    total, position = Fraction(0), 0
    for part in _PART.finditer(digits):
        if part.start() != position:
            break
        total += Fraction(part[1].rstrip(".")) * _UNITS[part[2]]
        position = part.end()
    if not digits or position != len(digits):
        raise _invalid(name, f"{text!r} is not a duration: write it like '1h30m', '1.5s' or '250ms' (ns us ms s m h d)")
    return sign * (total.numerator if total.denominator == 1 else total)


def _invalid(name: str, problem: str) -> Invalid:
    return Invalid(f"{name}: {problem}", code="invalid_duration", field=name)


def format_duration(microseconds: int) -> str:
    """Return a duration as a text such as "1h30m" or "250ms", which `parse_duration` parses exactly."""
    if microseconds < 0:
        return "-" + format_duration(-microseconds)
    if 0 < microseconds < SECOND:
        return f"{microseconds}us" if microseconds < 1000 else _decimal(microseconds, 1000) + "ms"
    words, rest = "", microseconds
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        count, rest = divmod(rest, unit)
        if count:
            words += f"{count}{letter}"
    return words + _decimal(rest, SECOND) + "s" if rest or not words else words


def _decimal(amount: int, unit: int) -> str:
    """Return `amount` / `unit` as an exact decimal; the unit is a power of ten."""
    whole, rest = divmod(amount, unit)
    fraction = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
