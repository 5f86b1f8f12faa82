"""Rules of leases: a workflow task or an attempt of an activity is leased to one worker.

Work that waits in a queue is leased by a request when a worker has a free slot: `decide` calls `lease_task` or
`lease_activity`. Work that becomes ready while a worker has a free slot is leased by the batch that made the work
ready. These leases are the most frequent change of all and consist of the lease alone: `lease_ready_task` and
`lease_ready_activity` apply them to the run without a `Decision`. Both ways grant the same lease (`_granted_task`,
`_new_attempt`). A worker may also keep its task with an accepted turn: see `workflow_tasks`.
"""

from msgspec.structs import replace

from assay.core.model import requests as rq
from assay.core.model.effects import Decision, PutActivity
from assay.core.model.errors import Refused
from assay.core.model.events import DEFAULT_OPTIONS
from assay.core.model.run import Activity, Run, Task
from assay.core.rules.fold import put_activity, set_task
from assay.core.rules.moment import Moment


def lease_task(run: Run, request: rq.LeaseTask, at: Moment) -> Decision:
    """Lease the due workflow task to the worker of the request."""
    decision = Decision.of(run, at.now)
    decision.reply = decision.task = _granted_task(run, request, at)
    return decision


def lease_activity(run: Run, request: rq.LeaseActivity, at: Moment) -> Decision:
    """Lease a new attempt of an activity to the worker of the request."""
    decision = Decision.of(run, at.now)
    decision.reply = leased = _new_attempt(run, request, at)
    decision.add(PutActivity(leased))
    return decision


def lease_ready_task(run: Run, request: rq.LeaseTask, at: Moment) -> None:
    """Lease a workflow task that this batch made due, in the same transaction."""
    set_task(run, _granted_task(run, request, at), max(at.now, run.last_time))


def lease_ready_activity(run: Run, request: rq.LeaseActivity, at: Moment) -> Activity:
    """Lease an activity that this batch made ready, in the same transaction; return the activity."""
    leased = _new_attempt(run, request, at)
    put_activity(run, leased)
    return leased


def _granted_task(run: Run, request: rq.LeaseTask, at: Moment) -> Task:
    """Return the task with its new lease, under a new epoch: reports of an earlier holder are refused (I7)."""
    if not run.task.ready:
        raise Refused("no workflow task is due", code="not_ready")
    return replace(
        run.task,
        since=None,
        stuck=None,
        epoch=run.task.epoch + 1,
        worker=request.worker,
        # A task time-out in the options of the start takes precedence over the lease of the worker.
        until=None if request.lease is None else at.now + (run.start.task_timeout or request.lease),
        local=request.local,
        granted_seq=run.last_seq,
        leased_at=at.now,
    )


def _new_attempt(run: Run, request: rq.LeaseActivity, at: Moment) -> Activity:
    """Return the activity with a new attempt, fenced by the attempt's id (I8)."""
    activity = run.activities.get(request.seq)
    if activity is None or not activity.ready:
        raise Refused("the activity is not waiting for a worker", code="not_ready")
    if activity.options is not DEFAULT_OPTIONS:  # the default options have no time-out before an attempt begins
        over = activity.deadline()
        if over is not None and over <= at.now:
            raise Refused("the activity's time to begin is over", code="not_ready")
    return replace(
        activity,
        attempt=activity.attempt + 1,
        attempt_id=activity.attempt_id if activity.attempt == 0 else at.ids.number(),
        worker=request.worker,
        local=request.local,
        started_at=at.now,
        heartbeat_at=None,
        lease_until=None if request.lease is None else at.now + request.lease,
    )
