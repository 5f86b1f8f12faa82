"""Handlers that do what nobody expects of them: their own run or attempt fails, and nobody else notices."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.model.grants import TaskGrant
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from tests.sdk.worker.activities import greets, interrupts

Program = Callable[[assay.Client], Awaitable[Any]]


@asynccontextmanager
async def serving(client: assay.Client) -> AsyncIterator[assay.Worker]:
    worker = assay.Worker(client)
    running = asyncio.ensure_future(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        worker.stop()
        await running


def served(folder: Path, app: assay.App, program: Program) -> Any:
    """What a program gets from a client whose app is served."""

    async def main() -> Any:
        async with await assay.Client.connect(f"sqlite://{folder}/odd.db", app=app) as client, serving(client):
            return await asyncio.wait_for(program(client), 30)

    return asyncio.run(main())


async def failure_of(client: assay.Client, workflow: str, input: Any = None) -> assay.Failure:
    with pytest.raises(assay.WorkflowFailed) as raised:
        await (await client.start(workflow, input=input)).result()
    return raised.value


def app_with(workflow: Callable[..., Any], *activities: Callable[..., Any]) -> assay.App:
    app = assay.App()
    app.workflow("Odd", workflow)
    app.workflow("Good", good)
    for activity in activities:
        app.activity(activity)
    return app


async def good(ctx: assay.Context, number: int) -> int:
    await ctx.sleep(0.01)
    return number


async def beside_good_ones(client: assay.Client) -> tuple[list[int], assay.Failure]:
    """An odd run in the middle of ten good ones, all given to the worker at once."""
    started = await asyncio.gather(
        *(client.start("Odd" if number == 3 else "Good", number, workflow_id=f"run-{number}") for number in range(10))
    )
    odd = started.pop(3)
    results = await asyncio.gather(*(handle.result() for handle in started))
    with pytest.raises(assay.WorkflowFailed) as raised:
        await odd.result()
    return results, raised.value


def test_a_failure_whose_message_is_no_text_harms_nobody_else(tmp_path: Path):
    async def odd(ctx: assay.Context, number: int) -> None:
        raise assay.Failure(ValueError("boom"), retryable=0)  # type: ignore[arg-type]

    results, failure = served(tmp_path, app_with(odd), beside_good_ones)
    assert results == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert (failure.message, failure.retryable) == ("boom", False)


def test_a_worker_that_fails_over_one_task_does_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    take = WorkflowTasks.take
    failed: list[str] = []

    def broken(tasks: WorkflowTasks, grant: TaskGrant, **rest: bool) -> None:
        if grant.key.workflow_id == "run-3" and not failed:
            failed.append(grant.key.workflow_id)
            raise LookupError("broken in here")
        take(tasks, grant, **rest)

    async def odd(ctx: assay.Context, number: int) -> None:
        raise ValueError("as usual")

    monkeypatch.setattr(WorkflowTasks, "take", broken)
    results, failure = served(tmp_path, app_with(odd), beside_good_ones)
    assert len(results) == 9
    assert failed == ["run-3"]
    assert failure.message == "as usual"


def declined() -> None:
    raise LookupError("no such card")


def test_the_failure_of_an_activity_is_the_cause_all_the_way(tmp_path: Path):
    async def charge(card: str) -> None:
        declined()

    async def odd(ctx: assay.Context, how: str) -> Any:
        if how == "let through":
            await ctx.execute_activity(charge, "1234", max_attempts=1)
        if how == "step":
            await ctx.run("charge", declined, max_attempts=1)
        if how == "child":
            await ctx.start_child_workflow("Odd", workflow_id="odd-child", input="let through")
        try:
            await ctx.execute_activity(charge, "1234", max_attempts=2, initial_interval_secs=0.01)
        except assay.ActivityError as error:
            cause = error.cause
            assert cause is not None
            return [type(cause).__name__, cause.type, cause.message, "declined()" in (cause.stack or ""), str(error)]

    async def program(client: assay.Client) -> Any:
        caught = await (await client.start("Odd", input="catch")).result()
        return caught, *[await failure_of(client, "Odd", how) for how in ("let through", "step", "child")]

    caught, uncaught, step, child = served(tmp_path, app_with(odd, charge), program)
    expected = "activity 'charge' failed after 2 attempts: LookupError: no such card"
    assert caught == ["Failure", "LookupError", "no such card", True, expected]
    for failure, what in ((uncaught, "activity 'charge'"), (step, "step 'charge'")):
        assert (failure.message, failure.type) == ("no such card", "LookupError")
        assert f"ActivityError: {what} failed: LookupError: no such card" in failure.stack
        assert "await ctx." in failure.stack
        assert "declined()" not in failure.stack
        assert (failure.cause.message, failure.cause.type) == ("no such card", "LookupError")
        assert "raise LookupError" in failure.cause.stack
    assert "child workflow 'odd-child' did not complete" in child.stack
    assert "await ctx.execute_activity" in child.cause.stack
    assert "raise LookupError" in child.cause.cause.stack


def test_handlers_have_defaults(tmp_path: Path):
    app = assay.App()

    @app.activity
    async def greet(name: str = "World") -> str:
        return f"Hello, {name}!"

    app.activity("greet elsewhere", greets, runs_in="process")

    @app.workflow(name="Greet")
    async def hello(ctx: assay.Context, name: str = "Ada") -> list[str]:
        return [name, await ctx.execute_activity(greet), await ctx.execute_activity("greet elsewhere")]

    @app.workflow(name="Blocking")
    def blocking(ctx: assay.BlockingContext, *, name: str = "Ada") -> list[str]:
        return [name, ctx.execute_activity(greet, "Max")]

    async def program(client: assay.Client) -> Any:
        started = [await client.start(name, input=input) for name, input in calls]
        return [await handle.result() for handle in started]

    calls = [("Greet", None), ("Greet", "Max"), ("Blocking", None)]
    first, second, third = served(tmp_path, app, program)
    assert first == ["Ada", "Hello, World!", "Hello, World!"]
    assert second[0] == "Max"
    assert third == ["Ada", "Hello, Max!"]


@pytest.mark.parametrize(("listed", "attempts"), [(LookupError, 1), ("LookupError", 1), (KeyError, 1), (ValueError, 3)])
def test_the_classes_above_an_exception_count_for_the_policy_of_a_run(tmp_path: Path, listed: Any, attempts: int):
    begun: list[int] = []

    async def odd(ctx: assay.Context) -> None:
        begun.append(ctx.info().attempt)
        raise KeyError("missing")

    async def program(client: assay.Client) -> None:
        policy = assay.Retry(max_attempts=3, initial_interval=0.01, non_retryable=[listed])
        handle = await client.start("Odd", retry_policy=policy)
        with pytest.raises(assay.WorkflowFailed, match="missing"):
            await handle.result()

    served(tmp_path, app_with(odd), program)
    assert begun == list(range(1, attempts + 1))


class Abort(BaseException):
    """As some libraries have it, to get past every `except Exception`."""


LEAVINGS = [KeyboardInterrupt("enough"), SystemExit("enough"), Abort("enough")]


@pytest.mark.parametrize("leaving", LEAVINGS, ids=lambda leaving: type(leaving).__name__)
def test_leaving_the_program_is_a_failure_of_who_tries(tmp_path: Path, leaving: BaseException):
    def leave(_: Any = None) -> None:
        raise leaving

    async def leave_on_the_loop(_: Any = None) -> None:
        raise leaving

    async def odd(ctx: assay.Context, how: str) -> Any:
        if how == "activity":
            await ctx.execute_activity(leave, max_attempts=1)
        elif how == "async activity":
            await ctx.execute_activity(leave_on_the_loop, max_attempts=1)
        elif how == "step":
            await ctx.run("leave", leave, max_attempts=1)
        elif how == "async step":
            await ctx.run("leave", leave_on_the_loop, max_attempts=1)
        elif how == "side effect":
            await ctx.side_effect("leave", leave)
        elif how == "task":
            async with asyncio.TaskGroup() as group:
                group.create_task(leave_on_the_loop())
        ctx.register_query("leave", leave)
        await ctx.sleep(0.01)
        leave()

    app = app_with(odd, leave, leave_on_the_loop)

    @app.workflow(name="Blocking")
    def blocking(ctx: assay.BlockingContext) -> None:
        ctx.sleep(0.01)
        leave()

    async def program(client: assay.Client) -> Any:
        found = {how: await failure_of(client, "Odd", how) for how in HOWS}
        return {**found, "blocking": await failure_of(client, "Blocking")}

    for failure in served(tmp_path, app, program).values():
        assert type(leaving).__name__ in (
            failure.type,
            *(failure.stack or "").replace(":", " ").replace(".", " ").split(),
        )


HOWS = ["activity", "async activity", "step", "async step", "side effect", "task", "workflow"]


def test_leaving_a_process_is_a_failure_too(tmp_path: Path):
    async def odd(ctx: assay.Context) -> None:
        await ctx.execute_activity("interrupts", max_attempts=1)

    app = app_with(odd)
    app.activity("interrupts", interrupts, runs_in="process")
    failure = served(tmp_path, app, lambda client: failure_of(client, "Odd"))
    assert (failure.type, failure.message) == ("KeyboardInterrupt", "in a process")


def test_a_step_that_says_it_is_cancelled_has_failed(tmp_path: Path):
    async def cancelled() -> None:
        raise asyncio.CancelledError("by whom?")

    async def odd(ctx: assay.Context) -> None:
        await ctx.run("cancelled", cancelled)

    failure = served(tmp_path, app_with(odd), lambda client: failure_of(client, "Odd"))
    assert (failure.kind, failure.message) == ("CANCELED", "by whom?")


def test_a_query_without_an_answer_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async def later() -> int:
        return 1

    async def odd(ctx: assay.Context) -> str:
        ctx.register_query("raises", lambda: 1 / 0)
        ctx.register_query("leaves", interrupts)
        ctx.register_query("odd", object)
        ctx.register_query("async", later)
        ctx.register_query("good", lambda: "fine")
        for _ in range(3):
            await ctx.sleep(0.001)
        return "done"

    async def program(client: assay.Client) -> Any:
        handle = await client.start("Odd", workflow_id="asked")
        return await handle.result(), await handle.query("good")

    assert served(tmp_path, app_with(odd), program) == ("done", "fine")
    expected = sorted(record.getMessage() for record in caplog.records if "has no answer" in record.getMessage())
    assert [line.split(" of workflow asked")[0] for line in expected] == [
        f"query '{name}'" for name in ("async", "leaves", "odd", "raises")
    ]
    assert "await it first" in expected[0]
    assert "ZeroDivisionError" in expected[3]
