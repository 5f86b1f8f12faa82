"""Response bodies about activities, built from stored records and grants; other bodies are built in `wire`."""

import json

import msgspec

from assay.core.model.context import merged_context
from assay.core.model.events import ActivityOptions
from assay.core.model.grants import ActivityGrant
from assay.core.model.ids import Time, seconds
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import PENDING, RUNNING
from assay.engine.reads import StoredActivity
from assay.wire import responses
from assay.wire.activities import options_record

_options = msgspec.json.Decoder(ActivityOptions).decode


def activity_record(found: StoredActivity) -> responses.ActivityRecord:
    """Return the record of an activity, open or closed. Its id is the activity's id, not the attempt's."""
    counted = found.attempt + 1 if found.status == PENDING else found.attempt
    return responses.ActivityRecord(
        id=found.id,
        workflow_id=found.workflow_id,
        seq=found.seq,
        name=found.name,
        task_queue=found.task_queue,
        input=found.input,
        status=found.status,
        result=found.result,
        error=found.error,
        attempt=max(counted, 1),
        **options_record(_options(found.options)),
        claimed_by=found.claimed_by,
        scheduled_at=seconds(found.scheduled_at if counted <= 1 else found.not_before or found.queued_at),
        started_at=_seconds(found.started_at),
        completed_at=_seconds(found.completed_at),
        last_heartbeat=_seconds(found.last_heartbeat),
        namespace=found.namespace,
        run_id=found.run_id,
        attempt_id=found.attempt_id if found.attempt else None,
    )


def task_record(grant: ActivityGrant, token: str) -> responses.ActivityTask:
    """Return an attempt for a polling worker. Its id is the attempt's id, and its input is JSON text."""
    activity = grant.activity
    return responses.ActivityTask(
        id=activity.attempt_id,
        workflow_id=grant.key.workflow_id,
        seq=activity.seq,
        name=activity.name,
        task_queue=activity.queue,
        input=json_text(activity.input),
        status=RUNNING,
        result=None,
        error=None,
        attempt=activity.attempt,
        **options_record(activity.options),
        claimed_by=activity.worker,
        scheduled_at=seconds(activity.scheduled_at if activity.attempt <= 1 else activity.queued_at),
        started_at=_seconds(activity.started_at),
        completed_at=None,
        last_heartbeat=None,
        namespace=grant.key.namespace,
        run_id=grant.key.run_id,
        activity_id=activity.id,
        workflow_type=grant.start.workflow_type,
        heartbeat_details=activity.details,
        context=merged_context(grant.start.context, activity.options.context),
        actor=grant.start.actor,
        scope=None if grant.start.scope is None else list(grant.start.scope),
        task_token=token,
    )


def json_text(document: Payload) -> str | None:
    """Return a document as polling workers expect it: compact, keys sorted, no unnecessary escapes."""
    if document is NULL or document == NULL:
        return None
    value = msgspec.json.decode(document)
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
