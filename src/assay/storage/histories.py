"""Checks of a history by itself, and of its run's row against the row that the history folds to (I2, I4, I5, I13)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from assay.core.codec import UnknownEvent
from assay.core.model import events as ev
from assay.core.model.run import PENDING, RUNNING, Run
from assay.core.rules.fold import apply

Flaw = tuple[str, str]
"""The number of the violated invariant, and a sentence."""

_REBUILT = (
    "last_seq",
    "input_seq",
    "last_time",
    "cancel_seq",
    "activity_mark",
    "timer_mark",
    "effect_mark",
    "step_mark",
    "signals",
    "close_reason",
    "error",
    "closed_at",
)
"""The columns of a run's row that follow from its events alone."""


_ACTIVITY_OUTCOMES = (ev.ActivityCompleted, ev.ActivityFailed, ev.ActivityCancelled)


def flaws(run: Run, history: Sequence[ev.Recorded]) -> Iterator[Flaw]:
    """Yield every flaw of a run's history and of its row."""
    yield from _order(history)
    yield from _ending(run, history)
    yield from _outcomes(history)
    # The effect of an unknown event on the row is unknown as well: such a history cannot be folded.
    if history and not any(isinstance(recorded.event, UnknownEvent) for recorded in history):
        yield from _row(run, history)


def _order(history: Sequence[ev.Recorded]) -> Iterator[Flaw]:
    if [recorded.seq for recorded in history] != list(range(1, len(history) + 1)) or not history:
        yield "I4", "the events are not numbered from 1 without a gap"
    elif not isinstance(history[0].event, ev.WorkflowStarted):
        yield "I4", f"the history begins with {history[0].event.recorded_name}"
    if any(later.time < earlier.time for earlier, later in pairwise(history)):
        yield "I13", "the times of the events go back"


def _ending(run: Run, history: Sequence[ev.Recorded]) -> Iterator[Flaw]:
    closing = [recorded for recorded in history if recorded.event.closes is not None]
    if len(closing) > 1:
        yield "I5", f"the run ends {len(closing)} times"
    if closing and closing[-1] is not history[-1]:
        yield "I4", f"event {history[-1].seq} follows the end of the run"
    if run.closed and not closing:
        yield "I5", f"the run is {run.status}, but no event closes it"
    if closing and (not run.closed or run.status != closing[-1].event.closes):
        yield "I5", f"the run is {run.status}, its last event closes it as {closing[-1].event.closes}"


def _outcomes(history: Sequence[ev.Recorded]) -> Iterator[Flaw]:
    counted = Counter(step for recorded in history if (step := _step(recorded.event)) is not None)
    for (kind, ref), count in counted.items():
        if count > 1:
            yield "I6", f"{kind} {ref} has {count} outcomes"
    for ref in decided_activities(history) - scheduled_activities(history):
        yield "I8", f"activity {ref} has an outcome but was never scheduled"


def scheduled_activities(history: Sequence[ev.Recorded]) -> set[int]:
    """Return the seqs of the activities that a history schedules."""
    events = (recorded.event for recorded in history)
    return {event.activity_seq for event in events if isinstance(event, ev.ActivityScheduled)}


def decided_activities(history: Sequence[ev.Recorded]) -> set[int]:
    """Return the seqs of the activities whose outcome is in a history."""
    events = (recorded.event for recorded in history)
    return {event.activity_seq for event in events if isinstance(event, _ACTIVITY_OUTCOMES)}


def _step(event: ev.Event) -> tuple[str, object] | None:
    """Return kind and number of the step whose outcome the event is; None for other events."""
    match event:
        case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
            return "activity", event.activity_seq
        case ev.TimerFired() | ev.TimerCancelled():
            return "timer", event.timer_seq
        case ev.StepCompleted() | ev.StepFailed():
            return "step", event.step_seq
        case ev.ChildWorkflowCompleted() | ev.ChildWorkflowFailed() if event.run_id is not None:
            return "child", event.run_id
        case _:
            return None


def _row(run: Run, history: Sequence[ev.Recorded]) -> Iterator[Flaw]:
    """Fold the history again and yield each difference from the stored row."""
    rebuilt = Run(run.namespace, run.workflow_id, run.run_id, run.number, run.start, run.created_at, tail=None)
    for recorded in history:
        apply(rebuilt, recorded)
    for name in _REBUILT:
        found, expected = getattr(run, name), getattr(rebuilt, name)
        if found != expected:
            yield "I2", f"{name} is {found!r}, by its history it is {expected!r}"
    awaited = {wait.name for wait in rebuilt.waits.signals}
    # A signal that arrived before the code waited for it ends the wait at once, which no event records.
    if unknown := [wait.name for wait in run.waits.signals if wait.name not in awaited]:
        yield "I2", f"awaiting is {unknown[0]!r}, by its history the run does not wait for it"
    if rebuilt.next_run_id is not None and run.next_run_id != rebuilt.next_run_id:
        yield "I18", f"next_run_id is {run.next_run_id!r}, by its history it is {rebuilt.next_run_id!r}"
    if not run.closed and run.status != (RUNNING if run.task.epoch or run.activity_mark >= 0 else PENDING):
        yield "I2", f"the run is {run.status} at epoch {run.task.epoch} of its task"


def open_timers(history: Sequence[ev.Recorded]) -> set[int]:
    """Return the seqs of the timers that a history has started and not ended."""
    begun: set[int] = set()
    for recorded in history:
        match recorded.event:
            case ev.TimerScheduled(timer_seq=seq):
                begun.add(seq)
            case ev.TimerFired(timer_seq=seq) | ev.TimerCancelled(timer_seq=seq):
                begun.discard(seq)
    return begun
