"""Inline steps: any callable, retried by its policy, with one recorded outcome."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import ActivityError, Failure, Kind
from assay.core.model.ids import SECOND, Namespace, WorkflowId
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.context import Context
from tests.sdk.worker.support import FakeTransport, on_loop, serving

QUICK = Retry(max_attempts=3, initial_interval=0.001)


def app_with(function: Callable[..., Any], *args: Any, **options: Any) -> App:
    """An app whose workflow is one step."""
    app = App()

    @app.workflow
    async def steps(ctx: Context) -> Any:
        try:
            return await ctx.run("step", function, *args, **{"retry": QUICK, **options})
        except ActivityError as error:
            return [error.kind, error.message, error.attempts, error.type]

    return app


async def run(app: App) -> Any:
    async with serving(app) as (fake, _):
        fake.start("steps")
        return await fake.result()


async def coroutine_function(value: Any) -> Any:
    await asyncio.sleep(0)
    return [value, threading.current_thread() is threading.main_thread()]


@pytest.mark.parametrize(
    ("function", "on_the_loop"),
    [
        (coroutine_function, True),
        (lambda value: coroutine_function(value), True),
        (lambda value: [value, threading.current_thread() is threading.main_thread()], False),
    ],
)
@on_loop
async def test_any_callable_is_a_step(function: Callable[..., Any], on_the_loop: bool):
    assert await run(app_with(function, "a")) == ["a", on_the_loop]


@on_loop
async def test_a_closure_keeps_what_it_closed_over():
    app, seen = App(), []

    @app.workflow
    async def steps(ctx: Context, name: str) -> Any:
        return await ctx.run("remember", lambda: seen.append(name) or len(seen))

    async with serving(app) as (fake, _):
        fake.start("steps", "ada")
        assert await fake.result() == 1
    assert seen == ["ada"]


@on_loop
async def test_a_step_that_fails_is_tried_again_here():
    tries: list[int] = []

    def stumbles() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    async with serving(app_with(stumbles)) as (fake, _):
        fake.start("steps")
        assert await fake.result() == 3
        (completed,) = fake.events(ev.StepCompleted)
        assert completed.attempt == 3
        assert len(fake.requests_of(rq.Advance)) == 1, "attempts are nobody else's business"


@on_loop
async def test_a_step_that_fails_for_good_raises_its_failure():
    async def fails() -> None:
        raise Failure("no such thing", kind=Kind.NOT_FOUND, retryable=False)

    assert await run(app_with(fails)) == ["NOT_FOUND", "no such thing", 1, None]


@on_loop
async def test_a_step_may_name_what_is_not_worth_another_try():
    def fails() -> None:
        raise KeyError("gone")

    retry = Retry(max_attempts=5, initial_interval=0.001, non_retryable=LookupError)
    assert await run(app_with(fails, retry=retry)) == ["INTERNAL", "'gone'", 1, "KeyError"]


@on_loop
async def test_leaving_the_program_is_a_failure_of_the_step():
    assert (await run(app_with(sys.exit, 3, max_attempts=1)))[3] == "SystemExit"


@on_loop
async def test_a_result_that_cannot_be_recorded_is_a_failure_of_the_step():
    kind, message, *_ = await run(app_with(object, max_attempts=1))
    assert kind == "INVALID"
    assert "result of step 'step'" in message


@pytest.mark.parametrize("wrapped", [True, False])
@on_loop
async def test_a_step_that_takes_too_long_is_given_up(wrapped: bool):
    async def slow() -> None:
        await asyncio.sleep(60)

    function = (lambda: slow()) if wrapped else slow
    kind, message, attempts, _ = await run(app_with(function, timeout=0.01, max_attempts=2))
    assert (kind, attempts) == ("TIMEOUT", 2)
    assert message == "step 'step' took longer than 0.01 s"


@on_loop
async def test_a_timeout_of_the_steps_own_is_told_as_it_is():
    def times_out() -> None:
        raise TimeoutError("the server did not answer")

    kind, message, *_ = await run(app_with(times_out, timeout=60, max_attempts=1))
    assert (kind, message) == ("INTERNAL", "the server did not answer")


@on_loop
async def test_a_back_off_that_is_too_long_to_wait_for_is_left_to_a_timer():
    app, tries = App(), []

    @app.workflow
    async def steps(ctx: Context) -> Any:
        return await ctx.run("call", lambda: tries.append(1) or 1 / (len(tries) - 1), retry=Retry(initial_interval=30))

    async with serving(app) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: run.timers)
        assert worker.slots.tasks == 5
        (failed,) = fake.events(ev.StepFailed)
        assert (failed.final_attempt, failed.retry_in) == (1, 30)
        fake.world.now = run.timers[1]
        fake.ask(rq.Elapse(run.run_id, "timer", 1))
        assert await fake.result() == 1
        (completed,) = fake.events(ev.StepCompleted)
        assert completed.attempt == 2


@on_loop
async def test_steps_run_side_by_side():
    app, met = App(), asyncio.Barrier(3)

    @app.workflow
    async def steps(ctx: Context) -> Any:
        return len(await asyncio.gather(*(ctx.run(f"step {number}", met.wait) for number in range(3))))

    async with serving(app) as (fake, _):
        fake.start("steps")
        assert await fake.result() == 3


def app_that_begins(*, after_a_command: bool) -> tuple[App, asyncio.Event]:
    """An app whose workflow takes one step, and what is set when that begins."""
    app, begun = App(), asyncio.Event()

    async def begin() -> None:
        begun.set()

    @app.workflow
    async def steps(ctx: Context) -> Any:
        if after_a_command:
            await ctx.upsert_search_attributes({"step": "ordered"})
        return await ctx.run("begin", begin)

    return app, begun


@on_loop
async def test_the_first_step_waits_for_nobody():
    """All it rests on is durable and the task is leased: there is nothing to tell the engine before its outcome."""
    app, begun = app_that_begins(after_a_command=False)
    async with serving(app) as (fake, _):
        fake.held = (rq.Advance,)
        fake.start("steps")
        await asyncio.wait_for(begun.wait(), 5)
        turn = await fake.held_request(rq.Advance)
        assert (len(turn.outcomes), turn.pending) == (1, False)
        fake.held = ()
        fake.answer_next()
        assert await fake.result() is None


@on_loop
async def test_a_step_behind_a_command_waits_until_that_is_durable():
    app, begun = app_that_begins(after_a_command=True)
    async with serving(app) as (fake, _):
        fake.held = (rq.Advance,)
        fake.start("steps")
        turn = await fake.held_request(rq.Advance)
        await fake.quiet()
        assert (len(turn.outcomes), turn.pending, begun.is_set()) == (0, True, False)
        fake.held = ()
        fake.answer_next()
        assert await fake.result() is None


@on_loop
async def test_a_task_with_a_limit_of_its_own_is_made_an_ordinary_lease_first():
    """The worker extends leases of ten seconds in time; no option makes them shorter."""
    async with serving(app_with(lambda: 1), fake=FakeTransport(lease=10 * SECOND)) as (fake, _):
        fake.ask(
            rq.StartWorkflow(
                namespace=Namespace("main"), workflow_id=WorkflowId("one"), workflow_type="steps", task_timeout=SECOND
            )
        )
        assert await fake.result() == 1
        assert [len(turn.outcomes) for turn in fake.requests_of(rq.Advance)] == [0, 1]
