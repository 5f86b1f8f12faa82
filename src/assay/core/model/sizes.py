"""The memory of a run's state in bytes: exact for payloads, a constant for each object.

`fold` adds and subtracts the sizes of events and activities; `run_bytes` takes the same time for a run of any size.
"""

from typing import Any, Final

import msgspec

from assay.core.model.events import Event
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import Payload
from assay.core.model.run import Activity, Run

RUN_BYTES: Final = 3_072
EVENT_BYTES: Final = 256
ACTIVITY_BYTES: Final = 768
CHILD_BYTES: Final = 384
TIMER_BYTES: Final = 128
"""The bytes of an object without its payloads, with its entry in a dict or list; rounded up."""

_MEASURED_TYPES: Final = (Payload, str, str | None)
_measured_fields: Final[dict[type[Event], tuple[str, ...]]] = {}
"""The names of the payload and text fields of each kind of event, filled in when the first event is measured."""


def event_bytes(event: Event) -> int:
    """Return the size of an event in a tail. The start data is not counted, because the run holds the same object."""
    kind = type(event)
    names = _measured_fields.get(kind)
    if names is None:
        names = _measured_fields[kind] = _names_of_measured(kind)
    size = EVENT_BYTES
    for name in names:
        value = getattr(event, name)
        if value is not None:
            size += len(value)
    failure: FailureInfo | None = getattr(event, "failure", None)
    return size if failure is None else size + failure_bytes(failure)


def _names_of_measured(kind: type[Event]) -> tuple[str, ...]:
    fields: tuple[Any, ...] = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.type in _MEASURED_TYPES)


def failure_bytes(failure: FailureInfo) -> int:
    """Return the size of a failure with its causes."""
    size, part = 0, failure
    while True:
        size += EVENT_BYTES + len(part.message) + len(part.details) + len(part.stack or "")
        if part.cause is None:
            return size
        part = part.cause


def activity_bytes(activity: Activity) -> int:
    """Return the size of an open activity."""
    size = ACTIVITY_BYTES + len(activity.input) + len(activity.details) + len(activity.options.context)
    return size if activity.last_failure is None else size + failure_bytes(activity.last_failure)


def run_bytes(run: Run) -> int:
    """Return the size of the folded state of a run."""
    return constant_bytes(run) + changing_bytes(run)


def constant_bytes(run: Run) -> int:
    """Return the size of the part of a run that is the same from its start to its end."""
    start = run.start
    size = RUN_BYTES + len(run.input) + len(start.context) + len(start.memo)
    size += len(start.search_attributes) + len(start.last_completion_result)
    return size if start.last_failure is None else size + failure_bytes(start.last_failure)


def changing_bytes(run: Run) -> int:
    """Return the size of the part of a run that grows and shrinks."""
    size = run.tail_bytes + run.activity_bytes + len(run.memo) + len(run.search)
    if run.children or run.timers:
        size += CHILD_BYTES * len(run.children) + TIMER_BYTES * len(run.timers)
    return size
