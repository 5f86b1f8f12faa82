"""Parse cron expressions into sets of wall-clock times.

The dialect:
* 6 or 7 fields, seconds first, year 1970-2100 last, as in Quartz. Days of the week are 1-7 from Sunday, and a day must
  match its number AND its weekday.
* 5 fields, minutes first, as in Unix. Sunday is 0 or 7, and a day matches its number OR its weekday if both fields are
  restricted; as in crontab(5), a field with `*` or `?` at its start is not restricted, even `*/2`.
* An item is `*`, `a`, `a-b` (ascending), each with an optional step `/n` of 1 to the field's maximum; `a/n` runs to the
  maximum, a single name takes no step. `?` is `*` in the two day fields only.
* Every error names the field, its text and the position (from 0) of the bad character.
"""

import re
from typing import NamedTuple

import msgspec

from assay.core.model.errors import Invalid
from assay.core.schedules.wall_times import FIRST_YEAR, LAST_YEAR, WallTimes, on_weekdays

LONGEST_EXPRESSION = 2_000
"""Characters; enough to list every second, minute and year. Longer texts would only cost time to parse."""


class Field(msgspec.Struct, frozen=True):
    """The allowed values of a field of an expression."""

    name: str
    low: int
    high: int
    top: int
    """The end of `*` and `a/n`: `high`, except for Unix weekdays, where 7 is Sunday again."""
    names: dict[str, int] = {}
    takes_question_mark: bool = False
    base: int = 0
    """The value of bit 0."""

    @property
    def allowed(self) -> str:
        spelled = [name for name in self.names if len(name) == 3]
        named = f" or {spelled[0]}-{spelled[-1]}" if spelled else ""
        mark = "* or ?" if self.takes_question_mark else "*"
        return f"{self.low}-{self.high}{named}, {mark}, ranges a-b, lists a,b and steps /1 to /{self.high}"


class Word(NamedTuple):
    """The text of a field and its position."""

    text: str
    at: int


def _numbered(words: str, first: int) -> dict[str, int]:
    """Return the number of each word, counted from `first`; also by the first three letters."""
    numbered = list(enumerate(words.split(), first))
    return {word[:3]: number for number, word in numbered} | {word: number for number, word in numbered}


def _day_names(sunday: int) -> dict[str, int]:
    names = _numbered("sunday monday tuesday wednesday thursday friday saturday", sunday)
    return names | {"tues": names["tue"], "thurs": names["thu"]}


MONTH_NAMES = _numbered("january february march april may june july august september october november december", 1)
SECOND = Field("second", 0, 59, 59)
MINUTE = Field("minute", 0, 59, 59)
HOUR = Field("hour", 0, 23, 23)
DAY_OF_MONTH = Field("day of month", 1, 31, 31, takes_question_mark=True)
MONTH = Field("month", 1, 12, 12, MONTH_NAMES)
DAY_OF_WEEK = Field("day of week", 1, 7, 7, _day_names(1), takes_question_mark=True)
UNIX_DAY_OF_WEEK = Field("day of week", 0, 7, 6, _day_names(0), takes_question_mark=True)
YEAR = Field("year", FIRST_YEAR, LAST_YEAR, LAST_YEAR, base=FIRST_YEAR)

SHORTHANDS = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 1",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
VALUE = "[0-9]{1,9}|[a-z]{1,9}"
ITEM_PARTS = re.compile(
    rf"(?:(?P<all>[*?])|(?P<first>{VALUE})(?:-(?P<last>{VALUE}))?)(?:/(?P<step>[0-9]{{1,9}}))?",
    re.IGNORECASE | re.ASCII,
)
WORD = re.compile(r"\S+", re.ASCII)
STEPPED_HOURS = re.compile(r"(?:\*|0+|0+-23)/[0-9]+", re.ASCII)
EVERY_HOUR = (1 << 24) - 1


def parse_cron(expression: str) -> WallTimes:
    """Return the times of a cron expression; raise `Invalid` with the position of the first error."""
    check_length(expression)
    words = [Word(match.group(), match.start()) for match in WORD.finditer(expression)]
    if words and words[0].text.startswith("@"):
        words = _shorthand(words)
    match len(words):
        case 5:
            return _compiled([Word("0", 0), *words, Word("*", 0)], unix=True)
        case 6:
            return _compiled([*words, Word("*", 0)], unix=False)
        case 7:
            return _compiled(words, unix=False)
    raise refused(
        f"The cron expression {shortened(expression)} has {len(words)} fields; allowed are 5 (minute, hour, day of "
        "month, month, day of week), 6 (second first), 7 (year last), or a name such as @daily"
    )


def check_length(expression: str) -> None:
    """Raise `Invalid` for a text beyond the length limit."""
    if len(expression) > LONGEST_EXPRESSION:
        raise refused(f"The cron expression is {len(expression)} characters long; {LONGEST_EXPRESSION} are allowed")


def _shorthand(words: list[Word]) -> list[Word]:
    name, *rest = words
    if name.text not in SHORTHANDS:
        known = ", ".join([*SHORTHANDS, "@every <duration>"])
        raise refused(f"The cron name {shortened(name.text)} at character {name.at} is not known; allowed are {known}")
    if rest:
        raise refused(
            f"{name.text} takes nothing after it, but has {shortened(rest[0].text)} at character {rest[0].at}"
        )
    return [Word(text, name.at) for text in SHORTHANDS[name.text].split()]


def _compiled(words: list[Word], *, unix: bool) -> WallTimes:
    fields = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, UNIX_DAY_OF_WEEK if unix else DAY_OF_WEEK, YEAR)
    second, minute, hour, day, month, weekday, year = map(_field_bits, fields, words)
    monday = 1 if unix else 2
    wanted = {(value - monday) % 7 for value in range(8) if weekday >> value & 1}
    restricted = not words[3].text.startswith(("*", "?")) and not words[5].text.startswith(("*", "?"))
    times = WallTimes(
        seconds=second,
        minutes=minute,
        hours=hour,
        days=day,
        months=month,
        years=year,
        weekdays=on_weekdays(wanted),
        either_day=unix and restricted,
        every_hour=hour == EVERY_HOUR or STEPPED_HOURS.fullmatch(words[2].text) is not None,
    )
    return times.possible()


def _field_bits(field: Field, word: Word) -> int:
    bits, at = 0, word.at
    for text in word.text.split(","):
        low, high, step = _span(Item(field, word, text, at))
        count = (high - low) // step + 1
        # The sum of `count` powers of 2**step, as a closed form: a loop would make long lists expensive.
        bits |= ((1 << count * step) - 1) // ((1 << step) - 1) << low - field.base
        at += len(text) + 1
    return bits


class Item(NamedTuple):
    """An item of a field's list, and its position."""

    field: Field
    word: Word
    text: str
    at: int

    def wrong(self, problem: str, offset: int = 0) -> Invalid:
        return refused(
            f"The {self.field.name} field {shortened(self.word.text)} is wrong at character {self.at + offset}: "
            f"{problem}. Allowed: {self.field.allowed}"
        )


def _span(item: Item) -> tuple[int, int, int]:
    """Return the first value, the last value and the step of an item."""
    parts = ITEM_PARTS.fullmatch(item.text)
    if parts is None:
        raise item.wrong(f"{shortened(item.text)} is not understood" if item.text else "an item of the list is missing")
    if parts["all"] == "?" and not item.field.takes_question_mark:
        raise item.wrong("? belongs in the day fields only")
    low, high = (item.field.low, item.field.top) if parts["all"] else _bounds(item, parts)
    step = int(parts["step"] or 1)
    if not 1 <= step <= item.field.high:
        raise item.wrong(f"the step {step} is outside 1-{item.field.high}", parts.start("step"))
    return low, high, step


def _bounds(item: Item, parts: re.Match[str]) -> tuple[int, int]:
    first, last = parts["first"], parts["last"]
    low = _value(item, first, 0)
    if last is None:
        if parts["step"] and first.isalpha():
            raise item.wrong(f"a single name takes no step, write {low}/{parts['step']}")
        return low, max(low, item.field.top) if parts["step"] else low
    if first.isalpha() != last.isalpha():
        raise item.wrong("a range is of two numbers or two names")
    high = _value(item, last, parts.start("last"))
    if item.field is UNIX_DAY_OF_WEEK and last.isalpha() and low > high == 0:
        high = 7  # fri-sun ascends: Sunday is both the first and the last day of a Unix week
    if high < low:
        raise item.wrong(f"the range {first}-{last} runs backwards ({low}-{high})")
    return low, high


def _value(item: Item, text: str, offset: int) -> int:
    field = item.field
    if text.isalpha():
        if text.lower() not in field.names:
            raise item.wrong(f"the name {shortened(text)} is not known", offset)
        return field.names[text.lower()]
    value = int(text)
    if not field.low <= value <= field.high:
        raise item.wrong(f"{value} is outside {field.low}-{field.high}", offset)
    return value


def refused(problem: str) -> Invalid:
    """Return the error for a cron expression."""
    return Invalid(f"{problem}.", code="bad_cron", field="cron_expr")


def shortened(text: str) -> str:
    """Return a text quoted for an error message, in ASCII and shortened."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")
