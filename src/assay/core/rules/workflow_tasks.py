"""Rules of a leased workflow task: its completion, failure, extension and release (see `leases` for the lease itself).

Every lease raises the epoch of the task, and reports under an earlier epoch are refused (I7). A turn may include
outcomes with which the worker has already advanced: then its commands are accepted only if no other event was recorded.
"""

from collections.abc import Callable, Collection
from typing import Any

from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.errors import AssayError, Invalid, Kind, Refused
from assay.core.model.events import StepCompleted, StepFailed
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time
from assay.core.model.limits import LIMITS
from assay.core.model.replies import Advanced
from assay.core.model.run import DEADLOCK, NON_DETERMINISM, TASK_FAILED, Run, Stuck, Task
from assay.core.rules import activities, attributes, children, lifecycle, messages, timers, updates, watches
from assay.core.rules.activities import HIGHEST_SEQ
from assay.core.rules.moment import Moment
from assay.core.rules.unread import unread_of

CLOCK_TOLERANCE: Time = SECOND
"""The largest accepted difference between a time in a worker's report and engine time."""

LONGEST_BACKOFF: Time = 60 * SECOND


def _holds(run: Run, request: rq.Advance | rq.FailTask | rq.ExtendTask | rq.ReleaseTask) -> bool:
    task = run.task
    return task.worker == request.worker and (request.epoch == task.epoch or request.epoch == rq.HELD_EPOCH)


def _held(run: Run, request: rq.FailTask | rq.ExtendTask | rq.ReleaseTask) -> None:
    if not _holds(run, request):
        raise _stale()


def _stale() -> Refused:
    return Refused("this worker no longer holds the workflow task", code="stale_task")


def advance(run: Run, request: rq.Advance, at: Moment) -> Decision:
    """Record the outcomes of a turn and, unless `_refusal` finds a reason against them, apply its commands."""
    seen = request.seen_seq if request.seen_seq >= 0 else run.task.granted_seq
    # A worker that has seen less than an accepted turn of the same lease repeats that turn.
    holds = _holds(run, request) and seen >= run.seen_seq
    if not holds and not request.outcomes:
        raise _stale()
    decision = Decision.of(run, at.now)
    recorded = _record_outcomes(decision, request, holds)
    refusal = _refusal(decision, request, seen, holds, recorded)
    if refusal is None:
        try:
            return _accepted(decision, request, seen, holds, at)
        except children.ChildNotStarted as failed:
            # The code ran on as if the child were started: record the outcomes and the failure, and no command.
            decision = Decision.of(run, at.now)
            recorded = _record_outcomes(decision, request, holds)
            decision.record(failed.event)
            return _refused(decision, "child_not_started", holds, recorded)
        except AssayError as error:
            if error.code == attributes.VERSION_CONFLICT:
                return _conflicting(run, request, holds, str(error), at)
            if not any(recorded):
                raise
            refusal = error.code  # a bad command does not undo the outcomes before it
            decision = Decision.of(run, at.now)
            recorded = _record_outcomes(decision, request, holds)
    elif not any(recorded) and not holds:
        raise _stale() if _has_steps(request) else Refused("these results come too late", code="stale_attempt")
    return _refused(decision, refusal, holds, recorded)


def _accepted(decision: Decision, request: rq.Advance, seen: int, holds: bool, at: Moment) -> Decision:
    if decision.task.since is not None:
        decision.task = replace(decision.task, since=None)  # due again only for events that the worker has not seen
    _apply_commands(decision, request, seen, at)
    # A worker cannot have seen an event that did not exist: no input of this turn counts as seen by a wrong number.
    known_seq = _settle(decision, request, min(seen, decision.run.last_seq))
    decision.reply = Advanced(
        accepted=True,
        last_seq=decision.last_seq,
        seen_seq=known_seq,
        epoch=decision.task.epoch,
        leased=decision.task.worker is not None,
        closed=decision.closes,
        recorded=(True,) * len(request.outcomes),
    )
    return decision


def _has_steps(request: rq.Advance) -> bool:
    return any(isinstance(outcome, rq.StepOutcome) for outcome in request.outcomes)


def _refusal(decision: Decision, request: rq.Advance, seen: int, holds: bool, recorded: tuple[bool, ...]) -> str | None:
    """Return the code of the reason why the commands of this turn are refused; None if they are accepted."""
    run = decision.run
    if not request.outcomes:
        # Without speculation only a close must have seen every event: an unseen signal must not be lost (I14).
        return "unhandled_events" if run.last_seq > seen and _closes_blindly(run, request, seen) else None
    # The code ran on from outcomes that were not recorded yet. Any other event since would come before them in the
    # history, and a replay would see another order.
    if run.last_seq != seen or run.task.epoch != request.epoch:
        return "unhandled_events"
    if not holds and (run.task.worker is not None or run.task.since is not None):
        return "stale_task"
    return None if all(recorded) and _plausible(decision, request) else "stale_attempt"


def _closes_blindly(run: Run, request: rq.Advance, seen: int) -> bool:
    """Return whether a command closes the run although an unseen event would be lost."""
    for command in request.commands:
        if isinstance(command, cmd.ContinueAsNew):
            return run.firm_seq > seen  # unseen messages go along to the next run
        if isinstance(command, cmd.CLOSING):
            return True
    return False


def _plausible(decision: Decision, request: rq.Advance) -> bool:
    """Return whether the outcomes' times fit engine time: on replay `now()` has to return the same times."""
    last = decision.run.last_time
    for outcome in request.outcomes:
        if outcome.time < last or abs(outcome.time - decision.now) > CLOCK_TOLERANCE:
            return False
        last = outcome.time
    return True


def _record_outcomes(decision: Decision, request: rq.Advance, holds: bool) -> tuple[bool, ...]:
    """Record the valid outcomes; return a flag for each. Steps are accepted only from the holder of the task."""
    if not request.outcomes:
        return ()
    return tuple(
        [
            (holds or type(outcome) is rq.ActivityOutcome) and _record_outcome(decision, outcome)
            for outcome in request.outcomes
        ]
    )


def _record_outcome(decision: Decision, outcome: rq.StepOutcome | rq.ActivityOutcome) -> bool:
    time = outcome.time if abs(outcome.time - decision.now) <= CLOCK_TOLERANCE else None
    if isinstance(outcome, rq.ActivityOutcome):
        activity = decision.activity(outcome.seq) if decision.effects else decision.run.activities.get(outcome.seq)
        if activity is None or activity.attempt_id != outcome.attempt_id or not activity.running:
            return False
        activities.succeed(decision, activity, outcome.result, time)
        return True
    if not _step_open(decision, outcome.seq):
        return False
    if outcome.failure is None:
        completed = StepCompleted(outcome.seq, outcome.name, outcome.result, outcome.attempt, outcome.input_hash)
        decision.record(completed, time)
    else:
        failure = outcome.failure
        failed = StepFailed(
            outcome.seq,
            outcome.name,
            failure.message,
            failure,
            outcome.attempt,
            outcome.retry_in,
            outcome.input_hash,
        )
        decision.record(failed, time)
    return True


def _step_open(decision: Decision, seq: int) -> bool:
    """Return whether step `seq` has no outcome yet (I6); concurrent steps end in any order."""
    run = decision.run
    if seq <= run.step_mark:
        begun = seq > 0 if run.open_steps is None else seq in run.open_steps
    else:
        begun = seq <= LIMITS.history_events
    if not decision.events:
        return begun
    steps = (one.event for one in decision.events if isinstance(one.event, StepCompleted | StepFailed))
    return begun and not any(step.step_seq == seq for step in steps)


def _refused(decision: Decision, code: str, holds: bool, recorded: tuple[bool, ...]) -> Decision:
    """Refuse the commands of a turn, keep its outcomes, and make a task due: the code decides again with all events."""
    if holds:
        decision.task = replace(decision.task, worker=None, until=None, local=False)
    decision.wake()
    decision.reply = Advanced(
        accepted=False, code=code, last_seq=decision.last_seq, epoch=decision.task.epoch, recorded=recorded
    )
    return decision


def _conflicting(run: Run, request: rq.Advance, holds: bool, message: str, at: Moment) -> Decision:
    """Refuse the commands of a turn that contradicts a recorded version, keep its outcomes, and fail the task."""
    decision = Decision.of(run, at.now)
    recorded = _record_outcomes(decision, request, holds)
    decision = _refused(decision, attributes.VERSION_CONFLICT, holds, recorded)
    decision.task = _backed_off(run, at.now, NON_DETERMINISM, message, run.task.failures + 1)
    return decision


def _apply_commands(decision: Decision, request: rq.Advance, seen: int, at: Moment) -> None:
    """Apply commands in order, up to the first that closes the run."""
    commands, decision.unused = request.commands, request.unused
    if len(commands) > LIMITS.commands:
        raise Invalid(f"at most {LIMITS.commands} commands in one turn", code="limit_exceeded", field="commands")
    for command in commands:
        if not 0 <= getattr(command, "seq", 0) <= HIGHEST_SEQ:
            raise Invalid(f"a seq must be from 0 to {HIGHEST_SEQ}", field="seq")
        rule = COMMANDS.get(type(command))
        if rule is not None:
            rule(decision, command, at)
        elif isinstance(command, cmd.StartChildWorkflow):
            children.start(decision, command, at, seen, request.denied)
        elif isinstance(command, cmd.SendMessage):
            messages.send(decision, command, request.denied)
        elif isinstance(command, STEERING):
            STEER[type(command)](decision, command, request.denied)
        elif isinstance(command, cmd.UpdateResponse):
            updates.answer(decision, command, request)
        elif isinstance(command, cmd.ContinueAsNew):
            lifecycle.continue_as_new(decision, command, at, unread_of(decision.run, request))
        if decision.closes:
            return
    activities.check_open(decision, len(commands))
    if decision.last_seq > LIMITS.history_events or at.history_full:
        message = f"the history has more than {LIMITS.history_events} events or {LIMITS.history_bytes} bytes"
        message += "; use continue_as_new"
        failure = FailureInfo(kind=Kind.RATE_LIMITED, message=message, type="limit_exceeded", retryable=False)
        lifecycle.fail(decision, cmd.FailWorkflow(message, failure), at)


def _settle(decision: Decision, request: rq.Advance, seen: int) -> int:
    """Set the task after an accepted turn: done, due again, or still leased for local work or the next part.

    Return the last event up to which the code of the worker has the whole history.
    """
    if decision.closes:
        decision.seen_seq = decision.last_seq
        return decision.seen_seq
    run = decision.run
    outcomes = len(request.outcomes)
    inputs: list[int] = []
    if len(decision.events) > outcomes:  # the events begin with the outcomes, which the code has seen
        inputs = [recorded.seq for recorded in decision.events[outcomes:] if recorded.event.is_input]
    # The code has seen the echoes of its own commands, but not an input event among them, for example of a child that
    # could not be started.
    known_seq = inputs[0] - 1 if inputs else decision.last_seq
    if run.input_seq > seen or request.early:
        # An input event arrived that the code has not seen, or the code has not yet run on from the outcomes.
        known_seq = seen
    # A turn counts as seen with its last part. Until then another worker applies the inputs of the turn once more,
    # finds the first commands recorded, and is free to add the missing ones.
    decision.seen_seq = run.seen_seq if request.more else known_seq
    unseen = (inputs[-1] if inputs else run.input_seq) > decision.seen_seq
    requested = decision.task.since is not None
    since = (run.task.since or decision.now) if unseen or requested else None
    if request.pending or request.early or request.more:
        decision.task = Task(
            since=since,
            # A new lease with a new epoch: a message that arrives twice must not apply the same turn twice (I7).
            epoch=decision.task.epoch + 1,
            worker=request.worker,
            until=None if request.lease is None else decision.now + request.lease,
            local=request.local,
            granted_seq=decision.last_seq,
            leased_at=decision.now,
        )
    else:
        decision.task = Task(since=since, epoch=decision.task.epoch, stuck=_deadlock(request, since))
    return known_seq


def _deadlock(request: rq.Advance, since: Time | None) -> Stuck | None:
    """Return the state of a run whose code waits for nothing that can come: no next try, until a new event arrives."""
    if request.deadlock is None or since is not None:
        return None
    return Stuck(DEADLOCK, request.deadlock, attempt=1)


def fail(run: Run, request: rq.FailTask, at: Moment) -> Decision:
    """Back off from a task that cannot be completed at present, and mark the run as stuck."""
    _held(run, request)
    decision = Decision.of(run, at.now)
    decision.task = _backed_off(run, at.now, request.reason, request.message, run.task.failures + 1)
    return decision


def lose(run: Run, request: rq.LoseTask, at: Moment) -> Decision:
    """Release the task of a worker that died with its engine: due at once, or after a back-off if this repeats."""
    if run.task.worker is None or run.task.epoch != request.epoch:
        raise _stale()
    decision = Decision.of(run, at.now)
    decision.task = _abandoned(run, at.now)
    return decision


def extend(run: Run, request: rq.ExtendTask, at: Moment) -> Decision:
    """Extend the lease of the task."""
    _held(run, request)
    decision = Decision.of(run, at.now)
    decision.task = replace(run.task, until=None if run.task.until is None else at.now + request.lease)
    decision.reply = decision.task
    return decision


def release(run: Run, request: rq.ReleaseTask, at: Moment) -> Decision:
    """Release the task undone, without counting a failure."""
    _held(run, request)
    decision = Decision.of(run, at.now)
    decision.task = replace(run.task, worker=None, until=None, local=False)
    decision.wake()
    return decision


def elapse(run: Run, at: Moment) -> Decision:
    """Release an expired lease; make a delayed task due."""
    decision = lifecycle.elapse(run, at)
    task = run.task
    if decision.closes:
        return decision
    if task.worker is not None and task.until is not None and task.until <= at.now:
        decision.task = _abandoned(run, at.now)
    elif task.worker is None and task.not_before is not None and task.not_before <= at.now:
        decision.task = replace(task, not_before=None)
    return decision


def _abandoned(run: Run, now: Time) -> Task:
    failures = run.task.failures + 1
    if failures == 1:  # most often a restart of the worker; only repeated losses point to the workflow's code
        return replace(run.task, since=now, worker=None, until=None, local=False, failures=1)
    return _backed_off(run, now, TASK_FAILED, "the worker that held the task was lost", failures)


def _backed_off(run: Run, now: Time, reason: str, message: str, failures: int) -> Task:
    again = now + min(SECOND * 2 ** min(failures - 1, 6), LONGEST_BACKOFF)
    known = run.task.stuck
    since = now if known is None or known.reason != reason else known.since
    return Task(
        since=now,
        not_before=again,
        epoch=run.task.epoch,
        failures=failures,
        stuck=Stuck(reason, message, failures, again, since),
    )


COMMANDS: dict[type[cmd.Command], Callable[[Decision, Any, Moment], None]] = {
    cmd.ScheduleActivity: activities.schedule,
    cmd.RequestCancelActivity: activities.request_cancel,
    cmd.ScheduleTimer: timers.schedule,
    cmd.CancelTimer: timers.cancel,
    cmd.WaitForSignal: messages.wait,
    cmd.RecordSideEffect: attributes.record_side_effect,
    cmd.RecordVersion: attributes.record_version,
    cmd.RecordSnapshot: attributes.record_snapshot,
    cmd.UpsertSearchAttributes: attributes.upsert_search,
    cmd.UpsertAttributes: attributes.upsert,
    cmd.SetOptions: watches.set_options,
    cmd.CompleteWorkflow: lifecycle.complete,
    cmd.FailWorkflow: lifecycle.fail,
    cmd.CancelWorkflow: lifecycle.cancelled,
}
"""The rule of each command. The start of a child and continue-as-new need more arguments: see `_apply_commands`."""

STEER: dict[type[cmd.Command], Callable[[Decision, Any, Collection[str]], None]] = {
    cmd.RequestCancelExternal: children.request_cancel,
    cmd.TerminateExternal: children.request_terminate,
    cmd.Watch: watches.watch,
    cmd.Unwatch: watches.unwatch,
}
"""The rules of commands to other workflows; their last argument has the namespaces that look empty to the worker."""
STEERING = tuple(STEER)
