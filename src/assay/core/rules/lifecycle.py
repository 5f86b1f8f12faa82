"""Rules of the start and the end of runs: start, cancel, terminate, time-outs, and the next run of a chain.

A run closes once (I5). The next run of a chain, if any, begins in the same transaction (I18); the parent is notified
only of the end of the chain.
"""

from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.effects import CloseActivity, Decision, PutActivity, PutPeer, SetDeadlines
from assay.core.model.errors import Kind
from assay.core.model.events import (
    Event,
    Recorded,
    SignalReceived,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
    WorkflowTerminated,
    WorkflowTimedOut,
    next_run_of,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time, WorkflowId, seconds
from assay.core.model.message_bodies import received
from assay.core.model.options import check_id, check_text, checked_start
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse
from assay.core.model.replies import Started
from assay.core.model.run import CANCELLED, COMPLETED, PENDING, Run, Task
from assay.core.rules import activities, attributes, children, mailbox_watches, new_runs, watches
from assay.core.rules.message_limits import check_room
from assay.core.rules.moment import Moment


def start(run: Run | None, request: rq.StartWorkflow, at: Moment) -> Decision:
    """Start a run, or reply with the existing run, as the policies of the request require."""
    checked_start(request)
    ended: Decision | None = None
    if run is not None and request.request_id is not None and request.request_id == run.start.request_id:
        return _repeated(run, at)
    if run is not None and _may_stand_in(run, request):
        new_runs.check_type(run, request.workflow_type)
    if run is not None and not run.closed:
        if request.id_conflict_policy is IdConflict.USE_EXISTING:
            return _existing(run, request, at)
        if request.id_conflict_policy is IdConflict.FAIL:
            new_runs.check_free(run)
        ended = terminate_decision(run, "terminated to start a new run", None, at)
    else:
        new_runs.check_reuse(run, request.id_reuse_policy)
    decision = new_runs.new_run(request, run, at)
    if ended is not None:
        decision.others.append(ended)
    mailbox_watches.add_mailboxes(decision, request.watchers)
    decision.reply = Started(decision.run.key, PENDING, started=True)
    return decision


def _may_stand_in(run: Run, request: rq.StartWorkflow) -> bool:
    """Return whether the caller may use the existing run instead of a new run, so that the types must agree.

    With `use_existing` the caller attaches to an open run. With `allow_duplicate_failed_only` the refusal names the
    completed run, for the caller to read its result. The run is never closed by continue-as-new, because the newest
    run of an id is the end of its chain.
    """
    if request.id_conflict_policy is IdConflict.USE_EXISTING:
        return True
    return run.status == COMPLETED and request.id_reuse_policy is IdReuse.ALLOW_DUPLICATE_FAILED_ONLY


def _repeated(run: Run, at: Moment) -> Decision:
    """Return the first reply again to a repeated start, whatever the state of its chain (I15)."""
    decision = Decision.of(run, at.now)
    first = replace(run.key, run_id=run.start.first_run_id)
    decision.reply = Started(first, PENDING, started=True, repeated=True)
    return decision


def _existing(run: Run, request: rq.StartWorkflow, at: Moment) -> Decision:
    check_room(run, len(request.signals))
    decision = Decision.of(run, at.now)
    for message in request.signals:
        decision.record(received(message.name, message.args, message.sender, message.payload))
        decision.wake()
    if request.signals and _start_delayed(run):
        # Signal-with-start ends the start delay; a plain signal does not.
        decision.task = replace(decision.task, not_before=None)
    mailbox_watches.add_mailboxes(decision, request.watchers)
    decision.reply = Started(run.key, run.status, started=False)
    return decision


def _start_delayed(run: Run) -> bool:
    start = run.start
    return run.task.epoch == 0 and start.initiator == "start" and start.cron_schedule is None


def cancel(run: Run, request: rq.RequestCancel, at: Moment) -> Decision:
    """Request the cancellation of the run."""
    check_text(request.reason, "reason")
    check_text(request.sender, "from")
    return cancel_decision(run, request.reason, request.sender, request.deadline, at)


def cancel_decision(run: Run, reason: str | None, sender: str | None, deadline: Time | None, at: Moment) -> Decision:
    """Record a cancel request, withdraw activities that wait for a worker, and cancel the children."""
    decision = Decision.of(run, at.now)
    if deadline is not None:
        decision.add(SetDeadlines(cancel_deadline=at.now + deadline))
    if run.cancel_seq:
        return decision
    until = None if deadline is None else seconds(at.now + deadline)
    decision.record(WorkflowCancelRequested(reason, sender, until))
    if run.traps_cancel:  # the code receives an event and decides; nothing else is told
        decision.wake()
        return decision
    children.cancel_children(decision, reason)
    if run.task.epoch == 0:  # no worker ever held the task: no code can handle the request
        close(decision, WorkflowCancelled(reason), at)
        return decision
    for activity in run.activities.values():
        if activity.options.survives_cancel:
            continue
        if activity.running:
            decision.add(PutActivity(replace(activity, cancel_requested_at=at.now)))
        else:
            activities.withdraw(decision, activity)
    decision.wake()
    return decision


def terminate(run: Run, request: rq.Terminate, at: Moment) -> Decision:
    """Terminate the run now."""
    check_text(request.reason, "reason")
    return terminate_decision(run, request.reason or "terminated", request.by, at)


def terminate_decision(run: Run, reason: str, by: str | None, at: Moment) -> Decision:
    """Return the decision to terminate a run now; its chain ends as well."""
    decision = Decision.of(run, at.now)
    close(decision, WorkflowTerminated(reason, by), at)
    return decision


def complete(decision: Decision, command: cmd.CompleteWorkflow, at: Moment) -> None:
    """Close the run with a result; a run with a cron schedule is followed by the next run."""
    run = decision.run
    next_run_id = None
    if run.start.cron_schedule is not None:
        next_run_id = _next_cron(decision, at, command.result, None)
    close(decision, WorkflowCompleted(command.result, next_run_id), at)


def fail(decision: Decision, command: cmd.FailWorkflow, at: Moment) -> None:
    """Close the run as failed; the retry policy, or else the cron schedule, may open the next run."""
    failure = command.failure or FailureInfo(kind=Kind.UNKNOWN, message=command.error)
    close(decision, WorkflowFailed(command.error, failure, _after_failure(decision, failure, at)), at)


def cancelled(decision: Decision, command: cmd.CancelWorkflow, at: Moment) -> None:
    """Close the run as cancelled; the chain ends."""
    close(decision, WorkflowCancelled(command.reason), at)


def continue_as_new(decision: Decision, command: cmd.ContinueAsNew, at: Moment, unread: tuple[Recorded, ...]) -> None:
    """Close the run and begin the next run; unread signals and an unseen cancel request are carried over."""
    check_id(command.workflow_type or decision.run.start.workflow_type, "workflow_type")
    check_id(command.task_queue or decision.run.start.task_queue, "task_queue")
    search, memo = attributes.attributes(decision)
    if command.search_attributes != NULL:
        search = attributes.check_search(attributes.merge(search, command.search_attributes, "search_attributes"))
    if command.memo != NULL:
        memo = attributes.merge(memo, command.memo, "memo")
    opening = new_runs.next_run(
        decision.run,
        at,
        "continue",
        input=command.input,
        workflow_type=command.workflow_type,
        task_queue=command.task_queue,
        memo=memo,
        search=search,
        signals=unread,
        peers=watches.after(decision) if has_peers(decision) else None,
    )
    if any(isinstance(recorded.event, WorkflowCancelRequested) for recorded in unread):
        opening.add(SetDeadlines(cancel_deadline=decision.run.cancel_deadline))
    decision.others.append(opening)
    close(decision, WorkflowContinuedAsNew(opening.run.run_id), at)


def restart_as_new(run: Run, request: rq.RestartAsNew, at: Moment) -> Decision:
    """Continue as new by a request from outside."""
    if request.new_workflow_id not in (None, run.workflow_id):
        return _restart_elsewhere(run, request, request.new_workflow_id, at)
    if run.closed:
        newest = at.current.get((run.namespace, run.workflow_id), run)
        new_runs.check_free(newest)
        opening = new_runs.new_run(_same_start(run, request.input), newest, at)
    else:
        signals = _unseen(run, request)
        opening = new_runs.next_run(
            run, at, "continue", input=request.input, memo=run.memo, search=run.search, signals=signals, peers=run.peers
        )
        ended = Decision.of(run, at.now)
        close(ended, WorkflowContinuedAsNew(opening.run.run_id), at)
        opening.others.append(ended)
    opening.reply = Started(opening.run.key, PENDING, started=True)
    return opening


def _restart_elsewhere(run: Run, request: rq.RestartAsNew, name: WorkflowId, at: Moment) -> Decision:
    """Begin a new chain like that of `run` under another id; an open `run` is closed, and its parent notified."""
    newest = at.current.get((run.namespace, name))
    new_runs.check_free(newest)
    start = checked_start(replace(_same_start(run, request.input), workflow_id=name))
    opening = new_runs.new_run(start, newest, at)
    if not run.closed:
        for recorded in _unseen(run, request):
            opening.record(recorded.event)
        ended = Decision.of(run, at.now)
        close(ended, WorkflowContinuedAsNew(opening.run.run_id, name), at)
        opening.others.append(ended)
    opening.reply = Started(opening.run.key, PENDING, started=True)
    return opening


def _same_start(run: Run, input: Payload) -> rq.StartWorkflow:
    """Return a start request with the options of `run`, for a new chain without parent and old deadline."""
    start = run.start
    return rq.StartWorkflow(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        workflow_type=start.workflow_type,
        task_queue=start.task_queue,
        input=input,
        **new_runs.recorded_options(start) | {"search_attributes": run.search, "memo": run.memo},
    )


def _unseen(run: Run, request: rq.RestartAsNew) -> tuple[Recorded, ...]:
    """Return the signals after the last accepted task; the tail in memory is newer than the store's signals."""
    if run.tail is None:
        return request.signals
    return tuple(recorded for recorded in run.tail if isinstance(recorded.event, SignalReceived))


def elapse(run: Run, at: Moment) -> Decision:
    """Apply the time-outs of the run and the deadline of its cancellation, if due; its task has other rules."""
    decision = Decision.of(run, at.now)
    execution, cancel_by = run.start.execution_deadline, run.cancel_deadline
    if execution is not None and execution <= at.now:
        close(decision, WorkflowTimedOut("execution", "workflow execution timed out"), at)
    elif cancel_by is not None and cancel_by <= at.now:
        close(decision, WorkflowTerminated("cancel deadline passed", None), at)
    elif run.run_deadline is not None and run.run_deadline <= at.now:
        failure = FailureInfo(kind=Kind.TIMEOUT, message="workflow run timed out", timeout_type="run")
        close(decision, WorkflowTimedOut("run", failure.message, _after_failure(decision, failure, at)), at)
    return decision


def _after_failure(decision: Decision, failure: FailureInfo, at: Moment) -> RunId | None:
    """Open the next run after a failure, if the retry policy or the cron schedule requires; return its id."""
    run = decision.run
    if run.cancel_seq:
        return None  # after a cancel request no further run may begin
    policy = run.start.retry_policy
    delay = None if policy is None else policy.delay_after(run.start.attempt, failure)
    if delay is not None and _in_time(run, at.now + delay):
        return _follow(decision, at, "retry", at.now + delay, run.start.last_completion_result, failure)
    if run.start.cron_schedule is not None:
        return _next_cron(decision, at, run.start.last_completion_result, failure)
    return None


def _next_cron(decision: Decision, at: Moment, result: Payload, failure: FailureInfo | None) -> RunId | None:
    due = new_runs.next_cron_time(decision.run.start.cron_schedule or "", at.now)
    if due is None or not _in_time(decision.run, due):
        return None
    return _follow(decision, at, "cron", due, result, failure)


def _in_time(run: Run, time: Time) -> bool:
    return run.start.execution_deadline is None or time < run.start.execution_deadline


def _follow(
    decision: Decision, at: Moment, initiator: str, when: Time, result: Payload, failure: FailureInfo | None
) -> RunId:
    run = decision.run
    opening = new_runs.next_run(
        run,
        at,
        initiator,
        input=run.input,
        first_task_at=when,
        memo=run.start.memo,
        search=run.start.search_attributes,
        last_result=result,
        last_failure=failure,
        peers=watches.after(decision) if has_peers(decision) else None,
    )
    decision.others.append(opening)
    return opening.run.run_id


def has_peers(decision: Decision) -> bool:
    """Return whether the run has watchers, watches or options, or gets them by this decision."""
    return decision.run.peers is not None or any(isinstance(effect, PutPeer) for effect in decision.effects)


def close(decision: Decision, event: Event, at: Moment) -> None:
    """Close the run: withdraw open activities, apply the close policy to children, notify the parent."""
    for activity in decision.activities().values():
        decision.add(CloseActivity(activity, CANCELLED))
    children.parent_closed(decision)
    decision.record(event)
    if next_run_of(event) is None:  # the parent and the watchers wait for the whole chain
        children.notify_parent(decision, event)
        if has_peers(decision):
            watches.fire(decision)
            mailbox_watches.fire(decision)
            watches.leave(decision)
    if has_peers(decision):
        watches.clear(decision)
    decision.task = Task(epoch=decision.task.epoch)  # the epoch stays, so that late reports are recognized
