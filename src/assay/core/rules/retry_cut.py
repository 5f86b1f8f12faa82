"""Rules of retries: the runs that can be retried, the cut of their history, and the events that are carried over.

The copy keeps the events before the cut. A cut undoes no finished work. The cut of a cancelled run is before the cancel
request. The cut of a failed run is before the last failed activity, if the code did nothing after it but fail. In all
other cases the cut is before the closing event.
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
    MessageDelivered,
    MessageSendFailed,
    MessageSendRequested,
    Recorded,
    SignalReceived,
    StepCompleted,
    StepFailed,
    TimerCancelled,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowTerminated,
)
from assay.core.model.ids import Namespace, WorkflowId
from assay.core.model.run import CANCELLED, COMPLETED, FAILED, ChildKey, Run, child_key
from assay.core.rules.children import PARENT_CANCELLED

_GIVES_UP: Final = (ActivityCancelRequested, TimerCancelled)
"""Echoes of commands that cancel earlier work; a failure that leaves a task group or a time-out issues them."""
_STEPS: Final = (StepCompleted, StepFailed)
_OUTCOMES: Final = (ActivityCompleted, ActivityFailed, ActivityCancelled)


def refusal_of(run: Run) -> Refused | None:
    """Return the reason why a run cannot be retried, as far as the run alone shows; None if there is no reason."""
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
    """Return the refusal for a run with a next run of the same id."""
    return Refused(f"workflow {run.workflow_id} has gone on in another run already", code="already_continued")


def cut_of(status: str, history: Sequence[Recorded], from_seq: int | None = None) -> int:
    """Return the number of events that the copy of a closed run's history keeps.

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
    """Return whether an event proves progress of the code: the echo of a command, or the outcome of an inline step."""
    return isinstance(event, _STEPS) or not (event.is_input or isinstance(event, _GIVES_UP))


def cut_by(parent: str, history: Sequence[Recorded]) -> int | None:
    """Return the cut of a child's history if the parent ended the child; None if the child ended by itself.

    Args:
        parent: The address of the parent: the sender of its cancel requests and terminations.
        history: All events of the child; the child may be open.
    """
    requests = (place for place, recorded in enumerate(history) if _is_from(parent, recorded.event))
    ended_at = next(requests, None)
    last = history[-1].event
    if last.closes is None:
        return len(history) if ended_at is None else ended_at
    return ended_at if is_end_by(parent, last) else None


def is_cancelled_with(parent: str, history: Sequence[Recorded]) -> bool:
    """Return whether a child was cancelled because its parent was, and not because its parent has ended."""
    return any(
        isinstance(event := recorded.event, WorkflowCancelRequested)
        and (event.sender, event.reason) == (parent, PARENT_CANCELLED)
        for recorded in history
    )


def is_end_by(parent: str, closing: Event) -> bool:
    """Return whether the parent may have caused this end; only the history of a cancelled child shows the sender."""
    return isinstance(closing, WorkflowCancelled) or _is_from(parent, closing)


def _is_from(parent: str, event: Event) -> bool:
    match event:
        case WorkflowCancelRequested(sender=sender):
            return sender == parent
        case WorkflowTerminated(by=sender):
            return sender == parent
    return False


def carried_signals(history: Sequence[Recorded], cut: int) -> Iterator[Recorded]:
    """Yield the signals after a cut, to append to the copy: an accepted signal is never lost (I1) (I14)."""
    return (recorded for recorded in history[cut:] if isinstance(recorded.event, SignalReceived))


def outcomes_of_sends(history: Sequence[Recorded], cut: int) -> Iterator[Event]:
    """Yield the outcomes of messages that were sent before a cut and had none: as recorded later, else delivered.

    The outcome of a message that was still in the outbox went to the closed run, so the copy would wait for ever.
    """
    sent: dict[int, None] = {}
    for place, recorded in enumerate(history):
        event = recorded.event
        if isinstance(event, MessageSendRequested) and place < cut:
            sent[event.send_seq] = None
        elif isinstance(event, MessageDelivered | MessageSendFailed) and event.send_seq in sent:
            del sent[event.send_seq]
            if place >= cut:
                yield event
    yield from (MessageDelivered(seq) for seq in sent)


def dropped_names(history: Sequence[Recorded], cut: int) -> list[str]:
    """Return the names of activities and steps with events after the cut, without the retried activity."""
    names = [
        recorded.event.name
        for place, recorded in enumerate(history[cut:])
        if isinstance(recorded.event, (ActivityScheduled, *_STEPS))
        or (isinstance(recorded.event, _OUTCOMES) and place > 0)
    ]
    return list(dict.fromkeys(names))


def replay_until(prefix: Sequence[Recorded]) -> int:
    """Return the seq of the last input before the last echo of a copied history: the code has passed it before."""
    echoes = (place for place in reversed(range(len(prefix))) if not prefix[place].event.is_input)
    last = next(echoes, 0)
    return next((recorded.seq for recorded in reversed(prefix[:last]) if recorded.event.is_input), 0)


def open_children(history: Sequence[Recorded]) -> dict[ChildKey, Recorded]:
    """Return the start events of children without an end in the history, by the key of the child."""
    found: dict[ChildKey, Recorded] = {}
    for recorded in history:
        event = recorded.event
        if isinstance(event, ChildWorkflowStarted):
            found[child_key(event.child_seq, event.child_workflow_id)] = recorded
        elif isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
            key = child_key(event.child_seq, event.child_workflow_id)
            # Without numbers a second start with the id of an open child fails; that failure is not its end.
            if key in found and (event.child_seq or getattr(event, "close_reason", None) != "not_started"):
                del found[key]
    return found


def started_children(history: Sequence[Recorded]) -> list[ChildWorkflowStarted]:
    """Return the start events of all children in a part of a history."""
    return [recorded.event for recorded in history if isinstance(recorded.event, ChildWorkflowStarted)]


def concerned_children(
    history: Sequence[Recorded], cut: int, namespace: Namespace
) -> dict[tuple[Namespace, WorkflowId], None]:
    """Return the ids of children whose newest runs are needed for a copy with this cut.

    Args:
        history: The history of the parent.
        cut: The number of events that the copy keeps.
        namespace: The namespace of the parent.
    """
    waiting = (recorded.event for recorded in open_children(history[:cut]).values())
    events = [event for event in waiting if isinstance(event, ChildWorkflowStarted)]
    events.extend(started_children(history[cut:]))
    return dict.fromkeys((event.namespace or namespace, WorkflowId(event.child_workflow_id)) for event in events)
