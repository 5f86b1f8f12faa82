"""Times and durations as texts, and the wall clock of this machine."""

from datetime import UTC, datetime, tzinfo


def now() -> float:
    """Return the time of this machine, in seconds since the epoch."""
    return datetime.now(UTC).timestamp()  # noqa: TID251  # a command has no engine clock; the time is only shown


def timestamp(seconds: float, zone: tzinfo = UTC) -> str:
    """Return a time in ISO 8601, to the millisecond, without blanks: 2026-01-31T12:00:00.000Z."""
    try:
        return datetime.fromtimestamp(seconds, zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def relative(seconds: float, at: float) -> str:
    """Return a time relative to `at`: `3m ago`, `in 2h05m`, `now`."""
    distance = abs(seconds - at)
    if distance < 1:
        return "now"
    words = duration_text(distance if distance >= 60 else int(distance))
    return f"in {words}" if seconds > at else f"{words} ago"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units: 120ms, 4.2s, 3m12s, 2h05m, 3d4h."""
    seconds = max(seconds, 0.0)
    if seconds < 1:
        return f"{round(seconds * 1_000)}ms"
    if seconds < 60:
        return f"{round(seconds, 1):g}s"
    whole = int(seconds)
    if whole < 3_600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3_600}h{whole % 3_600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3_600}h"
