"""Durations and times in sentences for people: at most two units, times in UTC or in a named zone."""

from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final

from assay.core.model.ids import SECOND, Time

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  # the name `UTC` is a text here


def span(time: Time, *, up: bool = False) -> str:
    """Return a duration as `2 h 3 min`, in whole seconds: rounded down, or `up` for a time that is still to come."""
    whole = max(-(-time // SECOND) if up else time // SECOND, 0)
    for place, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            rest, (smaller, name) = whole % size, _UNITS[min(place + 1, len(_UNITS) - 1)]
            more = f" {rest // smaller} {name}" if rest // smaller else ""
            return f"{whole // size} {unit}{more}"
    return "0 s"


def ago(time: Time, now: Time) -> str:
    """Return a past time as `12 s ago`."""
    return f"{span(now - time)} ago"


def ahead(time: Time, now: Time) -> str:
    """Return a time to come as `in 12 s`."""
    return f"in {span(time - now, up=True)}"


def clock_time(time: Time, now: Time, zone: tzinfo | None = None) -> str:
    """Return a time as `13:01 UTC`, with its date unless that is today; a given zone is used and not named."""
    at, today = _local(time, zone), _local(now, zone)
    if at is None or today is None:
        return f"{time // SECOND}"
    shown = f"{at:%H:%M}" if at.date() == today.date() else f"{at:%Y-%m-%d %H:%M}"
    return shown if zone is not None else f"{shown} UTC"


def _local(time: Time, zone: tzinfo | None) -> datetime | None:
    try:
        at = _EPOCH + timedelta(microseconds=time)
        return at if zone is None else at.astimezone(zone)
    except (OverflowError, ValueError):  # a timer may be set for a year that no calendar of Python has
        return None
