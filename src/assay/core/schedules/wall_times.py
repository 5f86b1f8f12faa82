"""Wall-clock times as bit sets, and the search for the next time; without time zones.

A wall time is a number: the seconds since 1970-01-01 00:00 on a clock without changes. The search carries from field to
field like an odometer and skips months and years without a match: a due time in forty years costs no more than a due
time in five seconds.
"""

import calendar
from datetime import date

import msgspec

DAY_SECONDS = 86_400
FIRST_YEAR, LAST_YEAR = 1970, 2100
EPOCH_DAY = date(FIRST_YEAR, 1, 1).toordinal()

MONTH_DAYS = [0] + [(2 << calendar.monthrange(2023, month)[1]) - 2 for month in range(1, 13)]
LEAP_FEBRUARY = (2 << 29) - 2


def on_weekdays(wanted: set[int]) -> tuple[int, ...]:
    """Return the days of a month on these weekdays (0 is Monday), for months that start on Monday, on Tuesday, ..."""
    six_weeks = sum(1 << weekday + 7 * week for weekday in wanted for week in range(6))
    return tuple((six_weeks >> first << 1) & MONTH_DAYS[1] for first in range(7))


def _year_kinds() -> dict[int, int]:
    """Return the fourteen calendars of years: for each an example, and the bit set of all years with this calendar."""
    kinds: dict[tuple[bool, int], list[int]] = {}
    for year in range(FIRST_YEAR, LAST_YEAR + 1):
        kinds.setdefault((calendar.isleap(year), date(year, 1, 1).weekday()), []).append(year)
    return {years[0]: sum(1 << year - FIRST_YEAR for year in years) for years in kinds.values()}


YEAR_KINDS = _year_kinds()


class WallTimes(msgspec.Struct, frozen=True, gc=False):
    """The wall times of an expression: bit n of a field stands for the value n, in `years` for 1970 + n."""

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    years: int
    weekdays: tuple[int, ...]
    """The result of `on_weekdays`."""
    either_day: bool
    """True for Unix: a day matches by its number or by its weekday."""
    every_hour: bool
    """True if the hours are `*` or a step over all hours: an interval, not times of day."""

    def next_wall(self, wall: int) -> int | None:
        """Return the first matching wall time after `wall`; None if there is no match up to 2100."""
        today, second = divmod(max(wall + 1, 0), DAY_SECONDS)
        day = self._day_from(today)
        if day == today:
            time = self._time_from(second)
            if time is not None:
                return today * DAY_SECONDS + time
            day = self._day_from(today + 1)
        return None if day is None else day * DAY_SECONDS + self._hour(_lowest(self.hours, 0))

    def _time_from(self, start: int) -> int | None:
        """Return the first matching second of a day at or after second `start`."""
        minute, second = divmod(start, 60)
        hour, minute = divmod(minute, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1 and self.seconds >> second:
                return hour * 3600 + minute * 60 + _lowest(self.seconds, second)
            if self.minutes >> minute + 1:
                return hour * 3600 + _lowest(self.minutes, minute + 1) * 60 + _lowest(self.seconds, 0)
        return self._hour(_lowest(self.hours, hour + 1)) if self.hours >> hour + 1 else None

    def _hour(self, hour: int) -> int:
        """Return the first matching second of a day in `hour`."""
        return hour * 3600 + _lowest(self.minutes, 0) * 60 + _lowest(self.seconds, 0)

    def possible(self) -> "WallTimes":
        """Return the same times without the years that have no matching day, to keep the search short."""
        months = [month for month in range(1, 13) if self.months >> month & 1]
        kinds = [years for sample, years in YEAR_KINDS.items() if any(self._days_of(sample, month) for month in months)]
        return msgspec.structs.replace(self, years=self.years & sum(kinds))

    def _day_from(self, start: int) -> int | None:
        """Return the first matching day at or after day `start` (0 is 1970-01-01)."""
        today = date.fromordinal(start + EPOCH_DAY)
        year, month, days = today.year, today.month, 0
        if self.months >> month & 1 and self.years >> year - FIRST_YEAR & 1:
            days = self._days_of(year, month) >> today.day << today.day
        while not days:
            year, month = self._month_after(year, month)
            if not month:
                return None
            days = self._days_of(year, month)
        return date(year, month, _lowest(days, 1)).toordinal() - EPOCH_DAY

    def _days_of(self, year: int, month: int) -> int:
        on_weekday = self.weekdays[date(year, month, 1).weekday()]
        days = self.days | on_weekday if self.either_day else self.days & on_weekday
        return days & (LEAP_FEBRUARY if month == 2 and calendar.isleap(year) else MONTH_DAYS[month])

    def _month_after(self, year: int, month: int) -> tuple[int, int]:
        """Return the next matching year and month; month 0 after the last."""
        if self.years >> year - FIRST_YEAR & 1 and self.months >> month + 1:
            return year, _lowest(self.months, month + 1)
        ahead = year + 1 - FIRST_YEAR
        if not self.years >> ahead:
            return year, 0
        return FIRST_YEAR + _lowest(self.years, ahead), _lowest(self.months, 1)


def _lowest(bits: int, start: int) -> int:
    """Return the lowest set bit of `bits` from `start` up; at least one bit must be set."""
    rest = bits >> start
    return start + (rest & -rest).bit_length() - 1
