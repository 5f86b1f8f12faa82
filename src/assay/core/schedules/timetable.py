"""Timetables: the due times of a cron expression or an interval in a time zone.

* Cron times are wall-clock times of the zone. Due times are whole seconds and do not depend on the time of the
  computation: the due times of a timetable are a fixed sequence (I11).
* A time in a spring-forward gap does not exist and is skipped; with `shift` all times of a gap fire once, at the first
  instant after the gap.
* A time that occurs twice in autumn fires at its first occurrence; with `both` at both occurrences.
* An expression with the hours `*`, or a step over all hours (`*/n`, `0/n`, `0-23/n`), is an interval: it fires in both
  passes of a repeated hour, with any `dst`, because a job of every five minutes must not pause for an hour.
* `@every d` fires at anchor + d, anchor + 2d, ... in elapsed time; the anchor is the creation of the schedule.
* Offsets change for other reasons than summer time (Apia had no 30 December 2011); the same rules apply.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import assert_never
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.schedules.cron import check_length, parse_cron, refused, shortened
from assay.core.schedules.wall_times import DAY_SECONDS, WallTimes

EARLIEST_INSTANT_SECONDS = -2 * DAY_SECONDS
"""The clocks of all time zones show 1969 before this instant: earlier times have the same next due time."""
LATEST_INSTANT_SECONDS = 47_847 * DAY_SECONDS + 2 * DAY_SECONDS
"""The clocks of all time zones show 2101 after this instant."""

SHORTEST_INTERVAL = SECOND

EVERY = re.compile(r"\s*@every\b\s*(?P<duration>.*)", re.ASCII | re.DOTALL)
ZONE_PREFIX = re.compile(r"\s*(?:CRON_TZ|TZ)=(?P<zone>\S*)", re.ASCII)
ZONE_NAME = re.compile(r"(?!posix/|right/|posixrules$|localtime$|Factory$)[A-Za-z0-9_+\-/]{1,64}", re.ASCII)
"""Names of zones, without the other entries of zone directories: variants with leap seconds, the machine's own zone, a
placeholder."""


class Dst(StrEnum):
    """The rule for wall-clock times that a change of the clocks drops or repeats."""

    SKIP = "skip"
    SHIFT = "shift"
    BOTH = "both"


class Every(msgspec.Struct, frozen=True):
    """A fixed interval between due times, in elapsed time."""

    interval: Time

    def next(self, after: Time, anchor: Time) -> Time:
        """Return the first time after `after` at a positive multiple of the interval from `anchor`."""
        return anchor + (max(after - anchor, 0) // self.interval + 1) * self.interval


class Timetable(msgspec.Struct, frozen=True):
    """A parsed timetable: the rule of the expression, the zone and the `dst` choice."""

    rule: WallTimes | Every
    zone: tzinfo
    dst: Dst = Dst.SKIP

    def next(self, after: Time, anchor: Time) -> Time | None:
        """Return the first due time after `after`, or None; only `@every` depends on `anchor`."""
        match self.rule:
            case WallTimes():
                return next_fire(self.rule, self.zone, after, self.dst)
            case Every():
                return self.rule.next(after, anchor)
            case _:
                assert_never(self.rule)

    def preview(self, after: Time, count: int, anchor: Time) -> list[Time]:
        """Return the next `count` due times after `after`, or fewer if the timetable ends."""
        return self._fires(after, None, count, anchor)

    def fires_between(self, start: Time, end: Time, limit: int, anchor: Time) -> list[Time]:
        """Return the due times after `start` and up to `end`, at most `limit`."""
        return self._fires(start, end, limit, anchor)

    def _fires(self, after: Time, end: Time | None, limit: int, anchor: Time) -> list[Time]:
        fires: list[Time] = []
        while len(fires) < limit:
            fire = self.next(after, anchor)
            if fire is None or (end is not None and fire > end):
                break
            fires.append(fire)
            after = fire
        return fires


def parse_timetable(expression: str, timezone: str = "UTC", dst: str = "skip") -> Timetable:
    """Return the timetable of an expression; raise `Invalid` with bad_cron, bad_timezone, bad_dst or never_fires."""
    check_length(expression)
    if dst not in tuple(Dst):
        raise Invalid(f"dst is {shortened(dst)}; allowed are skip, shift and both.", code="bad_dst", field="dst")
    prefix = ZONE_PREFIX.match(expression)
    if prefix is not None:
        timezone = prefix["zone"]
        expression = " " * prefix.end() + expression[prefix.end() :]  # positions in error messages stay correct
    timetable = Timetable(_rule(expression), parse_zone(timezone), Dst(dst))
    if timetable.next(EARLIEST_INSTANT_SECONDS * SECOND, 0) is None:
        text = shortened(expression.strip())
        raise Invalid(f"The cron expression {text} never fires before 2101.", code="never_fires", field="cron_expr")
    return timetable


def _rule(expression: str) -> WallTimes | Every:
    every = EVERY.fullmatch(expression)
    return parse_cron(expression) if every is None else Every(_interval(every))


def _interval(every: re.Match[str]) -> Time:
    text, at = every["duration"].rstrip(), every.start("duration")
    try:
        interval = parse_duration(text, "@every")
    except Invalid as error:
        raise refused(f"The duration {shortened(text)} at character {at} is not valid: {error}") from error
    if interval < SHORTEST_INTERVAL:
        raise refused(f"The duration {shortened(text)} at character {at} is shorter than 1s, the shortest allowed")
    return interval


@lru_cache(maxsize=1024)
def parse_zone(name: str) -> tzinfo:
    """Return the zone with this IANA name, UTC for an empty name; raise `Invalid` for an unknown zone."""
    if name.upper() in ("", "UTC"):
        return UTC  # also on a machine without zone files
    zone = _load(name)
    # A file system that ignores case finds any spelling; on another machine the schedule would then fail.
    if zone is None or (_load(name.swapcase()) is not None and name not in available_timezones()):
        text = f"The time zone {shortened(name)} is not known; allowed are IANA names such as Europe/Berlin, and UTC."
        raise Invalid(text, code="bad_timezone", field="timezone")
    return zone


def _load(name: str) -> ZoneInfo | None:
    if not ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no file; not a valid path; a directory or another file
        return None


def next_fire(times: WallTimes, zone: tzinfo, after: Time, dst: Dst = Dst.SKIP) -> Time | None:
    """Return the first instant after `after` at which the clocks of `zone` show one of `times`, by the rules above."""
    instant = max(after // SECOND, EARLIEST_INSTANT_SECONDS)
    if instant > LATEST_INSTANT_SECONDS:
        return None
    wall, again = instant + _offset(zone, instant), None
    before, later = _offsets(zone, wall)
    if before > later:  # a repeated hour, with `instant` in its first or second pass
        turn = _turn(zone, wall - before, wall - later)
        if dst == Dst.BOTH or times.every_hour:
            again = _second_pass(times, max(instant + later, turn + later - 1), turn + before)
        if instant >= turn:
            wall = turn + before - 1
    first = _first_pass(times, zone, wall, dst)
    if again is not None and (first is None or again - later < first):
        return (again - later) * SECOND
    return None if first is None else first * SECOND


def _second_pass(times: WallTimes, wall: int, end: int) -> int | None:
    """Return the next of `times` after `wall`, if it is in the repeated hour."""
    found = times.next_wall(wall)
    return found if found is not None and found < end else None


def _first_pass(times: WallTimes, zone: tzinfo, wall: int, dst: Dst) -> int | None:
    """Return the first instant of the next of `times` after `wall` that exists on the clocks."""
    while (found := times.next_wall(wall)) is not None:
        before, later = _offsets(zone, found)
        if before >= later:
            return found - before
        turn = _turn(zone, found - later, found - before)
        if dst == Dst.SHIFT:
            return turn
        wall = turn + later - 1
    return None


def _offset(zone: tzinfo, instant: int) -> int:
    """Return the offset of `zone` from UTC at `instant`, in seconds."""
    return _seconds(datetime.fromtimestamp(instant, zone).utcoffset())


def _offsets(zone: tzinfo, wall: int) -> tuple[int, int]:
    """Return the offsets before and after a clock change that repeats or drops `wall`; equal without a change."""
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=wall)  # wall-clock arithmetic, not elapsed time
    return _seconds(moment.utcoffset()), _seconds(moment.replace(fold=1).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    return offset.days * DAY_SECONDS + offset.seconds if offset is not None else 0


def _turn(zone: tzinfo, low: int, high: int) -> int:
    """Return the instant in (low, high] at which the offset of `zone` changes."""
    before = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high
