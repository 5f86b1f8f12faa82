"""Apply decisions and leases to the state of their run.

No other module assigns a field of a `Run` (`tests/architecture/test_runs.py`). Facts about the rows of a run, such as
their version, are not part of a `Run`: the write path keeps them in a `StoredRun`.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay.core.model import effects as fx
from assay.core.model import events as ev
from assay.core.model.effects import Decision
from assay.core.model.ids import Time
from assay.core.model.limits import TAIL_BYTES, TAIL_EVENTS
from assay.core.model.peers import Peer, PeerKey
from assay.core.model.run import PENDING, RUNNING, Activity, Run, Task
from assay.core.model.sizes import activity_bytes, event_bytes
from assay.core.model.waits import NO_WAITS, AwaitedSignal, CancelRequest, FailedWork

CLOSE_REASONS: dict[type[ev.Event], str | None] = {
    ev.WorkflowCompleted: None,
    ev.WorkflowFailed: None,
    ev.WorkflowCancelled: None,
    ev.WorkflowTerminated: "terminated",
    ev.WorkflowTimedOut: "timed_out",
    ev.WorkflowContinuedAsNew: "continued_as_new",
}
"""The `close_reason` of a run by closing event."""


def fold(run: Run, decision: Decision) -> None:
    """Apply a decision to its run: events in order, then effects, then the task."""
    if decision.events:
        for recorded in decision.events:
            apply(run, recorded)
        if decision.seen_seq != decision.last_seq:  # in most turns the worker has seen all events
            if run.waits.signals and run.waits.signals[-1].seq >= decision.events[0].seq:
                _drop_answered_waits(run, decision)
            _append_to_tail(run, decision.events)
    for effect in decision.effects:
        EFFECTS[type(effect)](run, effect)
    if decision.task is not run.task:
        set_task(run, decision.task, decision.time)
    if decision.seen_seq != run.seen_seq:
        _mark_seen(run, decision.seen_seq)
    if run.closed_at is not None:
        _clear_open_work(run)  # also of activities, timers and children that the closing decision itself began


def put_activity(run: Run, activity: Activity) -> None:
    """Add or replace an open activity."""
    known = run.activities.get(activity.seq)
    if known is None:
        run.activity_bytes += activity_bytes(activity)
    # A lease replaces the activity and keeps its payloads: usually the size is unchanged.
    elif known.details is not activity.details or known.last_failure is not activity.last_failure:
        run.activity_bytes += activity_bytes(activity) - activity_bytes(known)
    run.activities[activity.seq] = activity


def add_unseen(run: Run, seq: int, kind: str) -> None:
    """Add the place of an event after `seen_seq` to a run that was read from the store."""
    event = ev.KINDS.get(kind)
    if event is None or not event.is_input:
        return
    if event in MESSAGES:
        run.unseen.append(seq)
    if not event.goes_along:
        run.firm_seq = seq


def add_peers(run: Run, peers: dict[PeerKey, Peer]) -> None:
    """Set the watchers, watches and options that a store has read for a run."""
    run.peers = peers


def trim_tail(run: Run) -> None:
    """Drop a tail that is too large for memory.

    Called only between batches: while a batch is decided, later requests need the events of earlier requests.
    """
    if run.tail_bytes > TAIL_BYTES or (run.tail is not None and len(run.tail) > TAIL_EVENTS):
        run.tail, run.tail_bytes = None, 0


def apply(run: Run, recorded: ev.Recorded) -> None:
    """Apply an event to its run."""
    event = recorded.event
    run.last_seq = seq = recorded.seq
    run.last_time = recorded.time
    if event.is_input:
        run.input_seq = seq
        if not event.goes_along:
            run.firm_seq = seq
    change = EVENTS.get(type(event))
    if change is not None:
        change(run, event)
    if event.closes is not None:
        _close(run, recorded)


def _append_to_tail(run: Run, events: list[ev.Recorded]) -> None:
    """Append events to the tail, for the next workflow task."""
    if run.tail is not None:
        run.tail.extend(events)
        for recorded in events:
            run.tail_bytes += event_bytes(recorded.event)


def _close(run: Run, recorded: ev.Recorded) -> None:
    event = recorded.event
    run.status = event.closes or ""
    run.close_reason = CLOSE_REASONS[type(event)]
    run.error = getattr(event, "error", None) or (event.reason if isinstance(event, ev.WorkflowTerminated) else None)
    run.next_run_id = getattr(event, "next_run_id", None)
    run.closed_at = run.updated_at = recorded.time
    run.waits = NO_WAITS
    _clear_open_work(run)


def _clear_open_work(run: Run) -> None:
    run.cancel_deadline = None
    run.unseen.clear()
    run.firm_seq = 0
    run.activities.clear()
    run.activity_bytes = 0
    run.timers.clear()
    run.children.clear()
    run.versions.clear()
    run.peers = None


def _cancel_requested(run: Run, event: ev.WorkflowCancelRequested) -> None:
    run.cancel_seq = run.last_seq
    run.waits = replace(run.waits, cancel=CancelRequest(run.last_time, event.reason, event.sender))


def _activity_scheduled(run: Run, event: ev.ActivityScheduled) -> None:
    if run.status == PENDING:  # scheduled from outside, before any lease of the workflow task
        run.status, run.updated_at = RUNNING, run.last_time
    if event.activity_seq > run.activity_mark:
        run.activity_mark = event.activity_seq


def _timer_scheduled(run: Run, event: ev.TimerScheduled) -> None:
    run.timer_mark = max(run.timer_mark, event.timer_seq)


def _side_effect(run: Run, event: ev.SideEffectRecorded) -> None:
    run.effect_mark = max(run.effect_mark, event.side_effect_seq)


def _step(run: Run, event: ev.StepCompleted | ev.StepFailed) -> None:
    # A step out of order: the steps that it overtook are still open.
    if run.open_steps is not None and event.step_seq != run.step_mark + 1:
        run.open_steps.update(range(run.step_mark + 1, event.step_seq))
        run.open_steps.discard(event.step_seq)
    if event.step_seq > run.step_mark:
        run.step_mark = event.step_seq


def _signal(run: Run, event: ev.SignalReceived) -> None:
    run.signals += 1
    run.unseen.append(run.last_seq)
    if run.waits.signals:
        _end_wait(run, next((wait for wait in run.waits.signals if wait.name == event.signal), None))


MESSAGES = frozenset((ev.SignalReceived, ev.UpdateReceived))
"""Events that count against the limit of messages."""


def _update(run: Run, _: ev.UpdateReceived) -> None:
    run.unseen.append(run.last_seq)


def _sent(run: Run, event: ev.MessageSendRequested) -> None:
    run.sends += 1
    run.send_mark = max(run.send_mark, event.send_seq)


def _send_ended(run: Run, _: ev.MessageDelivered | ev.MessageSendFailed) -> None:
    run.sends -= 1


def _awaiting(run: Run, event: ev.WorkflowAwaitingSignal) -> None:
    wait = AwaitedSignal(run.last_seq, event.signal, run.last_time, event.timer_seq)
    run.waits = replace(run.waits, signals=(*run.waits.signals, wait))


def _activity_failed(run: Run, event: ev.ActivityFailed) -> None:
    run.waits = replace(run.waits, failed=FailedWork(event.name, event.error))


def _step_failed(run: Run, event: ev.StepFailed) -> None:
    _step(run, event)
    if event.retry_in is None:
        run.waits = replace(run.waits, failed=FailedWork(event.name, event.error))


def _timer_ended(run: Run, event: ev.TimerFired | ev.TimerCancelled) -> None:
    if run.waits.signals:
        _end_wait(run, next((wait for wait in run.waits.signals if wait.timer_seq == event.timer_seq), None))


def _end_wait(run: Run, ended: AwaitedSignal | None) -> None:
    if ended is not None:
        run.waits = replace(run.waits, signals=tuple(wait for wait in run.waits.signals if wait is not ended))


def _drop_answered_waits(run: Run, decision: Decision) -> None:
    """Drop new waits whose signal arrived before them, unseen by the code: the code takes the signal next."""
    for recorded in run.tail or ():
        event = recorded.event
        if isinstance(event, ev.SignalReceived) and recorded.seq > decision.seen_seq:
            answered = (
                wait
                for wait in run.waits.signals
                if wait.name == event.signal and wait.seq >= decision.events[0].seq and wait.seq > recorded.seq
            )
            _end_wait(run, next(answered, None))


def _version(run: Run, event: ev.VersionRecorded) -> None:
    run.versions[event.change_id] = event.version


EVENTS: dict[type[ev.Event], Callable[[Run, Any], None]] = {
    ev.WorkflowCancelRequested: _cancel_requested,
    ev.ActivityScheduled: _activity_scheduled,
    ev.TimerScheduled: _timer_scheduled,
    ev.SideEffectRecorded: _side_effect,
    ev.StepCompleted: _step,
    ev.StepFailed: _step_failed,
    ev.ActivityFailed: _activity_failed,
    ev.SignalReceived: _signal,
    ev.WorkflowAwaitingSignal: _awaiting,
    ev.VersionRecorded: _version,
    ev.UpdateReceived: _update,
    ev.MessageSendRequested: _sent,
    ev.MessageDelivered: _send_ended,
    ev.MessageSendFailed: _send_ended,
    ev.TimerFired: _timer_ended,
    ev.TimerCancelled: _timer_ended,
}


def set_task(run: Run, task: Task, time: Time) -> None:
    """Replace the workflow task; the first lease of the task makes the run RUNNING."""
    if task.epoch and run.status == PENDING:
        run.status = RUNNING
        run.updated_at = time
    run.task = task


def _mark_seen(run: Run, seq: int) -> None:
    run.seen_seq = seq
    if run.unseen:
        del run.unseen[: bisect_right(run.unseen, seq)]
    if run.firm_seq <= seq:
        run.firm_seq = 0
    if seq == run.last_seq:
        # Everything is seen: an empty tail is complete again, also in a run whose tail was dropped or not read.
        run.tail, run.tail_bytes = [], 0
    elif run.tail is not None:
        run.tail = [recorded for recorded in run.tail if recorded.seq > seq]
        run.tail_bytes = sum(event_bytes(recorded.event) for recorded in run.tail)


def _put_activity(run: Run, effect: fx.PutActivity) -> None:
    put_activity(run, effect.activity)


def _close_activity(run: Run, effect: fx.CloseActivity) -> None:
    known = run.activities.pop(effect.activity.seq, None)
    if known is not None:
        # Most runs have one activity at a time: without any left there is nothing to measure.
        run.activity_bytes = run.activity_bytes - activity_bytes(known) if run.activities else 0


def _arm_timer(run: Run, effect: fx.ArmTimer) -> None:
    run.timers[effect.seq] = effect.due


def _drop_timer(run: Run, effect: fx.DropTimer) -> None:
    run.timers.pop(effect.seq, None)


def _put_child(run: Run, effect: fx.PutChild) -> None:
    run.children[effect.child.key] = effect.child


def _drop_child(run: Run, effect: fx.DropChild) -> None:
    run.children.pop(effect.key, None)


def _put_peer(run: Run, effect: fx.PutPeer) -> None:
    if run.peers is None:
        run.peers = {}
    run.peers[effect.peer.key] = effect.peer


def _drop_peer(run: Run, effect: fx.DropPeer) -> None:
    if run.peers is not None:
        run.peers.pop(effect.key, None)
        if not run.peers:
            run.peers = None


def _set_deadlines(run: Run, effect: fx.SetDeadlines) -> None:
    run.cancel_deadline = effect.cancel_deadline


def _set_next(run: Run, effect: fx.SetNext) -> None:
    run.next_run_id = effect.run_id


def _put_attributes(run: Run, effect: fx.PutAttributes) -> None:
    run.search, run.memo = effect.search, effect.memo


def _nothing(_run: Run, _effect: fx.Effect) -> None:
    """Do nothing: the effect concerns only the store or other runs."""


EFFECTS: dict[type[fx.Effect], Callable[[Run, Any], None]] = {
    fx.PutActivity: _put_activity,
    fx.CloseActivity: _close_activity,
    fx.NoteAttempt: _nothing,
    fx.ArmTimer: _arm_timer,
    fx.DropTimer: _drop_timer,
    fx.PutChild: _put_child,
    fx.DropChild: _drop_child,
    fx.PutPeer: _put_peer,
    fx.DropPeer: _drop_peer,
    fx.SetDeadlines: _set_deadlines,
    fx.SetNext: _set_next,
    fx.PutAttributes: _put_attributes,
    fx.PutVersion: _nothing,
    fx.PutSnapshot: _nothing,
    fx.PutUpdate: _nothing,
    fx.Send: _nothing,
    fx.Acknowledge: _nothing,
}
