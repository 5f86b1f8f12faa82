"""A cancel request is raised as `CancelRequested`, with its reason, at every await."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.model import events as ev
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.blocking import wait
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.support import Trial, check_replay


async def in_group(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.sleep(60))


async def in_body_of_group(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))
        await asyncio.sleep(60)


async def in_empty_group(ctx: Context) -> None:
    async with asyncio.TaskGroup():
        await ctx.sleep(60)


async def in_nested_groups(ctx: Context) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(in_body_of_group(ctx))


async def in_timeout(ctx: Context) -> None:
    async with asyncio.timeout(60):
        await asyncio.sleep(120)


async def on_semaphore(ctx: Context) -> None:
    semaphore = asyncio.Semaphore(0)
    await semaphore.acquire()


async def on_condition(ctx: Context) -> None:
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()


async def on_first_completed(ctx: Context) -> None:
    for first in asyncio.as_completed([asyncio.sleep(60), asyncio.sleep(90)]):
        await first


WAITS: dict[str, Callable[[Context], Awaitable[Any]]] = {
    "sleep": lambda ctx: asyncio.sleep(60),
    "event": lambda ctx: asyncio.Event().wait(),
    "queue": lambda ctx: asyncio.Queue[int]().get(),
    "future": lambda ctx: asyncio.get_running_loop().create_future(),
    "task": lambda ctx: asyncio.create_task(asyncio.sleep(60)),
    "task that has not begun": lambda ctx: asyncio.create_task(ctx.sleep(60)),
    "gather": lambda ctx: asyncio.gather(asyncio.sleep(60), ctx.sleep(90)),
    "gather of futures": lambda ctx: asyncio.gather(asyncio.get_running_loop().create_future()),
    "wait": lambda ctx: asyncio.wait([asyncio.create_task(ctx.sleep(60))]),
    "wait_for": lambda ctx: asyncio.wait_for(asyncio.sleep(60), 90),
    "shield": lambda ctx: asyncio.shield(asyncio.sleep(60)),
    "timeout": in_timeout,
    "group": in_group,
    "body of a group": in_body_of_group,
    "empty group": in_empty_group,
    "nested groups": in_nested_groups,
    "semaphore": on_semaphore,
    "condition": on_condition,
    "as_completed": on_first_completed,
    "activity": lambda ctx: ctx.execute_activity("charge"),
    "parallel": lambda ctx: ctx.execute_parallel([("charge", 1), ("ship", 2)]),
    "signal": lambda ctx: ctx.wait_for_signal("paid"),
    "child": lambda ctx: ctx.start_child_workflow("Ship", workflow_id="ship-1"),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_cancel_is_told_with_its_reason_wherever_code_waits(name: str):
    async def workflow(ctx: Context) -> Any:
        try:
            await WAITS[name](ctx)
        except CancelRequested as request:
            await ctx.execute_activity("clean")
            return [request.reason, str(request)]

    trial = Trial(workflow).cancel("enough")
    cleaning = max(trial.run.activities)
    trial.lose().complete(cleaning)
    assert trial.result == ["enough", "enough"]
    check_replay(trial)


@pytest.mark.parametrize("name", WAITS)
def test_whoever_knows_only_asyncio_sees_a_cancel_as_well(name: str):
    async def workflow(ctx: Context) -> Any:
        try:
            await WAITS[name](ctx)
        except asyncio.CancelledError:
            return "clean"

    trial = Trial(workflow).cancel()
    assert trial.result == "clean"
    check_replay(trial)


@pytest.mark.parametrize("name", WAITS)
def test_a_cancel_that_is_let_through_ends_the_run_as_cancelled(name: str):
    async def workflow(ctx: Context) -> None:
        await WAITS[name](ctx)

    trial = Trial(workflow).cancel("enough")
    assert trial.closing == ev.WorkflowCancelled("enough")
    check_replay(trial)


def test_a_blocking_handler_is_told_as_well():
    def workflow(ctx: BlockingContext) -> Any:
        try:
            wait(asyncio.sleep(60))
        except CancelRequested as request:
            return request.reason

    trial = Trial(workflow).cancel("enough")
    assert trial.result == "enough"
    check_replay(trial)


def test_the_tasks_of_a_group_are_told_too():
    notices: list[str] = []

    async def workflow(ctx: Context) -> None:
        async def one(name: str) -> None:
            try:
                await asyncio.sleep(60)
            except CancelRequested as request:
                notices.append(f"{name} {request.reason}")
                raise

        async def several() -> None:
            async with asyncio.TaskGroup() as inner:
                inner.create_task(one("b"))

        async with asyncio.TaskGroup() as group:
            group.create_task(one("a"))
            group.create_task(several())
            await asyncio.wait_for(one("c"), 60)

    assert Trial(workflow).cancel("enough").closing == ev.WorkflowCancelled("enough")
    assert sorted(notices) == ["a enough", "b enough", "c enough"]


def test_a_task_that_clean_up_cancels_is_told_why():
    async def workflow(ctx: Context) -> Any:
        notices: list[str | None] = []

        async def background() -> None:
            try:
                await asyncio.Event().wait()
            except CancelRequested as request:
                notices.append(request.reason)

        task = asyncio.create_task(background())
        try:
            await asyncio.sleep(60)
        except CancelRequested:
            await ctx.sleep(1)
            task.cancel()
            await task
        return notices

    trial = Trial(workflow).cancel("enough").fire(2)
    assert trial.result == ["enough"]
    check_replay(trial)


def test_what_code_cancels_by_itself_is_no_request():
    async def workflow(ctx: Context) -> Any:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel("not needed")
        try:
            await task
        except asyncio.CancelledError as error:
            return [type(error).__name__, str(error)]

    assert Trial(workflow).result == ["CancelledError", "not needed"]


def test_a_failing_task_cancels_its_group_without_a_request():
    async def workflow(ctx: Context) -> Any:
        seen: list[str] = []

        async def waits() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                seen.append(type(error).__name__)
                raise

        async def fails() -> None:
            await ctx.sleep(1)
            raise ValueError("broken")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())
                group.create_task(fails())
                await waits()
        except* ValueError:
            seen.append("failed")
        return seen

    trial = Trial(workflow)
    trial.fire(min(trial.run.timers, key=lambda seq: trial.run.timers[seq]))
    assert trial.result == ["CancelledError", "CancelledError", "failed"]


def time_out(ctx: Context) -> Awaitable[Any]:
    return asyncio.wait_for(ctx.execute_activity("charge"), 5)


async def time_out_of_block(ctx: Context) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(ctx.execute_activity("charge"))
        await asyncio.sleep(60)


@pytest.mark.parametrize("limited", [time_out, time_out_of_block])
@pytest.mark.parametrize("in_clean_up", [True, False])
def test_time_outs_are_time_outs(limited: Callable[[Context], Awaitable[Any]], in_clean_up: bool):
    async def workflow(ctx: Context) -> Any:
        try:
            await asyncio.Event().wait() if in_clean_up else await limited(ctx)
        except CancelRequested:
            try:
                await limited(ctx)
            except TimeoutError:
                return "too slow"
        except TimeoutError:
            return "too slow"

    trial = Trial(workflow)
    if in_clean_up:
        trial.cancel()
    trial.lease(1).fire(min(trial.run.timers, key=lambda seq: trial.run.timers[seq]))
    assert trial.result == "too slow"
    check_replay(trial)


def test_a_semaphore_that_somebody_was_cancelled_at_still_counts():
    async def workflow(ctx: Context) -> Any:
        semaphore = asyncio.Semaphore(1)

        async def hold() -> None:
            async with semaphore:
                await ctx.sleep(5)

        holding = asyncio.create_task(hold())
        await asyncio.sleep(0)
        try:
            await semaphore.acquire()
        except CancelRequested:
            await holding
            async with semaphore:
                return semaphore.locked()

    assert Trial(workflow).cancel().fire(1).result is True


def test_a_task_tells_of_its_coroutine():
    async def workflow(ctx: Context) -> Any:
        task = asyncio.create_task(ctx.sleep(1), name="naps")
        await asyncio.sleep(0)
        frames = [frame.f_code.co_name for frame in task.get_stack()]
        return [asyncio.iscoroutine(task.get_coro()), "Context.sleep" in repr(task), frames]

    assert Trial(workflow).result == [True, True, ["sleep"]]
