"""Runs of sequential steps: outcomes are recorded while the code goes on, and none is lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.ids import SECOND
from assay.sdk.app import App
from assay.sdk.worker.workflow_tasks import EARLY_REPORT_AFTER_TURNS
from assay.sdk.workflow.context import Context
from tests.sdk.worker.support import FakeTransport, on_loop, serving

app = App()
LONG = EARLY_REPORT_AFTER_TURNS + 3


@app.activity
async def echo(value: Any) -> Any:
    return value


async def walked(ctx: Context, number: int) -> list[int]:
    async def step(value: int) -> int:
        return value

    return [await ctx.run(f"step {value}", step, value) for value in range(number)]


@app.workflow
async def returns(ctx: Context, number: int) -> Any:
    return sum(await walked(ctx, number))


@app.workflow
async def calls(ctx: Context, number: int) -> Any:
    return await ctx.execute_activity(echo, sum(await walked(ctx, number)))


@app.workflow
async def draws(ctx: Context, number: int) -> Any:
    total = sum(await walked(ctx, number))
    return total if 0 <= await ctx.side_effect("draw", lambda: 0.5) < 1 else -1


@app.workflow
async def listens(ctx: Context, number: int) -> Any:
    return sum(await walked(ctx, number)) + await ctx.wait_for_signal("more")


@app.workflow
async def fans_out(ctx: Context, number: int) -> Any:
    total = sum(await walked(ctx, number))
    await asyncio.gather(walked(ctx, 2), walked(ctx, 3))
    return total


@app.workflow
async def goes_on(ctx: Context, number: int) -> Any:
    return sum(await walked(ctx, number)) + sum(await walked(ctx, LONG)) - sum(range(LONG))


EVERY = [returns, calls, draws, listens, fans_out, goes_on]
every = pytest.mark.parametrize("code", EVERY, ids=lambda code: code.__name__)
Code = Callable[..., Coroutine[Any, Any, Any]]


def turns(fake: FakeTransport) -> list[rq.Advance]:
    return fake.requests_of(rq.Advance)


async def ended(fake: FakeTransport, code: Code) -> Any:
    if code is listens:
        await fake.until(lambda: len(fake.events(ev.StepCompleted)) == LONG)
        fake.signal("more", 0)
    return await fake.result()


def far() -> FakeTransport:
    return FakeTransport(lease=10 * SECOND)


@on_loop
async def test_after_a_while_outcomes_are_sent_before_the_code_goes_on():
    async with serving(app, fake=far()) as (fake, _):
        fake.start("returns", LONG)
        assert await fake.result() == sum(range(LONG))
        assert [turn.early for turn in turns(fake)] == [False] * EARLY_REPORT_AFTER_TURNS + [True] * 3 + [False]
        assert [len(turn.outcomes) for turn in turns(fake)] == [1] * LONG + [0]
        assert len(fake.events(ev.StepCompleted)) == LONG


@on_loop
async def test_a_short_run_takes_no_turn_more_than_it_has_steps():
    async with serving(app, fake=far()) as (fake, _):
        fake.start("returns", EARLY_REPORT_AFTER_TURNS)
        await fake.result()
        assert [len(turn.outcomes) for turn in turns(fake)] == [1] * EARLY_REPORT_AFTER_TURNS
        assert not any(turn.early for turn in turns(fake))


@on_loop
async def test_an_engine_in_this_process_has_nothing_to_do_meanwhile():
    async with serving(app) as (fake, _):
        fake.start("returns", LONG)
        await fake.result()
        assert not any(turn.early for turn in turns(fake))


@every
@on_loop
async def test_whatever_the_code_asks_for_then_follows(code: Code):
    async with serving(app, fake=far()) as (fake, _):
        fake.start(code.__name__, LONG)
        assert await ended(fake, code) == sum(range(LONG))
        assert sum(turn.early for turn in turns(fake)) >= 3


@every
@pytest.mark.parametrize("lost", range(EARLY_REPORT_AFTER_TURNS - 1, LONG + 1))
@on_loop
async def test_a_worker_that_is_lost_meanwhile_is_replaced_by_one_that_replays(code: Code, lost: int):
    fake = far()
    async with serving(app, fake=fake):
        run = fake.start(code.__name__, LONG)
        fake.held = (rq.Advance,)
        for _ in range(lost):
            await fake.held_request(rq.Advance)
            fake.answer_next()
        await fake.held_request(rq.Advance)
        fake.swallow()  # it was recorded, and its worker never hears of it
        fake.worker, fake.held = None, ()
        if run.task.worker is not None:
            fake.world.take(rq.LoseTask(run.run_id, run.task.epoch))
    fake.waiting.clear()
    async with serving(app, fake=fake):
        assert await ended(fake, code) == sum(range(LONG))
        assert fake.requests_of(rq.FailTask) == []


@every
@on_loop
async def test_one_that_is_refused_because_of_news_is_replayed(code: Code):
    async with serving(app, fake=far()) as (fake, _):
        fake.start(code.__name__, LONG)
        fake.held = (rq.Advance,)
        for _ in range(EARLY_REPORT_AFTER_TURNS):
            await fake.held_request(rq.Advance)
            fake.answer_next()
        early = await fake.held_request(rq.Advance)
        assert early.early
        fake.signal("news")
        fake.held = ()
        fake.answer_next()
        assert await ended(fake, code) == sum(range(LONG))
        assert len({event.step_seq for event in fake.events(ev.StepCompleted)}) == len(fake.events(ev.StepCompleted))
