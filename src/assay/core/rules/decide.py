"""Decisions about a run: the table of requests and their rules.

`decide` is a pure function: no clock, no random numbers, no I/O. The result is a decision to record, or an `AssayError`
without any effect (I2). `decide` changes nothing itself: `fold` applies the decision to the run. Leases granted by a
batch itself do not pass through `decide`; their rules are in `rules/leases.py`.
"""

from collections.abc import Callable
from typing import Any

from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.errors import NotFound, Refused
from assay.core.model.run import Run
from assay.core.rules import (
    activities,
    leases,
    lifecycle,
    mailbox_watches,
    messages,
    retry,
    timers,
    updates,
    workflow_tasks,
)
from assay.core.rules.moment import Moment


def decide(run: Run | None, request: rq.Request, at: Moment) -> Decision:
    """Return the decision about a request to a run; raise `AssayError` if the request is refused."""
    if isinstance(request, rq.StartWorkflow):
        return lifecycle.start(run, request, at)
    if run is None:
        raise _missing(request)
    if run.closed and not request.allowed_when_closed:
        raise _closed(run, request)
    try:
        return RULES[type(request)](run, request, at)
    except Refused as refusal:
        refusal.workflow_id, refusal.run_id = run.workflow_id, run.run_id
        raise


def _missing(request: rq.Request) -> NotFound:
    name, run_id = getattr(request, "workflow_id", None), getattr(request, "run_id", None)
    # The API has the same error for a missing and a closed run.
    more = " or already terminal" if isinstance(request, rq.RequestCancel | rq.Terminate) else ""
    error = NotFound(f"workflow {name or run_id} not found{more}")
    error.workflow_id, error.run_id = name, run_id
    return error


def _closed(run: Run, request: rq.Request) -> NotFound | Refused:
    error: NotFound | Refused
    if isinstance(request, rq.ToWorkflow):
        error = NotFound(f"workflow {run.workflow_id} not found or already terminal", code="workflow_closed")
    else:
        error = Refused(f"workflow {run.workflow_id} is closed ({run.status})", code="run_closed")
    error.workflow_id, error.run_id = run.workflow_id, run.run_id
    return error


def elapse(run: Run, request: rq.Elapse, at: Moment) -> Decision:
    """Handle a deadline of the run, of an activity, or of a timer."""
    if run.closed:
        return Decision.of(run, at.now)
    match request.kind:
        case "timer":
            return timers.elapse(run, request.ref, at)
        case "activity":
            return activities.elapse(run, request.ref, at)
        case _:
            return workflow_tasks.elapse(run, at)


RULES: dict[type[rq.Request], Callable[[Run, Any, Moment], Decision]] = {
    rq.Signal: messages.signal,
    rq.Deliver: messages.deliver,
    rq.Update: updates.receive,
    rq.RequestCancel: lifecycle.cancel,
    rq.Terminate: lifecycle.terminate,
    rq.AddWatcher: mailbox_watches.watch_from_outside,
    rq.RemoveWatcher: mailbox_watches.unwatch_from_outside,
    rq.RestartAsNew: lifecycle.restart_as_new,
    rq.RetryFailed: retry.retry,
    rq.ScheduleDirect: activities.schedule_direct,
    rq.LeaseTask: leases.lease_task,
    rq.Advance: workflow_tasks.advance,
    rq.FailTask: workflow_tasks.fail,
    rq.ExtendTask: workflow_tasks.extend,
    rq.ReleaseTask: workflow_tasks.release,
    rq.LoseTask: workflow_tasks.lose,
    rq.LeaseActivity: leases.lease_activity,
    rq.CompleteActivity: activities.complete,
    rq.FailActivity: activities.fail,
    rq.CancelledActivity: activities.cancelled,
    rq.HeartbeatActivity: activities.heartbeat,
    rq.ExtendActivity: activities.extend,
    rq.ReleaseActivity: activities.release,
    rq.Elapse: elapse,
}
