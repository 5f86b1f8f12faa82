import pytest

from assay.core.model.commands import SendMessage, UpdateResponse
from assay.core.model.effects import PutUpdate
from assay.core.model.events import (
    MessageSendFailed,
    MessageSendRequested,
    UpdateAccepted,
    UpdateCompleted,
    UpdateReceived,
)
from assay.core.model.limits import LIMITS
from assay.core.model.payload import Payload
from assay.core.model.requests import Update
from assay.core.model.update_states import ACCEPTED, COMPLETED, RECEIVED, UpdateState
from tests.core.support import MAIN, ONE, ORDER, effects, events, given, refused, started, turned

SENT = Update(MAIN, ORDER, name="add", args=(ONE,), update_id="u-1")
STATE = UpdateState("run-1", "u-1", RECEIVED)


def test_an_update_is_recorded_with_its_address_and_wakes_the_run():
    decision = given(started(), turned()).when(SENT)
    args = Payload(b"[" + bytes(ONE) + b"]")
    assert events(decision) == [UpdateReceived("u-1", "add", args, "upd://main/order-1/u-1")]
    assert decision.task.ready
    assert decision.reply == STATE


def test_an_update_with_a_known_id_is_not_recorded_again():
    known = Update(MAIN, ORDER, name="add", update_id="u-1", known=STATE)
    assert events(given(started(), turned()).when(known)) == []


def test_an_accepted_update_is_answered_once():
    world = given(started(), turned(), SENT)
    commands = (UpdateResponse("u-1", "ack"), UpdateResponse("u-1", "ok", ONE))
    decision = world.when(turned(*commands, updates={"u-1": STATE}))
    assert events(decision) == [UpdateAccepted("u-1"), UpdateCompleted("u-1", ONE)]
    assert [effect.update.status for effect in effects(decision, PutUpdate)] == [ACCEPTED, COMPLETED]
    with refused("invalid"):
        world.when(turned(*commands, UpdateResponse("u-1", "error"), updates={"u-1": STATE}))


@pytest.mark.parametrize("answer", ["ok", "error", "other"])
def test_an_update_is_not_answered_before_it_is_accepted(answer: str):
    world = given(started(), turned(), SENT)
    with refused("invalid"):
        world.when(turned(UpdateResponse("u-1", answer), updates={"u-1": STATE}))


def test_a_run_has_a_limit_of_messages_without_an_outcome():
    world = given(started())
    world.run.sends = LIMITS.sends
    decision = world.when(turned(SendMessage(1, "wf://main/shop", "hello")))
    sent, failed = events(decision)
    assert sent == MessageSendRequested(1, "wf://main/shop", "hello")
    assert isinstance(failed, MessageSendFailed)
    assert failed.kind == "RATE_LIMITED"
