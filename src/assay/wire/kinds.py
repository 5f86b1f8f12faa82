"""What the event stream calls the events of a history, and what it tells of each: names and numbers, no documents."""

import re
from functools import cache
from typing import Any, Final

import msgspec

RUNNING: Final = "workflow_running"
"""A worker has taken up a run for the first time; derived, since no event says so."""

FIRED: Final = "schedule_fired"
"""A schedule has started a run; derived from the first event of that run."""

SPECIAL: Final = {"ActivityScheduled": "activity_inserted"}
"""Kinds that the original calls otherwise than their event."""

BARE: Final = frozenset({"WorkflowStarted", "WorkflowCompleted"})
"""Events whose payload is a document of the user's."""

DOCUMENTS: Final = frozenset(
    {"input", "result", "payload", "value", "details", "context", "options", "failure", "search", "memo"}
)
LONGEST: Final = 1_024

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode


@cache
def kind_of(event_type: str) -> str:
    """The stream's word for an event: `WorkflowStarted` is `workflow_started`."""
    return SPECIAL.get(event_type) or _WORD.sub("_", event_type).lower()


def facts_of(event_type: str, payload: bytes) -> dict[str, Any]:
    """The event's own names and numbers."""
    if event_type in BARE or not payload.startswith(b"{"):
        return {}
    fields = {name: _short(value) for name, value in _fields(payload).items() if name not in DOCUMENTS}
    if event_type == "SignalReceived":
        fields["signal_name"] = fields.get("signal")
    return fields


class _Start(msgspec.Struct):
    initiator: str = "start"
    schedule: str | None = None
    scheduled_for: int = 0


_start: Final = msgspec.json.Decoder(_Start).decode


def fire_of(event_type: str, data: bytes | None) -> dict[str, Any] | None:
    """Which fire of a schedule an event is the beginning of, if it is one."""
    if event_type != "WorkflowStarted" or data is None or b'"schedule"' not in data:
        return None
    start = _start(data)
    if start.schedule is None or start.initiator != "start":  # the next run of a chain was not started by its schedule
        return None
    return {"schedule": start.schedule, "due_at": start.scheduled_for / 1_000_000, "outcome": "started"}


def _short(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) else value
