"""Each attempt is reported once, however it ends, and its slot is free again afterwards (I8)."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import AssayError, Failure, Invalid, Kind
from assay.core.model.ids import SECOND, WorkflowId
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.workflow.activity_context import ActivityContext
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.exceptions import CancelRequested
from tests.sdk.support import value_of
from tests.sdk.worker import activities
from tests.sdk.worker.support import FakeTransport, on_loop, serving


def app_with(*known: Any, runs_in: str = "thread") -> App:
    """An app whose workflow calls one activity by name, with options."""
    app = App()
    for activity in known:
        app.activity(activity.__name__, activity, runs_in=runs_in)

    @app.workflow
    async def calls(ctx: Context, call_arguments: Any) -> Any:
        name, input, options = call_arguments
        return await ctx.execute_activity(name, input, **options)

    return app


def call(fake: FakeTransport, name: str, input: Any = None, **options: Any) -> Run:
    return fake.start("calls", [name, input, {"initial_interval_secs": 0.001, **options}])


async def failure(fake: FakeTransport) -> Any:
    closing: Any = await fake.closed()
    assert isinstance(closing, ev.WorkflowFailed), closing
    return closing.failure


# how attempts end


async def loud(word: str) -> str:
    return word.upper()


def quiet(ctx: ActivityContext, word: str) -> Any:
    info = ctx.info()
    return [word.lower(), threading.current_thread().daemon, info.name, info.attempt, info.workflow_id]


@on_loop
async def test_coroutines_run_on_the_loop_and_functions_in_daemon_threads():
    async with serving(app_with(loud, quiet)) as (fake, _):
        call(fake, "loud", "ab")
        assert await fake.result() == "AB"
        call(fake, "quiet", "AB")
        assert await fake.result() == ["ab", True, "quiet", 1, "one"]


@on_loop
async def test_a_failure_is_reported_with_its_kind_and_tried_again():
    tries = []

    def fails(ctx: ActivityContext) -> str:
        tries.append(ctx.info().attempt)
        if len(tries) < 3:
            raise Failure("not yet", kind=Kind.UNAVAILABLE)
        return "at last"

    async with serving(app_with(fails)) as (fake, _):
        run = call(fake, "fails")
        for _ in range(2):
            await fake.until(lambda: run.activities and run.activities[1].not_before is not None)
            fake.world.now += SECOND
            fake.ask(rq.Elapse(run.run_id, "activity", 1))
        assert await fake.result() == "at last"
        assert tries == [1, 2, 3]


@on_loop
async def test_what_cannot_be_done_at_all_is_the_activitys_failure():
    def wants_number(number: int) -> int:
        return number

    def gives_object() -> Any:
        return object()

    async with serving(app_with(wants_number, gives_object)) as (fake, _):
        for name, input, kind, text in (
            ("wants_number", "many", Kind.INVALID, "input"),
            ("gives_object", None, Kind.INVALID, "gives_object"),
            ("nobody_knows", None, Kind.NOT_FOUND, "No handler registered for activity: nobody_knows"),
        ):
            call(fake, name, input, max_attempts=1)
            found = await failure(fake)
            assert text in found.message
            assert found.kind == kind


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
@on_loop
async def test_leaving_the_program_is_a_failure_and_not_the_end_of_the_worker(kind: str):
    async def leaves() -> None:
        sys.exit(3)

    def leaves_thread() -> None:
        sys.exit(3)

    leaves_thread.__name__ = "leaves"
    known = {"async": leaves, "thread": leaves_thread, "process": activities.leaves}[kind]
    async with serving(app_with(known, runs_in="process" if kind == "process" else "thread")) as (fake, _):
        call(fake, "leaves", max_attempts=1)
        found = await failure(fake)
        assert found.type == "SystemExit"


@on_loop
async def test_a_result_whose_run_lives_elsewhere_is_reported_alone_and_again_if_the_report_is_lost():
    go_on = asyncio.Event()

    async def waits() -> str:
        await go_on.wait()
        return "done"

    async with serving(app_with(waits), max_cached_runs=1) as (fake, worker):
        run = call(fake, "waits")
        await fake.until(lambda: worker.slots.activities == 6)
        fake.start("calls", ["nobody", None, {"task_queue": "elsewhere"}], workflow_id="another")
        await fake.until(lambda: not worker.holds(run.run_id))
        fake.held = (rq.CompleteActivity,)
        go_on.set()
        await fake.held_request(rq.CompleteActivity)
        fake.held = ()
        fake.answer_next(lost=True)
        assert await fake.result() == "done"
        fake.ask(rq.Terminate(run.namespace, WorkflowId("another")))


@pytest.mark.parametrize("error", [Invalid("not like this"), AssayError("a bug", kind=Kind.INTERNAL)])
@on_loop
async def test_an_outcome_that_cannot_be_recorded_is_a_failure(error: AssayError, monkeypatch: pytest.MonkeyPatch):
    """The run does not wait for the attempt for ever, and the worker does not report it for ever."""

    def fails() -> None:
        raise ValueError("something that no history can hold")

    async with serving(app_with(fails)) as (fake, _):
        decide, refused = fake._decide, []

        def choosy(request: rq.Request) -> Any:
            if isinstance(request, rq.FailActivity) and request.failure.type == "ValueError":
                refused.append(request)
                raise error
            return decide(request)

        monkeypatch.setattr(fake, "_decide", choosy)
        call(fake, "fails", max_attempts=1)
        found = (await failure(fake)).message
        assert found == f"the outcome of this attempt cannot be recorded: {error}"
        assert len(refused) == 1


@on_loop
async def test_an_activity_that_cancels_itself_has_failed():
    async def gives_up() -> None:
        raise asyncio.CancelledError

    async with serving(app_with(gives_up)) as (fake, _):
        call(fake, "gives_up", max_attempts=1)
        assert (await failure(fake)).kind == Kind.CANCELED
        assert fake.requests_of(rq.ReleaseActivity) == []


# heartbeats


@on_loop
async def test_heartbeats_are_throttled_and_the_last_one_arrives():
    go_on = asyncio.Event()

    async def beats(ctx: ActivityContext) -> None:
        for number in range(100):
            ctx.heartbeat(number)
        await go_on.wait()

    async with serving(app_with(beats)) as (fake, _):
        run = call(fake, "beats", heartbeat_timeout_secs=0.15)
        await fake.until(lambda: len(fake.requests_of(rq.HeartbeatActivity)) == 2)
        first, last = (value_of(beat.details) for beat in fake.requests_of(rq.HeartbeatActivity))
        assert (first, last) == (0, 99)
        assert value_of(run.activities[1].details) == 99
        go_on.set()
        await fake.closed()
        assert len(fake.requests_of(rq.HeartbeatActivity)) == 2


@pytest.mark.parametrize("kind", ["thread", "process"])
@on_loop
async def test_the_next_attempt_gets_what_the_last_one_said(kind: str):
    async with serving(app_with(activities.counts, runs_in=kind)) as (fake, _):
        run = call(fake, "counts", 10)
        await fake.until(lambda: run.activities and run.activities[1].not_before is not None)
        fake.world.now += SECOND
        fake.ask(rq.Elapse(run.run_id, "activity", 1))
        assert await fake.result() == {"begun": 5, "attempt": 2}


@on_loop
async def test_a_heartbeat_that_is_lost_stops_nothing_and_one_that_is_refused_does():
    stopped = asyncio.Event()

    async def beats(ctx: ActivityContext) -> None:
        try:
            while True:
                ctx.heartbeat()
                await asyncio.sleep(0.01)
        finally:
            stopped.set()

    async with serving(app_with(beats)) as (fake, _):
        run = call(fake, "beats", heartbeat_timeout_secs=0.03)
        fake.held = (rq.HeartbeatActivity,)
        await fake.held_request(rq.HeartbeatActivity)
        fake.answer_next(lost=True)
        fake.world.now += SECOND
        await fake.held_request(rq.HeartbeatActivity)
        assert not stopped.is_set()
        fake.ask(rq.Terminate(run.namespace, run.workflow_id))
        fake.held = ()
        fake.answer_next()
        await stopped.wait()


@on_loop
async def test_the_lease_of_an_attempt_is_kept_while_its_worker_lives():
    go_on = asyncio.Event()

    async def waits() -> None:
        await go_on.wait()

    async with serving(app_with(waits), fake=FakeTransport(lease=SECOND * 3 // 50)) as (fake, _):
        run = call(fake, "waits")
        await fake.until(lambda: len(fake.requests_of(rq.ExtendActivity)) >= 2)
        assert run.activities[1].lease_until is not None
        go_on.set()
        await fake.closed()


# cancellation


@on_loop
async def test_a_coroutine_is_cancelled_where_it_waits_and_may_clean_up():
    cleaned = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            cleaned.append(True)

    async with serving(app_with(waits)) as (fake, worker):
        run = call(fake, "waits", heartbeat_timeout_secs=0.01)
        await fake.until(lambda: worker.slots.activities == 6)
        await fake.quiet()
        attempt = run.activities[1].attempt_id
        fake.cancel()
        for _ in range(3):
            worker.cancel(attempt)  # told by several ways, and more than once
            await asyncio.sleep(0.005)
        await fake.until(lambda: fake.requests_of(rq.CancelledActivity) or fake.requests_of(rq.CompleteActivity))
        assert cleaned == [True]
        assert len(fake.requests_of(rq.CancelledActivity)) == 1


@pytest.mark.parametrize("kind", ["thread", "process"])
@on_loop
async def test_a_function_is_told_by_its_heartbeat(kind: str):
    async with serving(app_with(activities.goes_on, runs_in=kind)) as (fake, _):
        run = call(fake, "goes_on")
        await fake.until(lambda: fake.requests_of(rq.HeartbeatActivity))
        assert run.activities[1].running
        fake.cancel()
        await fake.until(lambda: fake.requests_of(rq.CancelledActivity))


@on_loop
async def test_a_function_may_ignore_that_it_is_not_wanted():
    go_on, begun = threading.Event(), threading.Event()

    def stubborn(ctx: ActivityContext) -> str:
        begun.set()
        go_on.wait()
        try:
            ctx.heartbeat()
        except CancelRequested:
            return "finished anyway"
        return "not told"

    app = app_with(stubborn)

    @app.workflow
    async def gives_up(ctx: Context) -> Any:
        task = asyncio.create_task(ctx.execute_activity("stubborn"))
        await ctx.wait_for_signal("stop")
        task.cancel()
        await ctx.wait_for_signal("end")

    async with serving(app) as (fake, _):
        fake.start("gives_up")
        await fake.until(begun.is_set)
        fake.signal("stop")
        await fake.until(lambda: fake.events(ev.ActivityCancelRequested))
        go_on.set()
        (completed,) = await fake.until(lambda: fake.events(ev.ActivityCompleted))
        assert value_of(completed.result) == "finished anyway"
        fake.signal("end")
        await fake.closed()


@on_loop
async def test_an_attempt_that_is_cancelled_before_it_begins_is_reported_and_its_hand_free():
    """The lease and the cancel come in one batch: the cancel must not be lost, nor the attempt."""

    async def never() -> None:
        await asyncio.sleep(60)

    app = app_with(never)

    @app.workflow
    async def stays(ctx: Context) -> Any:
        try:
            await ctx.execute_activity("never")
        except CancelRequested:
            return await ctx.wait_for_signal("end")

    async with serving(app) as (fake, worker):
        fake.held = (rq.Advance,)
        run = fake.start("stays")
        await fake.held_request(rq.Advance)
        connected, fake.worker, fake.held = fake.worker, None, ()
        fake.answer_next()
        fake.worker = connected
        fake.lease_activity(run, 1)
        fake.cancel()
        await fake.until(lambda: fake.events(ev.ActivityCancelled))
        assert worker.slots.activities == 7
        fake.signal("end", "over")
        assert await fake.result() == "over"


# stopping


@on_loop
async def test_a_worker_that_stops_waits_for_its_activities():
    go_on = asyncio.Event()

    async def waits() -> str:
        await go_on.wait()
        return "done"

    async with serving(app_with(waits)) as (fake, worker):
        call(fake, "waits")
        await fake.until(lambda: worker.slots.activities == 6)
        worker.stop()
        await fake.quiet()
        go_on.set()
        await fake.until(lambda: fake.events(ev.ActivityCompleted))


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
@on_loop
async def test_a_worker_that_stops_gives_back_what_goes_on_for_too_long(kind: str):
    async def sleeps(seconds: float) -> None:
        await asyncio.sleep(seconds)

    known = sleeps if kind == "async" else activities.sleeps
    async with serving(app_with(known, runs_in="process" if kind == "process" else "thread"), drain_seconds=0) as (
        fake,
        worker,
    ):
        run = call(fake, "sleeps", 2)
        await fake.until(lambda: run.activities and run.activities[1].running)
        await asyncio.sleep(0.01)
        worker.stop()
        await fake.until(lambda: fake.requests_of(rq.ReleaseActivity))
        await fake.quiet()
        assert run.activities[1].attempt == 0, "an attempt that is given back does not count"
        assert not run.activities[1].running


@on_loop
async def test_an_activity_that_comes_after_the_end_is_given_back_at_once():
    async with serving(app_with(loud)) as (fake, worker):
        connected, fake.held = fake.worker, (rq.Advance,)
        run = call(fake, "loud", "a")
        await fake.held_request(rq.Advance)
        fake.worker = None
        fake.held = ()
        fake.answer_next()
        await fake.quiet()
        assert run.activities[1].ready
    fake.worker = connected
    fake.lease_activity(run, 1)
    fake.worker = None
    await fake.until(lambda: run.activities[1].ready)
    assert worker.slots.activities == 7
