"""Responses about runs, their events and their states, the same embedded and over HTTP.

Documents of users are JSON values; times and durations are seconds.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import to_builtins
from msgspec.structs import asdict, astuple

from assay.core import codec
from assay.core.model.addresses import workflow_address
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import (
    KINDS,
    ActivityOptions,
    ActivityScheduled,
    Event,
    Recorded,
    StartData,
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowFailed,
    WorkflowStarted,
    WorkflowTerminated,
    WorkflowTimedOut,
)
from assay.core.model.explanation import Explanation
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, RunKey, Time, seconds
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.policies import RetryPolicy
from assay.core.model.replies import Started
from assay.core.model.run import Run, Stuck
from assay.core.rules.retry_cut import refusal_of
from assay.wire import responses
from assay.wire.waits import waiting_record


def start_record(started: Started) -> responses.StartAnswer:
    """Return the response to a start; `started` is false if an existing run was used."""
    key = started.key
    return responses.StartAnswer(
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        status=started.status,
        started=started.started,
        pid=workflow_address(key.namespace, key.workflow_id),
    )


def run_record(
    run: Run,
    history_bytes: int,
    input: Payload,
    result: Payload,
    closing: Event | None,
    waiting: Explanation | None,
) -> responses.WorkflowRecord:
    """Return the record of a run; `closing` is the event that closed the run without a result."""
    start, refusal = run.start, refusal_of(run)
    # By position, in the order of the fields: keyword arguments take twice as long.
    return responses.WorkflowRecord(
        run.workflow_id,
        run.namespace,
        run.run_id,
        start.workflow_type,
        start.task_queue,
        run.status,
        value_of(input),
        value_of(result),
        run.error,
        None if start.parent is None else start.parent.workflow_id,
        run.task.worker,
        value_of(run.search),
        None,  # archived_at
        None,  # archive_uri
        seconds(run.created_at),
        seconds(run.updated_at),
        _seconds(run.closed_at),
        run.workflow_id,
        run.close_reason,
        run.next_run_id,
        stuck_record(run.task.stuck),
        None if waiting is None else waiting_record(waiting),
        failure_of(closing),
        value_of(run.memo),
        run.cancel_seq > 0,
        run.last_seq,
        history_bytes,
        refusal is None,
        None if refusal is None else str(refusal),
        None if start.parent is None else start.parent.namespace or run.namespace,
        **_start_fields(start),
    )


def _start_fields(start: StartData) -> dict[str, Any]:
    """Return the arguments of `responses.StartFields`."""
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
        "engine_version": start.engine_version,
        "actor": start.actor,
        "scope": None if start.scope is None else list(start.scope),
    }


def stuck_record(stuck: Stuck | None) -> responses.Stuck | None:
    """Return the reason why a run is stuck, or None."""
    if stuck is None:
        return None
    return responses.Stuck(
        reason=stuck.reason,
        message=stuck.message,
        attempt=stuck.attempt,
        next_try_at=_seconds(stuck.next_try_at),
    )


def failure_of(closing: Event | None) -> responses.Failure | None:
    """Return the failure of a run without a result: its own, or of its time-out or termination."""
    match closing:
        case WorkflowFailed(error=text, failure=info):
            return failure_record(info or FailureInfo(kind=Kind.UNKNOWN, message=text))
        case WorkflowTimedOut(scope=scope, error=text):
            message = text or f"workflow {scope} timed out"
            return failure_record(FailureInfo(Kind.TIMEOUT, message, retryable=False, timeout_type=scope))
        case WorkflowTerminated(reason=text):
            return failure_record(FailureInfo(Kind.CANCELED, text, retryable=False))
    return None


def failure_record(info: FailureInfo) -> responses.Failure:
    """Return a failure with all its fields."""
    return responses.Failure(
        info.kind,
        info.message,
        info.retryable,
        value_of(info.details),
        info.type,
        info.stack,
        None if info.cause is None else failure_record(info.cause),
        info.source,
        info.retry_state,
        info.timeout_type,
    )


def event_record(key: RunKey, recorded: Recorded) -> responses.EventRecord:
    """Return the record of an event, with additional fields if the payload is a bare value."""
    event = recorded.event
    record = responses.EventRecord(
        recorded.id,
        key.workflow_id,
        key.run_id,
        recorded.seq,
        _type_of(event),
        _payload(event),
        seconds(recorded.time),
    )
    beside = _WITH_EXTRA_FIELDS.get(type(event))
    return record if beside is None else beside(record, event)


def history_event(recorded: Recorded) -> responses.HistoryEvent:
    """Return an event as a workflow task carries it."""
    event = recorded.event
    return responses.HistoryEvent(
        seq=recorded.seq, event_type=_type_of(event), payload=_payload(event), timestamp=seconds(recorded.time)
    )


def _type_of(event: Event) -> str:
    return event.name if isinstance(event, codec.UnknownEvent) else event.recorded_name


def _started_fields(start: StartData) -> responses.StartedFields:
    return responses.StartedFields(
        workflow_type=start.workflow_type,
        task_queue=start.task_queue,
        parent_id=None if start.parent is None else start.parent.workflow_id,
        memo=value_of(start.memo),
        search_attributes=value_of(start.search_attributes),
        last_completion_result=value_of(start.last_completion_result),
        last_failure=None if start.last_failure is None else failure_record(start.last_failure),
        request_id=start.request_id,
        origin_run_id=None if start.reopening is None else start.reopening.origin,
        **_start_fields(start),
    )


def _started(record: responses.EventRecord, event: WorkflowStarted) -> responses.EventRecord:
    start = event.start
    return record if start is None else _extended(responses.StartedEvent, record, *astuple(_started_fields(start)))


def _completed(record: responses.EventRecord, event: WorkflowCompleted) -> responses.EventRecord:
    following = event.next_run_id
    return record if following is None else _extended(responses.CompletedEvent, record, following)


def _cancelled(record: responses.EventRecord, event: WorkflowCancelled) -> responses.EventRecord:
    return record if event.reason is None else _extended(responses.CancelledEvent, record, event.reason)


def _extended(
    kind: Callable[..., responses.EventRecord], record: responses.EventRecord, *more: Any
) -> responses.EventRecord:
    return kind(*astuple(record), *more)


_WITH_EXTRA_FIELDS: Final[dict[type[Event], Callable[[responses.EventRecord, Any], responses.EventRecord]]] = {
    WorkflowStarted: _started,
    WorkflowCompleted: _completed,
    WorkflowCancelled: _cancelled,
}
"""Events with fields beside their payload."""


def _defaults(kind: type[Event]) -> dict[str, Any]:
    fields = [field for field in msgspec.structs.fields(kind) if field.default not in (None, msgspec.NODEFAULT)]
    return {field.encode_name: None if field.default is NULL else field.default for field in fields}


BARE_PAYLOAD_EVENTS: Final = (WorkflowStarted, WorkflowCompleted)
"""Events whose payload is a bare document of the user."""

DEFAULTS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    kind: _defaults(kind) for kind in KINDS.values() if kind not in BARE_PAYLOAD_EVENTS
}
"""Default values of fields, by kind of event. They are shown even if the event was recorded without them."""


def _payload(event: Event) -> Any:
    """Return the payload of an event with its defaults, failures in full and durations in seconds."""
    shown = _SHOWN.get(type(event))
    return value_of(codec.encode(event)[0]) if shown is None else shown(event)


def _input(event: WorkflowStarted) -> Any:
    return value_of(event.input)


def _with_options(event: ActivityScheduled) -> dict[str, Any]:
    options = None if event.options is None else to_builtins(options_record(event.options))
    return asdict(event) | {"input": value_of(event.input), "options": options}


def _amended(event: Event) -> dict[str, Any]:
    """Return a payload with unrecorded defaults added, and with its failure in full."""
    payload: dict[str, Any] = value_of(codec.encode(event)[0])
    for name, usual in DEFAULTS[type(event)].items():
        payload.setdefault(name, usual)
    failure = getattr(event, "failure", None)
    if failure is not None:
        payload["failure"] = to_builtins(failure_record(failure))
    return payload


def _is_amended(kind: type[msgspec.Struct]) -> bool:
    omits = bool(DEFAULTS[kind]) and kind.__struct_config__.omit_defaults
    return omits or "failure" in kind.__struct_fields__


_SHOWN: Final[dict[type[msgspec.Struct], Callable[[Any], Any]]] = {
    **dict.fromkeys(filter(_is_amended, DEFAULTS), _amended),
    ActivityScheduled: _with_options,
    WorkflowStarted: _input,
}
"""Events whose payload is shown in another form than recorded."""


def options_record(options: ActivityOptions) -> responses.ActivityOptions:
    """Return the retry policy and time-outs of an activity."""
    return responses.ActivityOptions(
        _policy(options.retry),
        seconds(options.start_to_close),
        _seconds(options.schedule_to_start),
        _seconds(options.schedule_to_close),
        _seconds(options.heartbeat),
        options.survives_cancel,
        value_of(options.context),
        options.summary,
        value_of(options.priority),
        options.id,
    )


def _retry(policy: RetryPolicy | None) -> responses.RetryPolicy | None:
    return None if policy is None else _policy(policy)


def _policy(policy: RetryPolicy) -> responses.RetryPolicy:
    """Return a retry policy with the keys of a start request."""
    return responses.RetryPolicy(
        policy.max_attempts,
        seconds(policy.initial_interval),
        policy.backoff,
        seconds(policy.maximum_interval),
        list(policy.non_retryable),
    )


def state_record(
    state: Payload, event_seq: int, created_at: Time, name: str | None = None
) -> responses.StateAnswer | responses.QueryAnswer | None:
    """Return the results of all queries of a run, or of the query `name`; None if the query does not exist."""
    found, time = value_of(state), seconds(created_at)
    if name is None:
        return responses.StateAnswer(state=found, event_seq=event_seq, created_at=time)
    if not isinstance(found, dict) or name not in found:
        return None
    return responses.QueryAnswer(value=found[name], event_seq=event_seq, created_at=time)


def cursor_of(created_at: Time, run_id: str) -> str:
    """Return the cursor of a run: the next page begins after the run."""
    return f"{created_at}.{run_id}"


def parse_cursor(text: str) -> tuple[Time, RunId]:
    """Return the creation time and run id in a cursor; raise `Invalid` for other texts."""
    created_at, _, run_id = text.partition(".")
    if not (created_at.isdecimal() and created_at.isascii() and run_id and len(created_at) <= _CURSOR_DIGITS):
        raise Invalid("cursor is not a cursor of a list of runs", field="cursor")
    return int(created_at), RunId(run_id)


_CURSOR_DIGITS = 18
"""The number of digits that always fits into a 64-bit column."""


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
