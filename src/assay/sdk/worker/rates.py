"""A limit of starts per second: each start gets the next free place in time."""

from assay.core.model.errors import Invalid


class StartRate:
    """The places in time at which activities may start, evenly spaced."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next = 0.0

    def delay(self, now: float) -> float:
        """Take the next place; return the seconds until then."""
        place = max(now, self._next)
        self._next = place + self._interval
        return place - now


def check_rate(value: object, name: str) -> float | None:
    """Return a rate per second, or None without a limit; raise `Invalid` unless it is a number above zero."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise Invalid(f"{name} must be a number above zero, not {value!r}", field=name)
    return float(value)
