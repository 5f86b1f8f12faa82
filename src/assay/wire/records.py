"""Runs, events and states as callers see them, the same embedded and over HTTP (R23, R30, wire 1.1).

Documents are JSON values and not text (D3); times and durations are seconds (R22).
"""

from typing import Any, Final

import msgspec

from assay.core import codec
from assay.core.errors import Invalid, Kind
from assay.core.events import (
    KINDS,
    ActivityOptions,
    ActivityScheduled,
    Event,
    Recorded,
    StartData,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.failure import FailureInfo
from assay.core.ids import RunId, RunKey, Time, seconds
from assay.core.payload import NULL, Payload, value_of
from assay.core.policies import RetryPolicy
from assay.core.replies import Started
from assay.core.rules.cut import refusal_of
from assay.core.run import Run, Stuck


def start_record(started: Started) -> dict[str, Any]:
    """The answer to a start; `started` is false when an existing run was used (D7)."""
    return {
        "workflow_id": started.key.workflow_id,
        "run_id": started.key.run_id,
        "status": started.status,
        "started": started.started,
    }


def run_record(run: Run, input: Payload, result: Payload, closing: Event | None = None) -> dict[str, Any]:
    """A run: the 17 fields of the original first, ours after them; `closing` says why it has no result."""
    return {
        **_original_fields(run, input, result),
        "workflow_id": run.workflow_id,
        "close_reason": run.close_reason,
        "next_run_id": run.next_run_id,
        "stuck": _stuck(run.task.stuck),
        "waiting_on": None if run.awaiting is None else {"signal": run.awaiting},
        "failure": failure_of(closing),
        "memo": value_of(run.memo),
        "cancel_requested": run.cancel_seq > 0,
        "history_length": run.last_seq,
        "history_bytes": run.history_bytes,
        **_retry_fields(run),
        **_start_fields(run.start),
    }


def _retry_fields(run: Run) -> dict[str, Any]:
    """Whether the run can be retried, and if not, why, as far as its row shows it."""
    refusal = refusal_of(run)
    return {"retryable": refusal is None, "retry_refusal": None if refusal is None else str(refusal)}


def _original_fields(run: Run, input: Payload, result: Payload) -> dict[str, Any]:
    parent = run.start.parent
    return {
        "id": run.workflow_id,
        "namespace": run.namespace,
        "run_id": run.run_id,
        "workflow_type": run.start.workflow_type,
        "task_queue": run.start.task_queue,
        "status": run.status,
        "input": value_of(input),
        "result": value_of(result),
        "error": run.error,
        "parent_id": None if parent is None else parent.workflow_id,
        "claimed_by": run.task.worker,
        "search_attributes": value_of(run.search),
        "archived_at": None,
        "archive_uri": None,
        "created_at": seconds(run.created_at),
        "updated_at": seconds(run.updated_at),
        "completed_at": _seconds(run.closed_at),
    }


def _start_fields(start: StartData) -> dict[str, Any]:
    return {
        "attempt": start.attempt,
        "initiator": start.initiator,
        "first_run_id": start.first_run_id,
        "previous_run_id": start.previous_run_id,
        "parent_run_id": None if start.parent is None else start.parent.run_id,
        "run_timeout": _seconds(start.run_timeout),
        "task_timeout": _seconds(start.task_timeout),
        "execution_deadline": _seconds(start.execution_deadline),
        "first_task_at": _seconds(start.first_task_at),
        "retry_policy": _retry(start.retry_policy),
        "cron_schedule": start.cron_schedule,
        "schedule": start.schedule,
        "scheduled_for": _seconds(start.scheduled_for),
        "context": value_of(start.context),
        "summary": start.summary,
        "details": start.details,
        "priority": value_of(start.priority),
    }


def _stuck(stuck: Stuck | None) -> dict[str, Any] | None:
    if stuck is None:
        return None
    return {
        "reason": stuck.reason,
        "message": stuck.message,
        "attempt": stuck.attempt,
        "next_try_at": _seconds(stuck.next_try_at),
    }


def failure_of(closing: Event | None) -> dict[str, Any] | None:
    """Why a run has no result, as data: of its own failure, its time-out or its termination (C94)."""
    match closing:
        case WorkflowFailed(error=text, failure=info):
            return failure_record(info or FailureInfo(kind=Kind.UNKNOWN, message=text))
        case WorkflowTimedOut(scope=scope, error=text):
            message = text or f"workflow {scope} timed out"
            return failure_record(FailureInfo(Kind.TIMEOUT, message, retryable=False, timeout_type=scope))
        case WorkflowTerminated(reason=text):
            return failure_record(FailureInfo(Kind.CANCELED, text, retryable=False))
    return None


def failure_record(info: FailureInfo) -> dict[str, Any]:
    """A failure with all its fields (C94, capabilities 3.5)."""
    return {
        "kind": info.kind.value,
        "message": info.message,
        "retryable": info.retryable,
        "details": value_of(info.details),
        "type": info.type,
        "stack": info.stack,
        "cause": None if info.cause is None else failure_record(info.cause),
        "source": info.source,
        "retry_state": info.retry_state,
        "timeout_type": info.timeout_type,
    }


def event_record(key: RunKey, recorded: Recorded) -> dict[str, Any]:
    """An event: its payload, and beside it what does not belong to a payload that is a bare value (R16)."""
    event = recorded.event
    record = {
        "id": recorded.id,
        "workflow_id": key.workflow_id,
        "run_id": key.run_id,
        "seq": recorded.seq,
        "event_type": event.recorded_name,
        "payload": None,
        "timestamp": seconds(recorded.time),
    }
    if isinstance(event, codec.UnknownEvent):
        return record | {"event_type": event.name, "payload": value_of(event.payload)}
    payload, data = codec.encode(event)
    record["payload"] = _shown(event, value_of(payload))
    if isinstance(event, WorkflowStarted):
        return record if event.start is None else record | _started_fields(event.start)
    return record if data is None else record | value_of(data)


def _started_fields(start: StartData) -> dict[str, Any]:
    return {
        "workflow_type": start.workflow_type,
        "task_queue": start.task_queue,
        "parent_id": None if start.parent is None else start.parent.workflow_id,
        "memo": value_of(start.memo),
        "search_attributes": value_of(start.search_attributes),
        "last_completion_result": value_of(start.last_completion_result),
        "last_failure": None if start.last_failure is None else failure_record(start.last_failure),
        "request_id": start.request_id,
        "origin_run_id": None if start.reopening is None else start.reopening.origin,
        **_start_fields(start),
    }


def _defaults(kind: type[Event]) -> dict[str, Any]:
    fields = [field for field in msgspec.structs.fields(kind) if field.default not in (None, msgspec.NODEFAULT)]
    return {field.encode_name: None if field.default is NULL else field.default for field in fields}


BARE: Final = (WorkflowStarted, WorkflowCompleted)
"""Kinds whose payload is a document of the user's."""

DEFAULTS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    kind: _defaults(kind) for kind in KINDS.values() if kind not in BARE
}
"""By kind of event: fields that are not recorded if they say what they usually say. They are shown all the same."""


def _shown(event: Event, payload: Any) -> Any:
    """A stored payload with what was left out of it, failures in full and durations in seconds."""
    for name, usual in DEFAULTS.get(type(event), {}).items():
        payload.setdefault(name, usual)
    info = getattr(event, "failure", None)
    if isinstance(info, FailureInfo):
        payload["failure"] = failure_record(info)
    if isinstance(event, ActivityScheduled) and event.options is not None:
        payload["options"] = options_record(event.options)
    return payload


def options_record(options: ActivityOptions) -> dict[str, Any]:
    """How an activity is tried."""
    return {
        "retry_policy": _retry(options.retry),
        "start_to_close": seconds(options.start_to_close),
        "schedule_to_start": _seconds(options.schedule_to_start),
        "schedule_to_close": _seconds(options.schedule_to_close),
        "heartbeat_timeout": _seconds(options.heartbeat),
        "survives_cancel": options.survives_cancel,
        "context": value_of(options.context),
        "summary": options.summary,
        "priority": value_of(options.priority),
    }


def _retry(policy: RetryPolicy | None) -> dict[str, Any] | None:
    """A retry policy with the keys that a start takes (capabilities 3.3)."""
    if policy is None:
        return None
    return {
        "maximum_attempts": policy.max_attempts,
        "initial_interval": seconds(policy.initial_interval),
        "backoff_coefficient": policy.backoff,
        "maximum_interval": seconds(policy.maximum_interval),
        "non_retryable_error_types": list(policy.non_retryable),
    }


def state_record(state: Payload, event_seq: int, created_at: Time, name: str | None = None) -> dict[str, Any] | None:
    """What a run's queries answer: all of them, or `name` alone; None if there is no such query."""
    found = value_of(state)
    stamp = {"event_seq": event_seq, "created_at": seconds(created_at)}
    if name is None:
        return {"state": found, **stamp}
    return {"value": found[name], **stamp} if isinstance(found, dict) and name in found else None


def cursor_after(record: dict[str, Any]) -> str:
    """Where a list goes on after `record`: its creation time and its run id."""
    return f"{round(record['created_at'] * 1_000_000)}.{record['run_id']}"


def parse_cursor(text: str) -> tuple[Time, RunId]:
    """The creation time and run id in a cursor."""
    created_at, _, run_id = text.partition(".")
    if not (created_at.isdecimal() and created_at.isascii() and run_id and len(created_at) <= _CURSOR_DIGITS):
        raise Invalid("cursor is not one that a list has given", field="cursor")
    return int(created_at), RunId(run_id)


_CURSOR_DIGITS = 18
"""What a 64-bit column holds for certain."""


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
