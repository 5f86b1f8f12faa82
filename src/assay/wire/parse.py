"""Parse events in the form of the REST API: the inverse of `render.event_record`, for histories in files.

All parts that workflow code can see are restored. Parts that workflow code cannot see and that the API shows in another
form are not: retry and time-out options of activities and of the run, and a child's number among its siblings.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Seq, Time
from assay.core.model.start_options import OptionKind, options_of
from assay.wire.stream_kinds import BARE_PAYLOAD_NAMES

SHOWN_AS_STORED: Final = (
    "workflow_type", "task_queue", "first_run_id", "previous_run_id", "initiator", "attempt", "schedule", "request_id",
    "engine_version",
    "last_completion_result", "last_failure",
    *options_of(OptionKind.OBJECT, OptionKind.TEXT, OptionKind.PRIORITY, OptionKind.LIST),
)  # fmt: skip
SHOWN_IN_SECONDS: Final = ("execution_deadline", "first_task_at", "scheduled_for", *options_of(OptionKind.DURATION))


class EncodedEvent(NamedTuple):
    """An event encoded by `core.codec`, with its seq and time."""

    seq: Seq
    time: Time
    kind: str
    payload: bytes
    data: bytes | None


def parse_event(record: Mapping[str, Any]) -> EncodedEvent:
    """Return the event of a record; raise `Invalid` if the record is not an event's."""
    try:
        kind, seq, time = record["event_type"], record["seq"], _micro(record["timestamp"])
        payload, data = _payload(kind, record["payload"]), _data(kind, record)
    except (KeyError, TypeError, AttributeError):
        text = "not an event of a history: an event has a seq, an event_type, a payload and a timestamp"
        raise Invalid(text, code="unreadable_event") from None
    return EncodedEvent(Seq(seq), time, kind, _encoded(payload), None if data is None else _encoded(data))


def _payload(kind: str, payload: Any) -> Any:
    if kind == "ActivityScheduled":
        return {name: value for name, value in payload.items() if name != "options"}
    if kind not in BARE_PAYLOAD_NAMES and isinstance(payload, dict) and payload.get("failure") is not None:
        return payload | {"failure": _failure(payload["failure"])}
    return payload


def _failure(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a failure without null fields: they are not stored, and code can see the size of the stored history."""
    fields = {name: value for name, value in shown.items() if value is not None}
    return fields | {"cause": _failure(fields["cause"])} if "cause" in fields else fields


def _data(kind: str, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields beside a payload that is a bare value."""
    match kind:
        case "WorkflowStarted":
            return _start(record) if record.get("workflow_type") is not None else None
        case "WorkflowCompleted":
            return {"next_run_id": record["next_run_id"]} if record.get("next_run_id") is not None else None
        case "WorkflowCancelled":
            return {"reason": record["reason"]} if record.get("reason") is not None else None
    return None


def _start(record: Mapping[str, Any]) -> dict[str, Any]:
    start = {name: record[name] for name in SHOWN_AS_STORED if record.get(name) is not None}
    start |= {name: _micro(record[name]) for name in SHOWN_IN_SECONDS if record.get(name) is not None}
    if start.get("initiator") == "start":
        del start["initiator"]  # the default is not stored: the size of the history must be the same
    if "last_failure" in start:
        start["last_failure"] = _failure(start["last_failure"])
    if record.get("parent_id") is not None:
        start["parent"] = {"workflow_id": record["parent_id"], "run_id": record["parent_run_id"]}
    if record.get("origin_run_id") is not None:
        start["reopening"] = {"requested_by": "", "reason": "", "activity_seq": 0, "origin": record["origin_run_id"]}
    return start


def _micro(seconds: float) -> Time:
    return round(seconds * SECOND)


def _encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
