"""Workflow tasks in a worker: one turn at a time, none lost, no event applied twice."""

import asyncio
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import AssayError, Invalid, Kind, Unavailable
from assay.core.model.ids import SECOND, WorkerId, WorkflowId
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.worker.engine_worker import EngineWorker
from assay.sdk.workflow.context import Context
from tests.sdk.support import payload, value_of
from tests.sdk.worker.support import FakeTransport, on_loop, serving

app = App()


@app.activity
async def echo(value: Any) -> Any:
    return value


@app.workflow
async def two(ctx: Context) -> Any:
    return [await ctx.execute_activity(echo, 1), await ctx.execute_activity(echo, 2)]


@app.workflow
async def parallel(ctx: Context) -> Any:
    return await asyncio.gather(*(ctx.execute_activity(echo, number) for number in range(3)))


@app.workflow
async def chains(ctx: Context) -> Any:
    async def chain(number: int) -> Any:
        return await ctx.execute_activity(echo, await ctx.execute_activity(echo, number))

    return await asyncio.gather(chain(0), chain(1))


@app.workflow
async def waits(ctx: Context) -> Any:
    return await ctx.wait_for_signal("go")


def advances(fake: FakeTransport) -> list[rq.Advance]:
    return fake.requests_of(rq.Advance)


async def evicted(fake: FakeTransport, worker: EngineWorker, run: Run) -> None:
    """The worker forgets a run that waits, because it serves another."""
    await fake.until(lambda: run.seen_seq > 0)
    fake.start("waits", workflow_id="another")
    await fake.until(lambda: not worker.holds(run.run_id))


@on_loop
async def test_results_go_out_with_what_the_code_does_next():
    async with serving(app) as (fake, _):
        fake.start("two")
        assert await fake.result() == [1, 2]
        assert [len(turn.outcomes) for turn in advances(fake)] == [0, 1, 1]
        assert fake.requests_of(rq.CompleteActivity) == []


@on_loop
async def test_one_turn_is_unanswered_at_most_and_results_that_come_meanwhile_join_the_next():
    async with serving(app) as (fake, _):
        fake.start("parallel")
        fake.held = (rq.Advance,)
        first = await fake.held_request(rq.Advance)
        await fake.quiet()
        assert len(first.commands) == 3
        assert len(fake.waiting) == 1
        fake.answer_next()
        second = await fake.held_request(rq.Advance)
        await fake.quiet()
        assert [outcome.seq for outcome in second.outcomes] == [1]
        assert len(fake.waiting) == 1
        fake.answer_next()
        third = await fake.held_request(rq.Advance)
        assert [outcome.seq for outcome in third.outcomes] == [2, 3]
        fake.answer_next()
        assert await fake.result() == [0, 1, 2]
        assert fake.requests_of(rq.CompleteActivity) == []


@on_loop
async def test_results_that_waited_are_dated_after_what_was_recorded_meanwhile():
    """Otherwise the engine would reject their times, and the coroutine would be replayed without need."""
    async with serving(app) as (fake, _):
        run = fake.start("chains")
        await fake.until(lambda: len(advances(fake)) == 1)
        fake.held = (rq.Advance,)
        await fake.held_request(rq.Advance)
        await fake.quiet()
        fake.world.now += 1_000
        fake.answer_next()
        late = await fake.held_request(rq.Advance)
        assert [outcome.time >= run.last_time for outcome in late.outcomes] == [True]
        fake.held = ()
        fake.answer_next()
        assert await fake.result() == [0, 1]
        assert fake.requests_of(rq.CompleteActivity) == []
        assert all(len(turn.outcomes) > 0 for turn in advances(fake)[1:]), "nothing was replayed"


@on_loop
async def test_a_refused_turn_drops_the_coroutine_and_loses_no_result():
    async with serving(app) as (fake, worker):
        run = fake.start("two")
        await fake.until(lambda: len(advances(fake)) == 1)
        fake.held = (rq.Advance,)
        turn = await fake.held_request(rq.Advance)
        assert len(turn.outcomes) == 1
        fake.world.take(rq.Signal(run.namespace, run.workflow_id, name="in between"))
        fake.held = ()
        fake.answer_next()
        assert await fake.result() == [1, 2]
        assert len(fake.events(ev.ActivityCompleted)) == 2
        assert not worker.holds(run.run_id)


@on_loop
async def test_a_turn_that_closes_too_early_is_done_again():
    async with serving(app) as (fake, _):
        run = fake.start("waits")
        await fake.until(lambda: advances(fake))
        fake.held = (rq.Advance,)
        fake.signal("go", "went")
        await fake.held_request(rq.Advance)
        fake.world.take(rq.Signal(run.namespace, run.workflow_id, name="late"))
        fake.held = ()
        fake.answer_next()
        assert await fake.result() == "went"
        assert len(fake.events(ev.SignalReceived)) == 2


@pytest.mark.parametrize("arrived", [True, False])
@on_loop
async def test_a_turn_whose_answer_is_lost_is_sent_again(arrived: bool):
    async with serving(app) as (fake, _):
        fake.start("two")
        await fake.until(lambda: len(advances(fake)) == 1)
        fake.held = (rq.Advance,)
        await fake.held_request(rq.Advance)
        fake.held = ()
        if arrived:
            fake.swallow()
        else:
            fake.answer_next(lost=True)
        assert await fake.result() == [1, 2]
        assert len(fake.events(ev.ActivityCompleted)) == 2


@on_loop
async def test_results_of_a_run_that_was_dropped_meanwhile_are_reported_alone():
    """Its task was given out again while a turn was on its way, and that turn never arrives."""
    async with serving(app) as (fake, _):
        run = fake.start("parallel")
        await fake.until(lambda: len(advances(fake)) == 1)
        fake.held = (rq.Advance,)
        await fake.held_request(rq.Advance)
        await fake.quiet()
        fake.signal("in between")
        await fake.until(lambda: len(fake.waiting) == 2)
        fake.answer_next(lost=True)
        fake.held = ()
        fake.answer_next()
        assert await fake.result() == [0, 1, 2]
        assert run.closed


@on_loop
async def test_what_a_task_brings_is_applied_to_the_coroutine_that_is_there():
    async with serving(app) as (fake, worker):
        run = fake.start("waits")
        await fake.until(lambda: run.seen_seq > 0)
        assert worker.holds(run.run_id)
        fake.unreadable = Invalid("nobody should read the history")
        fake.signal("go", 5)
        assert await fake.result() == 5


@on_loop
async def test_a_task_without_its_events_is_replayed_from_the_whole_history():
    async with serving(app, max_cached_runs=1) as (fake, worker):
        runs = []
        for name in ("a", "b", "c"):
            runs.append(fake.start("waits", workflow_id=name))
            await fake.until(lambda: runs[-1].seen_seq > 0)
        assert [worker.holds(run.run_id) for run in runs] == [False, False, True]
        for name in ("a", "b", "c"):
            fake.signal("go", name, workflow_id=name)
        assert [await fake.result(name) for name in ("a", "b", "c")] == ["a", "b", "c"]


@on_loop
async def test_a_history_that_cannot_be_read_for_now_is_asked_for_again():
    async with serving(app, max_cached_runs=0) as (fake, _):
        fake.start("waits")
        await fake.until(lambda: advances(fake))
        fake.start("waits", workflow_id="other")
        fake.unreadable = Unavailable("not now")
        fake.signal("go", 1)
        await fake.until(lambda: fake.requests_of(rq.ReleaseTask))
        fake.unreadable = None
        assert await fake.result() == 1
        fake.signal("go", 2, workflow_id="other")
        assert await fake.result("other") == 2


@on_loop
async def test_a_history_that_cannot_be_read_at_all_is_a_stuck_run_and_no_hot_loop():
    async with serving(app, max_cached_runs=1) as (fake, worker):
        fake.unreadable = Invalid("a recorded event cannot be read", code="unreadable_event")
        run = fake.start("waits")
        await evicted(fake, worker, run)
        fake.signal("go")
        await fake.until(lambda: run.task.stuck is not None)
        assert run.task.stuck is not None
        assert run.task.stuck.reason == "task_failed"
        assert "cannot be read" in run.task.stuck.message
        fake.ask(rq.Terminate(run.namespace, run.workflow_id))


@pytest.mark.parametrize("bad", ["bad and waits", "bad and ends", "bad and fails", "bad and again"])
@on_loop
async def test_what_the_engine_will_never_take_fails_the_run(bad: str):
    served = App()

    @served.workflow("bad")
    async def asks(ctx: Context) -> None:
        ctx.upsert_search_attributes({"key": "x" * 3_000})
        match bad:
            case "bad and waits":
                await ctx.sleep(1)
            case "bad and fails":
                raise ValueError("something else")
            case "bad and again":
                ctx.continue_as_new()

    async with serving(served) as (fake, worker):
        run = fake.start("bad")
        closing: Any = await fake.closed()
        assert isinstance(closing, ev.WorkflowFailed)
        assert closing.error == "search attribute 'key' is too long"
        assert closing.failure is not None
        assert (closing.failure.kind, closing.failure.retryable) == (Kind.INVALID, False)
        assert not worker.holds(run.run_id)


@pytest.mark.parametrize("kind", [Kind.INTERNAL, Kind.INVALID])
@on_loop
async def test_what_the_engine_cannot_decide_is_a_stuck_run_and_no_hot_loop(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
):
    """Also if it is the end of the run that cannot be told."""
    async with serving(app) as (fake, worker):
        decide, error = fake._decide, AssayError("a bug", kind=kind) if kind is Kind.INTERNAL else Invalid("a bug")

        def stumbling(request: rq.Request) -> Any:
            if isinstance(request, rq.Advance):
                raise error
            return decide(request)

        monkeypatch.setattr(fake, "_decide", stumbling)
        run = fake.start("two")
        await fake.until(lambda: run.task.stuck is not None)
        assert run.task.stuck is not None
        assert (run.task.stuck.reason, run.task.stuck.message) == ("task_failed", "a bug")
        assert not worker.holds(run.run_id)
        monkeypatch.undo()
        fake.ask(rq.Terminate(run.namespace, run.workflow_id))


@on_loop
async def test_a_missing_handler_is_a_stuck_run():
    served = App()
    served.workflow("waits", waits)
    async with serving(served) as (fake, worker):
        worker.app.workflows["gone"] = worker.app.workflows["waits"]
        run = fake.start("gone")
        del worker.app.workflows["gone"]
        await fake.until(lambda: run.task.stuck is not None)
        assert run.task.stuck is not None
        assert run.task.stuck.reason == "no_handler"
        assert "registered: waits" in run.task.stuck.message
        fake.ask(rq.Terminate(run.namespace, run.workflow_id))


@on_loop
async def test_code_that_left_its_history_is_a_stuck_run_and_heals():
    served = App()
    served.workflow("waits", waits)
    names = ["first"]

    @served.workflow
    async def changes(ctx: Context) -> Any:
        await ctx.wait_for_signal(names[0])
        return await ctx.wait_for_signal("go")

    async with serving(served, max_cached_runs=1) as (fake, worker):
        run = fake.start("changes")
        await evicted(fake, worker, run)
        names[0] = "second"
        fake.signal("first")
        await fake.until(lambda: run.task.stuck is not None)
        assert run.task.stuck is not None
        assert run.task.stuck.reason == "non_determinism"
        names[0] = "first"
        fake.world.now += 120 * SECOND
        fake.ask(rq.Elapse(run.run_id, "run"))
        fake.signal("go", "healed")
        assert await fake.result() == "healed"


@on_loop
async def test_commands_that_the_engine_will_never_take_fail_the_run():
    served = App()
    served.activity(echo)

    @served.workflow
    async def asks_too_much(ctx: Context, first: bool) -> None:
        if first:
            await ctx.execute_activity(echo)
        ctx.upsert_search_attributes({"no good key!": 1})
        await ctx.wait_for_signal("never")

    async with serving(served) as (fake, _):
        for first in (True, False):
            fake.start("asks_too_much", first)
            closing: Any = await fake.closed()
            assert isinstance(closing, ev.WorkflowFailed)
            assert "no good key!" in closing.error


@on_loop
async def test_a_task_that_is_given_again_costs_one_hand():
    """Its lease ran out, unnoticed here; the engine gives the task to the same worker again."""
    async with serving(app, fake=FakeTransport(lease=10 * SECOND)) as (fake, worker):
        run = fake.start("waits")
        fake.held = (rq.Advance,)
        await fake.held_request(rq.Advance)
        fake.world.now += 11 * SECOND
        fake.ask(rq.Elapse(run.run_id, "run"))
        await fake.until(lambda: len(fake.waiting) == 2)
        assert worker.slots.tasks == 4
        fake.held = ()
        fake.answer_next()
        fake.answer_next()
        fake.signal("go", 1)
        assert await fake.result() == 1


@on_loop
async def test_a_task_that_is_given_again_while_its_history_is_read_is_worked_on_once():
    async with serving(app, fake=FakeTransport(lease=10 * SECOND), max_cached_runs=1) as (fake, worker):
        run = fake.start("waits")
        await evicted(fake, worker, run)
        fake.signal("noise")
        fake.world.now += 11 * SECOND
        fake.ask(rq.Elapse(run.run_id, "run"))
        assert worker.slots.tasks == 3
        await fake.until(lambda: worker.slots.tasks == 5)
        fake.signal("go", 1)
        assert await fake.result() == 1


# local work


@on_loop
async def test_the_task_is_kept_while_a_step_runs_and_its_lease_extended():
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def steps(ctx: Context) -> Any:
        return await ctx.run("slow", finish.wait)

    async with serving(served, fake=FakeTransport(lease=SECOND * 3 // 50)) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: len(fake.requests_of(rq.ExtendTask)) >= 2)
        assert run.task.worker == worker.worker
        assert worker.slots.tasks == 4
        finish.set()
        assert await fake.result() is True


@on_loop
async def test_a_task_that_somebody_else_took_is_let_go():
    """Its lease ran out while nobody looked; the extension says so, and the hand is free although the step goes on."""
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def steps(ctx: Context) -> Any:
        return await ctx.run("slow", finish.wait)

    async with serving(served, fake=FakeTransport(lease=SECOND * 3 // 50)) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: worker.holds(run.run_id))
        connected, fake.worker = fake.worker, None
        fake.world.now += 11 * SECOND
        fake.ask(rq.Elapse(run.run_id, "run"))
        fake.ask(rq.LeaseTask(run.run_id, WorkerId("w-other"), None))
        await fake.until(lambda: worker.slots.tasks == 5)
        assert not worker.holds(run.run_id)
        fake.ask(rq.ReleaseTask(run.run_id, WorkerId("w-other"), run.task.epoch))
        fake.worker = connected
        finish.set()
        fake.pump()
        assert await fake.result() is True


@on_loop
async def test_news_reach_the_code_while_a_step_runs():
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def steps(ctx: Context) -> Any:
        step = asyncio.create_task(ctx.run("slow", finish.wait))
        paid = await ctx.wait_for_signal("paid")
        ctx.upsert_search_attributes({"paid": paid})
        await step
        return paid

    async with serving(served) as (fake, _):
        run = fake.start("steps")
        await fake.until(lambda: run.seen_seq > 0)
        fake.signal("paid", 5)
        await fake.until(lambda: fake.events(ev.AttributesUpserted))
        assert not finish.is_set()
        finish.set()
        assert await fake.result() == 5


@on_loop
async def test_a_lease_that_comes_with_a_fused_turn_costs_no_hand():
    served = App()
    served.activity(echo)

    @served.workflow
    async def mixed(ctx: Context) -> Any:
        found = []
        for number in range(5):
            found.append(await ctx.execute_activity(echo, number))
            found.append(await ctx.run("step", lambda: "step"))
            found.append(await ctx.side_effect("effect", lambda: "effect"))
        return found

    async with serving(served) as (fake, _):
        fake.start("mixed")
        assert len(await fake.result()) == 15


@on_loop
async def test_a_side_effect_in_a_fused_turn_waits_until_the_turn_is_durable():
    served, ran = App(), []
    served.activity(echo)

    @served.workflow
    async def effect(ctx: Context) -> Any:
        await ctx.execute_activity(echo)
        return await ctx.side_effect("number", lambda: ran.append("ran") or 7)

    async with serving(served) as (fake, _):
        fake.start("effect")
        await fake.until(lambda: len(advances(fake)) == 1)
        fake.held = (rq.Advance,)
        turn = await fake.held_request(rq.Advance)
        assert turn.pending
        await fake.quiet()
        assert ran == []
        fake.held = ()
        fake.answer_next()
        assert await fake.result() == 7
        assert ran == ["ran"]


@on_loop
async def test_a_step_that_code_gave_up_neither_holds_the_task_nor_is_told():
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def gives_up(ctx: Context) -> Any:
        step = asyncio.create_task(ctx.run("slow", finish.wait))
        await ctx.wait_for_signal("stop")
        step.cancel()
        return await ctx.wait_for_signal("go")

    async with serving(served) as (fake, worker):
        run = fake.start("gives_up")
        await fake.until(lambda: run.seen_seq > 0)
        fake.signal("stop")
        await fake.until(lambda: run.task.worker is None)
        assert worker.slots.tasks == 5
        finish.set()
        await fake.quiet()
        assert worker.holds(run.run_id)
        assert fake.events(ev.StepCompleted) == []
        fake.signal("go", 1)
        assert await fake.result() == 1


# stopping


@on_loop
async def test_a_worker_that_stops_gives_back_what_it_holds():
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def steps(ctx: Context) -> Any:
        return await ctx.run("slow", finish.wait)

    async with serving(served, drain_seconds=0) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: worker.holds(run.run_id))
        worker.stop()
        await fake.until(lambda: fake.requests_of(rq.ReleaseTask))
        await fake.quiet()
        assert run.task.worker is None
        assert run.task.ready, "the next worker need not wait"
        assert run.task.failures == 0
    assert not worker.holds(run.run_id)


@on_loop
async def test_a_worker_that_stops_finishes_what_it_has_begun():
    served, finish = App(), asyncio.Event()

    @served.workflow
    async def steps(ctx: Context) -> Any:
        return [await ctx.run("slow", finish.wait), await ctx.wait_for_signal("go")]

    async with serving(served) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: worker.holds(run.run_id))
        worker.stop()
        await fake.quiet()
        finish.set()
        await fake.until(lambda: run.task.worker is None)
        assert len(fake.events(ev.StepCompleted)) == 1
        assert fake.requests_of(rq.ReleaseTask) == []


@on_loop
async def test_work_that_comes_after_the_end_is_given_back_at_once():
    async with serving(app) as (fake, worker):
        connected = fake.worker
        assert connected is not None
    fake.start("waits")
    run = fake.world.newest[WorkflowId("one")]
    fake.worker = connected
    fake.lease_task(run)
    fake.worker = None
    await fake.until(lambda: run.task.worker is None)
    assert run.task.ready
    assert worker.slots.tasks == 5


@on_loop
async def test_an_answer_says_what_was_seen():
    async with serving(app) as (fake, _):
        run = fake.start("waits")
        await fake.until(lambda: run.seen_seq > 0)
        (turn,) = advances(fake)
        assert (turn.seen_seq, turn.commands) == (1, (cmd.WaitForSignal("go"),))
        assert value_of(payload(1)) == 1
        fake.signal("go")
        await fake.closed()
