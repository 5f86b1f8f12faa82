"""The rule of turns that are sent in parts: a turn counts as seen with its last part.

Worker dies after part k of n: the history has the inputs of the turn and the echoes of k parts, the seen seq is the one
before the turn, and the task is due. Another worker applies the same inputs, finds the echoes, and sends the rest.
"""

import pytest

from assay.core.model.commands import CompleteWorkflow, RecordSideEffect, ScheduleActivity
from assay.core.model.events import SideEffectRecorded
from tests.core.support import (
    LEASE,
    OTHER,
    WORKER,
    World,
    claimed,
    claims,
    did,
    elapses,
    given,
    gives_back_task,
    later,
    leased,
    refused,
    signalled,
    started,
    turned,
    turns,
)


def part(*numbers: int, **fields: object):
    """Send side effects as a part of a turn."""
    commands = [RecordSideEffect(number, f"effect-{number}", resume=False) for number in numbers]
    return turns(*commands, more=True, pending=True, lease=LEASE, **fields)


def test_a_part_keeps_the_lease_and_leaves_the_inputs_of_its_turn_unseen():
    world = given(started(), claimed())
    reply = world.take(part(1, 2)).reply
    assert (reply.accepted, reply.leased, reply.seen_seq, reply.last_seq) == (True, True, 3, 3)
    task = world.run.task
    assert (world.run.seen_seq, task.worker, task.until is not None) == (0, WORKER, True)


def test_the_last_part_makes_the_whole_turn_seen():
    world = given(started(), claimed())
    world.take(part(1))
    reply = world.take(turns(RecordSideEffect(2, "effect-2", resume=False))).reply
    assert (reply.accepted, reply.leased, world.run.seen_seq, world.run.last_seq) == (True, False, 3, 3)
    assert world.run.task.since is None


def test_the_last_part_may_close_the_run():
    world = given(started(), claimed())
    seen_seq = world.take(part(1)).reply.seen_seq
    assert world.take(turns(CompleteWorkflow(), seen_seq=seen_seq)).reply.closed


def test_an_input_between_two_parts_refuses_the_close_and_leaves_the_turn_unseen():
    world = given(started(), claimed())
    seen_seq = world.take(part(1)).reply.seen_seq
    world.take(signalled())
    reply = world.take(turns(CompleteWorkflow(), seen_seq=seen_seq)).reply
    assert (reply.accepted, reply.code) == (False, "unhandled_events")
    assert (world.run.seen_seq, world.run.task.ready) == (0, True)


def test_an_input_between_two_parts_is_unseen_after_the_last():
    world = given(started(), claimed())
    seen_seq = world.take(part(1)).reply.seen_seq
    world.take(signalled())
    reply = world.take(turns(RecordSideEffect(2, "effect-2", resume=False), seen_seq=seen_seq)).reply
    assert (reply.accepted, world.run.seen_seq, world.run.last_seq) == (True, seen_seq, 4)
    assert world.run.task.ready


def test_a_part_that_is_received_twice_is_applied_once():
    world = given(started(), claimed())
    once = part(1)(world)
    assert world.take(once).reply.accepted
    with refused("stale_task"):
        world.when(once)


@pytest.mark.parametrize("lost", [gives_back_task(), None])
def test_a_worker_that_is_lost_between_two_parts_leaves_the_task_due_with_the_same_seen_seq(lost: object):
    world = given(started(), claimed())
    late = part(2)
    world.take(part(1))
    late = late(world)
    if lost is None:
        world.take(later(LEASE))
        world.take(elapses())
    else:
        world.take(lost)
    assert (world.run.seen_seq, world.run.task.ready) == (0, True)
    world.take(claims(OTHER))
    with refused("stale_task"):
        world.when(late)
    reply = world.take(turns(RecordSideEffect(2, "effect-2", resume=False))).reply
    assert (reply.accepted, world.run.seen_seq) == (True, 3)
    assert [event.side_effect_seq for event in world.history() if isinstance(event, SideEffectRecorded)] == [1, 2]


def test_a_part_may_bring_outcomes_like_any_fused_message():
    world = given(started(), turned(ScheduleActivity(1, "charge")), leased(1))
    seen_seq = world.run.seen_seq
    reply = world.take(part(1, outcomes=[did(1)])).reply
    assert (reply.accepted, reply.leased, reply.seen_seq) == (True, True, world.run.last_seq)
    assert (world.run.seen_seq, world.run.task.worker) == (seen_seq, WORKER)


def test_a_message_without_the_field_is_a_whole_turn():
    world: World = given(started(), claimed())
    world.take(turns(RecordSideEffect(1, "effect-1", resume=False), pending=True, lease=LEASE))
    assert (world.run.seen_seq, world.run.task.worker) == (2, WORKER)
