"""A second reading of cron in time zones, by brute force: it looks at every minute of a window on the zone's clocks.

It shares no code and no method with the engine: expressions are made together with the values they mean, so nothing is
parsed, and fires are found by walking real time forward, never by searching wall times.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MINUTE = timedelta(minutes=1)


def seeded(seed: int | str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same sample each time, nothing secret


@dataclass(frozen=True)
class Meaning:
    """An expression and what it means; weekdays as `isoweekday` counts them."""

    text: str
    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    years: set[int]
    either_day: bool
    interval: bool

    def has_day(self, day: date) -> bool:
        numbered, named = day.day in self.days, day.isoweekday() in self.weekdays
        on_day = numbered or named if self.either_day else numbered and named
        return on_day and day.month in self.months and day.year in self.years

    def has_minute(self, shown: datetime) -> bool:
        return shown.minute in self.minutes and shown.hour in self.hours and self.has_day(shown.date())


@dataclass
class Window:
    """Some days of a zone, a minute at a time; bit n of a set stands for minute n."""

    zone: str
    start: int
    minutes: int
    shown: dict[str, dict[int, int]] = field(default_factory=dict)
    repeated: int = 0
    missing: list[tuple[int, datetime]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shown = {name: {} for name in ("minute", "hour", "day", "month", "year", "weekday")}
        zone, latest = ZoneInfo(self.zone), None
        for number in range(self.minutes):
            clock = datetime.fromtimestamp(self.start + number * 60, zone).replace(tzinfo=None)
            self._show(number, clock)
            latest = latest or clock - MINUTE
            if clock <= latest:
                self.repeated |= 1 << number
            while latest + MINUTE < clock:
                latest += MINUTE
                self.missing.append((number, latest))
            latest = max(latest, clock)

    def _show(self, number: int, clock: datetime) -> None:
        for name, values in self.shown.items():
            value = clock.isoweekday() if name == "weekday" else getattr(clock, name)
            values[value] = values.get(value, 0) | 1 << number

    @property
    def end(self) -> int:
        return self.start + self.minutes * 60

    def _any(self, name: str, wanted: set[int]) -> int:
        return sum(bits for value, bits in self.shown[name].items() if value in wanted)

    def fires(self, meaning: Meaning, dst: str) -> "Fires":
        numbered, named = self._any("day", meaning.days), self._any("weekday", meaning.weekdays)
        bits = numbered | named if meaning.either_day else numbered & named
        bits &= self._any("minute", meaning.minutes) & self._any("hour", meaning.hours)
        bits &= self._any("month", meaning.months) & self._any("year", meaning.years)
        if dst != "both" and not meaning.interval:
            bits &= ~self.repeated
        late = {number for number, clock in self.missing if dst == "shift" and meaning.has_minute(clock)}
        return Fires(self.start, bits, sorted(meaning.seconds), late)


@dataclass(frozen=True)
class Fires:
    """The fires of one window: minutes by bit, the seconds of each, and the minutes that open with a shifted fire."""

    start: int
    minutes: int
    seconds: list[int]
    late: set[int]

    @cached_property
    def count(self) -> int:
        return self.minutes.bit_count() * len(self.seconds) + len(self.late)

    def after(self, instant: int) -> Iterator[int]:
        """Those at or after `instant`, in whole seconds."""
        first = max(instant - self.start, 0) // 60
        bits = (self.minutes | sum(1 << number for number in self.late)) >> first << first
        while bits:
            number = (bits & -bits).bit_length() - 1
            named = self.seconds if self.minutes >> number & 1 else []
            for second in sorted({*named, *([0] if number in self.late else [])}):
                if self.start + number * 60 + second >= instant:
                    yield self.start + number * 60 + second
            bits &= bits - 1


def changes(zone_name: str, first_year: int = 1973, last_year: int = 2037) -> list[tuple[int, int]]:
    """Each change of the zone's clocks, to the minute, and by how many seconds they were moved."""
    zone = ZoneInfo(zone_name)

    def offset(instant: int) -> int:
        return int(datetime.fromtimestamp(instant, zone).utcoffset().total_seconds())

    found = []
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first_year, last_year))
    for day in range(start, end, 86_400):
        low, high = day, day + 86_400
        if offset(low) == offset(high):
            continue
        while high - low > 60:
            middle = (low + high) // 120 * 60
            low, high = (middle, high) if offset(middle) == offset(low) else (low, middle)
        found.append((high, offset(high) - offset(low)))
    return found


def windows(zone: str, chance: random.Random) -> list[Window]:
    """Five days around the last change forward, the last one back, the greatest, one of the past, and no change."""
    known = changes(zone)
    chosen = [change for change in known if change[1] > 0][-1:] + [change for change in known if change[1] < 0][-1:]
    chosen += sorted(known, key=lambda change: abs(change[1]))[-1:] + chance.sample(known, min(1, len(known)))
    chosen.append((chance.randrange(10**8, 2 * 10**9) // 60 * 60, 0))
    return [Window(zone, instant - 3 * 86_400, 5 * 1440) for instant, _ in chosen]


def meaning(chance: random.Random) -> Meaning:
    """A random expression of 5, 6 or 7 fields."""
    unix = chance.random() < 0.4
    second = ("0", {0}) if unix else _field(chance, 0, 59, 0.15)
    minute, hour = _field(chance, 0, 59, 0.3), _field(chance, 0, 23, 0.4)
    day = _field(chance, 1, 31, 0.6, "?")
    month = _field(chance, 1, 12, 0.7, names=MONTHS)
    weekday = _field(chance, 0 if unix else 1, 7, 0.6, "?", names=WEEKDAYS, top=6 if unix else 7)
    year = _field(chance, 1970, 2100, 0.3) if not unix and chance.random() < 0.15 else ("", set(range(1970, 2101)))
    fields = [minute, hour, day, month, weekday] if unix else [second, minute, hour, day, month, weekday, year]
    sunday = 0 if unix else 1
    return Meaning(
        text=" ".join(text for text, _ in fields).strip(),
        seconds=second[1],
        minutes=minute[1],
        hours=hour[1],
        days=day[1],
        months=month[1],
        weekdays={(value - sunday - 1) % 7 + 1 for value in weekday[1]},
        years=year[1],
        either_day=unix and day[0][0] not in "*?" and weekday[0][0] not in "*?",
        interval=len(hour[1]) == 24 or ("," not in hour[0] and hour[0].startswith(("*/", "0/", "0-23/"))),
    )


def _field(
    chance: random.Random,
    low: int,
    high: int,
    free: float,
    mark: str = "*",
    names: list[str] | None = None,
    top: int = 0,
) -> tuple[str, set[int]]:
    top = top or high
    if chance.random() < free:
        return chance.choice("*" + mark), set(range(low, top + 1))
    items = [_item(chance, low, high, top, names) for _ in range(chance.choice([1, 1, 1, 2, 3, 8]))]
    return ",".join(text for text, _ in items), set().union(*(values for _, values in items))


def _item(chance: random.Random, low: int, high: int, top: int, names: list[str] | None) -> tuple[str, set[int]]:
    first, last = sorted(chance.randint(low, high) for _ in range(2))
    step = chance.choice([1, 2, 3, 5, 10, 15, chance.randint(1, high)])
    step = min(step, high)
    match chance.randrange(8):
        case 0:
            return f"*/{step}", set(range(low, top + 1, step))
        case 1:
            return f"{first}/{step}", {first, *range(first, top + 1, step)}
        case 2:
            return f"{first}-{last}/{step}", set(range(first, last + 1, step))
        case 3:
            return f"{first:02}-{last}", set(range(first, last + 1))
        case 4 | 5 if names:
            first, last = sorted(chance.randrange(len(names)) for _ in range(2))
            case = chance.choice([str.lower, str.upper, str.title])
            return f"{case(names[first])}-{names[last]}", set(range(low + first, low + last + 1))
        case 6 if names:
            index = chance.randrange(len(names))
            return names[index], {low + index}
        case _:
            return f"{first}", {first}
