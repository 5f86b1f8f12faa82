"""Convert activities to rows and back; the columns have the order of `tables`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from assay.core.model.events import DEFAULT_OPTIONS, ActivityOptions
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId
from assay.core.model.payload import NULL, Payload
from assay.core.model.priority import activity_order
from assay.core.model.run import OPEN_STATUSES, Activity
from assay.storage.ports import ActivityChange, AttemptEnd, StoredActivity
from assay.storage.sql.rows import Cells, document, payload

_encode = msgspec.json.Encoder().encode
_DEFAULT_OPTIONS = _encode(DEFAULT_OPTIONS)
_options = msgspec.json.Decoder(ActivityOptions).decode
_failure = msgspec.json.Decoder(FailureInfo).decode


def activity_row(change: ActivityChange) -> Cells:
    """Return a row of ACTIVITIES."""
    activity = change.activity
    closed = change.status not in OPEN_STATUSES
    return (
        activity.id,
        change.run.run_id,
        activity.seq,
        activity.name,
        activity.queue,
        change.run.namespace,
        document(activity.input),
        _DEFAULT_OPTIONS if activity.options is DEFAULT_OPTIONS else _encode(activity.options),
        activity.scheduled_at,
        change.status,
        activity.attempt,
        activity.attempt_id,
        activity.not_before,
        activity.worker,
        1 if activity.local else 0,
        activity.queued_at,
        activity.started_at,
        activity.lease_until,
        activity.heartbeat_at,
        None if activity.details is NULL else document(activity.details),
        activity.cancel_requested_at or 0,
        None if activity.last_failure is None else _encode(activity.last_failure),
        change.time if closed else None,
        None if change.result is NULL else document(change.result),
        change.error,
        None,  # reserved_until: any change of an activity ends its reservation
        activity_order(change.run, activity),
    )


def closing_row(change: ActivityChange) -> Cells:
    """Return a row of ACTIVITY_CLOSINGS."""
    return change.activity.id, change.status, change.time, document(change.result), change.error


def activity_of(row: Sequence[Any]) -> tuple[RunId, Activity]:
    """Return the run id and the open activity of a row of ACTIVITIES."""
    id_, run_id, seq, name, queue, _namespace, input_, options, scheduled_at, _status = row[:10]
    attempt, attempt_id, not_before, worker, local, queued_at, started_at, lease_until, heartbeat_at = row[10:19]
    details, cancel_requested, last_failure = row[19:22]
    return run_id, Activity(
        seq,
        id_,
        name,
        queue,
        payload(input_),
        _options(options),
        scheduled_at,
        attempt_id,
        attempt=attempt,
        not_before=not_before,
        worker=worker,
        local=bool(local),
        started_at=started_at,
        lease_until=lease_until,
        heartbeat_at=heartbeat_at,
        details=payload(details),
        cancel_requested_at=cancel_requested or None,
        last_failure=None if last_failure is None else _failure(last_failure),
        queued_at=queued_at,
    )


def is_open(row: Sequence[Any]) -> bool:
    """Return whether the activity of a row of ACTIVITIES has no outcome yet."""
    return row[22] is None


def activity_record(row: Sequence[Any]) -> StoredActivity:
    """Return the record of a row of ACTIVITIES, followed by the workflow id of its run."""
    id_, run_id, seq, name, queue, namespace, input_, options, scheduled_at, status = row[:10]
    attempt, attempt_id, not_before, worker, _local, queued_at, started_at, _lease, heartbeat_at = row[10:19]
    last_failure, completed_at, result, error, _reserved, _order, workflow_id = row[21:28]
    return StoredActivity(
        run_id=run_id,
        namespace=namespace,
        workflow_id=workflow_id,
        seq=seq,
        id=id_,
        name=name,
        task_queue=queue,
        status=status,
        attempt=attempt,
        attempt_id=attempt_id,
        input=payload(input_),
        result=payload(result),
        error=error,
        options=Payload(options),
        claimed_by=worker,
        scheduled_at=scheduled_at,
        started_at=started_at,
        completed_at=completed_at,
        last_heartbeat=heartbeat_at,
        last_failure=None if last_failure is None else _failure(last_failure),
        not_before=not_before,
        queued_at=queued_at,
    )


def attempt_row(end: AttemptEnd) -> Cells:
    """Return a row of ATTEMPTS."""
    activity = end.activity
    failure = None if end.failure is None else _encode(end.failure)
    return (
        activity.attempt_id,
        activity.id,
        end.run.run_id,
        activity.attempt,
        end.outcome,
        activity.worker,
        activity.started_at,
        end.time,
        failure,
    )
