"""Rules of signals and of messages from other runs.

An accepted signal is in the history exactly once and in order (I14). An outbox message is applied at most once, and
acknowledged in the same transaction (I17).
"""

import msgspec

from assay.core.model import requests as rq
from assay.core.model.commands import WaitForSignal
from assay.core.model.effects import (
    CANCEL,
    CHILD_CLOSED,
    TERMINATE,
    Acknowledge,
    Decision,
    DropChild,
    OutboxMessage,
    Send,
)
from assay.core.model.errors import Invalid
from assay.core.model.events import (
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    SignalReceived,
    WorkflowAwaitingSignal,
)
from assay.core.model.ids import RunId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.options import check_text
from assay.core.model.run import COMPLETED, Child, Run
from assay.core.model.texts import not_a_text
from assay.core.rules import lifecycle
from assay.core.rules.moment import Moment

FORWARDED = ">"
"""Part of the key of a message that was forwarded from a closed run to the next run of its chain."""


def signal(run: Run, request: rq.Signal, at: Moment) -> Decision:
    """Record a signal and make a workflow task due."""
    if run.signals >= LIMITS.signals:
        raise Invalid(f"a run takes at most {LIMITS.signals} signals; continue as new", code="limit_exceeded")
    check_text(request.sender, "from")
    check_text(request.message_id, "message_id")
    decision = Decision.of(run, at.now)
    decision.record(
        SignalReceived(
            signal=request.name,
            payload=request.payload,
            sender=request.sender,
            context=request.context,
            message_id=request.message_id,
        )
    )
    decision.wake()
    return decision


def wait(decision: Decision, command: WaitForSignal, _: Moment) -> None:
    """Record that the run waits for a signal."""
    if type(command.name) is not str:
        raise not_a_text(command.name, "signal name")
    decision.record(WorkflowAwaitingSignal(command.name, command.timer_seq))


def deliver(run: Run, request: rq.Deliver, at: Moment) -> Decision:
    """Apply a message to an open run; forward the message of a closed run to the next run, if any."""
    message = request.message
    if run.closed:
        decision = Decision.of(run, at.now)
        # The end of a child matters only to a reopened run, and a completed run is never reopened.
        if run.next_run_id is not None and (message.kind != CHILD_CLOSED or run.status != COMPLETED):
            decision.add(Send(_forwarded(message, run.next_run_id)))
    elif message.kind != CHILD_CLOSED and FORWARDED in message.key and run.start.reopening is not None:
        # The parent's old run sent this to the child's old run. Both were reopened, so the request is void.
        decision = Decision.of(run, at.now)
    elif message.kind == CANCEL:
        decision = lifecycle.cancel_decision(run, message.reason, message.sender, None, at)
    elif message.kind == TERMINATE:
        decision = lifecycle.terminate_decision(run, message.reason or "terminated", message.sender, at)
    else:
        decision = _child_closed(run, message, at)
    decision.add(Acknowledge(message.key))
    return decision


def _forwarded(message: OutboxMessage, run_id: RunId) -> OutboxMessage:
    return OutboxMessage(
        key=f"{message.key}{FORWARDED}{run_id}",
        namespace=message.namespace,
        workflow_id=message.workflow_id,
        run_id=run_id,
        kind=message.kind,
        reason=message.reason,
        event=message.event,
        sender=message.sender,
    )


def _child_closed(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    decision = Decision.of(run, at.now)
    event = message.event
    if isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
        child = run.children.get(WorkflowId(event.child_workflow_id))
        if child is not None and _is_end_of(child, event, message):
            same = event.child_seq == child.seq
            decision.record(event if same else msgspec.structs.replace(event, child_seq=child.seq))
            decision.add(DropChild(child.workflow_id))
            decision.wake()
    return decision


def _is_end_of(child: Child, event: ChildWorkflowCompleted | ChildWorkflowFailed, message: OutboxMessage) -> bool:
    """Return whether a message is about this child, and not about an earlier child with the same id (I17).

    An adopted child sends its end to the run that started the child, and that run forwards the message; a child of this
    run sends its end directly.
    """
    if FORWARDED in message.key:
        return child.adopted_seq == event.child_seq
    return child.adopted_seq is None and child.seq == event.child_seq
