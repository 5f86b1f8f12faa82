"""What the event stream calls the events of a history, and what it tells of each: names and numbers, no documents."""

import re
from functools import cache
from typing import Any, Final

import msgspec

from assay.core.model.events import KINDS
from assay.wire.render import DEFAULTS

RUNNING: Final = "workflow_running"
"""A worker has taken up a run for the first time; derived, since no event says so."""

FIRED: Final = "schedule_fired"
"""A schedule has started a run; derived from the first event of that run."""

RETRY_REQUESTED: Final = "workflow_retry_requested"
"""A failed run is to go on from before its last failed activity; derived from the first event of the run that does."""

KIND_OVERRIDES: Final = {"ActivityScheduled": "activity_inserted"}
"""Kinds that the original calls otherwise than their event."""

BARE_PAYLOAD_NAMES: Final = frozenset({"WorkflowStarted", "WorkflowCompleted"})
"""Events whose payload is a document of the user's."""

DOCUMENTS: Final = frozenset(
    {"input", "result", "payload", "value", "details", "context", "options", "failure", "search", "memo"}
)
MAX_TEXT_CHARS: Final = 1_024

_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_fields: Final = msgspec.json.Decoder(dict[str, Any]).decode


@cache
def kind_of(event_type: str) -> str:
    """The stream's word for an event: `WorkflowStarted` is `workflow_started`."""
    return KIND_OVERRIDES.get(event_type) or _WORD.sub("_", event_type).lower()


def facts_of(event_type: str, payload: bytes) -> dict[str, Any]:
    """The event's own names and numbers."""
    if event_type in BARE_PAYLOAD_NAMES or not payload.startswith(b"{"):
        return {}
    told = {**_default_fields(event_type), **_fields(payload)}
    fields = {name: _short(value) for name, value in told.items() if name not in DOCUMENTS}
    if event_type == "SignalReceived":
        fields["signal_name"] = fields.get("signal")
    return fields


@cache
def _default_fields(event_type: str) -> dict[str, Any]:
    """What an event of this type says if nothing else is recorded of it."""
    return DEFAULTS.get(KINDS[event_type], {}) if event_type in KINDS else {}


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
    """What a run was begun by, if the stream has a word for it, and what it tells of that.

    Only the first run of a chain was started by its schedule, and only the one that was asked for is the retry.
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
