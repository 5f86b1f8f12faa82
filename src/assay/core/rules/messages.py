"""Rules of messages: from outside, between runs, and from the outbox.

An accepted message is in the history exactly once and in order (I14). An outbox message is applied at most once: the
transaction that applies the message deletes its row, and writes nothing if the row is gone (I17).
"""

from collections.abc import Callable, Collection

import msgspec

from assay.core.model import requests as rq
from assay.core.model.addresses import UPDATE, WORKFLOW, mailbox_address, parse_address, workflow_address
from assay.core.model.commands import SendMessage, WaitForSignal
from assay.core.model.effects import (
    CANCEL,
    CHILD_CLOSED,
    EXIT,
    MAIL,
    MESSAGE,
    OUTCOME,
    TERMINATE,
    UNWATCH,
    WATCH,
    Acknowledge,
    Decision,
    DropChild,
    Effect,
    OutboxMessage,
    Send,
)
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import (
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    Event,
    ExternalCancelDelivered,
    ExternalCancelFailed,
    ExternalTerminateDelivered,
    ExternalTerminateFailed,
    MessageDelivered,
    MessageSendFailed,
    MessageSendRequested,
    SignalReceived,
    WorkflowAwaitingSignal,
)
from assay.core.model.ids import Namespace, RunId, Time, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.mailboxes import Letter
from assay.core.model.message_bodies import received
from assay.core.model.options import check_text
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import COMPLETED, Child, Run, child_key
from assay.core.model.texts import not_a_text
from assay.core.rules import lifecycle, watches
from assay.core.rules.message_limits import check_room, check_topic, no_room
from assay.core.rules.moment import Moment

FORWARDED = ">"
"""Part of the key of a message that was forwarded from a closed run to the next run of its chain."""


def signal(run: Run, request: rq.Signal, at: Moment) -> Decision:
    """Record a message from outside and make a workflow task due."""
    check_topic(request.name)
    check_room(run, 1)
    check_text(request.sender, "from")
    check_text(request.message_id, "message_id")
    decision = Decision.of(run, at.now)
    event = received(request.name, request.args, request.sender, request.payload)
    if request.context != NULL or request.message_id is not None:
        event = msgspec.structs.replace(event, context=request.context, message_id=request.message_id)
    decision.record(event)
    decision.wake()
    return decision


def wait(decision: Decision, command: WaitForSignal, _: Moment) -> None:
    """Record that the run waits for a signal."""
    if type(command.name) is not str:
        raise not_a_text(command.name, "signal name")
    decision.record(WorkflowAwaitingSignal(command.name, command.timer_seq))


def send(decision: Decision, command: SendMessage, denied: Collection[str] = ()) -> None:
    """Record that the run sends a message, and add the message to the outbox; a refusal is recorded as the outcome.

    Args:
        decision: The decision about the sender.
        command: The message and its address.
        denied: Namespaces in which the credential of the worker grants nothing: they look empty.
    """
    run = decision.run
    mark = run.send_mark if decision.send_mark is None else decision.send_mark
    if command.seq <= mark:
        return
    decision.send_mark = command.seq
    if type(command.topic) is not str or not command.topic:
        raise Invalid("a message needs a topic", field="topic")
    check_topic(command.topic)
    decision.record(MessageSendRequested(command.seq, command.to, command.topic))
    target = parse_address(command.to)
    if target is not None and target.scheme == UPDATE:
        raise Invalid("only the workflow that received an update answers it", field="to")
    if run.sends + decision.sends >= LIMITS.sends:
        failure = Kind.RATE_LIMITED, f"the run has {LIMITS.sends} messages without an outcome"
    elif target is None:
        failure = Kind.NOT_FOUND, f"{command.to} is not the address of a workflow or mailbox"
    elif target.namespace in denied:
        failure = Kind.NOT_FOUND, f"{command.to} not found"
    else:
        event = received(command.topic, command.args, workflow_address(run.namespace, run.workflow_id))
        message = OutboxMessage(
            key=f"{run.run_id}/send/{command.seq}",
            namespace=Namespace(target.namespace),
            workflow_id=WorkflowId(target.id),
            run_id=None if target.part is None else RunId(target.part),
            kind=MESSAGE if target.scheme == WORKFLOW else MAIL,
            event=event,
            waiter=run.key,
            request_seq=command.seq,
        )
        decision.add(Send(message))
        decision.sends += 1
        return
    decision.record(MessageSendFailed(command.seq, *failure))
    decision.wake()


def deliver(run: Run, request: rq.Deliver, at: Moment) -> Decision:
    """Apply messages to a run, and delete their rows."""
    first = request.messages[0]
    if first.kind == MESSAGE:
        decision = _received(run, request.messages, at)
    elif first.kind == EXIT:
        decision = watches.exited(run, first, request.endings, at)
    else:
        decision = _applied(run, first, at)
    for message in request.messages:
        decision.add(Acknowledge(message.key))
    return decision


def mailed(message: OutboxMessage, owner: RunId, at: Time) -> tuple[Letter, list[Effect]]:
    """Return the letter of a message to a mailbox, and the effects of its delivery."""
    event = message.event if isinstance(message.event, SignalReceived) else SignalReceived("")
    args = event.args
    if args is msgspec.UNSET:
        args = Payload(b"[]" if event.payload == NULL else b"[" + bytes(event.payload) + b"]")
    request = message.run_id
    letter = Letter(
        mailbox_address(message.namespace, message.workflow_id),
        event.signal,
        args,
        at,
        event.sender,
        int(request) if request is not None and request.isdecimal() else None,
        owner,
    )
    return letter, [Acknowledge(message.key), *_outcome(message)]


def undeliverable(messages: tuple[OutboxMessage, ...]) -> list[Effect]:
    """Return the effects of messages whose target does not exist: their rows are deleted, waiting senders notified."""
    found: list[Effect] = []
    for message in messages:
        found.append(Acknowledge(message.key))
        found.extend(_outcome(message, Kind.NOT_FOUND, f"workflow {message.workflow_id} not found"))
        found.extend(watches.unknown_target(message))
    return found


def _received(run: Run, messages: tuple[OutboxMessage, ...], at: Moment) -> Decision:
    """Record messages in their order; a closed run, or one without room, accepts no message."""
    decision = Decision.of(run, at.now)
    room = LIMITS.signals - len(run.unseen)
    for message in messages:
        if run.closed or message.event is None:
            error = f"workflow {run.workflow_id} not found or already terminal"
            outcome = _outcome(message, Kind.NOT_FOUND, error)
        elif room <= 0:
            outcome = _outcome(message, Kind.RATE_LIMITED, no_room(run))
        else:
            room -= 1
            decision.record(message.event)
            decision.wake()
            outcome = _outcome(message)
        for effect in outcome:
            decision.add(effect)
    return decision


def _outcome(message: OutboxMessage, kind: Kind | None = None, error: str = "") -> list[Effect]:
    """Return the message with the outcome for the run that waits for it, if any."""
    waiter, seq = message.waiter, message.request_seq
    if waiter is None or message.kind not in OUTCOMES:
        return []
    delivered, failed = OUTCOMES[message.kind]
    event: Event = delivered(seq) if kind is None else failed(seq, kind, error)
    key = f"{message.key}/outcome"
    return [Send(OutboxMessage(key, waiter.namespace, waiter.workflow_id, waiter.run_id, OUTCOME, event=event))]


OUTCOMES: dict[str, tuple[Callable[[int], Event], Callable[[int, str, str], Event]]] = {
    MESSAGE: (MessageDelivered, MessageSendFailed),
    MAIL: (MessageDelivered, MessageSendFailed),
    CANCEL: (ExternalCancelDelivered, ExternalCancelFailed),
    TERMINATE: (ExternalTerminateDelivered, ExternalTerminateFailed),
}
"""The events of the outcomes of requests, by the kind of their message: delivered, and failed."""


def _applied(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    """Apply a message of the engine to an open run; forward the message of a closed run to the next run, if any."""
    if message.kind == OUTCOME:
        return _ended(run, message, at)
    if message.kind in (WATCH, UNWATCH):
        rule = watches.add_watcher if message.kind == WATCH else watches.remove_watcher
        return rule(run, message, at)
    if message.waiter is not None:
        return _requested(run, message, at)
    if run.closed:
        decision = Decision.of(run, at.now)
        # The end of a child matters only to a reopened run, and a completed run is never reopened.
        if run.next_run_id is not None and (message.kind != CHILD_CLOSED or run.status != COMPLETED):
            decision.add(Send(_forwarded(message, run.next_run_id)))
    elif message.kind != CHILD_CLOSED and FORWARDED in message.key and run.start.reopening is not None:
        # The parent's old run sent this to the child's old run. Both were reopened, so the request is void.
        decision = Decision.of(run, at.now)
    elif message.kind == CANCEL:
        decision = lifecycle.cancel_decision(run, message.reason, message.sender, message.deadline, at)
    elif message.kind == TERMINATE:
        decision = lifecycle.terminate_decision(run, message.reason or "terminated", message.sender, at)
    else:
        decision = _child_closed(run, message, at)
    return decision


def _requested(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    """Apply a request of another run to cancel or terminate the run, and send the outcome back."""
    if run.closed:
        decision = Decision.of(run, at.now)
        outcome = _outcome(message, Kind.NOT_FOUND, f"workflow {run.workflow_id} not found or already terminal")
    else:
        if message.kind == CANCEL:
            decision = lifecycle.cancel_decision(run, message.reason, message.sender, message.deadline, at)
        else:
            decision = lifecycle.terminate_decision(run, message.reason or "terminated", message.sender, at)
        outcome = _outcome(message)
    for effect in outcome:
        decision.add(effect)
    return decision


def _ended(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    """Record the outcome of a request of the run; nobody waits for it once the run is closed."""
    decision = Decision.of(run, at.now)
    if not run.closed and message.event is not None:
        decision.record(message.event)
        decision.wake()
    return decision


def _forwarded(message: OutboxMessage, run_id: RunId) -> OutboxMessage:
    return msgspec.structs.replace(message, key=f"{message.key}{FORWARDED}{run_id}", run_id=run_id)


def _child_closed(run: Run, message: OutboxMessage, at: Moment) -> Decision:
    decision = Decision.of(run, at.now)
    event = message.event
    if isinstance(event, ChildWorkflowCompleted | ChildWorkflowFailed):
        child = _ended_child(run, event, message)
        if child is not None:
            same = event.child_seq == child.seq
            decision.record(event if same else msgspec.structs.replace(event, child_seq=child.seq))
            decision.add(DropChild(child.key))
            decision.wake()
    return decision


def _ended_child(run: Run, event: ChildWorkflowCompleted | ChildWorkflowFailed, message: OutboxMessage) -> Child | None:
    """Return the open child that a message is about; None for an earlier child with the same id (I17).

    An adopted child sends its end to the run that started the child, and that run forwards the message; a child of this
    run sends its end directly.
    """
    seq, name = event.child_seq, event.child_workflow_id
    if FORWARDED in message.key:
        adopted = (child for child in run.children.values() if child.adopted_seq == seq and child.workflow_id == name)
        return next(adopted, None)
    child = run.children.get(child_key(seq, name))
    return child if child is not None and child.adopted_seq is None and child.workflow_id == name else None
