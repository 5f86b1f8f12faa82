"""Code that waits for nothing that can come is reported with its places; code that can go on is not."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from assay.core.model.run import DEADLOCK, RUNNING
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay


async def on_a_channel(ctx: Context) -> None:
    await ctx.channel().receive()


def on_a_blocking_channel(ctx: BlockingContext) -> None:
    ctx.channel().receive()


async def on_a_full_channel(ctx: Context) -> None:
    await ctx.channel(0).send(1)


async def on_a_select(ctx: Context) -> None:
    await ctx.select(ctx.channel(), ctx.channel().case_send(1))


async def on_a_future(ctx: Context) -> None:
    ctx.upsert_memo({"phase": "stuck"})
    await asyncio.get_running_loop().create_future()


async def on_each_other(ctx: Context) -> None:
    first, second = ctx.channel(), ctx.channel()

    async def other() -> None:
        await first.send(await second.receive())

    ctx.go(other())
    await second.send(await first.receive())


def on_each_other_blocking(ctx: BlockingContext) -> None:
    first, second = ctx.channel(), ctx.channel()

    def other() -> None:
        first.send(second.receive())

    ctx.go(other)
    second.send(first.receive())


DEADLOCKS: dict[Callable[..., Any], list[str]] = {
    on_a_channel: ["the workflow at test_deadlocks.py:16 in on_a_channel"],
    on_a_blocking_channel: ["the workflow at test_deadlocks.py:20 in on_a_blocking_channel"],
    on_a_full_channel: ["the workflow at test_deadlocks.py:24 in on_a_full_channel"],
    on_a_select: ["the workflow at test_deadlocks.py:28 in on_a_select"],
    on_a_future: ["the workflow at test_deadlocks.py:33 in on_a_future"],
    on_each_other: [
        "the workflow at test_deadlocks.py:43 in on_each_other",
        "Task-2 at test_deadlocks.py:40 in other",
    ],
    on_each_other_blocking: [
        "the workflow at test_deadlocks.py:53 in on_each_other_blocking",
        "Task-2 at test_deadlocks.py:50 in other",
    ],
}


@pytest.mark.parametrize("workflow", DEADLOCKS)
def test_a_deadlock_is_reported_with_its_places_and_ended_by_any_input(workflow: Callable[..., Any]):
    trial = Trial(workflow)
    sentence = f"the code waits for nothing that can come: {', '.join(DEADLOCKS[workflow])}"
    assert trial.stuck == (DEADLOCK, sentence)
    stuck = trial.run.task.stuck
    assert stuck is not None
    assert (trial.run.status, stuck.attempt, stuck.next_try_at) == (RUNNING, 1, None)
    assert (trial.run.task.since, trial.run.task.deadline()) == (None, None)
    check_replay(trial)
    with trial.together():
        trial.signal("any")
        assert trial.run.task.stuck is None
        assert trial.run.task.ready
    trial.work()
    assert trial.stuck == (DEADLOCK, sentence)
    assert trial.cancel().run.status == "CANCELLED"


def test_only_the_first_places_are_named():
    async def workflow(ctx: Context) -> None:
        await asyncio.gather(*(ctx.channel().receive() for _ in range(9)))

    assert Trial(workflow).stuck[1].endswith(", Task-5 at Channel.receive, 5 more")


async def waits_for_a_timer(ctx: Context) -> None:
    ctx.after("1h")
    await ctx.channel().receive()


async def waits_beside_an_activity(ctx: Context) -> None:
    ctx.start_activity("slow")
    await ctx.channel().receive()


async def waits_beside_a_child(ctx: Context) -> None:
    ctx.go(ctx.start_child_workflow("Child", workflow_id="child"))
    await ctx.channel().receive()


async def waits_beside_a_step(ctx: Context) -> None:
    ctx.go(ctx.run("step", lambda: 1))
    await ctx.channel().receive()


async def waits_for_a_signal(ctx: Context) -> None:
    ctx.go(ctx.wait_for_signal("go"))
    await ctx.channel().receive()


async def waits_for_a_time_out(ctx: Context) -> None:
    async with asyncio.timeout(60):
        await ctx.channel().receive()


GOING_ON = [
    waits_for_a_timer,
    waits_beside_an_activity,
    waits_beside_a_child,
    waits_beside_a_step,
    waits_for_a_signal,
    waits_for_a_time_out,
]


@pytest.mark.parametrize("workflow", GOING_ON)
def test_a_run_with_something_to_come_is_not_deadlocked(workflow: Callable[..., Any]):
    trial = Trial(workflow)
    assert trial.turn.deadlock is None
    assert trial.run.task.stuck is None


def test_the_last_outcome_may_leave_a_deadlock():
    trial = Trial(waits_beside_an_activity)
    assert trial.complete(1).stuck[0] == DEADLOCK
    late = Trial(waits_for_a_timer).fire(1)
    assert late.stuck[0] == DEADLOCK
    child = Trial(waits_beside_a_child)
    assert child.run.task.stuck is None
