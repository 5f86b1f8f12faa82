"""Rules of activities: scheduled, run in attempts (see `leases`), and ended with exactly one outcome.

An attempt is fenced by its id (I8). A start-to-close time-out, a heartbeat time-out and a lost lease end the attempt,
and the retry policy applies; schedule-to-start and schedule-to-close time-outs are final. Only the outcome is an event.
"""

import msgspec

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.context import check_context
from assay.core.model.effects import CloseActivity, Decision, NoteAttempt, PutActivity
from assay.core.model.errors import Invalid, Kind, Refused
from assay.core.model.events import (
    DEFAULT_OPTIONS,
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityOptions,
    ActivityScheduled,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.core.model.priority import check_priority
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, Activity, Run
from assay.core.rules.moment import Moment

replace = msgspec.structs.replace

DEFAULT_RETRY = DEFAULT_OPTIONS.retry

HIGHEST_SEQ = 2**53
"""The highest seq of a command; every database and every JSON parser supports this number."""

INTERVALS = {"initial_interval": "initial_interval_secs", "maximum_interval": "maximum_interval_secs"}
"""The names of a retry policy's intervals in a command."""

FINAL_LIMITS = ("schedule_to_close", "schedule_to_start")


def schedule(decision: Decision, command: cmd.ScheduleActivity, at: Moment) -> None:
    """Record and schedule an activity, once per `seq`."""
    if decision.claim_seq(ActivityScheduled, command.seq, decision.activity_mark):
        _schedule(decision, command, at)


def schedule_direct(run: Run, request: rq.ScheduleDirect, at: Moment) -> Decision:
    """Schedule an activity by a request from outside, unless an activity has this seq."""
    command = request.command
    decision = Decision.of(run, at.now)
    if not 0 <= command.seq <= HIGHEST_SEQ:
        raise Invalid(f"seq must be from 0 to {HIGHEST_SEQ}", field="seq")
    if not request.known and command.seq not in run.activities:
        _schedule(decision, command, at)
        check_open(decision, 1)
    decision.reply = decision.activity(command.seq)
    return decision


def _schedule(decision: Decision, command: cmd.ScheduleActivity, at: Moment) -> None:
    if command.seq > decision.activity_mark:
        decision.activity_mark = command.seq
    options = options_of(command)
    number = at.ids.number()
    decision.record(
        ActivityScheduled(
            activity_id=number,
            activity_seq=command.seq,
            name=command.name,
            task_queue=command.task_queue,
            input=command.input,
            options=options,
        )
    )
    activity = Activity(
        seq=command.seq,
        id=number,
        name=command.name,
        queue=command.task_queue,
        input=command.input,
        options=options,
        scheduled_at=decision.now,
        queued_at=decision.now,
        attempt_id=number + 1,
    )
    decision.add(PutActivity(activity))


def check_open(decision: Decision, commands: int) -> None:
    """Raise `Invalid` if a decision with this number of commands exceeds the limit of open activities."""
    limit = LIMITS.pending_activities
    # The cheap bound comes first: `decision.activities()` copies a dict.
    if len(decision.run.activities) + commands > limit and len(decision.activities()) > limit:
        raise Invalid(f"a run may have at most {limit} open activities", code="limit_exceeded", field="commands")


def options_of(command: cmd.ScheduleActivity) -> ActivityOptions:
    """Return the options of an activity from its command; absent values take the defaults."""
    retry = _retry_of(command)
    # Most activities have the default options: sharing one object saves memory, and leases compare by identity.
    if (
        retry is DEFAULT_RETRY
        and command.start_to_close_secs is None
        and command.schedule_to_start_secs is None
        and command.schedule_to_close_secs is None
        and command.heartbeat_timeout_secs is None
        and not command.survives_cancel
        and command.context is NULL
        and command.summary is None
        and command.priority is NULL
        and command.id is None
    ):
        return DEFAULT_OPTIONS
    started = command.start_to_close_secs
    return ActivityOptions(
        retry=retry,
        start_to_close=300 * SECOND if started is None else _time(started, "start_to_close_secs"),
        schedule_to_start=_optional(command.schedule_to_start_secs, "schedule_to_start_secs"),
        schedule_to_close=_optional(command.schedule_to_close_secs, "schedule_to_close_secs"),
        heartbeat=_optional(command.heartbeat_timeout_secs, "heartbeat_timeout_secs"),
        survives_cancel=command.survives_cancel,
        context=check_context(command.context),
        summary=command.summary,
        priority=check_priority(command.priority),
        id=command.id,
    )


def _retry_of(command: cmd.ScheduleActivity) -> RetryPolicy:
    if (
        command.max_attempts is None
        and command.initial_interval_secs is None
        and command.backoff_coefficient is None
        and command.maximum_interval_secs is None
        and not command.non_retryable
    ):
        return DEFAULT_RETRY
    first, longest = command.initial_interval_secs, command.maximum_interval_secs
    initial = SECOND if first is None else _time(first, "initial_interval_secs")
    return RetryPolicy(
        max_attempts=3 if command.max_attempts is None else command.max_attempts,
        initial_interval=initial,
        backoff=2.0 if command.backoff_coefficient is None else command.backoff_coefficient,
        # The default maximum must not shorten a longer initial interval of the caller.
        maximum_interval=max(60 * SECOND, initial) if longest is None else _time(longest, "maximum_interval_secs"),
        non_retryable=command.non_retryable,
    ).checked(INTERVALS)


def _time(seconds: float, name: str) -> Time:
    if not 0 <= seconds <= 3_200_000_000:
        raise Invalid(f"{name} must be between 0 and 100 years, not {seconds} seconds", field=name)
    return round(seconds * SECOND)


def _optional(seconds: float | None, name: str) -> Time | None:
    return None if seconds is None else _time(seconds, name)


def request_cancel(decision: Decision, command: cmd.RequestCancelActivity, _: Moment) -> None:
    """Withdraw a waiting activity; request the cancellation of a running activity."""
    activity = decision.activity(command.seq)
    if activity is None or activity.cancel_requested:
        return
    decision.record(ActivityCancelRequested(activity.seq))
    if activity.running:
        decision.add(PutActivity(replace(activity, cancel_requested_at=decision.now)))
    else:
        withdraw(decision, activity)


def withdraw(decision: Decision, activity: Activity, details: Payload = NULL) -> None:
    """End an activity as cancelled, with an event for code that still waits for the activity."""
    decision.record(ActivityCancelled(activity.id, activity.seq, activity.name, details))
    decision.add(CloseActivity(activity, CANCELLED))
    decision.wake()


def held(run: Run, seq: int, attempt_id: int) -> Activity:
    """Return the activity if `attempt_id` is its current attempt; raise `Refused` for a late report (I8)."""
    activity = run.activities.get(seq)
    if activity is None:
        raise Refused("the activity already has its outcome", code="already_reported")
    if activity.attempt_id != attempt_id or not activity.running:
        raise Refused("this attempt is over; another one is pending or running", code="stale_attempt")
    return activity


def complete(run: Run, request: rq.CompleteActivity, at: Moment) -> Decision:
    """Record the result of an attempt as the outcome of its activity."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    succeed(decision, activity, request.result)
    decision.wake()
    return decision


def succeed(decision: Decision, activity: Activity, result: Payload, time: Time | None = None) -> None:
    """Record `result` as the outcome of an activity."""
    decision.record(ActivityCompleted(activity.id, activity.seq, activity.name, result), time)
    decision.add(CloseActivity(activity, COMPLETED, result=result))


def fail(run: Run, request: rq.FailActivity, at: Moment) -> Decision:
    """Schedule another attempt or record the failure, as the retry policy requires."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    _attempt_failed(decision, activity, request.failure, "failed")
    return decision


def cancelled(run: Run, request: rq.CancelledActivity, at: Moment) -> Decision:
    """Record that an attempt stopped because of a cancel request."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    withdraw(decision, activity, request.details)
    return decision


def heartbeat(run: Run, request: rq.HeartbeatActivity, at: Moment) -> Decision:
    """Restart the heartbeat time-out and keep the details for the next attempt."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    beaten = replace(
        activity,
        heartbeat_at=at.now,
        details=activity.details if request.details == NULL else request.details,
        lease_until=activity.lease_until if request.lease is None else at.now + request.lease,
    )
    decision.add(PutActivity(beaten))
    decision.reply = beaten
    return decision


def extend(run: Run, request: rq.ExtendActivity, at: Moment) -> Decision:
    """Extend the lease of an attempt; its time-outs do not change."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    extended = replace(activity, lease_until=at.now + request.lease)
    decision.add(PutActivity(extended))
    decision.reply = extended
    return decision


def release(run: Run, request: rq.ReleaseActivity, at: Moment) -> Decision:
    """Release an attempt: not counted if it never ran, counted if its worker was lost."""
    activity = held(run, request.seq, request.attempt_id)
    decision = Decision.of(run, at.now)
    if request.lost:
        _attempt_failed(decision, activity, _lost(), "lease")
    elif activity.cancel_requested:
        withdraw(decision, activity)
    else:
        # The waiting activity gets a new attempt id: a late report of the released attempt must never match (I8).
        attempt = activity.attempt - 1
        decision.add(
            PutActivity(replace(_unleased(activity), attempt=attempt, attempt_id=at.ids.number(), queued_at=at.now))
        )
    return decision


def elapse(run: Run, seq: int, at: Moment) -> Decision:
    """Apply the time-outs of an activity, or end its back-off, if due."""
    decision = Decision.of(run, at.now)
    activity = run.activities.get(seq)
    if activity is None:
        return decision
    over = min((limit for limit in activity.limits() if limit[0] <= at.now), default=None)
    if over is not None:
        _timed_out(decision, activity, over[1])
    elif activity.not_before is not None and activity.not_before <= at.now:
        decision.add(PutActivity(replace(activity, not_before=None, queued_at=at.now)))
    return decision


def _timed_out(decision: Decision, activity: Activity, limit: str) -> None:
    if limit == "lease":
        return _attempt_failed(decision, activity, _lost(), limit)
    failure = FailureInfo(
        kind=Kind.TIMEOUT,
        message=f"activity '{activity.name}' timed out ({limit})",
        type="TimeoutError",
        timeout_type=limit,
        retryable=False if limit in FINAL_LIMITS else None,
    )
    return _attempt_failed(decision, activity, failure, limit)


def _lost() -> FailureInfo:
    return FailureInfo(kind=Kind.UNAVAILABLE, message="the worker that ran this attempt was lost", type="WorkerLost")


def _attempt_failed(decision: Decision, activity: Activity, failure: FailureInfo, outcome: str) -> None:
    policy = activity.options.retry
    delay = None if activity.cancel_requested else policy.delay_after(activity.attempt, failure)
    # A retry that would begin after schedule-to-close would only time out, so the failure is final now.
    if delay is not None and not _too_late(activity, decision.now + delay):
        decision.add(NoteAttempt(activity, outcome, failure))
        again = decision.now + delay if delay > 0 else None
        waiting = replace(_unleased(activity), last_failure=failure, not_before=again, queued_at=decision.now)
        decision.add(PutActivity(waiting))
        return
    if activity.running:  # a time-out of a waiting activity ends no attempt
        decision.add(NoteAttempt(activity, outcome, failure))
    final = replace(failure, retry_state=_retry_state(activity, failure))
    decision.record(
        ActivityFailed(
            activity_id=activity.id,
            activity_seq=activity.seq,
            name=activity.name,
            error=failure.message,
            final_attempt=activity.attempt,
            failure=final,
            timeout_type=failure.timeout_type,
        )
    )
    decision.add(CloseActivity(activity, FAILED, error=failure.message))
    decision.wake()


def _retry_state(activity: Activity, failure: FailureInfo) -> str:
    if activity.cancel_requested:
        return "cancel_requested"
    if failure.timeout_type in FINAL_LIMITS:
        return "timeout"
    return activity.options.retry.state_after(activity.attempt, failure)


def _too_late(activity: Activity, time: Time) -> bool:
    limit = activity.options.schedule_to_close
    return limit is not None and time >= activity.scheduled_at + limit


def _unleased(activity: Activity) -> Activity:
    return replace(activity, worker=None, local=False, started_at=None, lease_until=None, heartbeat_at=None)
