"""Timers and tickers in a run: durable, stopped and armed again, in `async def` and `def`, the same on every replay."""

from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.sdk.workflow.blocking_context import BlockingContext
from assay.sdk.workflow.context import Context
from tests.core.support import NOW
from tests.sdk.support import Trial, check_replay


def seconds(moment: Any, since: Any) -> float:
    return round(float((moment - since).total_seconds()), 1)  # each request of a trial takes a millisecond


async def waiting_reset(ctx: Context) -> Any:
    began = ctx.now()
    timer = ctx.timer("5m")
    found = [timer.reset("1m"), timer.stop(), timer.stop(), timer.reset(2)]
    fired = seconds(await timer.channel.receive(), began)
    return [*found, fired, timer.stop(), timer.reset("3s"), seconds(await timer.channel.receive(), began)]


def blocking_reset(ctx: BlockingContext) -> Any:
    began = ctx.now()
    timer = ctx.timer("5m")
    found = [timer.reset("1m"), timer.stop(), timer.stop(), timer.reset(2)]
    fired = seconds(timer.channel.receive(), began)
    return [*found, fired, timer.stop(), timer.reset("3s"), seconds(timer.channel.receive(), began)]


@pytest.mark.parametrize("workflow", [waiting_reset, blocking_reset])
def test_a_timer_is_stopped_and_armed_again_durably(workflow: Any):
    trial = Trial(workflow)
    assert list(trial.run.timers) == [3]
    assert [type(event) for event in trial.events if isinstance(event, ev.TimerCancelled)] == [ev.TimerCancelled] * 2
    trial.fire(3).fire(4)
    assert trial.result == [True, True, False, False, 2.0, False, False, 5.0]
    check_replay(trial)


def test_a_fire_that_no_code_has_received_is_dropped_by_a_reset():
    async def workflow(ctx: Context) -> Any:
        timer = ctx.timer(1)
        await ctx.sleep(2)
        began = ctx.now()
        return [timer.stop(), timer.reset(5), seconds(await timer.channel.receive(), began)]

    trial = Trial(workflow).fire(1).fire(2).fire(3)
    assert trial.result == [False, False, 5.0]
    check_replay(trial)


def test_a_stopped_timer_that_had_fired_keeps_its_fire():
    async def workflow(ctx: Context) -> Any:
        timer = ctx.timer(1)
        await ctx.sleep(2)
        return [timer.stop(), (await ctx.select(timer.channel, default=True)).default]

    assert Trial(workflow).fire(1).fire(2).result == [False, False]


async def waiting_ticks(ctx: Context) -> Any:
    began = ctx.now()
    ticker = ctx.ticker("30s")
    ticks = [seconds(await ticker.channel.receive(), began) for _ in range(3)]
    ticker.stop()
    ticker.stop()
    return [ticks, await ticker.channel.receive_ok()]


def blocking_ticks(ctx: BlockingContext) -> Any:
    began = ctx.now()
    ticker = ctx.ticker("30s")
    ticks = [seconds(ticker.channel.receive(), began) for _ in range(3)]
    ticker.stop()
    ticker.stop()
    return [ticks, ticker.channel.receive_ok()]


@pytest.mark.parametrize("workflow", [waiting_ticks, blocking_ticks])
def test_a_ticker_fires_at_the_multiples_of_its_period_and_skips_missed_ones(workflow: Any):
    trial = Trial(workflow)
    trial.fire(1)
    trial.world.now += 70 * SECOND  # at 100 s: the ticks at 60 s and 90 s are missed
    trial.fire(2)
    assert trial.run.timers[3] == NOW + 120 * SECOND
    trial.fire(3)
    assert trial.result == [[30.0, 100.0, 120.0], [None, False]]
    check_replay(trial)
    scheduled = [
        round(command.duration_secs, 1) for command in trial.commands if isinstance(command, cmd.ScheduleTimer)
    ]
    assert scheduled == [30.0, 30.0, 20.0, 30.0]


def test_a_ticker_that_no_code_reads_keeps_sixteen_ticks():
    async def workflow(ctx: Context) -> Any:
        ticker = ctx.ticker(1)
        await ctx.wait_for_signal("go")
        ticker.stop()
        return len([tick async for tick in ticker.channel])

    trial = Trial(workflow)
    for seq in range(1, 21):
        trial.fire(seq)
    assert trial.signal("go").result == 16
    check_replay(trial)


@pytest.mark.parametrize("verb", ["timer", "ticker"])
@pytest.mark.parametrize("duration", [0, -1, "0s", "soon", None])
def test_a_duration_that_is_not_positive_is_refused(verb: str, duration: Any):
    async def workflow(ctx: Context) -> str:
        try:
            getattr(ctx, verb)(duration)
        except Invalid as error:
            return error.code
        return "taken"

    assert Trial(workflow).result == "invalid_duration"


@pytest.mark.parametrize("verb", ["timer", "ticker"])
def test_channels_of_timers_are_only_received_from(verb: str):
    async def workflow(ctx: Context) -> str:
        try:
            await getattr(ctx, verb)(1).channel.send(1)
        except Invalid as error:
            return str(error)
        return "taken"

    assert Trial(workflow).result == f"a channel of ctx.{verb} can only be received from"


@pytest.mark.parametrize("verb", ["timer", "ticker"])
def test_a_timer_itself_is_no_case_of_select(verb: str):
    async def workflow(ctx: Context) -> str:
        try:
            await ctx.select(getattr(ctx, verb)(1))
        except Invalid as error:
            return str(error)
        return "taken"

    assert Trial(workflow).result.endswith("give it its .channel")


def test_sleep_of_zero_needs_no_timer_and_elapsed_time_is_that_of_the_events():
    async def workflow(ctx: Context) -> Any:
        began = ctx.now()
        await ctx.sleep(0)
        same = ctx.now() == began
        await ctx.sleep("1s")
        return [same, seconds(ctx.now(), began)]

    trial = Trial(workflow).fire(1)
    assert trial.result == [True, 1.0]
    check_replay(trial)


def test_a_late_fire_gives_the_recorded_time():
    async def workflow(ctx: Context) -> Any:
        began = ctx.now()
        return seconds(await ctx.after(1).receive(), began)

    trial = Trial(workflow)
    trial.world.now += 7 * SECOND
    trial._after(rq.Elapse(trial.key.run_id, "timer", 1))
    assert trial.result == 7.0
    check_replay(trial)
