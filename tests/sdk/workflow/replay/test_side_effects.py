"""Side effects and inline steps."""

import asyncio
import itertools
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ActivityError
from assay.core.model.requests import ActivityOutcome
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay, payload


def recorded_values(trial: Trial) -> list[ev.SideEffectRecorded]:
    return [event for event in trial.events if isinstance(event, ev.SideEffectRecorded)]


# side effects


def test_a_side_effect_runs_once_and_keeps_its_value():
    numbers = itertools.count(1)

    async def workflow(ctx: Context) -> Any:
        first = await ctx.side_effect("number", lambda: next(numbers))
        await ctx.sleep(1)
        return [first, await ctx.side_effect("number", lambda: next(numbers))]

    trial = Trial(workflow)
    assert trial.turn.commands == (
        cmd.RecordSideEffect(1, "number", payload(1), resume=False),
        cmd.ScheduleTimer(1, 1),
    )
    trial.lose().lose().fire(1)
    assert trial.result == [1, 2]


def test_nothing_is_a_value_too():
    ran: list[int] = []

    async def workflow(ctx: Context) -> Any:
        found = await ctx.side_effect("nothing", lambda: ran.append(1))
        await ctx.sleep(1)
        return found

    trial = Trial(workflow).lose().fire(1)
    assert trial.result is None
    assert ran == [1]
    assert recorded_values(trial)[0].value == payload(None)


def test_values_are_decoded_like_those_of_the_first_time():
    def pair() -> tuple[int, str]:
        return (1, "a")

    async def workflow(ctx: Context) -> Any:
        found = await ctx.side_effect("pair", pair)
        await ctx.sleep(1)
        return isinstance(found, tuple)

    assert Trial(workflow).fire(1).result is True
    assert Trial(workflow).lose().fire(1).result is True


def test_an_async_side_effect_is_refused():
    async def late() -> int:
        return 1

    async def workflow(ctx: Context) -> Any:
        return await ctx.side_effect("late", late)

    assert "ctx.run" in Trial(workflow).failure.message


def test_side_effects_may_do_what_code_may_not():
    async def workflow(ctx: Context) -> Any:
        return await ctx.side_effect("read", lambda: open("/dev/null").close())

    assert Trial(workflow).result is None


async def in_turn(ctx: Context) -> Any:
    """Three coroutines that wake one after the other, two of them with side effects."""
    log: list[Any] = []
    ready = asyncio.Event()

    async def one(name: str) -> None:
        await ready.wait()
        log.append(["begins", name])
        if name != "b":
            log.append(await ctx.side_effect(name, lambda: f"effect {len(log)}"))
        log.append(["ends", name])
        await ctx.execute_activity(name, log)

    tasks = [asyncio.create_task(one(name)) for name in ("a", "b", "c")]
    await ctx.execute_activity("begin")
    ready.set()
    await asyncio.gather(*tasks)
    return log


def test_a_speculative_turn_stops_at_a_side_effect_and_the_stopped_coroutine_goes_on_first():
    live, plain = Trial(in_turn), Trial(in_turn)
    plain.complete(1)
    live.did(1)
    assert [turn.paused for turn in live.turns] == [False, True, False]
    assert live.commands == plain.commands
    for seq in (2, 3, 4):
        live.did(seq)
        plain.complete(seq)
    assert live.result == plain.result
    check_replay(live)


def test_what_a_speculative_turn_sends_before_it_stops_is_all_that_was_ordered_before():
    trial = Trial(in_turn)
    with trial.together():
        trial.did(1)
    assert trial.turn.paused
    assert trial.turn.commands == ()
    assert recorded_values(trial) == []
    assert trial.execution is not None
    trial.send(trial.execution.resume())
    assert len(recorded_values(trial)) == 2


@pytest.mark.parametrize("more", [0, 1])
def test_a_worker_may_die_while_a_turn_stands_still(more: int):
    """Whoever takes over finds a turn that was accepted and has no side effect yet: it is live from there on."""

    async def workflow(ctx: Context) -> Any:
        found = [await ctx.execute_activity("charge")]
        found.append(await ctx.side_effect("number", lambda: 7))
        found.append(await ctx.execute_activity("ship", found))
        return found

    trial = Trial(workflow)
    with trial.together():
        trial.did(1, "charged")
        trial.crash()
        for _ in range(more):
            trial.signal("ignored")
    trial.lose()
    assert trial.run.task.stuck is None
    trial.lose().complete(2, "shipped")
    assert trial.result == ["charged", 7, "shipped"]
    check_replay(trial)


def test_outcomes_that_came_together_wait_while_the_turn_stands_still():
    async def workflow(ctx: Context) -> Any:
        async def one(name: str) -> Any:
            found = await ctx.execute_activity(name)
            return [found, await ctx.side_effect(name, lambda: name)]

        return await asyncio.gather(one("a"), one("b"))

    def outcome(trial: Trial, seq: int) -> tuple[Any, ev.InputEvent]:
        activity = trial.lease(seq).run.activities[seq]
        return (
            ActivityOutcome(seq, activity.attempt_id, trial.now(), payload(seq)),
            ev.ActivityCompleted(activity.id, seq, activity.name, payload(seq)),
        )

    trial = Trial(workflow)
    trial.advance(outcome(trial, 2), outcome(trial, 1))
    assert trial.result == [[1, "a"], [2, "b"]]
    assert [event.name for event in recorded_values(trial)] == ["b", "a"]
    check_replay(trial)


def test_a_cancel_on_its_way_does_not_hit_where_a_speculative_turn_stops():
    """A replay does not stop at a side effect, so nothing may be raised there."""

    async def workflow(ctx: Context) -> Any:
        try:
            with ctx.shield():
                await ctx.execute_activity("charge")
            number = await ctx.side_effect("number", lambda: 7)
            await ctx.execute_activity("ship", number)
        except asyncio.CancelledError:
            return "clean"

    trial = Trial(workflow).lease(1).cancel()
    trial.did(1)
    assert len(recorded_values(trial)) == 1
    assert trial.result == "clean"
    check_replay(trial)


# inline steps


def test_a_step_is_no_command_but_work_for_the_worker():
    async def workflow(ctx: Context) -> Any:
        await ctx.execute_activity("charge")
        return await ctx.run("double", lambda x: x * 2, 21)

    trial = Trial(workflow).complete(1)
    assert trial.turn.commands == ()
    (call,) = trial.turn.steps
    assert (call.seq, call.order.name, call.order.args) == (1, "double", (21,))
    assert trial.run.task.worker is not None, "the task is held while the step runs"
    trial.step(1)
    assert trial.result == 42
    check_replay(trial)


def test_a_step_is_started_once_and_again_by_whoever_takes_over():
    async def workflow(ctx: Context) -> Any:
        one, two = await asyncio.gather(ctx.run("one", lambda: 1), ctx.run("two", lambda: 2))
        return one + two

    trial = Trial(workflow)
    assert [call.seq for call in trial.turn.steps] == [1, 2]
    trial.step(2)
    assert trial.turn.steps == ()
    trial.lose()
    assert [call.seq for call in trial.turn.steps] == [1]
    trial.step(1)
    assert trial.result == 3
    check_replay(trial)


def test_a_step_that_fails_for_good_raises():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.run("divide", lambda: 1, retry=Retry(max_attempts=2))
        except ActivityError as error:
            return [error.activity, error.attempts, error.type]

    trial = Trial(workflow).step(1, ZeroDivisionError("no"), attempt=2)
    assert trial.result == ["divide", 2, "ZeroDivisionError"]
    check_replay(trial)


def test_a_long_back_off_is_a_timer_and_the_step_is_ordered_again():
    async def workflow(ctx: Context) -> Any:
        return await ctx.run("call", lambda: "called", retry=Retry(max_attempts=5, initial_interval="1m"))

    trial = Trial(workflow).step(1, OSError("down"), attempt=2, retry_in=60.0)
    assert cmd.ScheduleTimer(1, 60) in trial.commands
    trial.lose().fire(1)
    (call,) = trial.turn.steps
    assert (call.seq, call.order.attempt) == (2, 3)
    trial.step(2)
    assert trial.result == "called"
    check_replay(trial)


def test_news_may_come_while_a_step_runs():
    async def workflow(ctx: Context) -> Any:
        step = asyncio.create_task(ctx.run("slow", lambda: "done"))
        paid = await ctx.wait_for_signal("paid")
        return [paid, await step]

    trial = Trial(workflow)
    trial.signal("paid", 1)
    assert trial.run.task.worker is not None
    assert trial.execution is not None
    trial.send(trial.execution.activate(trial.history[trial.run.seen_seq :], 0))
    assert trial.turn.steps == ()
    trial.step(1)
    assert trial.result == [1, "done"]
    check_replay(trial)


def test_a_step_that_code_gives_up_holds_nobody():
    async def workflow(ctx: Context) -> Any:
        async def quick() -> str:
            return "first"

        step = asyncio.create_task(ctx.run("slow", lambda: "done"))
        await asyncio.sleep(0)
        step.cancel()
        await ctx.wait_for_signal("paid")
        return await quick()

    trial = Trial(workflow)
    assert trial.turn.steps == ()
    assert trial.run.task.worker is None
    trial.lose().signal("paid")
    assert trial.turn.steps == ()
    assert trial.result == "first"
    check_replay(trial)


def test_a_step_that_is_overtaken_by_a_timeout_is_not_begun_again():
    async def workflow(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(5):
                await ctx.run("slow", lambda: "done")
        except TimeoutError:
            await ctx.wait_for_signal("paid")
        return "gave up"

    trial = Trial(workflow)
    trial.fire(1)
    assert trial.execution is not None
    trial.send(trial.execution.activate(trial.history[trial.run.seen_seq :], 0))
    assert trial.run.task.worker is None, "nobody waits for the step any more"
    assert not trial.execution.futures.wants_step(1)
    trial.lose().signal("paid")
    assert all(turn.steps == () for turn in trial.turns[1:])
    assert trial.result == "gave up"
    check_replay(trial)


def test_a_side_effect_that_raises_is_the_same_on_replay():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.side_effect("fails", lambda: 1 / 0)
        except Exception as error:  # noqa: BLE001  # that is the question
            return await ctx.execute_activity("tell", str(error))

    check_replay(Trial(workflow))


# a run that begins with the history of another


def test_a_run_that_is_reopened_keeps_the_values_of_its_history():
    numbers = itertools.count(1)

    async def workflow(ctx: Context) -> Any:
        number = await ctx.side_effect("number", lambda: next(numbers))
        stepped = await ctx.run("step", lambda: next(numbers))
        return [number, stepped, await ctx.execute_activity("ship", number)]

    trial = Trial(workflow).step(1).fail(1)
    assert isinstance(trial.closing, ev.WorkflowFailed)
    trial.reopen()
    assert trial.turn.commands == ()
    trial.lose().complete(1, "shipped")
    assert trial.result == [1, 2, "shipped"]
    assert next(numbers) == 3


def test_a_run_that_is_reopened_draws_the_same_random_values():
    async def workflow(ctx: Context) -> Any:
        name = str(ctx.uuid4())
        await ctx.execute_activity(f"reserve {name}")
        return [name, await ctx.execute_activity("ship")]

    trial = Trial(workflow).complete(1).fail(2)
    trial.reopen()
    assert trial.run.task.stuck is None
    first = trial.lose().complete(2, "shipped").result[0]
    assert f"reserve {first}" == next(event.name for event in trial.events if isinstance(event, ev.ActivityScheduled))
