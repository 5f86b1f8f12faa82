"""Responses about activities in their state after a decision, the same embedded and over HTTP."""

from typing import Any

from assay.core.model.events import ActivityOptions
from assay.core.model.ids import RunKey, Time, seconds
from assay.core.model.payload import value_of
from assay.core.model.replies import Reopened
from assay.core.model.run import PENDING, RUNNING, Activity
from assay.wire import responses


def open_activity_record(key: RunKey, activity: Activity) -> responses.ActivityRecord:
    """Return the record of an open activity; its id is the activity's own."""
    return responses.ActivityRecord(
        id=activity.id,
        workflow_id=key.workflow_id,
        seq=activity.seq,
        name=activity.name,
        task_queue=activity.queue,
        input=value_of(activity.input),
        status=RUNNING if activity.running else PENDING,
        result=None,
        error=None,
        attempt=activity.attempt if activity.running else activity.attempt + 1,
        **options_record(activity.options),
        claimed_by=activity.worker,
        scheduled_at=seconds(activity.not_before or activity.queued_at or activity.scheduled_at),
        started_at=_seconds(activity.started_at),
        completed_at=None,
        last_heartbeat=_seconds(activity.heartbeat_at),
        namespace=key.namespace,
        run_id=key.run_id,
        attempt_id=activity.attempt_id if activity.attempt else None,
    )


def options_record(options: ActivityOptions) -> dict[str, Any]:
    """Return the retry and time-out arguments of an activity's record; durations in seconds."""
    return {
        "max_attempts": options.retry.max_attempts,
        "initial_interval_secs": seconds(options.retry.initial_interval),
        "backoff_coefficient": options.retry.backoff,
        "start_to_close_secs": seconds(options.start_to_close),
        "heartbeat_timeout_secs": _seconds(options.heartbeat),
    }


def retry_record(reply: Reopened) -> responses.RetryAnswer:
    """Return the response to a retry; a run with a pending activity is shown as WAITING."""
    activity = None if reply.activity is None else open_activity_record(reply.key, reply.activity)
    return responses.RetryAnswer(
        workflow_id=reply.key.workflow_id,
        run_id=reply.key.run_id,
        status=RUNNING if activity is None else "WAITING",
        activity=activity,
        invalidated_activities=reply.invalidated,
        dropped_events=reply.dropped,
    )


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
