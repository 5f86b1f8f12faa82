"""Rules of which runs can be retried, where their history is cut, and which events go along.

The copy keeps the events before the cut. A cut undoes no finished work: history is cut before a failed activity only if
the code did nothing but fail after it, before a cancel request, or else before the closing event.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from assay.core.model.errors import Invalid, Refused
from assay.core.model.events import (
    ActivityCancelled,
    ActivityCancelRequested,
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    Event,
    Recorded,
    SignalReceived,
    StepCompleted,
    StepFailed,
    TimerCancelled,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowTerminated,
)
from assay.core.model.ids import WorkflowId
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, Run

_GIVES_UP: Final = (ActivityCancelRequested, TimerCancelled)
"""Echoes of commands that end work begun earlier, as a failure does on its way out of a task group or a time-out."""
_STEPS: Final = (StepCompleted, StepFailed)
_OUTCOMES: Final = (ActivityCompleted, ActivityFailed, ActivityCancelled)


def refusal_of(run: Run) -> Refused | None:
    """Return why a run cannot be retried, as far as the run alone shows it."""
    name = run.workflow_id
    if not run.closed:
        return Refused(f"workflow {name} is {run.status}; only a closed run can be retried", code="not_retryable")
    if run.next_run_id is not None:
        return already_continued(run)
    if run.status == COMPLETED:
        return Refused(f"workflow {name} is COMPLETED; there is nothing to retry", code="not_retryable")
    if run.start.parent is not None:
        return Refused(f"workflow {name} is a child workflow: retry its parent", code="is_child")
    return None


def already_continued(run: Run) -> Refused:
    """Return the refusal of a run whose id went on in another run."""
    return Refused(f"workflow {run.workflow_id} has gone on in another run already", code="already_continued")


def cut_of(status: str, history: Sequence[Recorded], from_seq: int | None = None) -> int:
    """Return how many events of a closed run's history its copy keeps.

    Raise `Invalid` if `from_seq`, the last event to keep, is not before the closing event.
    """
    close = len(history) - 1
    if from_seq is not None:
        if not 1 <= from_seq <= close:
            message = f"from_seq is the last event to keep: a number from 1 to {close}, before the run's last event"
            raise Invalid(message, code="bad_from_seq", field="from_seq")
        return from_seq
    if status == CANCELLED:
        return _last(history, WorkflowCancelRequested, close)
    if status == FAILED:
        failed = _last(history, ActivityFailed, close)
        if not any(_is_ordered(recorded.event) for recorded in history[failed + 1 : close]):
            return failed
    return close


def _last(history: Sequence[Recorded], kind: type[Event], otherwise: int) -> int:
    places = reversed(range(len(history)))
    return next((place for place in places if isinstance(history[place].event, kind)), otherwise)


def _is_ordered(event: Event) -> bool:
    """Return whether an event shows that code went on: it echoes a command, or is the outcome of an inline step."""
    return isinstance(event, _STEPS) or not (event.is_input or isinstance(event, _GIVES_UP))


def cut_by(parent: str, history: Sequence[Recorded]) -> int | None:
    """Return where a child's history is cut if its parent ended it; None if the child ended by itself.

    Args:
        parent: The address of the parent, as it stands in requests to cancel and terminations.
        history: All events of the child, which may be open.
    """
    requests = (place for place, recorded in enumerate(history) if _is_from(parent, recorded.event))
    ended_at = next(requests, None)
    last = history[-1].event
    if last.closes is None:
        return len(history) if ended_at is None else ended_at
    return ended_at if is_end_by(parent, last) else None


def is_end_by(parent: str, closing: Event) -> bool:
    """Return whether a parent may have caused this end of its child; a cancelled child's history shows by whom."""
    return isinstance(closing, WorkflowCancelled) or _is_from(parent, closing)


def _is_from(parent: str, event: Event) -> bool:
    match event:
        case WorkflowCancelRequested(sender=sender):
            return sender == parent
        case WorkflowTerminated(by=sender):
            return sender == parent
    return False


def carried_signals(history: Sequence[Recorded], cut: int) -> Iterator[Recorded]:
    """Yield the events after a cut that are appended to the copy: an accepted signal is never lost (I1, I14)."""
    return (recorded for recorded in history[cut:] if isinstance(recorded.event, SignalReceived))


def dropped_names(history: Sequence[Recorded], cut: int) -> list[str]:
    """Return the names of the activities and steps whose events a cut drops, but for an activity it tries again."""
    names = [
        recorded.event.name
        for place, recorded in enumerate(history[cut:])
        if isinstance(recorded.event, (ActivityScheduled, *_STEPS))
        or (isinstance(recorded.event, _OUTCOMES) and place > 0)
    ]
    return list(dict.fromkeys(names))


def open_children(history: Sequence[Recorded]) -> dict[WorkflowId, Recorded]:
    """Return the events that started children whose end is not in the history, by the child's workflow id."""
    found: dict[WorkflowId, Recorded] = {}
    for recorded in history:
        event = recorded.event
        if isinstance(event, ChildWorkflowStarted):
            found[WorkflowId(event.child_workflow_id)] = recorded
        elif isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
            started = found.get(WorkflowId(event.child_workflow_id))
            # a second start of an open child's id fails, which is not the end of the first
            if started is not None and getattr(started.event, "child_seq", None) == event.child_seq:
                del found[WorkflowId(event.child_workflow_id)]
    return found


def started_children(history: Sequence[Recorded]) -> list[WorkflowId]:
    """Return the workflow ids of all children that a part of a history started."""
    events = (recorded.event for recorded in history)
    return [WorkflowId(event.child_workflow_id) for event in events if isinstance(event, ChildWorkflowStarted)]


def concerned_children(history: Sequence[Recorded], cut: int) -> dict[WorkflowId, None]:
    """Return the workflow ids of the children whose newest runs decide about a copy that is cut here."""
    return dict.fromkeys([*open_children(history[:cut]), *started_children(history[cut:])])
