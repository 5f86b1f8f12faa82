"""When a schedule fires: a cron expression or an interval, read in a time zone.

Rules owned here (wire 4.1, R44):
* Cron times are wall-clock times of the zone. A fire is a whole second, strictly later than the time asked from, and
  does not depend on when it is asked: the fires of a timetable are one fixed sequence (I11).
* A time in a spring-forward gap does not exist and is skipped; `shift` fires it at the first instant after the gap.
  Whatever a gap swallowed fires once.
* A time that comes twice in autumn fires at its first occurrence; `both` fires it twice.
* An expression whose hours are `*`, or a step over all hours (`*/n`, `0/n`, `0-23/n`), is an interval: it fires in both
  passes of a repeated hour whatever `dst` says, for a job of every five minutes must not go silent for an hour.
* `@every d` fires at anchor + d, anchor + 2d, ... in elapsed time; the anchor is the schedule's creation.
* Offsets change for other reasons than summer time (Apia had no 30 December 2011); the same rules hold.
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
"""No clock on Earth shows 1970 before this instant, so an earlier question has the same answer."""
LATEST_INSTANT_SECONDS = 47_847 * DAY_SECONDS + 2 * DAY_SECONDS
"""No clock shows 2100 after this one."""

SHORTEST_INTERVAL = SECOND

EVERY = re.compile(r"\s*@every\b\s*(?P<duration>.*)", re.ASCII | re.DOTALL)
ZONE_PREFIX = re.compile(r"\s*(?:CRON_TZ|TZ)=(?P<zone>\S*)", re.ASCII)
ZONE_NAME = re.compile(r"(?!posix/|right/|posixrules$|localtime$|Factory$)[A-Za-z0-9_+\-/]{1,64}", re.ASCII)
"""What the zone files hold beside IANA's names: variants with leap seconds, the machine's own zone, a placeholder."""


class Dst(StrEnum):
    """What becomes of wall-clock times that a change of the clocks drops or repeats."""

    SKIP = "skip"
    SHIFT = "shift"
    BOTH = "both"


class Every(msgspec.Struct, frozen=True):
    """A fixed distance between fires, in elapsed time."""

    interval: Time

    def next(self, after: Time, anchor: Time) -> Time:
        """The first multiple of the interval from `anchor`, itself excluded, that is later than `after`."""
        return anchor + (max(after - anchor, 0) // self.interval + 1) * self.interval


class Timetable(msgspec.Struct, frozen=True):
    """When to fire: what `parse_timetable` made of an expression, a zone and a `dst` choice."""

    rule: WallTimes | Every
    zone: tzinfo
    dst: Dst = Dst.SKIP

    def next(self, after: Time, anchor: Time) -> Time | None:
        """The first fire later than `after`; None when there is none any more. Only `@every` counts from `anchor`."""
        match self.rule:
            case WallTimes():
                return next_fire(self.rule, self.zone, after, self.dst)
            case Every():
                return self.rule.next(after, anchor)
            case _:
                assert_never(self.rule)

    def preview(self, after: Time, count: int, anchor: Time) -> list[Time]:
        """The next `count` fires later than `after`, or as many as there are."""
        return self._fires(after, None, count, anchor)

    def fires_between(self, start: Time, end: Time, limit: int, anchor: Time) -> list[Time]:
        """The fires later than `start` up to `end` itself, the earliest `limit` of them."""
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
    """The timetable people wrote, or `Invalid`: bad_cron, bad_timezone, bad_dst, or never_fires up to the year 2100."""
    check_length(expression)
    if dst not in tuple(Dst):
        raise Invalid(f"dst is {shortened(dst)}; allowed are skip, shift and both.", code="bad_dst", field="dst")
    prefix = ZONE_PREFIX.match(expression)
    if prefix is not None:
        timezone = prefix["zone"]
        expression = " " * prefix.end() + expression[prefix.end() :]  # what follows keeps its place in messages
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
    """The zone with this exact IANA name; UTC in any case, or for no name at all. Else `Invalid`."""
    if name.upper() in ("", "UTC"):
        return UTC  # also on a machine without zone files
    zone = _load(name)
    # A file system that ignores case finds any spelling; the schedule would then break on one that does not.
    if zone is None or (_load(name.swapcase()) is not None and name not in available_timezones()):
        text = f"The time zone {shortened(name)} is not known; allowed are IANA names such as Europe/Berlin, and UTC."
        raise Invalid(text, code="bad_timezone", field="timezone")
    return zone


def _load(name: str) -> ZoneInfo | None:
    if not ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such file; a path that is none; a directory or another file
        return None


def next_fire(times: WallTimes, zone: tzinfo, after: Time, dst: Dst = Dst.SKIP) -> Time | None:
    """The first instant later than `after` when the clocks of `zone` show one of `times`, by the rules above."""
    instant = max(after // SECOND, EARLIEST_INSTANT_SECONDS)
    if instant > LATEST_INSTANT_SECONDS:
        return None
    wall, again = instant + _offset(zone, instant), None
    before, later = _offsets(zone, wall)
    if before > later:  # this hour comes twice, and `instant` lies in one of its passes
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
    """The next of `times` after `wall`, if the repeated hour still has it."""
    found = times.next_wall(wall)
    return found if found is not None and found < end else None


def _first_pass(times: WallTimes, zone: tzinfo, wall: int, dst: Dst) -> int | None:
    """The first instant of the next of `times` after `wall` that has one: wall order is then the order of fires."""
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
    """How far the clocks of `zone` are ahead of UTC at `instant`, in seconds."""
    return _seconds(datetime.fromtimestamp(instant, zone).utcoffset())


def _offsets(zone: tzinfo, wall: int) -> tuple[int, int]:
    """The offsets before and after the change that repeats or drops the time `wall`; the same twice without one."""
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=wall)  # adds on the clock face, not in elapsed time
    return _seconds(moment.utcoffset()), _seconds(moment.replace(fold=1).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    return offset.days * DAY_SECONDS + offset.seconds if offset is not None else 0


def _turn(zone: tzinfo, low: int, high: int) -> int:
    """The instant in (low, high] at which the offset of `zone` changes."""
    before = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high
