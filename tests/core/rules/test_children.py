import pytest

from assay.core.model.commands import (
    CancelWorkflow,
    ChildMessage,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    ScheduleTimer,
    StartChildWorkflow,
)
from assay.core.model.errors import Kind
from assay.core.model.events import (
    ChildWorkflowCompleted,
    ChildWorkflowFailed,
    ChildWorkflowStarted,
    ParentLink,
    WorkflowCancelRequested,
    WorkflowStarted,
    WorkflowTerminated,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.payload import Payload
from assay.core.model.policies import ParentClose, RetryPolicy
from assay.core.model.requests import Deliver
from assay.core.model.run import CANCELLED, FAILED, Child
from tests.core.support import (
    BROKEN,
    CHILD,
    GRANDCHILD,
    OBJECT,
    ONE,
    ORDER,
    TWO,
    asks_to_cancel,
    bore,
    cancel_requested,
    claimed,
    delivered,
    delivers,
    elapsed,
    events,
    given,
    later,
    restarted,
    sent,
    signalled,
    started,
    terminated,
    terminates,
    turned,
    turns,
)

SECOND_CHILD = WorkflowId("child-2")


def family(*more, **options):
    """A parent with one open child that a worker has looked at."""
    return given(started(), bore(**options), turned(of=CHILD), *more)


def bears(child=CHILD, **options):
    return turned(StartChildWorkflow("Child", child, **options))


# starting


def test_a_child_is_born_in_the_same_decision():
    world = given(started())
    decision = world.when(bears(input=ONE, seq=4, task_queue="fast"))
    (new_run,) = decision.others
    assert events(decision) == [ChildWorkflowStarted(CHILD, "Child", "run-2", 4)]
    assert events(new_run) == [WorkflowStarted(ONE, new_run.run.start)]
    assert new_run.run.start.parent == ParentLink(ORDER, "run-1", 4, ParentClose.TERMINATE)
    assert (new_run.run.start.task_queue, new_run.run.namespace) == ("fast", "main")
    assert new_run.task.ready


def test_a_parent_knows_its_open_children():
    world = family(seq=4, parent_close_policy="abandon")
    assert world.run.children == {4: Child(CHILD, "run-2", 4, ParentClose.ABANDON)}


def test_every_option_of_a_start_is_an_option_of_a_child():
    world = given(
        started(),
        bore(
            execution_timeout="1h",
            run_timeout=60,
            task_timeout="5s",
            start_delay=2,
            retry_policy={"maximumAttempts": 5},
            memo=Payload(b'{"m":1}'),
            search_attributes=Payload(b'{"s":1}'),
            context=OBJECT,
            summary="why",
        ),
    )
    child = world.newest[CHILD]
    assert child.start.execution_deadline == world.now + 3_600 * SECOND
    assert child.run_deadline == world.now + 62 * SECOND
    assert (child.start.task_timeout, child.task.not_before) == (5 * SECOND, world.now + 2 * SECOND)
    assert child.start.retry_policy.max_attempts == 5
    assert (child.memo, child.search) == (Payload(b'{"m":1}'), Payload(b'{"s":1}'))
    assert (child.start.context, child.start.summary) == (OBJECT, "why")


def test_the_same_child_again_is_nothing_new():
    world = family(signalled())
    decision = world.when(bears())
    assert events(decision) == []
    assert decision.others == []


def test_a_child_that_is_named_twice_in_one_turn_is_born_once():
    decision = given(started()).when(turned(StartChildWorkflow("Child", CHILD), StartChildWorkflow("Child", CHILD)))
    assert len(decision.others) == 1


def test_ones_own_child_that_has_closed_is_not_started_again():
    world = family(terminated(of=CHILD), delivered())
    assert events(world.when(bears())) == []


def test_an_id_that_belongs_to_somebody_else_is_a_failed_child():
    world = given(started(), started(CHILD))
    decision = world.take(bears(seq=4))
    (failure,) = events(decision)
    assert isinstance(failure, ChildWorkflowFailed)
    assert (failure.child_workflow_id, failure.close_reason, failure.child_seq) == (CHILD, "not_started", 4)
    assert failure.failure.kind == Kind.ALREADY_EXISTS
    assert decision.others == []
    assert world.run.children == {}
    assert (world.run.task.ready, world.run.seen_seq) == (True, 1)


def test_ones_own_id_is_taken_too():
    (failure,) = events(given(started()).when(bears(ORDER)))
    assert failure.close_reason == "not_started"


def test_a_closed_run_of_somebody_else_leaves_its_id_free():
    world = given(started(), started(CHILD), terminated(of=CHILD))
    assert isinstance(events(world.when(bears()))[0], ChildWorkflowStarted)
    (failure,) = events(world.when(bears(id_reuse_policy="reject_duplicate")))
    assert failure.failure.kind == Kind.ALREADY_EXISTS


@pytest.mark.parametrize(
    "options",
    [
        {"child": ""},
        {"child": "x" * 256},
        {"task_queue": ""},
        {"parent_close_policy": "adopt"},
        {"id_reuse_policy": "never"},
        {"run_timeout": "soon"},
        {"start_delay": -1},
        {"cron_schedule": "every now and then"},
        {"search_attributes": ONE},
        {"memo": ONE},
        {"retry_policy": {"maximum_attempts": -1}},
        {"retry_policy": {"maximum_attempts": 1.5}},
        {"retry_policy": {"maximum_attempts": 10**400}},
        {"retry_policy": {"backoff_coefficient": float("inf")}},
        {"retry_policy": {"non_retryable_error_types": 7}},
        {"retry_policy": {"non_retryable_error_types": ["a", 7]}},
        {"retry_policy": {"initial_interval": {}}},
    ],
    ids=lambda options: ascii(options)[:60].partition("<")[0],
)
def test_options_that_make_no_sense_are_a_failed_child(options):
    decision = given(started()).when(bears(**options))
    (failure,) = events(decision)
    assert (failure.close_reason, failure.failure.kind) == ("not_started", Kind.INVALID)
    assert decision.task.ready


def test_a_run_has_a_limit_of_open_children():
    world = given(started())
    open_children = {f"c-{number}": Child(f"c-{number}", "r", 0, ParentClose.ABANDON) for number in range(1_999)}
    world.run.children.update(open_children)
    assert LIMITS.pending_children == 2_000
    decision = world.when(turned(StartChildWorkflow("Child", CHILD), StartChildWorkflow("Child", SECOND_CHILD)))
    assert [type(event) for event in events(decision)] == [ChildWorkflowStarted, ChildWorkflowFailed]


# the parent is told, however the child closes


@pytest.mark.parametrize(
    ("how", "reason", "error", "kind"),
    [
        (turned(FailWorkflow("broken", BROKEN), of=CHILD), "failed", "broken", Kind.INTERNAL),
        (turned(CancelWorkflow("enough"), of=CHILD), "cancelled", "enough", Kind.CANCELED),
        (turned(CancelWorkflow(), of=CHILD), "cancelled", "workflow cancelled", Kind.CANCELED),
        (terminated(of=CHILD, reason="stop"), "terminated", "stop", Kind.CANCELED),
    ],
)
def test_an_unhappy_end_of_a_child_is_a_failure_of_the_parent(how, reason, error, kind):
    world = given(started(), bore(seq=4), how)
    decision = world.take(delivers("child_closed", ORDER))
    (outcome,) = events(decision)
    assert (outcome.child_workflow_id, outcome.run_id, outcome.child_seq) == (CHILD, "run-2", 4)
    assert (outcome.close_reason, outcome.error, outcome.failure.kind) == (reason, error, kind)
    assert world.run.children == {}
    assert world.run.task.ready


def test_a_child_that_times_out_is_a_failure_of_the_parent():
    world = given(started(), bore(run_timeout=1), later(SECOND), elapsed(of=CHILD), delivered())
    assert (world.history()[-1].close_reason, world.history()[-1].failure.kind) == ("timed_out", Kind.TIMEOUT)


def test_a_happy_end_of_a_child_is_a_result():
    world = family(signalled(of=CHILD), turned(CompleteWorkflow(TWO), of=CHILD), delivered())
    assert world.history()[-1] == ChildWorkflowCompleted(CHILD, TWO, "run-2")
    assert world.run.task.ready


def test_a_failure_of_a_child_keeps_its_cause():
    failure = FailureInfo(kind=Kind.INVALID, message="no", cause=BROKEN)
    world = given(started(), bore(), turned(FailWorkflow("no", failure), of=CHILD), delivered())
    assert world.history()[-1].failure == failure


def test_a_run_without_a_parent_tells_nobody():
    assert sent(given(started()).when(terminates())) == []


@pytest.mark.parametrize(
    "continued",
    [
        turned(ContinueAsNew(), of=CHILD),
        turned(FailWorkflow("no"), of=CHILD),
        restarted(of=CHILD),
    ],
    ids=["continued", "retried", "restarted"],
)
def test_only_the_end_of_the_chain_is_told(continued):
    policy = {"max_attempts": 2, "initial_interval": 1}
    world = given(started(), bore(retry_policy=policy), continued)
    assert world.outbox == {}
    assert world.newest[CHILD].start.parent == ParentLink(ORDER, "run-1")
    world.take(terminated(of=CHILD))
    world.take(delivered())
    assert (world.history()[-1].close_reason, world.history()[-1].run_id) == ("terminated", "run-3")


def test_a_cron_child_is_told_of_when_it_ends():
    world = given(started(), bore(cron_schedule="@hourly"), later(3_600 * SECOND), elapsed(of=CHILD))
    world.take(turned(CompleteWorkflow(), of=CHILD))
    assert world.outbox == {}


def test_an_outcome_that_comes_late_is_not_taken_for_that_of_a_later_child():
    world = given(started(), bore(seq=1), terminated(of=CHILD))
    (message,) = world.outbox.values()
    world.take(delivered())
    for step in (started(CHILD), terminated(of=CHILD), bore(seq=2)):
        world.take(step)
    assert set(world.run.children) == {2}
    assert events(world.when(Deliver.of(message))) == []


# parent close policy


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (None, [(CHILD, "terminate")]),
        ("terminate", [(CHILD, "terminate")]),
        ("request_cancel", [(CHILD, "cancel")]),
        ("abandon", []),
    ],
)
@pytest.mark.parametrize(
    "close",
    [
        terminates(),
        turns(CompleteWorkflow()),
        turns(FailWorkflow("no")),
        turns(CancelWorkflow()),
        turns(ContinueAsNew()),
    ],
    ids=["terminated", "completed", "failed", "cancelled", "continued"],
)
def test_what_becomes_of_a_child_when_its_parent_closes(policy, message, close):
    world = family(signalled(), claimed(), parent_close_policy=policy)
    assert sent(world.when(close)) == message


def test_a_parent_that_times_out_takes_its_child_along():
    world = given(started(run_timeout=SECOND), bore(), later(SECOND), elapsed(), delivered())
    assert world.history(CHILD)[-1] == WorkflowTerminated("parent closed", "wf://main/order-1")


def test_a_child_of_the_closing_turn_follows_its_policy_too():
    world = given(started())
    decision = world.take(turned(StartChildWorkflow("Child", CHILD), CompleteWorkflow()))
    assert sent(decision) == [(CHILD, "terminate")]
    world.take(delivered())
    assert world.newest[CHILD].status == FAILED
    assert world.run.children == {}


def test_the_end_of_a_parent_reaches_the_open_run_of_its_childs_chain():
    world = family(signalled(of=CHILD), turned(ContinueAsNew(), of=CHILD), terminated(), delivered())
    assert world.newest[CHILD].number == 2
    assert world.newest[CHILD].close_reason == "terminated"


def test_a_child_that_is_already_asked_to_cancel_is_left_to_finish():
    world = family(cancel_requested(), delivered())
    assert sent(world.when(terminates())) == []


def test_a_child_that_has_closed_is_not_bothered():
    world = family(terminated(of=CHILD), delivered())
    assert sent(world.when(terminates())) == []


# cancelling goes down the tree (I16)


def test_a_cancel_goes_on_to_attached_children_and_theirs():
    world = given(started(), bore(), bore(GRANDCHILD, of=CHILD), turned(of=GRANDCHILD))
    decision = world.take(cancel_requested(reason="stop"))
    assert sent(decision) == [(CHILD, "cancel")]
    world.take(delivered())
    for workflow in (CHILD, GRANDCHILD):
        assert isinstance(world.history(workflow)[-1], WorkflowCancelRequested)
        assert world.history(workflow)[-1].reason == "stop"


def test_a_cancel_does_not_reach_an_abandoned_child():
    assert sent(family(parent_close_policy="abandon").when(asks_to_cancel())) == []


def test_a_cancel_closes_a_child_that_nobody_has_claimed():
    world = given(started(), bore(), cancel_requested(), delivered())
    assert world.newest[CHILD].status == CANCELLED
    assert world.history()[-1].close_reason == "cancelled"


def test_a_second_cancel_is_not_sent_twice():
    world = family(cancel_requested())
    assert sent(world.when(asks_to_cancel())) == []


def test_a_child_ordered_by_a_turn_that_had_not_heard_of_the_cancel_is_cancelled():
    world = given(started(), claimed(), cancel_requested(reason="stop"))
    decision = world.take(turns(StartChildWorkflow("Child", CHILD), seen_seq=1))
    assert sent(decision) == [(CHILD, "cancel")]
    assert world.run.children[CHILD].cancel_sent
    world.take(delivered())
    assert world.newest[CHILD].status == CANCELLED


def test_a_child_ordered_with_knowledge_of_the_cancel_is_left_alone():
    world = given(started(), claimed(), cancel_requested())
    assert sent(world.when(turns(StartChildWorkflow("Child", CHILD), seen_seq=2))) == []


def test_an_abandoned_child_is_not_cancelled_for_what_its_parent_had_not_heard():
    world = given(started(), claimed(), cancel_requested())
    command = StartChildWorkflow("Child", CHILD, parent_close_policy="abandon")
    assert sent(world.when(turns(command, seen_seq=1))) == []


def test_no_child_is_born_to_a_closed_parent():
    world = given(started(), claimed())
    late = turns(StartChildWorkflow("Child", CHILD))(world)
    world.take(terminated())
    world_before = len(world.runs)
    with pytest.raises(Exception, match="closed"):
        world.take(late)
    assert len(world.runs) == world_before


def test_a_child_that_is_retried_is_reached_by_the_cancel_of_its_parent():
    policy = {"max_attempts": 5, "initial_interval": 1}
    world = given(started(), bore(retry_policy=policy), turned(FailWorkflow("no"), of=CHILD))
    world.take(cancel_requested())
    world.take(delivered())
    assert (world.newest[CHILD].number, world.newest[CHILD].status) == (2, CANCELLED)


def test_the_options_of_a_child_default_to_a_retry_without_end():
    world = given(started(), bore(retry_policy={}))
    assert world.newest[CHILD].start.retry_policy == RetryPolicy(0, SECOND, 2.0, 100 * SECOND)


def test_other_commands_of_the_turn_stand_beside_a_failed_child():
    world = given(started(), started(CHILD))
    world.take(turned(ScheduleTimer(1, 5.0), StartChildWorkflow("Child", CHILD), ScheduleTimer(2, 5.0)))
    assert set(world.run.timers) == {1, 2}
    assert [recorded.seq for recorded in world.run.tail] == [3, 4]


def test_a_child_inherits_what_its_parent_carries_unless_the_command_has_its_own():
    carried = {"context": Payload(b'{"a":1,"b":2}'), "actor": "ada", "scope": ("read",), "priority": Payload(b"1")}
    world = given(started(**carried), bore())
    start = world.newest[CHILD].start
    assert {name: getattr(start, name) for name in carried} == carried
    own = {"context": Payload(b'{"b":null,"c":3}'), "actor": "bob", "scope": (), "priority": Payload(b"5")}
    start = given(started(**carried), bore(**own)).newest[CHILD].start
    assert {name: getattr(start, name) for name in carried} == {**own, "context": Payload(b'{"a":1,"b":null,"c":3}')}


def test_a_child_has_received_its_first_messages_when_it_starts():
    messages = (ChildMessage("add", ONE), ChildMessage("many", args=(ONE, TWO)))
    world = given(started(), bore(signals=messages))
    first, *received = world.history(CHILD)
    assert isinstance(first, WorkflowStarted)
    assert [(event.signal, bytes(event.payload), event.sender) for event in received] == [
        ("add", b"1", "wf://main/order-1"),
        ("many", b"[1,2]", "wf://main/order-1"),
    ]
