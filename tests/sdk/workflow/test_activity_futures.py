"""Activities that are started without waiting, reusable options, and values that are the same on every replay."""

import asyncio
import uuid
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import ActivityError, Invalid
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay, replayed, value_of


async def waiting_futures(ctx: Context) -> Any:
    slow = ctx.start_activity("slow", {"n": 1})
    other = ctx.start_activity("other")
    found = [slow.done(), *await ctx.gather(slow, other), slow.done(), await slow]
    values = slow.channel()
    return [*found, values is slow.channel(), await values.receive_ok(), await values.receive_ok()]


def blocking_futures(ctx: BlockingContext) -> Any:
    slow = ctx.start_activity("slow", {"n": 1})
    other = ctx.start_activity("other")
    found = [slow.done(), *ctx.gather(slow, other), slow.done(), slow.result()]
    values = slow.channel()
    return [*found, values is slow.channel(), values.receive_ok(), values.receive_ok()]


@pytest.mark.parametrize("workflow", [waiting_futures, blocking_futures])
def test_activities_run_beside_the_code_that_started_them(workflow: Any):
    trial = Trial(workflow)
    assert [type(command) for command in trial.turn.commands] == [cmd.ScheduleActivity] * 2
    trial.complete(2, "b").complete(1, "a")
    assert trial.result == [False, "a", "b", True, "a", True, ["a", True], [None, False]]
    check_replay(trial)


async def waiting_select(ctx: Context) -> Any:
    first, second = ctx.start_activity("first"), ctx.start_activity("second")
    found = await ctx.select(first.channel(), second.channel(), ctx.after("1h"))
    return [found.index, found.value, found.ok]


def blocking_select(ctx: BlockingContext) -> Any:
    first, second = ctx.start_activity("first"), ctx.start_activity("second")
    found = ctx.select(first.channel(), second.channel(), ctx.after("1h"))
    return [found.index, found.value, found.ok]


@pytest.mark.parametrize("workflow", [waiting_select, blocking_select])
def test_results_are_selected_from(workflow: Any):
    done = Trial(workflow).complete(2, "b")
    assert done.result == [1, "b", True]
    check_replay(done)
    failed = Trial(workflow).fail(1)
    assert failed.result == [0, None, False]
    check_replay(failed)


def test_a_failed_activity_closes_its_channel_and_raises_where_it_is_awaited():
    async def workflow(ctx: Context) -> Any:
        future = ctx.start_activity("risky")
        early = future.channel()
        found = await early.receive_ok()
        try:
            await future
        except ActivityError as error:
            return [found, error.message, error.activity]

    trial = Trial(workflow).fail(1, "broken")
    assert trial.result == [[None, False], "broken", "risky"]
    check_replay(trial)


def test_a_failed_future_that_no_code_awaits_does_not_fail_the_run():
    async def workflow(ctx: Context) -> str:
        ctx.start_activity("risky")
        await ctx.sleep(1)
        return "done"

    assert Trial(workflow).fail(1).fire(1).result == "done"


async def waiting_cancel(ctx: Context) -> Any:
    future = ctx.start_activity("slow")
    values = future.channel()
    await ctx.sleep(1)
    found = [future.cancel(), await values.receive_ok(), future.cancelled(), future.cancel()]
    try:
        await future
    except asyncio.CancelledError as error:
        return [*found, type(error).__name__]


def blocking_cancel(ctx: BlockingContext) -> Any:
    future = ctx.start_activity("slow")
    values = future.channel()
    ctx.sleep(1)
    found = [future.cancel(), values.receive_ok(), future.cancelled(), future.cancel()]
    try:
        future.result()
    except asyncio.CancelledError as error:
        return [*found, type(error).__name__]


@pytest.mark.parametrize("workflow", [waiting_cancel, blocking_cancel])
def test_a_cancelled_future_cancels_its_activity_and_closes_its_channel(workflow: Any):
    trial = Trial(workflow).lease(1).fire(1)
    assert trial.result == [True, [None, False], True, False, "CancelledError"]
    assert any(isinstance(event, ev.ActivityCancelRequested) for event in trial.events)
    check_replay(trial)


def test_a_future_decodes_by_the_annotation_of_its_activity():
    app = App()

    @app.activity
    def count() -> uuid.UUID: ...

    @app.workflow("Order")
    async def workflow(ctx: Context) -> Any:
        future, wrong = ctx.start_activity(count), ctx.start_activity(count)
        found = (await future).version
        try:
            await wrong
        except Invalid as error:
            return [found, error.kind]

    trial = Trial(app).complete(1, str(uuid.UUID(int=0, version=4))).complete(2, "no uuid")
    assert trial.result == [4, "INVALID"]
    check_replay(trial)


def test_a_future_itself_is_no_case_of_select():
    async def workflow(ctx: Context) -> str:
        try:
            await ctx.select(ctx.start_activity("slow"))
        except Invalid as error:
            return str(error)
        return "taken"

    assert Trial(workflow).result.endswith("give it its .channel()")


def test_gather_returns_exceptions_on_request():
    def workflow(ctx: BlockingContext) -> Any:
        found = ctx.gather(ctx.start_activity("a"), ctx.start_activity("b"), return_exceptions=True)
        return [type(one).__name__ for one in found]

    trial = Trial(workflow).fail(1).complete(2, 1)
    assert trial.result == ["ActivityError", "int"]


def test_a_blocking_gather_takes_its_own_tasks_only():
    def workflow(ctx: BlockingContext) -> Any:
        try:
            ctx.gather(5)  # type: ignore[arg-type]
        except Invalid as error:
            return str(error)

    assert "not int" in Trial(workflow).result


# reusable options


async def waiting_executor(ctx: Context) -> Any:
    fast = ctx.activities(start_to_close="60s", heartbeat="10s", task_queue="gpu", retry_policy=Retry(max_attempts=1))
    faster = fast.with_options({"start_to_close": 1})
    return [await fast.call("risky", 1), await faster.start("risky"), await fast.call("last", task_queue="cpu")]


def blocking_executor(ctx: BlockingContext) -> Any:
    fast = ctx.activities(start_to_close="60s", heartbeat="10s", task_queue="gpu", retry_policy=Retry(max_attempts=1))
    faster = fast.with_options({"start_to_close": 1})
    return [fast.call("risky", 1), faster.start("risky").result(), fast.call("last", task_queue="cpu")]


@pytest.mark.parametrize("workflow", [waiting_executor, blocking_executor])
def test_a_set_of_options_is_used_for_many_calls(workflow: Any):
    trial = Trial(workflow).complete(1, "a").complete(2, "b").complete(3, "c")
    assert trial.result == ["a", "b", "c"]
    ordered = [command for command in trial.commands if isinstance(command, cmd.ScheduleActivity)]
    assert [
        (one.start_to_close_secs, one.task_queue, one.max_attempts, one.heartbeat_timeout_secs) for one in ordered
    ] == [
        (60, "gpu", 1, 10),
        (1, "gpu", 1, 10),
        (60, "cpu", 1, 10),
    ]
    check_replay(trial)


def test_a_set_of_options_may_wait_for_cancellations():
    async def workflow(ctx: Context) -> Any:
        patient = ctx.activities({"activity.wait_for_cancellation": True, "activity.start_to_close_timeout": 5000})
        future = patient.start("first")
        try:
            async with asyncio.timeout(1):
                await patient.call("second")
        except TimeoutError:
            return await future

    trial = Trial(workflow).complete(1, "a").lease(2).fire(1)
    assert not trial.run.closed  # the activity has yet to end
    assert trial.withdraw(2).result == "a"
    check_replay(trial)


def test_a_bad_option_of_a_set_is_refused_when_it_is_made():
    async def workflow(ctx: Context) -> str:
        for make in (lambda: ctx.activities(start_to_clos=1), lambda: ctx.activities({"heartbeat": -1})):
            with pytest.raises(Invalid):
                make()
        with pytest.raises(Invalid, match="options must be a mapping"):
            ctx.activities("fast")  # type: ignore[arg-type]
        return "refused"

    assert Trial(workflow).result == "refused"


# the same values on every replay


async def waiting_values(ctx: Context) -> Any:
    key = await ctx.random_bytes(32)
    ids = [ctx.uuid1(), ctx.uuid1(), ctx.uuid4(), ctx.uuid7(), ctx.uuid7()]
    await ctx.sleep(1)
    return [key.hex(), [one.version for one in ids], len(set(ids)), str(ids), (await ctx.random_bytes(0)).hex()]


def blocking_values(ctx: BlockingContext) -> Any:
    key = ctx.random_bytes(32)
    ids = [ctx.uuid1(), ctx.uuid1(), ctx.uuid4(), ctx.uuid7(), ctx.uuid7()]
    ctx.sleep(1)
    return [key.hex(), [one.version for one in ids], len(set(ids)), str(ids), ctx.random_bytes(0).hex()]


@pytest.mark.parametrize("workflow", [waiting_values, blocking_values])
def test_random_bytes_are_recorded_and_ids_are_repeatable(workflow: Any):
    first, second = Trial(workflow), Trial(workflow).fire(1)
    turn = replayed(first.key, first.app, first.history, first.run.seen_seq)
    assert (turn.failure, turn.commands) == (None, ())
    first.crash()
    first.fire(1)
    key, versions, different, _, empty = first.result
    assert (len(bytes.fromhex(key)), versions, different, empty) == (32, [1, 1, 4, 7, 7], 5, "")
    assert key != second.result[0]
    (recorded, _) = [event.value for event in first.events if isinstance(event, ev.SideEffectRecorded)]
    assert value_of(recorded) == key


def test_the_time_of_a_uuid_is_that_of_the_run():
    async def workflow(ctx: Context) -> Any:
        now = ctx.now().timestamp()
        one, seven = ctx.uuid1(), ctx.uuid7()
        return [abs((one.time - 0x01B21DD213814000) / 1e7 - now) < 0.001, abs((seven.int >> 80) / 1000 - now) < 0.002]

    assert Trial(workflow).result == [True, True]


@pytest.mark.parametrize("count", [-1, 1.5, 10**9])
def test_a_bad_count_of_random_bytes_is_refused(count: Any):
    async def workflow(ctx: Context) -> None:
        await ctx.random_bytes(count)

    assert Trial(workflow).failure.kind == "INVALID"
