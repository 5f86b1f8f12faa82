"""The end of a run: a result, a failure with details, or eviction from its worker without output."""

import asyncio
import dataclasses
import gc
import sys
import weakref
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import Failure, Kind
from assay.core.model.failure import FailureInfo
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.runtime import Execution
from tests.sdk.support import Trial, check_replay, execution_of, value_of


@dataclasses.dataclass
class Order:
    amount: int


def test_an_exception_fails_the_run_at_once_with_a_readable_traceback():
    async def workflow(ctx: Context) -> None:
        def inner() -> None:
            raise KeyError("missing")

        try:
            inner()
        except KeyError as error:
            raise ValueError("cannot go on") from error

    trial = Trial(workflow)
    failure = trial.failure
    assert (failure.kind, failure.message, failure.type, failure.source) == (
        Kind.INTERNAL,
        "cannot go on",
        "ValueError",
        "workflow",
    )
    assert failure.stack is not None
    assert failure.stack.startswith("Traceback")
    assert 'raise ValueError("cannot go on") from error' in failure.stack
    assert "assay/sdk" not in failure.stack
    assert failure.cause is not None
    assert failure.cause.type == "KeyError"
    check_replay(trial)


def test_a_failure_of_the_users_own_making_keeps_its_fields():
    async def workflow(ctx: Context) -> None:
        raise Failure("no such user", kind=Kind.NOT_FOUND, retryable=False, details={"id": 7})

    failure = Trial(workflow).failure
    assert (failure.kind, failure.message, failure.retryable) == (Kind.NOT_FOUND, "no such user", False)
    assert value_of(failure.details) == {"id": 7}


def test_an_exception_that_says_nothing_is_named():
    async def workflow(ctx: Context) -> None:
        raise RuntimeError

    closing = Trial(workflow).closing
    assert isinstance(closing, ev.WorkflowFailed)
    assert closing.error == "RuntimeError"


def test_input_that_cannot_be_decoded_fails_the_run():
    async def workflow(ctx: Context, order: Order) -> None:
        raise AssertionError("never called")

    failure = Trial(workflow, {"amount": "much"}).failure
    assert failure.kind == Kind.INVALID
    assert "input.amount" in failure.message


def test_a_result_that_cannot_be_encoded_fails_the_run():
    async def workflow(ctx: Context) -> Any:
        return {"at": [object()]}

    failure = Trial(workflow).failure
    assert failure.kind == Kind.INVALID
    assert "result.at[0]" in failure.message


def test_an_input_of_an_activity_that_cannot_be_encoded_raises_where_it_is_given():
    async def workflow(ctx: Context) -> Any:
        try:
            await ctx.execute_activity("charge", object())
        except Exception as error:  # noqa: BLE001  # whatever it is, it is raised here
            return type(error).__name__

    trial = Trial(workflow)
    assert trial.result == "Invalid"
    assert not any(isinstance(command, cmd.ScheduleActivity) for command in trial.commands)


def test_typed_values_go_in_and_out():
    async def workflow(ctx: Context, order: Order) -> Order:
        return Order(order.amount + 1)

    assert Trial(workflow, Order(1)).result == {"amount": 2}


@pytest.mark.parametrize("blocking", [True, False])
def test_leaving_the_program_fails_the_run_and_not_the_worker(blocking: bool):
    async def workflow(ctx: Context) -> None:
        await ctx.sleep(1)
        sys.exit(3)

    def blocking_workflow(ctx: BlockingContext) -> None:
        ctx.sleep(1)
        sys.exit(3)

    failure = Trial(blocking_workflow if blocking else workflow).fire(1).failure
    assert (failure.type, failure.message) == ("SystemExit", "3")


def test_a_callback_that_raises_fails_the_run():
    async def workflow(ctx: Context) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await ctx.sleep(60)

    trial = Trial(workflow)
    assert trial.failure.type == "ZeroDivisionError"
    check_replay(trial)


def test_code_that_never_waits_is_a_failed_task_and_not_a_failed_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.sdk.workflow.replay.loop.HANDLE_LIMIT", 2_000)

    async def workflow(ctx: Context) -> None:
        while True:  # that is the point
            await asyncio.sleep(0)

    trial = Trial(workflow)
    reason, message = trial.stuck
    assert reason == "task_failed"
    assert "without ever waiting" in message


def test_continue_as_new_is_not_swallowed_by_except_exception():
    async def workflow(ctx: Context, number: int) -> None:
        try:
            ctx.continue_as_new(number + 1)
        except Exception:  # noqa: BLE001  # that is the question
            await ctx.sleep(60)

    assert isinstance(Trial(workflow, 1).closing, ev.WorkflowContinuedAsNew)


@pytest.mark.parametrize("in_task", [True, False])
def test_continue_as_new_goes_through_a_task_group(in_task: bool):
    async def workflow(ctx: Context, number: int) -> None:
        async def go_on() -> None:
            await ctx.sleep(1)
            ctx.continue_as_new(number + 1)

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.execute_activity("charge"))
            if in_task:
                group.create_task(go_on())
            else:
                await go_on()

    trial = Trial(workflow, 1).fire(1)
    assert isinstance(trial.closing, ev.WorkflowContinuedAsNew)
    check_replay(trial)


def test_a_group_with_a_real_error_in_it_fails_the_run():
    async def workflow(ctx: Context) -> None:
        async def fails() -> None:
            await asyncio.sleep(0)
            raise ValueError("broken")

        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(ctx.sleep(60))

    failure = Trial(workflow).failure
    assert failure.type == "ExceptionGroup"
    assert "ValueError: broken" in (failure.stack or "")


# leaving


async def cleans_up(ctx: Context) -> None:
    """Tries all there is while its coroutine is closed."""
    try:
        await ctx.sleep(60)
    finally:
        for order in (
            lambda: ctx.execute_activity("refund"),
            lambda: ctx.execute_parallel([("refund", 1)]),
            lambda: ctx.sleep(1),
            lambda: ctx.run("refund", print),
            lambda: ctx.side_effect("refund", print),
            lambda: ctx.wait_for_signal("refund"),
            lambda: ctx.start_child_workflow("Refund", workflow_id="refund-1"),
            lambda: ctx.upsert_search_attributes({"stage": "refund"}),
        ):
            try:
                await order()
            except RuntimeError as error:
                LEFT.append(str(error))


LEFT: list[str] = []


def test_a_run_that_leaves_its_worker_orders_nothing_more(capsys: pytest.CaptureFixture[str]):
    LEFT.clear()
    trial = Trial(cleans_up)
    execution = trial.execution
    assert execution is not None
    execution.drop()
    assert len(LEFT) == 8
    assert all("evicted from its worker" in line for line in LEFT)
    assert capsys.readouterr() == ("", "")


def test_a_coroutine_that_waits_while_it_is_closed_is_closed_to_the_end():
    """A `TaskGroup` waits for its tasks when its body is left; who called it ends first, and must not forget it."""
    ended: list[str] = []

    async def workflow(ctx: Context) -> None:
        async def inner() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(ctx.sleep(60))
                    await ctx.wait_for_signal("never")
            finally:
                ended.append("inner")
                await ctx.execute_activity("refund")

        try:
            await inner()
        finally:
            ended.append("outer")

    Trial(workflow).crash()
    gc.collect()
    assert sorted(ended) == ["inner", "outer"]


def test_a_run_may_leave_before_it_begins_and_twice():
    trial = Trial(cleans_up)
    execution = execution_of(trial.key, trial.app)
    execution.drop()
    execution.drop()


def test_a_run_that_left_is_freed_at_once():
    async def workflow(ctx: Context) -> None:
        await asyncio.gather(ctx.execute_activity("charge"), ctx.sleep(60), ctx.wait_for_signal("paid", 5))

    trial = Trial(workflow)
    kept = weakref.ref(trial.execution)
    trial.turns.clear()
    gc.disable()
    try:
        trial.crash()
        assert kept() is None
    finally:
        gc.enable()


def test_a_turn_never_raises():
    execution: Execution = execution_of(Trial(cleans_up).key, Trial(cleans_up).app)
    turn = execution.activate([object()], 0)  # type: ignore[list-item]
    assert turn.failure is not None
    assert turn.failure[0] == "task_failed"
    execution.drop()


def test_not_even_when_what_the_code_ended_with_cannot_be_told(monkeypatch: pytest.MonkeyPatch):
    async def workflow(ctx: Context) -> None:
        raise ValueError("no")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken here")

    monkeypatch.setattr("assay.sdk.workflow.replay.closing.to_info", broken)
    assert Trial(workflow).stuck == ("task_failed", "RuntimeError: broken here")


def test_a_failed_run_says_so_in_its_closing_command():
    async def workflow(ctx: Context) -> None:
        raise ValueError("no")

    closing = Trial(workflow).commands[-1]
    assert isinstance(closing, cmd.FailWorkflow)
    assert isinstance(closing.failure, FailureInfo)
    assert closing.error == "no"
