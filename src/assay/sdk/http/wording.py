"""From what a worker asks of its engine to the words of the exchange, and from the engine's words to grants."""

from collections.abc import Callable
from typing import Any, Final

from assay.core import requests as rq
from assay.core.events import StartData
from assay.core.grants import ActivityGrant, TaskGrant
from assay.core.ids import Namespace, RunId, RunKey, WorkerId, WorkflowId
from assay.core.run import Activity
from assay.sdk.http.holdings import Holdings
from assay.wire import exchange as wire


def _advance(held: Holdings, n: int, request: rq.Advance) -> wire.Report:
    outcomes = tuple([_outcome(held, outcome) for outcome in request.outcomes]) if request.outcomes else ()
    token = held.task_token(request.run_id, request.epoch)
    return wire.Advance(n, token, request.seen_seq, request.commands, outcomes, request.pending, request.early)


def _outcome(held: Holdings, outcome: rq.StepOutcome | rq.ActivityOutcome) -> wire.StepDone | wire.ActivityDone:
    if isinstance(outcome, rq.ActivityOutcome):
        return wire.ActivityDone(held.attempt_token(outcome.attempt_id), outcome.time, outcome.result)
    return wire.StepDone(
        outcome.seq,
        outcome.name,
        outcome.time,
        outcome.result,
        outcome.failure,
        outcome.attempt,
        outcome.retry_in,
        outcome.input_hash,
    )


REPORTS: Final[dict[type[rq.Request], Callable[[Holdings, int, Any], wire.Report]]] = {
    rq.Advance: _advance,
    rq.FailTask: lambda held, n, r: wire.FailTask(n, held.task_token(r.run_id, r.epoch), r.reason, r.message),
    rq.ExtendTask: lambda held, n, r: wire.ExtendTask(n, held.task_token(r.run_id, r.epoch)),
    rq.ReleaseTask: lambda held, n, r: wire.ReleaseTask(n, held.task_token(r.run_id, r.epoch)),
    rq.CompleteActivity: lambda held, n, r: wire.CompleteActivity(n, held.attempt_token(r.attempt_id), r.result),
    rq.FailActivity: lambda held, n, r: wire.FailActivity(n, held.attempt_token(r.attempt_id), r.failure),
    rq.CancelledActivity: lambda held, n, r: wire.CancelledActivity(n, held.attempt_token(r.attempt_id), r.details),
    rq.HeartbeatActivity: lambda held, n, r: wire.HeartbeatActivity(n, held.attempt_token(r.attempt_id), r.details),
    rq.ExtendActivity: lambda held, n, r: wire.ExtendActivity(n, held.attempt_token(r.attempt_id)),
    rq.ReleaseActivity: lambda held, n, r: wire.ReleaseActivity(n, held.attempt_token(r.attempt_id)),
}
"""How each request of a worker is reported."""


def task_grant(task: wire.Task, namespace: Namespace) -> TaskGrant:
    """A workflow task; `tail` are the events after its seen seq, if those are what came with it."""
    run_id = RunId(task.run_id)
    key = RunKey(namespace, WorkflowId(task.workflow_id), run_id)
    start = StartData(task.workflow_type, task.task_queue, run_id)
    fits = task.events is not None and task.after == task.seen_seq
    tail = wire.received(task.events or ()) if fits else None
    return TaskGrant(key, start, task.epoch, task.seen_seq, task.last_seq, task.history_bytes, tail)


def activity_grant(order: wire.Activity, namespace: Namespace, worker: WorkerId) -> ActivityGrant:
    """An attempt of an activity."""
    run_id = RunId(order.run_id)
    activity = Activity(
        seq=order.seq,
        id=order.id,
        name=order.name,
        queue=order.task_queue,
        input=order.input,
        options=order.options,
        scheduled_at=0,
        attempt_id=order.attempt_id,
        attempt=order.attempt,
        worker=worker,
        details=order.details,
    )
    start = StartData(order.workflow_type, order.task_queue, run_id)
    return ActivityGrant(RunKey(namespace, WorkflowId(order.workflow_id), run_id), start, activity)
