import pytest

from assay.core.model.commands import CompleteWorkflow, ContinueAsNew, WaitForSignal
from assay.core.model.effects import Acknowledge, OutboxMessage
from assay.core.model.events import (
    ChildWorkflowCompleted,
    SignalReceived,
    WorkflowAwaitingSignal,
    WorkflowCancelRequested,
)
from assay.core.model.limits import LIMITS
from assay.core.model.policies import IdConflict
from assay.core.model.requests import Deliver, FirstSignal
from tests.core.support import (
    CHILD,
    MAIN,
    ONE,
    ORDER,
    TWO,
    bore,
    claimed,
    delivered,
    delivers,
    effects,
    events,
    given,
    refused,
    sent,
    signalled,
    signals,
    started,
    starts,
    terminated,
    turned,
    turns,
)

# signals


def test_a_signal_is_recorded_and_wakes_the_run():
    world = given(started(), turned())
    decision = world.when(signals("paid", ONE, sender="wf://main/shop", context=TWO, message_id="m-1"))
    assert events(decision) == [SignalReceived("paid", ONE, "wf://main/shop", TWO, "m-1")]
    assert decision.task.ready


def test_signals_keep_the_order_in_which_they_were_accepted():
    world = given(started(), signalled("a"), claimed(), signalled("b"), turns(seen_seq=2), signalled("c"))
    assert [event.signal for event in world.history() if isinstance(event, SignalReceived)] == ["a", "b", "c"]


def test_a_signal_before_anybody_waits_is_kept_for_the_first_task():
    world = given(started(), signalled("early", ONE))
    assert [recorded.event for recorded in world.run.tail][1:] == [SignalReceived("early", ONE)]


def test_a_wait_is_recorded_and_shown_until_its_signal_comes():
    world = given(started(), turned(WaitForSignal("paid", 3)))
    assert world.history()[-1] == WorkflowAwaitingSignal("paid", 3)
    assert world.run.awaiting == "paid"
    world.take(signalled("other"))
    assert world.run.awaiting == "paid"
    world.take(signalled("paid"))
    assert world.run.awaiting is None


def test_a_run_cannot_complete_on_a_decision_made_without_a_signal():
    world = given(started(), claimed(), signalled())
    assert not world.when(turns(CompleteWorkflow(), seen_seq=1)).reply.accepted


def test_a_signal_to_a_closed_or_unknown_run_is_not_accepted():
    with refused("workflow_closed"):
        given(started(), terminated()).when(signals())
    with refused("not_found"):
        given().when(signals())


def test_a_signal_to_a_named_run_does_not_reach_its_successor():
    world = given(started(), turned(ContinueAsNew()))
    with refused("workflow_closed"):
        world.when(signals(run_id="run-1"))
    assert events(world.when(signals(run_id="run-2"))) == [SignalReceived("paid")]


def test_a_run_has_a_limit_of_signals():
    world = given(started())
    world.run.unseen = list(range(LIMITS.signals))
    with refused("too_many_messages"):
        world.when(signals())


def test_signals_of_a_start_count_against_the_limit():
    world = given(started())
    world.run.unseen = list(range(LIMITS.signals))
    with refused("too_many_messages"):
        world.when(starts(id_conflict_policy=IdConflict.USE_EXISTING, signals=(FirstSignal("hello"),)))


# the outbox


def test_a_message_is_acknowledged_by_the_decision_that_takes_it():
    world = given(started(), bore(), terminated(of=CHILD))
    (key,) = world.outbox
    decision = world.when(delivers("child_closed", ORDER))
    assert effects(decision, Acknowledge) == [Acknowledge(key)]


def test_a_message_delivered_twice_is_taken_once():
    world = given(started(), bore(), turned(CompleteWorkflow(ONE), of=CHILD))
    (message,) = world.outbox.values()
    again = Deliver.of(message)
    assert events(world.take(again)) == [ChildWorkflowCompleted(CHILD, ONE, "run-2")]
    decision = world.when(again)
    assert events(decision) == []
    assert effects(decision, Acknowledge) == [Acknowledge(message.key)]


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_request_follows_a_chain_to_its_open_run(kind):
    world = given(started(), turned(ContinueAsNew()))
    message = OutboxMessage("key", MAIN, ORDER, "run-1", kind, "why", sender="wf://main/boss")
    decision = world.take(Deliver.of(message))
    assert sent(decision) == [(ORDER, kind)]
    (forwarded,) = world.outbox.values()
    assert (forwarded.run_id, forwarded.key, forwarded.reason) == ("run-2", "key>run-2", "why")
    world.take(delivered())
    assert world.run.closed


def test_a_request_to_the_closed_end_of_a_chain_is_let_go():
    world = given(started(), terminated())
    decision = world.when(Deliver.of(OutboxMessage("key", MAIN, ORDER, "run-1", "cancel")))
    assert events(decision) == []
    assert decision.effects == [Acknowledge("key")]


def test_an_outcome_of_a_child_does_not_follow_the_parents_chain():
    world = given(started(), bore(), terminated(of=CHILD), signalled(), turned(ContinueAsNew()))
    decision = world.when(delivers("child_closed", ORDER))
    assert events(decision) == []
    assert sent(decision) == []


def test_a_cancel_from_another_run_is_like_any_cancel():
    world = given(started(), turned())
    decision = world.when(Deliver.of(OutboxMessage("key", MAIN, ORDER, "run-1", "cancel", "why", sender="boss")))
    assert events(decision) == [WorkflowCancelRequested("why", "boss")]


def test_a_message_of_an_unknown_kind_is_let_go():
    decision = given(started()).when(Deliver.of(OutboxMessage("key", MAIN, ORDER, "run-1", "praise")))
    assert events(decision) == []
    assert decision.effects == [Acknowledge("key")]
