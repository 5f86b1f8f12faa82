"""Code that no longer follows its history is detected and reported, and the run does not advance (I19)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.codec import UnknownEvent
from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import Failure, NonDeterminismError
from assay.core.model.events import Recorded
from assay.core.model.ids import Seq
from assay.core.model.payload import NULL
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.journal import Journal
from tests.sdk.support import Trial, execution_of, payload

Code = Callable[[Context], Awaitable[Any]]


LINES = CHARGE, NUMBER, FETCH, SLEEP, CHILD, UPSERT, PAID, SHIP = (
    "await ctx.execute_activity('charge')",
    "await ctx.side_effect('number', lambda: 7)",
    "await ctx.run('fetch', lambda: 1)",
    "await ctx.sleep(5)",
    "await ctx.start_child_workflow('Child', workflow_id='child-1')",
    "ctx.upsert_search_attributes({'stage': 'end'})",
    "await ctx.wait_for_signal('paid')",
    "await ctx.execute_activity('ship')",
)


def code(line: str = "", new: str = "") -> Code:
    """A bit of everything that is held against history, with one line replaced."""
    body = [part for known in LINES for part in ((new or "pass") if known == line else known).split("; ")]
    namespace: dict[str, Any] = {}
    exec("\n    ".join(["async def workflow(ctx):", *body]), namespace)  # noqa: S102  # the tests' own text
    found: Code = namespace["workflow"]
    return found


original = code()


def recorded_original() -> Trial:
    """The original code, waiting for its last activity."""
    trial = Trial(original).complete(1).step(1).fire(1)
    return trial.child("child-1", cmd.CompleteWorkflow()).signal("paid")


def test_the_same_code_follows_its_history():
    trial = recorded_original()
    trial.deploy(code(SHIP, SHIP)).signal("ignored").complete(2)
    assert trial.result is None


@pytest.mark.parametrize(
    ("line", "new", "step", "history", "found"),
    [
        # renamed
        (CHARGE, "await ctx.execute_activity('bill')", "activity 1", "activity 1 'charge'", "activity 1 'bill'"),
        (NUMBER, "await ctx.side_effect('id', lambda: 7)", "side effect 1", "'number'", "'id'"),
        (FETCH, "await ctx.run('load', lambda: 1)", "step 1", "step 1 'fetch'", "step 1 'load'"),
        (CHILD, CHILD.replace("child-1", "child-2"), "child workflow 1", "Child child-1", "Child child-2"),
        (CHILD, CHILD.replace("'Child'", "'Kid'"), "child workflow 1", "Child child-1", "Kid child-1"),
        (PAID, "await ctx.wait_for_signal('sent')", "wait for signal 1", "'paid'", "'sent'"),
        (SHIP, "await ctx.execute_activity('send')", "activity 2", "'ship'", "'send'"),
        # removed
        (CHARGE, "", "activity 1", "activity 1 'charge'", "nothing of the kind"),
        (NUMBER, "", "side effect 1", "side effect 1 'number'", "nothing of the kind"),
        (FETCH, "", "step 1", "step 1 'fetch'", "nothing of the kind"),
        (SLEEP, "", "timer 1", "timer 1", "nothing of the kind"),
        (CHILD, "", "child workflow 1", "Child child-1", "nothing of the kind"),
        (UPSERT, "", "attributes 1", "attributes 1", "nothing of the kind"),
        (PAID, "", "wait for signal 1", "'paid'", "nothing of the kind"),
        (SHIP, "", "activity 2", "'ship'", "nothing of the kind"),
        (FETCH, "return", "step 1", "step 1 'fetch'", "nothing of the kind: it has ended"),
        # replaced by another kind
        (CHARGE, SLEEP, "activity 1", "activity 1 'charge'", "nothing of the kind"),
        (SLEEP, "await ctx.execute_activity('rest')", "activity 2", "activity 2 'ship'", "activity 2 'rest'"),
        # added
        (CHARGE, f"await ctx.execute_activity('bill'); {CHARGE}", "activity 1", "'charge'", "'bill'"),
        (SLEEP, f"{SLEEP}; {SLEEP}", "timer 2", "Child child-1", "timer 2"),
        (UPSERT, f"{UPSERT}; {UPSERT}", "attributes 2", "'paid'", "attributes 2"),
        (NUMBER, f"await ctx.side_effect('more', lambda: 1); {NUMBER}", "side effect 1", "'number'", "'more'"),
        (FETCH, f"await ctx.run('more', lambda: 1); {FETCH}", "step 1", "'fetch'", "'more'"),
        (SHIP, f"{SLEEP}; {SHIP}", "timer 2", "activity 2 'ship'", "timer 2"),
    ],
)
def test_every_difference_is_named(line: str, new: str, step: str, history: str, found: str):
    trial = recorded_original()
    seen = trial.run.last_seq
    trial.deploy(code(line, new)).signal("look")
    reason, message = trial.stuck
    assert reason == "non_determinism"
    assert f"at {step}:" in message
    assert history in message.partition("the history says")[2].partition("the code did")[0], message
    assert found in message.partition("the code did")[2], message
    assert trial.run.last_seq == seen + 1, "nothing but the signal was recorded"


def test_reordered_steps_are_named():
    async def first(ctx: Context) -> None:
        await asyncio.gather(ctx.execute_activity("charge"), ctx.execute_activity("ship"))

    async def other(ctx: Context) -> None:
        await asyncio.gather(ctx.execute_activity("ship"), ctx.execute_activity("charge"))

    trial = Trial(first).deploy(other).signal("look")
    assert "the history says activity 1 'charge', the code did activity 1 'ship'" in trial.stuck[1]


def test_code_that_ends_where_its_history_goes_on_is_found_out():
    """Steps leave no echo; but what is in history after the end cannot have happened."""

    async def first(ctx: Context) -> None:
        await ctx.run("one", lambda: 1)
        await ctx.run("two", lambda: 2)
        await ctx.run("three", lambda: 3)

    async def other(ctx: Context) -> None:
        await ctx.run("one", lambda: 1)

    trial = Trial(first).step(1).step(2).deploy(other).lose()
    assert "at step 2: the history says step 2 'two', the code did nothing of the kind: it has ended" in trial.stuck[1]


def test_an_exception_on_replay_is_reported_with_the_step_that_it_prevented():
    async def first(ctx: Context) -> None:
        await ctx.run("load", lambda: 1)
        await ctx.wait_for_signal("go")

    async def broken(ctx: Context) -> None:
        await ctx.run("load", undefined_name)  # type: ignore[name-defined] # noqa: F821

    async def fails(ctx: Context) -> None:
        await ctx.run("load", lambda: 1)
        raise Failure("closed for today")

    trial = Trial(first).step(1).deploy(broken).signal("look")
    reason, message = trial.stuck
    assert reason == "task_failed"
    assert "the code raised NameError: name 'undefined_name' is not defined at test_journal.py:" in message
    assert ", before step 1 'load'. The run goes on when fixed code is deployed" in message
    trial = Trial(first).step(1).deploy(fails).signal("look")
    assert "Failure: closed for today at test_journal.py:" in trial.stuck[1]
    assert ", before wait for signal 1 'go'." in trial.stuck[1]


def test_a_divergence_says_what_the_code_did():
    async def first(ctx: Context) -> None:
        await ctx.execute_activity("work")

    async def other(ctx: Context) -> None:
        await ctx.run("audit", lambda: 1)
        await ctx.execute_activity("work")

    trial = Trial(first).deploy(other).signal("look")
    assert "the history says activity 1 'work', the code did nothing of the kind: step 1 'audit'" in trial.stuck[1]
    assert "The run goes on when code is deployed that takes the recorded steps" in trial.stuck[1]


def test_code_that_adds_to_the_end_of_what_is_recorded_is_found_out():
    async def first(ctx: Context) -> None:
        await ctx.execute_activity("charge")
        await ctx.execute_activity("ship")

    async def other(ctx: Context) -> None:
        await asyncio.gather(ctx.execute_activity("charge"), ctx.sleep(5))
        await ctx.execute_activity("ship")

    trial = Trial(first).complete(1).deploy(other).signal("look")
    assert "the history says activity 2 'ship', the code did timer 1" in trial.stuck[1]


def test_code_that_catches_everything_is_found_out_all_the_same():
    ran: list[str] = []

    async def first(ctx: Context) -> None:
        await ctx.execute_activity("charge")
        await ctx.wait_for_signal("paid")

    async def other(ctx: Context) -> str:
        for name in ("bill", "ship"):
            with contextlib.suppress(Exception):
                await ctx.execute_activity(name)
        await ctx.side_effect("never", lambda: ran.append("side effect"))
        return "done"

    trial = Trial(first).complete(1)
    trial.deploy(other).signal("paid")
    assert trial.stuck[0] == "non_determinism"
    assert "'bill'" in trial.stuck[1]
    assert trial.closing is None
    assert ran == []


def test_a_background_task_that_differs_is_found_out():
    async def first(ctx: Context) -> None:
        background = asyncio.create_task(ctx.execute_activity("charge"))
        await ctx.wait_for_signal("paid")
        await background

    async def other(ctx: Context) -> None:
        background = asyncio.create_task(ctx.execute_activity("bill"))
        await ctx.wait_for_signal("paid")
        await background

    trial = Trial(first).deploy(other).signal("look")
    assert "'bill'" in trial.stuck[1]


def test_a_run_that_is_stuck_goes_on_with_code_that_follows_its_history():
    trial = recorded_original()
    trial.deploy(code(CHARGE, "")).signal("look")
    assert trial.stuck[0] == "non_determinism"
    trial.deploy(original).complete(2)
    assert trial.run.task.stuck is None
    assert trial.result is None


def test_code_may_change_after_what_is_recorded():
    trial = recorded_original()
    trial.deploy(code(SHIP, f"{SHIP}; await ctx.execute_activity('bill')")).complete(2).complete(3)
    assert [event.name for event in trial.events if isinstance(event, ev.ActivityScheduled)] == [
        "charge",
        "ship",
        "bill",
    ]


def test_code_that_hung_may_be_replaced_by_code_that_ends():
    async def hangs(ctx: Context) -> None:
        await asyncio.Event().wait()

    async def ends(ctx: Context) -> int:
        return 5

    trial = Trial(hangs)
    trial.deploy(ends).signal("look")
    assert trial.result == 5


def test_an_event_of_a_later_version_fails_the_task_and_not_the_run():
    trial = Trial(original)
    execution = execution_of(trial.key, trial.app)
    later = Recorded(Seq(trial.run.last_seq + 1), trial.world.now, UnknownEvent("MessageSent", NULL))
    turn = execution.activate([*trial.history, later], trial.run.seen_seq)
    execution.drop()
    assert turn.failure is not None
    assert turn.failure[0] == "non_determinism"
    assert "MessageSent" in turn.failure[1]


def test_an_outcome_of_something_that_was_never_ordered_is_found_out():
    trial = Trial(original)
    for event in (
        ev.ActivityCompleted(1, 9, "charge"),
        ev.TimerFired(9, 0.0),
        ev.StepCompleted(9, "fetch"),
    ):
        execution = execution_of(trial.key, trial.app)
        turn = execution.activate([trial.history[0], Recorded(Seq(2), trial.world.now, event)], 0)
        execution.drop()
        assert turn.failure is not None
        assert "nothing of the kind" in turn.failure[1]


# the journal by itself


def scheduled(seq: int, name: str) -> ev.ActivityScheduled:
    return ev.ActivityScheduled(seq, seq, name, "default")


def test_echoes_are_matched_by_id_and_not_by_position():
    journal = Journal()
    journal.read(scheduled(2, "ship"))
    journal.read(scheduled(1, "charge"))
    assert journal.match("activity", 1, "charge") == scheduled(1, "charge")
    assert journal.match("activity", 2, "ship") == scheduled(2, "ship")
    assert journal.match("activity", 2, "ship") is None
    assert journal.empty


def test_a_command_that_was_sent_expects_its_echo():
    journal = Journal()
    journal.sent("activity", 1)
    journal.read(scheduled(1, "charge"))
    assert journal.empty
    assert journal.match("activity", 1, "charge") is None


def test_echoes_without_an_id_are_counted():
    journal = Journal()
    for name in ("paid", "sent", "paid"):
        journal.read(ev.WorkflowAwaitingSignal(name))
    assert journal.match("wait for signal", 3, "paid") is not None
    assert journal.match("wait for signal", 2, "sent") is not None
    with pytest.raises(NonDeterminismError) as caught:
        journal.match("wait for signal", 1, "sent")
    assert (caught.value.step, caught.value.expected, caught.value.found) == (
        "wait for signal 1",
        "wait for signal 1 'paid'",
        "wait for signal 1 'sent'",
    )


def test_what_is_left_over_is_named():
    journal = Journal()
    events = [ev.StepCompleted(1, "load"), ev.SideEffectRecorded(1, "number", payload(7))]
    history = [Recorded(Seq(place), 0, event) for place, event in enumerate(events, 1)]
    journal.read(events[1])
    missing = journal.first_missing(history, steps=1)
    assert missing is not None
    error = missing.error("nothing of the kind")
    assert (error.step, error.expected, error.found) == (
        "side effect 1",
        "side effect 1 'number'",
        "nothing of the kind",
    )
    assert str(journal.first_missing(history, steps=0)) == "step 1 'load'"
    journal.match("side effect", 1, "number")
    assert journal.first_missing(history, steps=1) is None


def test_a_child_that_could_not_be_started_is_the_echo_of_its_command():
    journal = Journal()
    journal.read_unstarted_child(1)
    assert journal.match("child workflow", 1, "Child child-1") is not None
    journal.sent("child workflow", 2)
    journal.read_unstarted_child(2)
    assert journal.empty
