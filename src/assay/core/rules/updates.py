"""Rules of updates: a run accepts or rejects an update once, and answers an accepted update once."""

from msgspec.structs import replace

from assay.core.model import requests as rq
from assay.core.model.addresses import update_address
from assay.core.model.commands import UpdateResponse
from assay.core.model.effects import Decision, PutUpdate
from assay.core.model.errors import Invalid, Kind
from assay.core.model.events import UpdateAccepted, UpdateCompleted, UpdateReceived, UpdateRejected
from assay.core.model.failure import FailureInfo
from assay.core.model.options import check_id
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.run import Run
from assay.core.model.update_states import (
    ACCEPTED,
    ACK,
    ANSWERS,
    COMPLETED,
    FAILED,
    NAK,
    OK,
    RECEIVED,
    REJECTED,
    UpdateState,
)
from assay.core.rules.message_limits import check_room, check_topic
from assay.core.rules.moment import Moment


def receive(run: Run, request: rq.Update, at: Moment) -> Decision:
    """Record an update and make a workflow task due; an update with a known id is not recorded again."""
    decision = Decision.of(run, at.now)
    if request.known is not None:
        decision.reply = request.known
        return decision
    check_topic(check_id(request.name, "name"))
    check_room(run, 1)
    args = Payload(b"[" + b",".join(map(bytes, request.args)) + b"]")
    sender = update_address(run.namespace, run.workflow_id, check_id(request.update_id, "update_id"))
    decision.record(UpdateReceived(request.update_id, request.name, args, sender))
    state = UpdateState(run.run_id, request.update_id, RECEIVED)
    decision.add(PutUpdate(state))
    decision.wake()
    start = run.start
    if run.task.epoch == 0 and start.initiator == "start" and start.cron_schedule is None:
        decision.task = replace(decision.task, not_before=None)  # an update ends a start delay
    decision.reply = state
    return decision


def carry(decision: Decision, event: UpdateReceived) -> None:
    """Add the state of an update that goes along to the next run of its chain."""
    decision.add(PutUpdate(UpdateState(decision.run.run_id, event.update_id, RECEIVED)))


def answer(decision: Decision, command: UpdateResponse, request: rq.Advance) -> None:
    """Record the answer to an update; raise `Invalid` for an unknown update, or an answer in the wrong state."""
    state = _state(decision, command.update_id, request)
    if command.answer not in ANSWERS:
        raise Invalid(f"an answer is one of {', '.join(ANSWERS)}", field="answer")
    expected = RECEIVED if command.answer in (ACK, NAK) else ACCEPTED
    if state is None or state.status != expected:
        found = "unknown" if state is None else state.status
        raise Invalid(f"update {command.update_id} is {found}: it cannot be answered by {command.answer}")
    decision.add(PutUpdate(_answered(decision, state, command)))


def _state(decision: Decision, update_id: str, request: rq.Advance) -> UpdateState | None:
    for effect in reversed(decision.effects):
        if isinstance(effect, PutUpdate) and effect.update.update_id == update_id:
            return effect.update
    return request.updates.get(update_id)


def _answered(decision: Decision, state: UpdateState, command: UpdateResponse) -> UpdateState:
    update_id = state.update_id
    if command.answer == ACK:
        decision.record(UpdateAccepted(update_id))
        return replace(state, status=ACCEPTED)
    if command.answer == NAK:
        failure = _failure(command.payload, Kind.INVALID, "update rejected")
        decision.record(UpdateRejected(update_id, failure))
        return replace(state, status=REJECTED, failure=failure)
    if command.answer == OK:
        decision.record(UpdateCompleted(update_id, command.payload))
        return replace(state, status=COMPLETED, result=command.payload)
    failure = _failure(command.payload, Kind.INTERNAL, "update failed")
    decision.record(UpdateCompleted(update_id, NULL, failure))
    return replace(state, status=FAILED, failure=failure)


def _failure(reason: Payload, kind: Kind, default: str) -> FailureInfo:
    value = None if reason == NULL else value_of(reason)
    if value is None or isinstance(value, str):
        return FailureInfo(kind=kind, message=value or default, retryable=False)
    return FailureInfo(kind=kind, message=bytes(reason).decode(), details=reason, retryable=False)
