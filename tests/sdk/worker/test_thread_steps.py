"""A `def` step is executed once at a time, also when its run is lost and granted to the same worker again."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.ids import SECOND
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.values.retry import Retry
from assay.sdk.workflow.context import Context
from tests.sdk.worker.support import FakeTransport, on_loop, serving

LEASE = 10 * SECOND


class Gate:
    """A function that waits in its thread until the test lets it go, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.go = threading.Event()

    def __call__(self) -> int:
        self.calls += 1
        self.go.wait(30)
        return self.calls


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.go.set()


def app_of(step: Callable[[], Any], *, before: bool = False, **options: Any) -> App:
    """An app whose workflow ends with the step, and begins with another one if `before`."""
    app = App()

    @app.workflow
    async def steps(ctx: Context) -> Any:
        if before:
            await ctx.run("before", lambda: None)
        return await ctx.run("slow", lambda: step(), **options)  # a closure of its own in each replay

    return app


def lose(fake: FakeTransport, run: Run) -> None:
    """Let the lease of the run's task end; the task is granted again as soon as it may be."""
    epoch = run.task.epoch
    fake.world.now += LEASE + SECOND
    fake.ask(rq.Elapse(run.run_id, "run"))
    if run.task.not_before is not None:  # a task that was lost before is held back for a while
        fake.world.now = run.task.not_before
        fake.ask(rq.Elapse(run.run_id, "run"))
    assert run.task.epoch > epoch


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("times", [1, 3])
@on_loop
async def test_a_run_that_is_granted_again_waits_for_the_step_that_still_runs(gate: Gate, before: bool, times: int):
    async with serving(app_of(gate, before=before), fake=FakeTransport(LEASE)) as (fake, worker):
        run = fake.start("steps")
        for _ in range(times):
            await fake.until(lambda: gate.calls)
            if before:
                worker._workflow_tasks._lost(worker._workflow_tasks._live.get(run.run_id))
            lose(fake, run)
            await fake.quiet()
        gate.go.set()
        assert await fake.result() == 1
        assert gate.calls == 1
        assert [event.attempt for event in fake.events(ev.StepCompleted)][-1:] == [1]


@on_loop
async def test_the_attempt_that_still_runs_keeps_its_number(gate: Gate):
    def fails_once() -> int:
        if gate.calls == 0:
            gate.calls += 1
            raise ValueError("the first attempt")
        return gate()

    app = app_of(fails_once, retry=Retry(max_attempts=2, initial_interval=0.001))
    async with serving(app, fake=FakeTransport(LEASE)) as (fake, _):
        run = fake.start("steps")
        await fake.until(lambda: gate.calls == 2)
        lose(fake, run)
        await fake.quiet()
        gate.go.set()
        assert await fake.result() == 2
        assert [event.attempt for event in fake.events(ev.StepCompleted)] == [2]


@on_loop
async def test_an_attempt_that_took_too_long_is_not_waited_for(gate: Gate):
    hung = threading.Event()

    def hangs_once() -> str:
        gate.calls += 1
        if gate.calls == 1:
            hung.wait(30)
        return "done"

    try:
        retry = Retry(max_attempts=2, initial_interval=0.001)
        async with serving(app_of(hangs_once, timeout=0.05, retry=retry)) as (fake, _):
            fake.start("steps")
            assert await fake.result() == "done"
        assert gate.calls == 2
    finally:
        hung.set()


@on_loop
async def test_another_step_under_the_same_number_waits_until_the_former_has_ended(gate: Gate):
    """Code that was changed in place, as a debugger or a reload does."""
    running: list[str] = []
    app = App()
    chosen = ["old"]

    def old() -> None:
        running.append("old")
        gate()
        running.remove("old")

    def new() -> list[str]:
        return list(running)

    @app.workflow
    async def steps(ctx: Context) -> Any:
        return await (ctx.run("old", old) if chosen == ["old"] else ctx.run("new", new))

    async with serving(app, fake=FakeTransport(LEASE)) as (fake, _):
        run = fake.start("steps")
        await fake.until(lambda: gate.calls)
        chosen[:] = ["new"]
        lose(fake, run)
        await fake.quiet()
        gate.go.set()
        assert await fake.result() == []


@on_loop
async def test_an_outcome_that_nobody_waits_for_is_dropped_quietly(gate: Gate):
    returned = threading.Event()

    async def never_awaited() -> None: ...

    def makes_a_coroutine() -> Any:
        gate()
        returned.set()
        return never_awaited()

    async with serving(app_of(makes_a_coroutine), fake=FakeTransport(LEASE)) as (fake, worker):
        run = fake.start("steps")
        await fake.until(lambda: gate.calls)
        fake.ask(rq.Terminate(run.namespace, run.workflow_id))
        worker.news(run.run_id)
        await fake.until(lambda: not worker.holds(run.run_id))
        gate.go.set()
        await fake.until(returned.is_set)
        steps = worker._workflow_tasks._steps._threads
        await fake.until(lambda: not steps._running)
    await asyncio.sleep(0)
