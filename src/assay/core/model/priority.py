"""The priority of runs and activities: a whole number from 1, the first to go out, to 5; 3 unless given."""

from typing import Final

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import Activity, Run

FIRST_PRIORITY, DEFAULT_PRIORITY, LAST_PRIORITY = 1, 3, 5
_NUMBERS: Final = {str(number).encode(): number for number in range(FIRST_PRIORITY, LAST_PRIORITY + 1)}
_BY_NUMBER: Final = {number: Payload(text) for text, number in _NUMBERS.items()}
PRIORITY_STEP: Final[Time] = 60 * SECOND
"""Work goes out as if it had become ready later by this time for each step of its priority, so that none starves."""
_decode: Final = msgspec.json.Decoder().decode


def priority_payload(value: object, name: str = "priority") -> Payload:
    """Return a priority as it is recorded; raise `Invalid` unless it is a whole number from 1 to 5."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in _BY_NUMBER:
        message = f"{name} must be a whole number from {FIRST_PRIORITY} (first) to {LAST_PRIORITY}, not {value!r}"
        raise Invalid(message, field=name)
    return _BY_NUMBER[value]


def check_priority(recorded: Payload, name: str = "priority") -> Payload:
    """Return the priority of a request or command; raise `Invalid` for any other JSON."""
    return recorded if recorded is NULL or recorded == NULL else priority_payload(_decode(recorded), name)


def priority_of(recorded: Payload) -> int:
    """Return the number of a recorded priority; the default for none, and for values from before this meaning."""
    if recorded is NULL:
        return DEFAULT_PRIORITY
    return _NUMBERS.get(bytes(recorded), DEFAULT_PRIORITY)


def task_order(run: Run) -> Time | None:
    """Return the place of a run's workflow task among ready work; None if no task is due."""
    since = run.task.since
    return None if since is None else since + PRIORITY_STEP * priority_of(run.start.priority)


def activity_order(run: Run, activity: Activity) -> Time:
    """Return the place of an activity among ready work; without a priority of its own it has the one of its run."""
    own = activity.options.priority
    return activity.queued_at + PRIORITY_STEP * priority_of(run.start.priority if own is NULL else own)
