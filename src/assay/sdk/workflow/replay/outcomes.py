"""The effect of each input event on a live run: which future is completed, and with which value."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.model import events as ev
from assay.core.model.errors import ActivityError, ChildError, Failure, Kind, NonDeterminismError, NotFound
from assay.core.model.events import Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.input_hash import HASH_DIGITS
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.update_states import RECEIVED
from assay.sdk.values.failures import to_wrapper
from assay.sdk.workflow.replay.completion import ChildFuture
from assay.sdk.workflow.replay.exceptions import RetryLater
from assay.sdk.workflow.replay.mailbox import ReceivedMessage

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.runtime import Execution

_encode = msgspec.json.Encoder().encode
HASH_BYTES = len(b',"input_hash":""') + HASH_DIGITS
"""Not counted in the size of a history: an older worker or engine, without hashes, may have served the run as well."""


def apply(run: "Execution", recorded: Recorded) -> None:
    """Apply one input event to the run's code."""
    rule = RULES.get(type(recorded.event))
    if rule is None:
        raise NonDeterminismError(f"the history has an input that this version does not know: {recorded.event}")
    rule(run, recorded.event, recorded)


def size_of(event: ev.Event) -> int:
    """Return the size that an input event adds to the history, the same on every replay."""
    return len(_encode(event))


def _started(run: "Execution", event: ev.WorkflowStarted, _: Recorded) -> None:
    run.begin(event)


def _signal(run: "Execution", event: ev.SignalReceived, recorded: Recorded) -> None:
    run.mailbox.put(ReceivedMessage(recorded.seq, recorded.time, event.signal, event.payload, event.sender, event.args))


def _update(run: "Execution", event: ev.UpdateReceived, recorded: Recorded) -> None:
    args = value_of(event.args)
    payload = NULL if not args else Payload(_encode(args[0] if len(args) == 1 else args))
    several = event.args if len(args) > 1 else msgspec.UNSET
    run.updates[event.update_id] = RECEIVED
    run.mailbox.put(
        ReceivedMessage(
            recorded.seq, recorded.time, event.name, payload, event.sender, several, event.update_id, bool(args)
        )
    )


def _cancel(run: "Execution", event: ev.WorkflowCancelRequested, recorded: Recorded) -> None:
    if run.peers is not None and run.peers.trap_cancel:
        run.peers.cancel_requested(event, recorded)
        return
    run.commands.mark_children_unaware()
    run.futures.child_orders.mark_unaware()
    run.cancellation.request(event.reason)


def _activity_completed(run: "Execution", event: ev.ActivityCompleted, _: Recorded) -> None:
    _resolve(_activity(run, event.activity_seq, event.name), event.result)


def _activity_failed(run: "Execution", event: ev.ActivityFailed, _: Recorded) -> None:
    info = event.failure or FailureInfo(kind=Kind.UNKNOWN, message=event.error)
    error = to_wrapper(info, ActivityError, activity=event.name, attempts=event.final_attempt)
    _reject(_activity(run, event.activity_seq, event.name), error)


def _activity_cancelled(run: "Execution", event: ev.ActivityCancelled, _: Recorded) -> None:
    info = FailureInfo(kind=Kind.CANCELED, message="operation canceled", retryable=False)
    error = to_wrapper(info, ActivityError, activity=event.name)
    _reject(_activity(run, event.activity_seq, event.name), error)


def _activity(run: "Execution", seq: int, name: str) -> asyncio.Future[Payload] | None:
    run.commands.check_ordered("activity", seq, name)
    future = run.futures.activities.pop(seq, None)
    if future is not None:
        run.futures.activity_orders.end_one()
    return future


def _timer_fired(run: "Execution", event: ev.TimerFired, _: Recorded) -> None:
    run.commands.check_ordered("timer", event.timer_seq, "")
    run.loop.fire_timer(event.timer_seq)


def _step_completed(run: "Execution", event: ev.StepCompleted, _: Recorded) -> None:
    if event.input_hash is not None:
        run.commands.history_size -= HASH_BYTES
    _resolve(run.futures.take_step(event.step_seq, event.name, event.input_hash), event.result)


def _step_failed(run: "Execution", event: ev.StepFailed, _: Recorded) -> None:
    if event.input_hash is not None:
        run.commands.history_size -= HASH_BYTES
    future = run.futures.take_step(event.step_seq, event.name, event.input_hash)
    if event.retry_in is not None:
        _reject(future, RetryLater(event.retry_in, event.final_attempt))
        return
    info = event.failure or FailureInfo(kind=Kind.UNKNOWN, message=event.error)
    error = to_wrapper(info, ActivityError, activity=event.name, attempts=event.final_attempt)
    error.source = "step"
    _reject(future, error)


def _child_completed(run: "Execution", event: ev.ChildWorkflowCompleted, recorded: Recorded) -> None:
    future = _child(run, event)
    _resolve(future, event.result)
    if future is not None and future.spawned:
        run.open_peers().child_ended(future, None, event.result, recorded)


def _child_failed(run: "Execution", event: ev.ChildWorkflowFailed, recorded: Recorded) -> None:
    info = event.failure or FailureInfo(kind=Kind.UNKNOWN, message=event.error)
    future = _child(run, event)
    error = to_wrapper(
        info,
        ChildError,
        workflow_id=event.child_workflow_id,
        run_id=event.run_id or "",
        workflow_type="" if future is None else future.workflow_type,
        close_reason=event.close_reason,
    )
    _reject(future, error)
    if future is not None and future.spawned and not future.unstarted:
        run.open_peers().child_ended(future, error, NULL, recorded)


def _peer_exited(run: "Execution", event: ev.PeerExited, recorded: Recorded) -> None:
    run.open_peers().exited(event, recorded)


def _request_delivered(
    run: "Execution", event: ev.ExternalCancelDelivered | ev.ExternalTerminateDelivered, _: Recorded
) -> None:
    future = _request(run, event)
    if future is not None and not future.done():
        future.set_result(None)


def _request_failed(run: "Execution", event: ev.ExternalCancelFailed | ev.ExternalTerminateFailed, _: Recorded) -> None:
    kind = Kind.parse(event.kind)
    error = NotFound(event.error) if kind is Kind.NOT_FOUND else Failure(event.error, kind=kind)
    _reject(_request(run, event), error)


def _request(run: "Execution", event: Any) -> asyncio.Future[None] | None:
    is_cancel = isinstance(event, ev.ExternalCancelDelivered | ev.ExternalCancelFailed)
    kind = "cancel of workflow" if is_cancel else "termination of workflow"
    return run.futures.requests.pop((kind, event.request_seq), None)


def _child(run: "Execution", event: ev.ChildWorkflowCompleted | ev.ChildWorkflowFailed) -> ChildFuture | None:
    future = run.futures.children.pop(event.child_seq, None)
    if future is not None:
        run.futures.child_orders.end_one()
    return future


def _message_delivered(run: "Execution", event: ev.MessageDelivered, _: Recorded) -> None:
    future = _send(run, event.send_seq)
    if future is not None and not future.done():
        future.set_result(None)


def _message_failed(run: "Execution", event: ev.MessageSendFailed, _: Recorded) -> None:
    kind = Kind.parse(event.kind)
    error = NotFound(event.error) if kind is Kind.NOT_FOUND else Failure(event.error, kind=kind)
    _reject(_send(run, event.send_seq), error)


def _send(run: "Execution", seq: int) -> asyncio.Future[None] | None:
    run.commands.check_ordered("message", seq, "")
    return run.futures.sends.pop(seq, None)


def _resolve(future: asyncio.Future[Payload] | None, value: Payload) -> None:
    if future is not None and not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any] | None, error: Failure | NotFound | RetryLater) -> None:
    if future is not None and not future.done():
        future.set_exception(error)


RULES: dict[type[ev.Event], Callable[["Execution", Any, Recorded], None]] = {
    ev.WorkflowStarted: _started,
    ev.SignalReceived: _signal,
    ev.UpdateReceived: _update,
    ev.WorkflowCancelRequested: _cancel,
    ev.ActivityCompleted: _activity_completed,
    ev.ActivityFailed: _activity_failed,
    ev.ActivityCancelled: _activity_cancelled,
    ev.TimerFired: _timer_fired,
    ev.StepCompleted: _step_completed,
    ev.StepFailed: _step_failed,
    ev.ChildWorkflowCompleted: _child_completed,
    ev.ChildWorkflowFailed: _child_failed,
    ev.PeerExited: _peer_exited,
    ev.ExternalCancelDelivered: _request_delivered,
    ev.ExternalCancelFailed: _request_failed,
    ev.ExternalTerminateDelivered: _request_delivered,
    ev.ExternalTerminateFailed: _request_failed,
    ev.MessageDelivered: _message_delivered,
    ev.MessageSendFailed: _message_failed,
}
