"""`ctx.go`, channels, `select` and `after` in a run: the same in `async def` and `def`, and on every replay."""

import asyncio
import datetime
import logging
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model.errors import ChannelClosed, Invalid
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.sdk.support import Trial, check_replay

# pools of workers, in both forms


async def waiting_pool(ctx: Context) -> Any:
    work, results = ctx.channel(10), ctx.channel(10)

    async def worker(number: int) -> None:
        async for job in work:
            await ctx.sleep("10ms")
            await results.send({"worker": number, "result": job * 2})

    for number in range(3):
        ctx.go(worker(number))
    for job in range(6):
        await work.send(job)
    work.close()
    found = [await results.receive() for _ in range(6)]
    return [sum(one["result"] for one in found), [one["worker"] for one in found], await work.receive_ok()]


def blocking_pool(ctx: BlockingContext) -> Any:
    work, results = ctx.channel(10), ctx.channel(10)

    def worker(number: int) -> None:
        for job in work:
            ctx.sleep("10ms")
            results.send({"worker": number, "result": job * 2})

    for number in range(3):
        ctx.go(worker, number)
    for job in range(6):
        work.send(job)
    work.close()
    found = [results.receive() for _ in range(6)]
    return [sum(one["result"] for one in found), [one["worker"] for one in found], work.receive_ok()]


@pytest.mark.parametrize("pool", [waiting_pool, blocking_pool])
def test_a_pool_of_workers_takes_jobs_from_a_channel(pool: Any):
    trial = Trial(pool)
    for seq in (2, 1, 3, 4, 6, 5):
        trial.fire(seq)
    assert trial.result == [30, [1, 0, 2, 1, 2, 0], [None, False]]
    check_replay(trial)


async def waiting_race(ctx: Context) -> Any:
    answers = ctx.channel()

    async def ask(name: str) -> None:
        await answers.send(await ctx.execute_activity(name))

    ctx.go(ask("slow"))
    timeout = ctx.after("5m")
    quiet = await ctx.select(answers, default=True)
    found = await ctx.select(answers, timeout)
    return [quiet.default, found.index, found.channel is (answers, timeout)[found.index or 0], str(found.value)]


def blocking_race(ctx: BlockingContext) -> Any:
    answers = ctx.channel()

    def ask(name: str) -> None:
        answers.send(ctx.execute_activity(name))

    ctx.go(ask, "slow")
    timeout = ctx.after("5m")
    quiet = ctx.select(answers, default=True)
    found = ctx.select(answers, timeout)
    return [quiet.default, found.index, found.channel is (answers, timeout)[found.index or 0], str(found.value)]


@pytest.mark.parametrize("race", [waiting_race, blocking_race])
def test_the_winner_of_a_select_is_the_same_on_a_replay(race: Any):
    in_time = Trial(race)
    with in_time.together():
        in_time.complete(1, "done")
        in_time.fire(1)
    in_time.work()
    assert in_time.result == [True, 0, True, "done"]
    check_replay(in_time)
    too_late = Trial(race).fire(1)
    fired_at = datetime.datetime.fromtimestamp(too_late.world.now / 1e6, datetime.UTC)
    assert too_late.result == [True, 1, True, str(fired_at)]
    check_replay(too_late)


def test_after_zero_is_ready_at_once_and_needs_no_timer():
    async def workflow(ctx: Context) -> Any:
        found = await ctx.select(ctx.after(0), ctx.after("1h"))
        return [found.index, found.value == ctx.now()]

    trial = Trial(workflow)
    assert trial.result == [0, True]
    assert [type(command) for command in trial.commands] == [cmd.ScheduleTimer, cmd.CompleteWorkflow]


@pytest.mark.parametrize("duration", [-1, "soon", None])
def test_a_bad_duration_of_after_is_refused(duration: Any):
    async def workflow(ctx: Context) -> None:
        ctx.after(duration)

    assert Trial(workflow).failure.kind == "INVALID"


def test_a_channel_of_after_is_only_received_from():
    async def workflow(ctx: Context) -> Any:
        try:
            ctx.after("1h").close()
        except Invalid as error:
            return str(error)

    assert Trial(workflow).result == "a channel of ctx.after can only be received from"


# tasks


def test_a_new_task_runs_after_its_maker_waits():
    async def workflow(ctx: Context) -> Any:
        order: list[str] = []

        async def beside() -> str:
            order.append("task")
            return "done"

        task = ctx.go(beside())
        order.append("main")
        assert not task.done()
        return [order, await task, task.done()]

    assert Trial(workflow).result == [["main", "task"], "done", True]


def test_go_needs_a_coroutine():
    async def workflow(ctx: Context) -> Any:
        async def beside() -> None: ...

        try:
            ctx.go(beside)  # type: ignore[arg-type]
        except Invalid as error:
            return str(error)

    assert Trial(workflow).result == "ctx.go needs a coroutine, not function: call the function, ctx.go(work(1))"


def test_a_blocking_go_needs_a_function():
    def workflow(ctx: BlockingContext) -> Any:
        try:
            ctx.go(5)  # type: ignore[arg-type]
        except Invalid as error:
            return str(error)

    assert Trial(workflow).result == "ctx.go needs a function, not int"


def test_the_end_of_the_main_coroutine_ends_its_tasks():
    async def workflow(ctx: Context) -> str:
        async def beside() -> None:
            await ctx.execute_activity("never")

        ctx.go(beside())
        await ctx.sleep(1)
        return "done"

    assert Trial(workflow).fire(1).result == "done"


async def boom(ctx: Context) -> None:
    await ctx.sleep(1)
    raise ValueError("boom")


def blocking_boom(ctx: BlockingContext) -> None:
    ctx.sleep(1)
    raise ValueError("boom")


def test_the_error_of_an_unawaited_task_is_raised_in_the_main_coroutine():
    async def workflow(ctx: Context) -> Any:
        ctx.go(boom(ctx))
        try:
            await ctx.sleep("1h")
        except ValueError as error:
            task = asyncio.current_task()
            assert task is not None
            cleaned = await ctx.execute_activity("clean")
            return [str(error), cleaned, task.cancelling()]

    trial = Trial(workflow).fire(2).complete(1, "clean")
    assert trial.result == ["boom", "clean", 0]
    check_replay(trial)


def test_the_error_of_an_unawaited_task_is_raised_in_a_blocking_handler():
    def workflow(ctx: BlockingContext) -> Any:
        ctx.go(blocking_boom, ctx)
        try:
            ctx.sleep("1h")
        except ValueError as error:
            return [str(error), ctx.execute_activity("clean")]

    trial = Trial(workflow).fire(2).complete(1, "clean")
    assert trial.result == ["boom", "clean"]
    check_replay(trial)


@pytest.mark.parametrize("is_blocking", [False, True])
def test_an_uncaught_error_of_a_task_fails_the_run(is_blocking: bool):
    async def waiting(ctx: Context) -> None:
        ctx.go(boom(ctx))
        await ctx.sleep("1h")

    def blocking(ctx: BlockingContext) -> None:
        ctx.go(blocking_boom, ctx)
        ctx.sleep("1h")

    trial = Trial(blocking if is_blocking else waiting).fire(2)
    assert trial.failure.message == "boom"
    check_replay(trial)


def test_an_awaited_error_is_not_raised_a_second_time():
    async def workflow(ctx: Context) -> Any:
        task = ctx.go(boom(ctx))
        waiting = ctx.go(boom(ctx))
        found = await asyncio.gather(task, waiting, return_exceptions=True)
        await ctx.sleep(1)
        return [str(one) for one in found]

    trial = Trial(workflow).fire(1).fire(2).fire(3)
    assert trial.result == ["boom", "boom"]
    check_replay(trial)


def test_a_task_that_waits_for_several_still_waits_for_the_failed_one():
    async def workflow(ctx: Context) -> Any:
        tasks = [ctx.go(boom(ctx)), ctx.go(asyncio.sleep(60))]
        await asyncio.wait(tasks)
        return str(tasks[0].exception())

    trial = Trial(workflow).fire(1).fire(2)
    assert trial.result == "boom"
    check_replay(trial)


def test_only_the_main_coroutine_sees_the_error_and_the_tasks_it_awaits_are_cancelled():
    async def workflow(ctx: Context) -> Any:
        seen: list[str] = []

        async def waiting() -> None:
            try:
                await ctx.sleep("1h")
            except asyncio.CancelledError as error:
                seen.append(type(error).__name__)
                raise

        ctx.go(boom(ctx))
        try:
            await asyncio.gather(waiting(), ctx.go(waiting()))
        except ValueError as error:
            seen.append(str(error))
        return seen

    trial = Trial(workflow).fire(1)
    assert trial.result == ["CancelledError", "CancelledError", "boom"]
    check_replay(trial)


def test_a_shield_holds_the_error_back():
    async def workflow(ctx: Context) -> Any:
        ctx.go(boom(ctx))
        done = None
        try:
            with ctx.shield():
                done = await ctx.execute_activity("important")
            await ctx.sleep("1h")
        except ValueError as error:
            return [done, str(error)]

    trial = Trial(workflow).fire(1).complete(1, "done")
    assert trial.result == ["done", "boom"]
    check_replay(trial)


def test_an_error_that_arrives_in_a_shield_before_the_return_fails_the_run():
    async def workflow(ctx: Context) -> Any:
        ctx.go(boom(ctx))
        with ctx.shield():
            return await ctx.execute_activity("important")

    trial = Trial(workflow).fire(1).complete(1, "done")
    assert trial.failure.message == "boom"
    check_replay(trial)


def test_an_error_that_an_awaited_task_keeps_from_the_main_coroutine_fails_the_run():
    async def workflow(ctx: Context) -> str:
        async def stubborn() -> None:
            try:
                await ctx.sleep("1h")
            except asyncio.CancelledError:
                return

        ctx.go(boom(ctx))
        await ctx.go(stubborn())
        return "done"

    trial = Trial(workflow).fire(1)
    assert trial.failure.message == "boom"
    check_replay(trial)


def test_an_error_that_an_awaited_task_keeps_is_raised_at_the_next_await():
    async def workflow(ctx: Context) -> Any:
        async def stubborn() -> None:
            try:
                await ctx.sleep("1h")
            except asyncio.CancelledError:
                await ctx.execute_activity("clean")

        ctx.go(boom(ctx))
        await ctx.go(stubborn())
        try:
            await ctx.channel().receive()
        except ValueError as error:
            task = asyncio.current_task()
            assert task is not None
            return [str(error), task.cancelling()]

    trial = Trial(workflow).fire(1)
    assert not trial.run.closed  # the clean-up is not interrupted
    assert trial.complete(1).result == ["boom", 0]
    check_replay(trial)


def test_of_several_errors_the_first_is_raised_and_the_others_are_logged(caplog: pytest.LogCaptureFixture):
    async def workflow(ctx: Context) -> Any:
        start = asyncio.Event()

        async def fail(message: str) -> None:
            await start.wait()
            raise ValueError(message)

        async def trigger() -> None:
            await ctx.sleep(1)
            start.set()

        for message in ("first", "second"):
            ctx.go(fail(message))
        ctx.go(trigger())
        try:
            await ctx.sleep("1h")
        except ValueError as error:
            return str(error)

    with caplog.at_level(logging.ERROR, "assay.workflow"):
        trial = Trial(workflow).fire(2)
    assert trial.result == "first"
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["second"]
    caplog.clear()
    check_replay(trial)


# plain asyncio tasks


def test_the_error_of_a_plain_task_fails_a_run_that_returns(caplog: pytest.LogCaptureFixture):
    async def workflow(ctx: Context) -> str:
        kept = asyncio.create_task(boom(ctx))
        await ctx.sleep(60)
        return f"done {kept.done()}"

    with caplog.at_level(logging.ERROR, "assay.workflow"):
        trial = Trial(workflow).fire(2)
        assert len(caplog.records) == 1
        trial.fire(1)
    assert trial.failure.message == "boom"
    assert len(caplog.records) == 1
    check_replay(trial)


@pytest.mark.parametrize("how", ["await", "result", "exception"])
def test_a_retrieved_error_of_a_plain_task_does_not_fail_the_run(how: str):
    async def workflow(ctx: Context) -> str:
        task = asyncio.create_task(boom(ctx))
        await ctx.sleep(60)
        try:
            if how == "await":
                await task
            elif how == "result":
                task.result()
            else:
                return str(task.exception())
        except ValueError as error:
            return str(error)
        return "no error"

    trial = Trial(workflow).fire(2).fire(1)
    assert trial.result == "boom"
    check_replay(trial)


def test_a_plain_task_without_a_reference_fails_the_run_too():
    async def workflow(ctx: Context) -> str:
        for _ in range(30):
            asyncio.create_task(boom(ctx))  # noqa: RUF006  # the run must not depend on the garbage collector
        await ctx.sleep(60)
        return "done"

    trial = Trial(workflow)
    for seq in range(2, 32):
        trial.fire(seq)
    assert trial.fire(1).failure.message == "boom"


def test_an_error_in_the_last_turn_of_the_main_coroutine_fails_the_run():
    async def workflow(ctx: Context) -> str:
        async def fail() -> None:
            raise ValueError("late")

        ctx.go(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    assert Trial(workflow).failure.message == "late"


def test_the_error_of_a_task_does_not_replace_the_error_of_the_main_coroutine():
    async def workflow(ctx: Context) -> None:
        task = asyncio.create_task(boom(ctx))
        await ctx.sleep(60)
        raise KeyError(f"own {task.done()}")

    assert "own True" in Trial(workflow).fire(2).fire(1).failure.message


def test_the_error_of_a_task_does_not_prevent_continue_as_new():
    async def workflow(ctx: Context) -> None:
        task = asyncio.create_task(boom(ctx))
        await ctx.sleep(60)
        ctx.continue_as_new(task.done())

    trial = Trial(workflow).fire(2).fire(1)
    assert isinstance(trial.commands[-1], cmd.ContinueAsNew)


def test_a_receiver_that_gives_up_loses_nothing():
    async def workflow(ctx: Context) -> Any:
        values = ctx.channel()

        async def send() -> None:
            await ctx.sleep(2)
            await values.send("late")

        ctx.go(send())
        try:
            async with asyncio.timeout(1):
                await values.receive()
        except TimeoutError:
            pass
        values_left = await values.receive()
        values.close()
        try:
            await values.receive()
        except ChannelClosed:
            return values_left

    trial = Trial(workflow).fire(1).fire(2)
    assert trial.result == "late"
    check_replay(trial)
