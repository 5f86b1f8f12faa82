"""The invariants, as far as runs, histories and messages show them.

Written against the events, not against the rules: what is open, due or told is worked out here a second time.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec

from assay.core.model import events as ev
from assay.core.model.events import Recorded
from assay.core.model.ids import SECOND
from assay.core.model.payload import NULL
from assay.core.model.policies import ParentClose
from assay.core.model.run import PENDING, RUNNING, Run
from assay.core.model.sizes import activity_bytes, event_bytes
from assay.core.rules.fold import apply
from tests.core.support import World

REBUILT = [
    "status",
    "close_reason",
    "error",
    "closed_at",
    "last_time",
    "last_seq",
    "input_seq",
    "next_run_id",
    "cancel_seq",
    "activity_mark",
    "timer_mark",
    "effect_mark",
    "step_mark",
    "open_steps",
    "signals",
]
"""What of a run follows from its history alone."""


def picture(run: Run) -> dict[str, Any]:
    """All of a run as it is now; what is in it is frozen, so one level of copies is enough."""
    return {name: _copy(getattr(run, name)) for name in run.__struct_fields__}


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list | set) else value


def check_run(run: Run, history: list[Recorded]) -> None:
    check_order(run, history)
    check_outcomes(history)
    check_rebuilt(run, history)
    check_open_work(run, history)
    check_documents(run, history)
    check_task(run, history)
    check_sizes(run)


def check_sizes(run: Run) -> None:
    assert run.tail_bytes == sum(event_bytes(recorded.event) for recorded in run.tail or ()), "the size of the tail"
    assert run.activity_bytes == sum(map(activity_bytes, run.activities.values())), "the size of the activities"


def check_order(run: Run, history: list[Recorded]) -> None:
    assert [recorded.seq for recorded in history] == list(range(1, len(history) + 1)), "I4: a gap"
    assert isinstance(history[0].event, ev.WorkflowStarted), "I4: the first event"
    assert all(a.time <= b.time for a, b in pairwise(history)), "I13: time goes back"
    closing = [recorded for recorded in history if recorded.event.closes is not None]
    assert len(closing) == (1 if run.closed else 0), "I5: one outcome"
    if closing:
        assert closing[0] is history[-1], "I4: an event after the end"
        assert run.status == closing[0].event.closes, "I5: the row and the history"


def check_outcomes(history: Iterable[Recorded]) -> None:
    """Every step has one outcome at most (I6, I17), and no timer fires before its time (I10)."""
    seen: Counter[tuple[str, Any]] = Counter()
    due: dict[int, int] = {}
    for recorded in history:
        match recorded.event:
            case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
                seen["activity", recorded.event.activity_seq] += 1
            case ev.StepCompleted() | ev.StepFailed():
                seen["step", recorded.event.step_seq] += 1
            case ev.SideEffectRecorded(side_effect_seq=seq):
                seen["side effect", seq] += 1
            case ev.TimerScheduled(timer_seq=seq, duration_secs=length):
                seen["timer begun", seq] += 1
                due[seq] = recorded.time + round(length * SECOND)
            case ev.TimerFired(timer_seq=seq) | ev.TimerCancelled(timer_seq=seq):
                seen["timer", seq] += 1
                early = isinstance(recorded.event, ev.TimerFired) and recorded.time < due[seq]
                assert not early, f"I10: timer {seq} fired early"
            case ev.ActivityScheduled(activity_seq=seq):
                seen["activity begun", seq] += 1
            case ev.ChildWorkflowStarted():
                seen["child begun", recorded.event.run_id] += 1
            case ev.WorkflowCancelRequested():
                seen["cancel", 0] += 1
    assert all(count == 1 for count in seen.values()), f"I6: {seen}"


def check_rebuilt(run: Run, history: Iterable[Recorded]) -> None:
    """The history alone gives the event-derived part of the state again (I2)."""
    rebuilt = Run(run.namespace, run.workflow_id, run.run_id, run.number, run.start, run.created_at, open_steps=set())
    for recorded in history:
        apply(rebuilt, recorded)
    if rebuilt.status == PENDING and run.task.epoch:
        rebuilt.status = RUNNING
    if rebuilt.closed and rebuilt.next_run_id is None:
        rebuilt.next_run_id = run.next_run_id  # an operator may retry a failed run later
    for name in REBUILT:
        assert getattr(run, name) == getattr(rebuilt, name), f"I2: {name}"
    assert set(run.waits.signals) <= set(rebuilt.waits.signals), "I2: awaited signals"
    assert run.waits.cancel == rebuilt.waits.cancel, "I2: cancel request"


def check_open_work(run: Run, history: Iterable[Recorded]) -> None:
    """What is open is what was begun and has no end, and nothing of a closed run."""
    activities: set[int] = set()
    timers: set[int] = set()
    children: dict[str, int] = {}
    for recorded in history:
        match recorded.event:
            case ev.ActivityScheduled(activity_seq=seq):
                activities.add(seq)
            case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
                activities.remove(recorded.event.activity_seq)
            case ev.TimerScheduled(timer_seq=seq):
                timers.add(seq)
            case ev.TimerFired(timer_seq=seq) | ev.TimerCancelled(timer_seq=seq):
                timers.remove(seq)
            case ev.ChildWorkflowStarted(child_workflow_id=child, child_seq=seq):
                children[child] = seq
            case ev.ChildWorkflowCompleted() | ev.ChildWorkflowFailed() if recorded.event.run_id is not None:
                assert children.pop(recorded.event.child_workflow_id) == recorded.event.child_seq, "I17: another child"
    if run.closed:
        activities, timers, children = set(), set(), {}
    assert set(run.activities) == activities, "open activities"
    assert set(run.timers) == timers, "open timers"
    assert {child.workflow_id: child.seq for child in run.children.values()} == children, "open children"


def check_documents(run: Run, history: list[Recorded]) -> None:
    first = history[0].event
    assert isinstance(first, ev.WorkflowStarted)
    assert first.start == run.start
    search, memo = _object(run.start.search_attributes), _object(run.start.memo)
    for recorded in history:
        if isinstance(recorded.event, ev.AttributesUpserted):
            search = _merged(search, _object(recorded.event.search))
            memo = _merged(memo, _object(recorded.event.memo))
    assert (_object(run.search), _object(run.memo)) == (search, memo), "documents"


def _object(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw) if raw != NULL else {}


def _merged(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**current, **patch}.items() if value is not None}


def check_task(run: Run, history: list[Recorded]) -> None:
    """No wake-up is lost: an unseen event makes a task due, or the holder of the task has it."""
    task = run.task
    inputs = [recorded.seq for recorded in history if recorded.event.is_input]
    assert run.input_seq == inputs[-1], "the last input"
    if run.closed:
        assert (task.since, task.worker) == (None, None), "a closed run has no task"
    elif inputs[-1] > run.seen_seq and task.since is None:
        assert task.worker is not None, "liveness: a lost wake-up"
        assert task.granted_seq >= inputs[-1], "liveness: the holder was not notified"
    assert run.seen_seq <= run.last_seq
    if run.tail is not None:
        assert run.tail == [recorded for recorded in history if recorded.seq > run.seen_seq], "the tail"


def check_families(world: World) -> None:
    opened = Counter(run.workflow_id for run in world.runs.values() if not run.closed)
    assert all(count == 1 for count in opened.values()), f"I15: {opened}"
    for run in world.runs.values():
        if run.next_run_id is not None:
            following = world.runs[run.next_run_id]
            assert following.start.previous_run_id == run.run_id, "I18: the way back"
            assert following.start.first_run_id == run.start.first_run_id, "I18: the chain"
            _check_parent(world, run, following)
            begins, ends = following.start.first_task_at, following.start.execution_deadline
            assert begins is None or ends is None or begins < ends, "4.4: a run that begins after the end"
        else:
            assert run.close_reason != "continued_as_new", "I18: continued as nothing"
        check_children(world, run)


def _check_parent(world: World, run: Run, following: Run) -> None:
    """A chain has one parent; a reopened child has the reopened one."""
    before, after = run.start.parent, following.start.parent
    if following.start.reopening is None or before is None:
        assert after == before, "I17: the chain has one parent"
        return
    assert after is not None, "I17: a child without a parent"
    reopened = world.runs[after.run_id]
    assert before.run_id in _family(world, reopened), "I17: a child of another family"
    assert reopened.workflow_id == before.workflow_id, "I17: the chain has one parent"


def check_children(world: World, parent: Run) -> None:
    """The end of a parent and a cancel it had not heard of when it had the child reach the child (I16)."""
    notified = {(message.kind, message.run_id) for message in world.sent}
    keys = {message.key for message in world.sent}
    history = world.histories[parent.run_id]
    ended = {recorded.event.child_workflow_id for recorded in history if _is_outcome(recorded.event)}
    for recorded in history:
        event = recorded.event
        if not isinstance(event, ev.ChildWorkflowStarted) or event.run_id is None:
            continue
        child = world.runs[event.run_id]
        assert child.start.parent is not None
        assert child.start.parent.run_id in _family(world, parent), "a child knows its parent"
        ways = {f"{parent.run_id}/{kind}/{child.run_id}" for kind in ("cancel", "terminate")}
        assert not ways <= keys, "a child with a cancel request is left to finish"
        if child.start.parent.close_policy is ParentClose.ABANDON:
            assert not ways & keys, "the parent close policy abandons this child"
            continue
        if event.child_workflow_id in ended:
            continue
        cancelled = ("cancel", child.run_id) in notified
        if 0 < recorded.seq < parent.cancel_seq:
            assert cancelled, "I16: a cancel did not reach a child"
        if parent.closed:
            assert cancelled or ("terminate", child.run_id) in notified, "I16: an end did not reach a child"


def _family(world: World, parent: Run) -> set[str]:
    """Return the run and the runs whose history it begins with (retries of closed runs)."""
    family, run = {parent.run_id}, parent
    while run.start.reopening is not None and run.start.previous_run_id is not None:
        run = world.runs[run.start.previous_run_id]
        family.add(run.run_id)
    return family


def _is_outcome(event: ev.Event) -> bool:
    return isinstance(event, ev.ChildWorkflowCompleted | ev.ChildWorkflowFailed) and event.run_id is not None


def check_healed(world: World) -> None:
    """With every message delivered, parents know the end of each child, and no child outlives its parent (I16, I17)."""
    for run in world.runs.values():
        link = run.start.parent
        if link is None or link.run_id not in world.runs:
            continue
        parent = world.runs[link.run_id]
        if run.closed and run.next_run_id is None and not parent.closed:
            outcomes = [recorded.event for recorded in world.histories[parent.run_id] if _is_outcome(recorded.event)]
            assert [outcome.run_id for outcome in outcomes].count(run.run_id) == 1, "I17: the parent was not told once"
        if parent.closed and not run.closed and link.close_policy is not ParentClose.ABANDON:
            assert _was_asked(world, run), "I16: a child outlives its parent"


def _was_asked(world: World, run: Run) -> bool:
    """Return whether this run or an earlier run of its chain got a cancel request; its code decides how to close."""
    found: Run | None = run
    while found is not None:
        if found.cancel_seq:
            return True
        found = world.runs.get(found.start.previous_run_id) if found.start.previous_run_id else None
    return False
