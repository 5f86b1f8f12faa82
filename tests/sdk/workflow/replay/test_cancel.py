"""A cancel request is raised once, where the main coroutine waits; the code decides how the run ends."""

import asyncio
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ActivityError, Kind
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.support import Trial, check_replay


def test_a_cancel_that_is_let_through_ends_the_run_as_cancelled():
    async def workflow(ctx: Context) -> None:
        await ctx.execute_activity("charge")

    trial = Trial(workflow).cancel("enough")
    assert trial.closing == ev.WorkflowCancelled("enough")
    check_replay(trial)


def test_it_is_raised_at_the_await_with_its_reason_and_clean_up_goes_on():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.execute_activity("charge")
        except CancelRequested as request:
            await ctx.sleep(5)
            cleaned = await ctx.execute_activity("refund")
            return [request.reason, cleaned]

    trial = Trial(workflow).cancel("enough").fire(1).lose().complete(2, "refunded")
    assert trial.result == ["enough", "refunded"]
    check_replay(trial)


def test_it_is_raised_once():
    caught: list[str] = []

    async def workflow(ctx: Context) -> Any:
        for _ in range(3):
            try:
                await ctx.sleep(5)
            except CancelRequested:
                caught.append("caught")
        return "slept"

    trial = Trial(workflow).cancel().cancel()
    trial.fire(2).fire(3)
    assert trial.result == "slept"
    assert caught == ["caught"]


def test_a_cancel_reaches_a_plain_await_of_asyncio():
    async def workflow(ctx: Context) -> Any:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "clean"

    trial = Trial(workflow).cancel()
    assert trial.result == "clean"
    check_replay(trial)


def test_a_blocking_handler_sees_it_too():
    def workflow(ctx: BlockingContext) -> Any:
        try:
            ctx.sleep(60)
        except CancelRequested as request:
            ctx.execute_activity("refund")
            raise request

    trial = Trial(workflow).cancel("enough").lose().complete(1)
    assert trial.closing == ev.WorkflowCancelled("enough")
    check_replay(trial)


def test_an_error_during_clean_up_fails_the_run():
    async def workflow(ctx: Context) -> None:
        try:
            await ctx.sleep(5)
        finally:
            raise ValueError("clean-up broke")

    assert Trial(workflow).cancel().failure.message == "clean-up broke"


def test_activities_are_withdrawn_and_running_ones_told():
    async def workflow(ctx: Context) -> None:
        await asyncio.gather(ctx.execute_activity("charge"), ctx.execute_activity("ship"))

    trial = Trial(workflow).lease(2)
    with trial.together():
        trial.cancel()
        assert list(trial.run.activities) == [2]
        assert trial.run.activities[2].cancel_requested
    assert isinstance(trial.closing, ev.WorkflowCancelled)
    check_replay(trial)


def test_who_waits_for_a_withdrawn_activity_in_the_background_hears_of_it():
    async def workflow(ctx: Context) -> Any:
        background = asyncio.create_task(ctx.execute_activity("charge"))
        try:
            await ctx.sleep(60)
        except CancelRequested:
            try:
                await background
            except ActivityError as error:
                return [error.activity, error.kind, error.retryable, error.cause and error.cause.kind]

    trial = Trial(workflow).cancel()
    assert trial.result == ["charge", "CANCELED", False, "CANCELED"]
    check_replay(trial)


def test_code_withdraws_an_activity_by_cancelling_who_waits_for_it():
    async def workflow(ctx: Context) -> Any:
        task = asyncio.create_task(ctx.execute_activity("charge"))
        await ctx.wait_for_signal("stop")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            await ctx.sleep(1)
            return type(error).__name__

    trial = Trial(workflow).signal("stop")
    assert cmd.RequestCancelActivity(1) in trial.commands
    assert ev.ActivityCancelRequested(1) in trial.events
    trial.lose().fire(1)
    assert trial.result == "CancelledError"
    check_replay(trial)


def test_a_running_activity_that_code_withdraws_may_still_end_as_it_likes():
    async def workflow(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(5):
                await ctx.execute_activity("charge")
        except TimeoutError:
            return await ctx.execute_activity("refund")

    trial = Trial(workflow).lease(1).fire(1)
    assert trial.run.activities[1].cancel_requested
    trial.complete(1, "late").lose().complete(2, "refunded")
    assert trial.result == "refunded"
    check_replay(trial)


# shield


def test_a_shield_holds_a_cancel_back_until_it_ends():
    async def workflow(ctx: Context) -> Any:
        try:
            with ctx.shield():
                await ctx.execute_activity("charge")
                await ctx.execute_activity("ship")
            await ctx.execute_activity("never")
        except CancelRequested:
            return "shipped"

    trial = Trial(workflow).cancel()
    assert trial.run.activities[1].options.survives_cancel
    trial.complete(1).lose().complete(2)
    assert trial.result == "shipped"
    check_replay(trial)


def test_shields_may_be_nested_and_one_during_clean_up_raises_nothing_again():
    async def workflow(ctx: Context) -> Any:
        try:
            with ctx.shield():
                with ctx.shield():
                    await ctx.execute_activity("charge")
                await ctx.execute_activity("ship")
            await ctx.sleep(60)
        except CancelRequested:
            with ctx.shield():
                await ctx.execute_activity("refund")
            await ctx.sleep(1)
            return "clean"

    trial = Trial(workflow).cancel().complete(1).complete(2).lose().complete(3)
    trial.fire(max(trial.run.timers))
    assert trial.result == "clean"
    check_replay(trial)


# time-outs and groups during a cancel


def test_a_timeout_during_clean_up_is_a_timeout():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.sleep(60)
        except CancelRequested:
            try:
                async with asyncio.timeout(5):
                    await ctx.execute_activity("refund")
            except TimeoutError:
                return "too slow"

    trial = Trial(workflow).cancel().lease(1).fire(2)
    assert trial.result == "too slow"
    check_replay(trial)


@pytest.mark.parametrize("waits_in_body", [True, False])
def test_a_cancel_in_a_task_group_ends_the_run_as_cancelled(waits_in_body: bool):
    async def workflow(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.execute_activity("charge"))
            if waits_in_body:
                await ctx.sleep(60)

    trial = Trial(workflow).cancel("enough")
    assert trial.closing == ev.WorkflowCancelled("enough")
    check_replay(trial)


def test_a_real_error_in_a_group_fails_the_run_even_if_it_is_cancelled():
    async def workflow(ctx: Context) -> None:
        async def clean() -> None:
            try:
                await ctx.sleep(60)
            finally:
                raise ValueError("clean-up broke")

        async with asyncio.TaskGroup() as group:
            group.create_task(clean())

    assert "TaskGroup" in Trial(workflow).cancel().failure.message


def test_all_coroutines_of_a_gather_are_told():
    notices: list[str] = []

    async def workflow(ctx: Context) -> None:
        async def one(name: str) -> None:
            try:
                await ctx.sleep(60)
            except CancelRequested as request:
                notices.append(f"{name} {request.reason}")
                raise

        await asyncio.gather(one("a"), one("b"))

    trial = Trial(workflow).cancel("enough")
    assert notices == ["a enough", "b enough"]
    assert trial.closing == ev.WorkflowCancelled("enough")


# the run cancels itself


def test_code_may_end_its_run_as_cancelled():
    async def workflow(ctx: Context) -> None:
        await ctx.wait_for_signal("rejected")
        ctx.cancel("rejected by hand")

    trial = Trial(workflow).signal("rejected")
    assert trial.closing == ev.WorkflowCancelled("rejected by hand")
    check_replay(trial)


def test_code_may_end_its_run_as_cancelled_in_a_group():
    async def workflow(ctx: Context) -> None:
        async with asyncio.TaskGroup():
            ctx.cancel("rejected")

    assert Trial(workflow).closing == ev.WorkflowCancelled("rejected")


def test_awaiting_what_one_cancelled_oneself_is_an_error_and_no_cancel():
    async def workflow(ctx: Context) -> None:
        task = asyncio.create_task(ctx.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    failure = Trial(workflow).failure
    assert failure.kind == Kind.CANCELED
    assert "itself cancelled" in failure.message


def test_a_child_is_waited_for_again_after_a_cancel():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.start_child_workflow("Child", workflow_id="child-1")
        except CancelRequested:
            return await ctx.start_child_workflow("Child", workflow_id="child-1")

    trial = Trial(workflow)
    with trial.together():
        trial.cancel()
    assert trial.closing is None
    trial.child("child-1", cmd.CancelWorkflow())
    assert trial.failure.kind == Kind.CANCELED
    check_replay(trial)
