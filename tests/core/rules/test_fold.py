import pytest

from assay.core.model import events as ev
from assay.core.model.commands import CompleteWorkflow, ContinueAsNew, FailWorkflow, ScheduleActivity, ScheduleTimer
from assay.core.model.effects import Effect
from assay.core.model.events import KINDS, Recorded
from assay.core.model.ids import SECOND
from assay.core.model.limits import TAIL_EVENTS
from assay.core.model.payload import Payload
from assay.core.model.run import PENDING, Run
from assay.core.rules.fold import CLOSE_REASONS, EFFECTS, EVENTS, apply, trim_tail
from tests.core.support import (
    NOW,
    cancel_requested,
    claimed,
    given,
    later,
    signalled,
    started,
    stepped,
    terminated,
    turned,
    turns,
)

CLOSING = [kind for kind in KINDS.values() if kind.closes is not None]


def fresh():
    start = given(started()).run.start
    return Run("main", "order-1", "run-1", 1, start, NOW, open_steps=set())


def test_every_effect_has_its_row():
    assert set(EFFECTS) == set(Effect.__subclasses__())


def test_every_closing_event_has_its_reason():
    assert set(CLOSE_REASONS) == set(CLOSING)


def test_only_events_have_rows():
    assert set(EVENTS) <= set(KINDS.values())


@pytest.mark.parametrize("kind", CLOSING)
def test_a_closing_event_gives_the_run_its_status(kind):
    run = fresh()
    apply(run, Recorded(2, NOW + 5, kind()))
    assert (run.status, run.closed, run.closed_at, run.updated_at) == (kind.closes, True, NOW + 5, NOW + 5)


def test_the_row_of_a_closed_run_says_why():
    run = fresh()
    apply(run, Recorded(2, NOW, ev.WorkflowFailed("broken", next_run_id="run-9")))
    assert (run.error, run.next_run_id, run.close_reason) == ("broken", "run-9", None)
    run = fresh()
    apply(run, Recorded(2, NOW, ev.WorkflowTerminated("enough")))
    assert (run.error, run.close_reason) == ("enough", "terminated")
    run = fresh()
    apply(run, Recorded(2, NOW, ev.WorkflowTimedOut("run", "too slow")))
    assert (run.error, run.close_reason) == ("too slow", "timed_out")


def test_inputs_are_told_from_echoes():
    run = fresh()
    apply(run, Recorded(1, NOW, ev.SignalReceived("a")))
    apply(run, Recorded(2, NOW, ev.TimerScheduled(1, 1, 0.0, 0.0)))
    assert (run.last_seq, run.input_seq) == (2, 1)


def test_marks_remember_the_highest_seq_of_each_kind():
    run = fresh()
    happened = [
        ev.ActivityScheduled(1, 4, "a", "q"),
        ev.TimerScheduled(1, 5, 0.0, 0.0),
        ev.SideEffectRecorded(6, "x", Payload(b"1")),
        ev.StepCompleted(1, "s"),
        ev.StepFailed(3, "s", "no"),
    ]
    for seq, event in enumerate(happened, 1):
        apply(run, Recorded(seq, NOW, event))
    assert (run.activity_mark, run.timer_mark, run.effect_mark, run.step_mark) == (4, 5, 6, 3)
    assert run.open_steps == {2}
    apply(run, Recorded(6, NOW, ev.StepCompleted(2, "s")))
    assert (run.step_mark, run.open_steps) == (3, set())


def test_a_run_from_the_store_does_not_know_which_steps_are_open():
    world = given(started(), claimed(), turns(outcomes=[stepped(2)], pending=True, lease=None))
    world.run.open_steps = None
    decision = world.take(turns(outcomes=[stepped(1)]))
    assert decision.reply.accepted
    assert world.run.step_mark == 2


def test_the_seq_of_the_cancel_request_is_kept():
    world = given(started(), turned(), cancel_requested(), signalled())
    assert world.run.cancel_seq == 2


def test_a_run_is_pending_until_somebody_claims_it():
    assert given(started(), signalled()).run.status == PENDING


def test_the_tail_holds_what_no_accepted_turn_has_seen():
    world = given(started(), claimed(), signalled("a"), signalled("b"), turns(seen_seq=2))
    assert [recorded.seq for recorded in world.run.tail] == [3]


def test_a_tail_that_grows_too_long_is_left_to_the_store():
    world = given(started(), *[signalled() for _ in range(TAIL_EVENTS)])
    trim_tail(world.run)
    assert (world.run.tail, world.run.tail_bytes) == (None, 0)
    world.take(turned(seen_seq=500))
    assert (world.run.seen_seq, world.run.tail) == (500, None)
    world.take(turned())
    assert (world.run.seen_seq, world.run.tail) == (TAIL_EVENTS + 1, [])


def test_a_closed_run_never_changes_again():
    world = given(started(), turned(ScheduleActivity(1, "a"), ScheduleTimer(1, 1.0)), terminated(), later(SECOND))
    assert (world.run.timers, world.run.activities) == ({}, {})
    assert world.run.deadline() is None


@pytest.mark.parametrize(
    "closing", [CompleteWorkflow(), FailWorkflow(), ContinueAsNew()], ids=["done", "failed", "new"]
)
def test_whoever_closes_a_run_has_seen_all_of_it(closing):
    world = given(started(), signalled(), claimed(), turns(closing))
    run = world.runs["run-1"]
    assert (run.seen_seq, run.tail) == (run.last_seq, [])


def test_an_unknown_event_leaves_the_run_as_it_is():
    run = fresh()
    apply(run, Recorded(1, NOW, ev.VersionRecorded("x", 1)))
    assert (run.last_seq, run.status) == (1, PENDING)
