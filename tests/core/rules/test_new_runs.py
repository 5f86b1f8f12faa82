import pytest

from assay.core.model.commands import CompleteWorkflow, ContinueAsNew, FailWorkflow
from assay.core.model.errors import AlreadyExists
from assay.core.model.events import SignalReceived, WorkflowStarted
from assay.core.model.ids import SECOND
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse, RetryPolicy
from assay.core.model.replies import Started
from assay.core.model.requests import FirstSignal
from assay.core.model.run import PENDING
from tests.core.support import (
    NOW,
    OBJECT,
    ONE,
    ORDER,
    TWO,
    claims,
    elapsed,
    elapses,
    events,
    given,
    later,
    refused,
    signalled,
    started,
    starts,
    terminated,
    turned,
    turns,
)

HOUR = 3_600 * SECOND
MIDNIGHT = 1_700_006_400 * SECOND
FOREVER = RetryPolicy(max_attempts=0, initial_interval=SECOND, backoff=2.0, maximum_interval=100 * SECOND)


def test_a_run_begins_with_its_input_and_a_task():
    decision = given().when(starts(input=ONE, task_queue="fast"))
    run = decision.run
    assert events(decision) == [WorkflowStarted(ONE, run.start)]
    assert (run.workflow_id, run.run_id, run.number, run.created_at) == (ORDER, "run-1", 1, NOW)
    assert (run.start.workflow_type, run.start.task_queue, run.start.first_run_id) == ("Order", "fast", "run-1")
    assert decision.task.ready
    assert decision.reply == Started(run.key, PENDING, started=True)


def test_first_signals_come_before_anything_from_outside():
    messages = (FirstSignal("a", ONE, "wf://main/boss"), FirstSignal("b"))
    world = given(started(signals=messages), signalled("c"))
    assert world.history()[1:] == [SignalReceived("a", ONE, "wf://main/boss"), SignalReceived("b"), SignalReceived("c")]
    assert world.run.signals == 3


def test_a_closed_id_begins_the_next_run():
    world = given(started(), terminated(), started())
    assert (world.run.number, world.run.run_id, world.run.start.first_run_id) == (2, "run-2", "run-2")
    assert world.run.start.previous_run_id is None


@pytest.mark.parametrize(
    ("policy", "how", "allowed"),
    [
        (IdReuse.ALLOW_DUPLICATE, turned(CompleteWorkflow()), True),
        (IdReuse.ALLOW_DUPLICATE, terminated(), True),
        (IdReuse.ALLOW_DUPLICATE_FAILED_ONLY, turned(CompleteWorkflow()), False),
        (IdReuse.ALLOW_DUPLICATE_FAILED_ONLY, turned(FailWorkflow()), True),
        (IdReuse.ALLOW_DUPLICATE_FAILED_ONLY, terminated(), True),
        (IdReuse.REJECT_DUPLICATE, turned(CompleteWorkflow()), False),
        (IdReuse.REJECT_DUPLICATE, turned(FailWorkflow()), False),
    ],
)
def test_reuse_of_a_closed_id(policy, how, allowed):
    world = given(started(), how)
    if allowed:
        assert world.when(starts(id_reuse_policy=policy)).run.number == 2
    else:
        with refused("already_exists"):
            world.when(starts(id_reuse_policy=policy))


def test_a_refusal_names_the_run_that_has_the_id():
    world = given(started(), claims())
    with pytest.raises(Exception, match="already running") as caught:
        world.when(starts())
    assert caught.value.existing == {"workflow_id": ORDER, "run_id": "run-1", "status": "RUNNING"}


# runs of another type

TAKES_EXISTING = {"id_conflict_policy": IdConflict.USE_EXISTING, "id_reuse_policy": IdReuse.ALLOW_DUPLICATE_FAILED_ONLY}


@pytest.mark.parametrize("end", [None, turned(CompleteWorkflow()), turned(FailWorkflow()), terminated()])
def test_a_run_of_another_type_is_never_taken_for_the_one_asked_for(end):
    world = given(started()) if end is None else given(started(), end)
    with pytest.raises(AlreadyExists) as caught:
        world.when(starts(workflow_type="Refund", id_conflict_policy=IdConflict.USE_EXISTING))
    assert caught.value.code == "other_workflow_type"
    assert caught.value.existing == {"workflow_id": ORDER, "run_id": "run-1", "status": world.run.status}


def test_a_completed_run_of_another_type_is_told_from_one_whose_result_counts():
    world = given(started(), turned(CompleteWorkflow()))
    with refused("other_workflow_type"):
        world.when(starts(workflow_type="Refund", id_reuse_policy=IdReuse.ALLOW_DUPLICATE_FAILED_ONLY))


def test_other_starts_do_not_ask_for_the_type():
    with refused("already_exists"):
        given(started()).when(starts(workflow_type="Refund"))
    assert given(started(), terminated()).when(starts(workflow_type="Refund")).run.number == 2


def test_a_chain_has_the_type_it_was_started_with_and_the_one_it_has_now():
    world = given(started(), turned(ContinueAsNew(workflow_type="Later")), turned(ContinueAsNew()))
    for kind in ("Order", "Later"):
        assert world.when(starts(workflow_type=kind, **TAKES_EXISTING)).reply.key == world.run.key
    with refused("other_workflow_type"):
        world.when(starts(workflow_type="Refund", **TAKES_EXISTING))
    world.take(turned(ContinueAsNew(workflow_type="Order")))
    assert world.run.start.first_workflow_type is None


@pytest.mark.parametrize(("end", "begins"), [(CompleteWorkflow(), False), (FailWorkflow(), True)])
def test_a_continued_run_counts_by_the_end_of_its_chain(end, begins):
    world = given(started(), turned(ContinueAsNew()), turned(end))
    if begins:
        assert world.when(starts(**TAKES_EXISTING)).run.number == 3
        return
    with pytest.raises(AlreadyExists) as caught:
        world.when(starts(**TAKES_EXISTING))
    assert caught.value.existing == {"workflow_id": ORDER, "run_id": "run-2", "status": "COMPLETED"}


# delays


def test_a_delayed_run_has_its_task_at_its_time_and_not_before():
    world = given(started(start_delay=HOUR))
    with refused("not_ready"):
        world.when(claims())
    world.take(later(HOUR - 1))
    world.take(elapsed())
    with refused("not_ready"):
        world.when(claims())
    world.take(later(1))
    world.take(elapsed())
    assert world.when(claims()).reply.worker == "w-1"


def test_a_plain_signal_does_not_end_the_delay():
    world = given(started(start_delay=HOUR), signalled())
    assert world.history()[-1] == SignalReceived("paid")
    with refused("not_ready"):
        world.when(claims())


def test_the_delay_is_a_deadline_of_the_run():
    assert given(started(start_delay=HOUR)).run.deadline() == NOW + HOUR


def test_a_delay_of_zero_is_none():
    assert given().when(starts(start_delay=0)).task.ready


# time-outs


def test_a_run_timeout_counts_from_the_first_task():
    assert given(started(run_timeout=HOUR)).run.run_deadline == NOW + HOUR
    assert given(started(run_timeout=HOUR, start_delay=HOUR)).run.run_deadline == NOW + 2 * HOUR


def test_an_execution_timeout_is_an_absolute_deadline():
    run = given(started(execution_timeout=HOUR, start_delay=2 * HOUR)).run
    assert run.start.execution_deadline == NOW + HOUR
    assert run.deadline() == NOW + HOUR


def test_timeouts_of_zero_are_none():
    world = given(started(run_timeout=0, execution_timeout=0))
    assert world.run.deadline() is None
    assert events(world.when(elapses())) == []


# cron


def test_the_first_run_of_a_cron_waits_for_its_slot():
    world = given(started(cron_schedule="0 0 * * *"))
    assert world.run.start.first_task_at == MIDNIGHT
    assert world.run.task.not_before == MIDNIGHT


def test_a_cron_that_never_fires_again_is_refused():
    with refused("never_fires"):
        given().when(starts(cron_schedule="0 0 0 1 1 * 1999"))


# successors


def chained(**options):
    options = {"memo": Payload(b'{"m":1}'), "search_attributes": Payload(b'{"s":1}'), "context": OBJECT, **options}
    return started(input=ONE, request_id="req", summary="why", **options)


def test_a_continued_run_keeps_what_was_agreed_at_the_start():
    world = given(chained(run_timeout=HOUR, execution_timeout=3 * HOUR, retry_policy=FOREVER), later(HOUR // 2))
    old = world.run
    new = world.when(turned(ContinueAsNew(TWO))).others[0]
    start = new.run.start
    assert events(new) == [WorkflowStarted(TWO, start)]
    assert (new.run.number, new.run.workflow_id) == (2, ORDER)
    assert (start.first_run_id, start.previous_run_id, start.initiator) == ("run-1", "run-1", "continue")
    assert (start.memo, start.search_attributes, start.context) == (Payload(b'{"m":1}'), Payload(b'{"s":1}'), OBJECT)
    assert start.execution_deadline == old.start.execution_deadline
    assert new.run.run_deadline == world.now + HOUR
    assert (start.retry_policy, start.summary, start.workflow_type) == (FOREVER, "why", "Order")


def test_a_run_may_continue_as_another_type_on_another_queue():
    new = given(started()).when(turned(ContinueAsNew(workflow_type="Big", task_queue="slow"))).others[0]
    assert (new.run.start.workflow_type, new.run.start.task_queue) == ("Big", "slow")


def test_a_retry_has_the_input_of_the_run_it_repeats():
    world = given(chained(retry_policy=FOREVER), turned(FailWorkflow("no")))
    assert world.history()[0] == WorkflowStarted(ONE, world.run.start)
    assert (world.run.start.attempt, world.run.start.initiator) == (2, "retry")


def test_a_retry_of_a_continued_run_has_the_input_it_continued_with():
    world = given(chained(retry_policy=FOREVER), turned(ContinueAsNew(TWO)), turned(FailWorkflow("no")))
    assert world.history()[0] == WorkflowStarted(TWO, world.run.start)


def test_a_retry_goes_back_to_the_documents_of_its_start():
    patch = ContinueAsNew(memo=Payload(b'{"n":2}'))
    world = given(chained(retry_policy=FOREVER), turned(patch), turned(FailWorkflow("no")))
    assert world.run.memo == Payload(b'{"m":1,"n":2}')


def test_continuing_begins_to_count_attempts_anew():
    world = given(
        started(retry_policy=FOREVER),
        turned(FailWorkflow("no")),
        later(SECOND),
        elapsed(),
        turned(ContinueAsNew()),
    )
    assert (world.run.number, world.run.start.attempt) == (3, 1)


def test_input_is_kept_in_memory_only_where_it_may_be_needed_again():
    assert given(started(input=ONE)).run.input == NULL
    assert given(started(input=ONE, retry_policy=FOREVER)).run.input == ONE
    assert given(started(input=ONE, cron_schedule="@hourly")).run.input == ONE


def test_a_successor_and_its_predecessor_name_each_other():
    decision = given(started()).when(turned(ContinueAsNew()))
    assert decision.events[-1].event.next_run_id == decision.others[0].run.run_id
    assert decision.others[0].run.start.previous_run_id == decision.run.run_id


def test_commands_after_a_close_are_not_heard():
    decision = given(started()).when(turned(ContinueAsNew(ONE), ContinueAsNew(TWO)))
    assert len(decision.others) == 1


def test_turns_needs_a_holder():
    with refused("stale_task"):
        given(started()).when(turns())
