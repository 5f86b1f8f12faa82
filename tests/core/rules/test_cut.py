"""Where the history of a closed run is cut, and which events go along."""

import pytest

from assay.core.model import commands as cmd
from assay.core.rules.retry_cut import cut_of, dropped_names, refusal_of
from tests.core.support import (
    Step,
    World,
    asks_to_cancel,
    completed,
    elapsed,
    failed,
    given,
    later,
    leased,
    refused,
    scheduled,
    signalled,
    started,
    stepped,
    terminated,
    turned,
)

FAIL = cmd.FailWorkflow("NameError")
FAILED_ONCE: list[Step] = [started(), scheduled(1, "charge", max_attempts=1), leased(1), failed(1)]


def cut(world: World, from_seq: int | None = None) -> str:
    """The first event that is not kept, by its kind."""
    history = world.histories[world.run.run_id]
    return type(history[cut_of(world.run.status, history, from_seq)].event).__name__


def test_a_failure_that_ended_the_run_is_cut_off():
    assert cut(given(*FAILED_ONCE, turned(FAIL))) == "ActivityFailed"


def test_a_failure_after_which_the_run_was_terminated_is_cut_off():
    assert cut(given(*FAILED_ONCE, terminated())) == "ActivityFailed"


@pytest.mark.parametrize(
    "went_on",
    [
        turned(cmd.ScheduleActivity(2, "apologize")),
        turned(cmd.ScheduleTimer(1, 5.0)),
        turned(cmd.RecordSideEffect(1, "id", cmd.Payload(b"1"), resume=False)),
        turned(cmd.UpsertAttributes(search=cmd.Payload(b'{"a":1}'))),
        turned(cmd.WaitForSignal("paid")),
        turned(cmd.StartChildWorkflow("Child", "child-1")),
    ],
)
def test_a_failure_that_was_caught_undoes_nothing(went_on: Step):
    assert cut(given(*FAILED_ONCE, went_on, signalled(), turned(FAIL))) == "WorkflowFailed"


def test_a_failure_that_was_caught_by_code_that_took_a_step_undoes_nothing():
    world = given(*FAILED_ONCE, turned(pending=True), turned(FAIL, outcomes=[stepped(1)]))
    assert cut(world) == "WorkflowFailed"


def test_a_failure_caught_200_steps_ago_does_not_roll_them_back():
    steps = [step for seq in range(2, 202) for step in (scheduled(seq, "more"), leased(seq), completed(seq))]
    world = given(*FAILED_ONCE, *steps, turned(FAIL))
    assert cut(world) == "WorkflowFailed"
    assert dropped_names(world.histories["run-1"], len(world.histories["run-1"]) - 1) == []


def test_giving_up_other_work_on_the_way_out_is_not_going_on():
    world = given(
        started(),
        turned(cmd.ScheduleActivity(1, "charge", max_attempts=1), cmd.ScheduleTimer(1, 60.0)),
        leased(1),
        failed(1),
        turned(cmd.CancelTimer(1), FAIL),
    )
    assert cut(world) == "ActivityFailed"


def test_a_signal_after_the_failure_is_no_reason_to_keep_the_failure():
    assert cut(given(*FAILED_ONCE, signalled(), turned(FAIL))) == "ActivityFailed"


def test_a_run_without_a_failed_activity_is_cut_before_its_end():
    assert cut(given(started(), turned(FAIL))) == "WorkflowFailed"


def test_a_run_that_timed_out_is_cut_before_its_end():
    world = given(started(run_timeout=5_000_000), *FAILED_ONCE[1:], later(6_000_000), elapsed())
    assert world.run.status == "TIMED_OUT"
    assert cut(world) == "WorkflowTimedOut"


def test_a_cancelled_run_is_cut_before_the_request():
    cleanup = [scheduled(1, "refund"), leased(1), completed(1)]
    world = given(started(), turned(), asks_to_cancel(), *cleanup, turned(cmd.CancelWorkflow()))
    assert cut(world) == "WorkflowCancelRequested"
    assert dropped_names(world.histories["run-1"], 1) == ["refund"]


def test_a_run_that_cancelled_itself_is_cut_before_its_end():
    assert cut(given(started(), turned(cmd.CancelWorkflow()))) == "WorkflowCancelled"


def test_the_activity_that_is_tried_again_is_not_dropped():
    world = given(*FAILED_ONCE, turned(FAIL))
    assert dropped_names(world.histories["run-1"], 2) == []


def test_from_seq_is_the_last_event_that_is_kept():
    world = given(started(), scheduled(1, "charge"), leased(1), completed(1), turned(FAIL))
    assert [cut(world, seq) for seq in (1, 2, 3)] == ["ActivityScheduled", "ActivityCompleted", "WorkflowFailed"]
    assert dropped_names(world.histories["run-1"], 1) == ["charge"]
    for seq in (-1, 0, 4, 5):
        with refused("bad_from_seq"):
            cut(world, seq)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([started()], "only a closed run"),
        ([started(), turned(cmd.CompleteWorkflow())], "nothing to retry"),
        ([started(), turned(FAIL)], None),
        ([started(), terminated()], None),
        ([started(), turned(cmd.CancelWorkflow())], None),
    ],
)
def test_a_record_says_whether_its_run_can_be_retried(steps: list[Step], words: str | None):
    refusal = refusal_of(given(*steps).run)
    assert (refusal is None) == (words is None)
    assert words is None or words in str(refusal)
