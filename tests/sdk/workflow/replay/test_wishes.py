"""Code may end its run from any task: `ctx.cancel` and `ctx.continue_as_new` take effect wherever they are called."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.support import Trial, check_replay, value_of

Wish = Callable[[Context], None]
Place = Callable[[Context, Wish], Awaitable[Any]]


def cancel(ctx: Context) -> None:
    ctx.cancel("rejected")


def go_on(ctx: Context) -> None:
    ctx.continue_as_new(2)


async def later(ctx: Context, wish: Wish) -> None:
    await ctx.wait_for_signal("now")
    wish(ctx)


async def in_a_group(ctx: Context, wish: Wish) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(later(ctx, wish))
        group.create_task(ctx.execute_activity("charge"))


async def alone_in_a_group(ctx: Context, wish: Wish) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(later(ctx, wish))


async def beside_the_body_of_a_group(ctx: Context, wish: Wish) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(later(ctx, wish))
        await ctx.sleep(60)


async def in_the_background(ctx: Context, wish: Wish) -> None:
    task = asyncio.create_task(later(ctx, wish))
    await asyncio.Event().wait()
    await task


async def in_the_background_of_a_group(ctx: Context, wish: Wish) -> None:
    task = asyncio.create_task(later(ctx, wish))
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.sleep(60))
    await task


async def deep_in_the_background(ctx: Context, wish: Wish) -> None:
    async def several() -> None:
        await asyncio.gather(ctx.sleep(60), in_a_group(ctx, wish))

    task = asyncio.create_task(several())
    await ctx.sleep(90)
    await task


async def in_a_task_that_is_awaited(ctx: Context, wish: Wish) -> None:
    await asyncio.create_task(later(ctx, wish))


async def in_a_task_that_is_waited_for(ctx: Context, wish: Wish) -> None:
    await asyncio.wait([asyncio.create_task(later(ctx, wish))])
    await ctx.sleep(60)


async def in_a_gathering(ctx: Context, wish: Wish) -> None:
    await asyncio.gather(later(ctx, wish), ctx.sleep(60))


async def in_a_callback(ctx: Context, wish: Wish) -> None:
    await ctx.wait_for_signal("now")
    asyncio.get_running_loop().call_soon(wish, ctx)
    await ctx.sleep(60)


async def at_once(ctx: Context, wish: Wish) -> None:
    await later(ctx, wish)


PLACES: list[Place] = [
    in_a_group,
    alone_in_a_group,
    beside_the_body_of_a_group,
    in_the_background,
    in_the_background_of_a_group,
    deep_in_the_background,
    in_a_task_that_is_awaited,
    in_a_task_that_is_waited_for,
    in_a_gathering,
    in_a_callback,
    at_once,
]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_cancels_itself(place: Place):
    async def workflow(ctx: Context) -> Any:
        await place(ctx, cancel)
        return "not reached"

    trial = Trial(workflow).signal("now")
    assert trial.closing == ev.WorkflowCancelled("rejected")
    check_replay(trial)


@pytest.mark.parametrize("place", PLACES)
def test_a_run_continues_as_new(place: Place):
    async def workflow(ctx: Context, number: int) -> Any:
        await place(ctx, go_on)
        return "not reached"

    trial = Trial(workflow, 1).signal("now")
    assert isinstance(trial.closing, ev.WorkflowContinuedAsNew)
    closing = trial.commands[-1]
    assert isinstance(closing, cmd.ContinueAsNew)
    assert value_of(closing.input) == 2
    check_replay(trial)


@pytest.mark.parametrize("place", [place for place in PLACES if place is not in_a_callback])
@pytest.mark.parametrize("wish", [cancel, go_on])
def test_the_main_coroutine_cleans_up_undisturbed(place: Place, wish: Wish):
    async def workflow(ctx: Context, number: int) -> Any:
        try:
            await place(ctx, wish)
        finally:
            await ctx.execute_activity("refund")
            await ctx.execute_activity("tell")

    trial = Trial(workflow, 1).signal("now")
    first = max(trial.run.activities)
    trial.lose().complete(first).complete(first + 1)
    assert isinstance(trial.closing, ev.WorkflowCancelled if wish is cancel else ev.WorkflowContinuedAsNew)
    check_replay(trial)


@pytest.mark.parametrize("wish", [cancel, go_on])
def test_so_does_the_task_that_wished(wish: Wish):
    async def workflow(ctx: Context, number: int) -> Any:
        async def wishes() -> None:
            try:
                await later(ctx, wish)
            finally:
                await ctx.execute_activity("refund")
                await ctx.execute_activity("tell")

        async with asyncio.TaskGroup() as group:
            group.create_task(wishes())
            group.create_task(ctx.sleep(60))

    trial = Trial(workflow, 1).signal("now").complete(1).lose().complete(2)
    assert isinstance(trial.closing, ev.WorkflowCancelled if wish is cancel else ev.WorkflowContinuedAsNew)
    check_replay(trial)


def test_the_main_coroutine_hears_why():
    async def workflow(ctx: Context) -> Any:
        task = asyncio.create_task(later(ctx, cancel))
        try:
            await ctx.sleep(60)
        except CancelRequested as request:
            return [request.reason, task.cancelled()]

    assert Trial(workflow).signal("now").result == ["rejected", True]


def test_continuing_is_no_cancel_request():
    async def workflow(ctx: Context, number: int) -> Any:
        task = asyncio.create_task(later(ctx, go_on))
        try:
            await asyncio.gather(ctx.sleep(60), asyncio.sleep(60))
        except CancelRequested:
            return "not the one"
        await task

    assert isinstance(Trial(workflow, 1).signal("now").closing, ev.WorkflowContinuedAsNew)


@pytest.mark.parametrize("wish", [cancel, go_on])
def test_a_shield_holds_it_back(wish: Wish):
    async def workflow(ctx: Context, number: int) -> Any:
        task = asyncio.create_task(later(ctx, wish))
        with ctx.shield():
            await ctx.execute_activity("charge")
        await ctx.sleep(60)
        await task

    trial = Trial(workflow, 1).signal("now")
    assert trial.closing is None
    trial.complete(1)
    assert isinstance(trial.closing, ev.WorkflowCancelled if wish is cancel else ev.WorkflowContinuedAsNew)
    check_replay(trial)


def test_a_wish_that_its_task_takes_back_is_none():
    async def workflow(ctx: Context) -> Any:
        async def changes_its_mind() -> None:
            try:
                ctx.cancel()
            except CancelRequested:
                await ctx.sleep(1)

        async with asyncio.TaskGroup() as group:
            group.create_task(changes_its_mind())
        return "done"

    assert Trial(workflow).fire(1).result == "done"


def test_an_error_in_the_background_fails_the_run_when_its_code_returns():
    async def workflow(ctx: Context) -> Any:
        async def fails() -> None:
            await later(ctx, lambda _: None)
            raise ValueError("nobody asks")

        task = asyncio.create_task(fails())
        other = asyncio.create_task(later(ctx, go_on))
        await ctx.wait_for_signal("end")
        return [task.done(), other.done()]

    trial = Trial(workflow).signal("now")
    assert not trial.run.closed
    assert trial.signal("end").failure.message == "nobody asks"
