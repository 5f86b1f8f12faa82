"""The kinds of the event stream for the events of a history, and their facts: names and numbers, no documents."""

import re
from functools import cache
from typing import Any, Final

import msgspec

from assay.core.model.events import KINDS
from assay.wire.render import DEFAULTS

RUNNING: Final = "workflow_running"
"""A worker has claimed a run for the first time; derived, because no event records the claim."""

FIRED: Final = "schedule_fired"
"""A schedule has started a run; derived from the first event of that run."""

RETRY_REQUESTED: Final = "workflow_retry_requested"
"""A closed run was reopened by a retry; derived from the first event of the new run."""

KIND_OVERRIDES: Final = {"ActivityScheduled": "activity_inserted"}
"""Kinds whose name does not follow from the name of their event."""

BARE_PAYLOAD_NAMES: Final = frozenset({"WorkflowStarted", "WorkflowCompleted"})
"""Events whose payload is a bare document of the user."""

DOCUMENTS: Final = frozenset(
    {"input", "result", "payload", "value", "details", "context", "options", "failure", "search", "memo"}
)
MAX_TEXT_CHARS: Final = 1_024

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode


@cache
def kind_of(event_type: str) -> str:
    """Return the stream's kind of an event: `workflow_started` for `WorkflowStarted`."""
    return KIND_OVERRIDES.get(event_type) or _WORD.sub("_", event_type).lower()


def facts_of(event_type: str, payload: bytes) -> dict[str, Any]:
    """Return the event's own names and numbers."""
    if event_type in BARE_PAYLOAD_NAMES or not payload.startswith(b"{"):
        return {}
    recorded = {**_default_fields(event_type), **_fields(payload)}
    fields = {name: _short(value) for name, value in recorded.items() if name not in DOCUMENTS}
    if event_type == "SignalReceived":
        fields["signal_name"] = fields.get("signal")
    return fields


@cache
def _default_fields(event_type: str) -> dict[str, Any]:
    """Return the default values of an event's fields; a field without a value is no fact."""
    found = DEFAULTS.get(KINDS[event_type], {}) if event_type in KINDS else {}
    return {name: value for name, value in found.items() if value is not msgspec.UNSET}


class _Reopening(msgspec.Struct):
    activity_id: int = 0
    activity_seq: int = 0


class _Start(msgspec.Struct):
    initiator: str = "start"
    schedule: str | None = None
    scheduled_for: int = 0
    reopening: _Reopening | None = None


_start: Final = msgspec.json.Decoder(_Start).decode


def cause_of(event_type: str, data: bytes | None) -> tuple[str, dict[str, Any]] | None:
    """Return the kind and facts of a run's cause: a schedule or a retry; None for other runs.

    Later runs of a chain inherit schedule and reopening in their start data; their initiator is another.
    """
    if event_type != "WorkflowStarted" or data is None or not (b'"schedule"' in data or b'"reopening"' in data):
        return None
    start = _start(data)
    if start.initiator == "start" and start.schedule is not None:
        due = start.scheduled_for / 1_000_000
        return FIRED, {"schedule": start.schedule, "due_at": due, "outcome": "started"}
    if start.initiator == "reopen" and start.reopening is not None:
        return RETRY_REQUESTED, msgspec.structs.asdict(start.reopening)
    return None


def _short(value: Any) -> Any:
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value
