"""Rules of children: a cancel reaches every child (I16), and the end of a child reaches its parent once (I17)."""

from collections.abc import Collection
from typing import Final

import msgspec

from assay.core.model import commands as cmd
from assay.core.model.addresses import WORKFLOW, parse_address, workflow_address
from assay.core.model.duration import parse_duration
from assay.core.model.effects import CANCEL, CHILD_CLOSED, TERMINATE, Decision, OutboxMessage, PutChild, Send
from assay.core.model.errors import AssayError, Invalid, Kind, PermissionDenied
from assay.core.model.events import (
    Adopted,
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    Event,
    ExternalCancelFailed,
    ExternalCancelRequested,
    ExternalTerminateFailed,
    ExternalTerminateRequested,
    ParentLink,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.options import check_text, child_request
from assay.core.model.payload import NULL
from assay.core.model.policies import ParentClose
from assay.core.model.run import Child, Run, child_key
from assay.core.rules import new_runs
from assay.core.rules.moment import Moment

PARENT_CANCELLED: Final = "parent cancelled"
"""The reason of a cancel request that a child receives because its parent was cancelled."""


class ChildNotStarted(Exception):
    """Raised if a spawned child cannot be started: the code ran on from a start that did not happen.

    Args:
        event: The failure to record instead of the commands of the turn.
    """

    def __init__(self, event: ChildWorkflowFailed) -> None:
        super().__init__(event.error)
        self.event = event


def start(
    decision: Decision,
    command: cmd.StartChildWorkflow,
    at: Moment,
    seen_seq: int,
    denied: Collection[str] = (),
) -> None:
    """Start a child in this transaction, or record the reason for a refusal as the child's failure.

    Raise `ChildNotStarted` for a spawned child that is refused.

    Args:
        decision: The decision about the parent.
        command: The command that starts the child.
        at: The moment, with the newest run of the child's id.
        seen_seq: The last event that the code of the parent has received.
        denied: The namespaces in which the worker of the parent may start nothing.
    """
    key = child_id(decision.run, command)
    existing = (decision.started or {}).get(key) or at.current.get(key)
    if _is_repeated(decision, command, existing):
        return
    if existing is not None and not existing.closed and _is_inherited(decision.run, existing):
        _adopt(decision, command, existing)
        return
    try:
        opening = _new_child(decision, command, existing, at, denied)
    except AssayError as error:
        failed = _not_started(command, error)
        if command.spawned:
            raise ChildNotStarted(failed) from None
        decision.record(failed)
        decision.wake()
        return
    _add_child(decision, command, opening, seen_seq)


def child_id(run: Run, command: cmd.StartChildWorkflow) -> tuple[Namespace, WorkflowId]:
    """Return the namespace and the workflow id of the child that a command of `run` starts."""
    return Namespace(command.namespace or run.namespace), WorkflowId(command.workflow_id)


def _is_repeated(decision: Decision, command: cmd.StartChildWorkflow, existing: Run | None) -> bool:
    """Return whether an earlier command of the same seq, or of the same id without a seq, has started the child."""
    run = decision.run
    key = child_key(command.seq, command.workflow_id)
    if key in run.children or (decision.started is not None and key in decision.started):
        return True
    parent = None if existing is None else existing.start.parent
    return parent is not None and parent.run_id == run.run_id and parent.child_seq == command.seq


def _add_child(decision: Decision, command: cmd.StartChildWorkflow, opening: Decision, seen_seq: int) -> None:
    run, opened = decision.run, opening.run
    policy = opened.start.parent.close_policy if opened.start.parent else ParentClose.TERMINATE
    elsewhere = None if opened.namespace == run.namespace else opened.namespace
    child = Child(opened.workflow_id, opened.run_id, command.seq, policy, namespace=elsewhere)
    decision.others.append(opening)
    if decision.started is None:
        decision.started = {}
    decision.started[opened.namespace, opened.workflow_id] = decision.started[child.key] = opened
    decision.record(_started(command, child))
    decision.add(PutChild(child))
    unaware = run.cancel_seq > seen_seq or (command.unaware and run.cancel_seq > 0)
    if unaware and policy is not ParentClose.ABANDON:
        # The code issued the command before it received the cancel request, which must reach the child as well (I16).
        _cancel(decision, child, PARENT_CANCELLED)


def _started(command: cmd.StartChildWorkflow, child: Child) -> ChildWorkflowStarted:
    return ChildWorkflowStarted(
        child.workflow_id, command.workflow_type, child.run_id, command.seq, command.input_hash, child.namespace
    )


def _is_inherited(run: Run, existing: Run) -> bool:
    """Return whether a child was started after the cut by an earlier run with the same history."""
    parent, reopening = existing.start.parent, run.start.reopening
    if parent is None or reopening is None:
        return False
    return Adopted(parent.run_id, existing.workflow_id) in reopening.adopted


def _adopt(decision: Decision, command: cmd.StartChildWorkflow, existing: Run) -> None:
    """Take over an open child of the earlier run: the message about its end goes to this run."""
    run = decision.run
    link = existing.start.parent or ParentLink(run.workflow_id, run.run_id)
    elsewhere = None if existing.namespace == run.namespace else existing.namespace
    child = Child(
        existing.workflow_id,
        existing.run_id,
        command.seq,
        link.close_policy,
        existing.cancel_seq > 0,
        link.child_seq,
        elsewhere,
    )
    kind = existing.start.workflow_type
    decision.record(ChildWorkflowStarted(child.workflow_id, kind, child.run_id, child.seq, namespace=child.namespace))
    decision.add(PutChild(child))
    # The child's row is written unchanged: its version check fails if another engine has closed the child meanwhile.
    # Without it this run would wait for an end that was sent before it could be received (I17).
    decision.others.append(Decision.of(existing, decision.now))


def _new_child(
    decision: Decision, command: cmd.StartChildWorkflow, existing: Run | None, at: Moment, denied: Collection[str]
) -> Decision:
    run = decision.run
    if len(run.children) + len(decision.others) >= LIMITS.pending_children:
        raise Invalid(f"a run may have at most {LIMITS.pending_children} open children", code="limit_exceeded")
    namespace, _ = child_id(run, command)
    if namespace in denied:
        raise PermissionDenied(f"the worker may not start workflows in namespace '{namespace}'")
    request = new_runs.with_inherited(child_request(namespace, command, address(run)), run.start)
    new_runs.check_free(existing)
    if existing is None or not _is_inherited(run, existing):
        new_runs.check_reuse(existing, request.id_reuse_policy)
    elsewhere = None if namespace == run.namespace else run.namespace
    parent = ParentLink(run.workflow_id, run.run_id, command.seq, request.parent_close_policy, elsewhere)
    return new_runs.new_run(request, existing, at, parent=parent)


def _not_started(command: cmd.StartChildWorkflow, error: AssayError) -> ChildWorkflowFailed:
    failure = FailureInfo(kind=error.kind, message=str(error), type=type(error).__name__, retryable=False)
    return ChildWorkflowFailed(
        child_workflow_id=command.workflow_id,
        error=str(error),
        failure=failure,
        close_reason="not_started",
        child_seq=command.seq,
    )


def notify_parent(decision: Decision, closing: Event) -> None:
    """Add a message with the outcome of the run to the outbox, for the parent."""
    run = decision.run
    parent = run.start.parent
    if parent is None:
        return
    message = OutboxMessage(
        key=f"{run.run_id}/closed",
        namespace=parent.namespace or run.namespace,
        workflow_id=WorkflowId(parent.workflow_id),
        run_id=parent.run_id,
        kind=CHILD_CLOSED,
        event=outcome(run, parent, closing),
    )
    decision.add(Send(message))


def outcome(run: Run, parent: ParentLink, closing: Event) -> Event:
    """Return the event about a child's end for the history of its parent."""
    if isinstance(closing, WorkflowCompleted | WorkflowContinuedAsNew):
        result = closing.result if isinstance(closing, WorkflowCompleted) else NULL
        return ChildWorkflowCompleted(run.workflow_id, result, run.run_id, parent.child_seq)
    failure = closing.failure if isinstance(closing, WorkflowFailed) else None
    reason, text, kind = CLOSINGS[closing.recorded_name]
    error = getattr(closing, "error", None) or getattr(closing, "reason", None) or text
    return ChildWorkflowFailed(
        child_workflow_id=run.workflow_id,
        error=error,
        failure=failure or FailureInfo(kind=kind, message=error, retryable=False),
        close_reason=reason,
        run_id=run.run_id,
        child_seq=parent.child_seq,
    )


CLOSINGS: dict[str, tuple[str, str, Kind]] = {
    "WorkflowFailed": ("failed", "workflow failed", Kind.INTERNAL),
    "WorkflowCancelled": ("cancelled", "workflow cancelled", Kind.CANCELED),
    "WorkflowTerminated": ("terminated", "workflow terminated", Kind.CANCELED),
    "WorkflowTimedOut": ("timed_out", "workflow timed out", Kind.TIMEOUT),
}
"""By closing event: the close reason, the default error text, the kind of failure."""


def request_cancel(decision: Decision, command: cmd.RequestCancelExternal, denied: Collection[str] = ()) -> None:
    """Send a cancel request to another run; the outcome is an event of this run."""
    deadline = None if command.deadline_secs is None else parse_duration(command.deadline_secs, "deadline")
    check_text(command.reason, "reason")
    if _is_repeated_request(decision, CANCEL, command.seq):
        return
    decision.record(ExternalCancelRequested(command.seq, command.target))
    message = _external(decision.run, CANCEL, command.seq, command.target, command.reason, deadline)
    if message is None or message.namespace in denied:
        decision.record(ExternalCancelFailed(command.seq, Kind.NOT_FOUND, f"{command.target} is no workflow"))
        decision.wake()
        return
    decision.add(Send(message))
    for child in decision.children().values():
        space = child.namespace or decision.run.namespace
        if (space, child.workflow_id) == (message.namespace, message.workflow_id) and not child.cancel_sent:
            decision.add(PutChild(msgspec.structs.replace(child, cancel_sent=True)))


def request_terminate(decision: Decision, command: cmd.TerminateExternal, denied: Collection[str] = ()) -> None:
    """Send a termination to another run; the outcome is an event of this run."""
    check_text(command.reason, "reason")
    if _is_repeated_request(decision, TERMINATE, command.seq):
        return
    decision.record(ExternalTerminateRequested(command.seq, command.target))
    message = _external(decision.run, TERMINATE, command.seq, command.target, command.reason)
    if message is None or message.namespace in denied:
        decision.record(ExternalTerminateFailed(command.seq, Kind.NOT_FOUND, f"{command.target} is no workflow"))
        decision.wake()
    else:
        decision.add(Send(message))


def _is_repeated_request(decision: Decision, kind: str, seq: int) -> bool:
    """Return whether this turn has the same request already; across turns the journal of the worker has it."""
    key = f"{decision.run.run_id}/external/{kind}/{seq}"
    return any(isinstance(effect, Send) and effect.message.key == key for effect in decision.effects)


def _external(
    run: Run, kind: str, seq: int, to: str, reason: str | None, deadline: Time | None = None
) -> OutboxMessage | None:
    target = parse_address(to)
    if target is None or target.scheme != WORKFLOW:
        return None
    return OutboxMessage(
        key=f"{run.run_id}/external/{kind}/{seq}",
        namespace=Namespace(target.namespace),
        workflow_id=WorkflowId(target.id),
        run_id=None if target.part is None else RunId(target.part),
        kind=kind,
        reason=reason,
        sender=address(run),
        waiter=run.key,
        request_seq=seq,
        deadline=deadline,
    )


def cancel_children(decision: Decision, reason: str | None) -> None:
    """Send a cancel request to all children, except with the close policy ABANDON."""
    for child in decision.children().values():
        if child.close_policy is not ParentClose.ABANDON and not child.cancel_sent:
            _cancel(decision, child, reason)


def parent_closed(decision: Decision) -> None:
    """Apply the close policy of each open child; a child with a cancel request may finish its cancellation."""
    for child in decision.children().values():
        if child.cancel_sent:
            continue
        if child.close_policy is ParentClose.REQUEST_CANCEL:
            _cancel(decision, child, "parent closed")
        elif child.close_policy is ParentClose.TERMINATE:
            decision.add(Send(_request(decision.run, child, TERMINATE, "parent closed")))


def _cancel(decision: Decision, child: Child, reason: str | None) -> None:
    decision.add(PutChild(msgspec.structs.replace(child, cancel_sent=True)))
    decision.add(Send(_request(decision.run, child, CANCEL, reason)))


def _request(run: Run, child: Child, kind: str, reason: str | None) -> OutboxMessage:
    return OutboxMessage(
        key=f"{run.run_id}/{kind}/{child.run_id}",
        namespace=child.namespace or run.namespace,
        workflow_id=child.workflow_id,
        run_id=child.run_id,
        kind=kind,
        reason=reason,
        sender=address(run),
    )


def address(run: Run) -> str:
    """Return the sender in a run's requests to its children."""
    return address_of(run.namespace, run.workflow_id)


def address_of(namespace: str, workflow_id: str) -> str:
    """Return the sender in requests to children by any run of a workflow id."""
    return workflow_address(namespace, workflow_id)
