"""A step may begin if its run is open, this worker holds the task, and the code has seen all events."""

import asyncio
from collections.abc import Sequence
from typing import Any

from assay.core.model import requests as rq
from assay.core.model.events import Recorded
from assay.core.model.grants import TaskGrant
from assay.core.model.ids import SECOND, Namespace, RunId, WorkerId, WorkflowId
from assay.sdk.app import App
from assay.sdk.workflow.context import Context
from tests.sdk.worker.support import FakeTransport, on_loop, serving

MAIN = Namespace("main")


class Library(FakeTransport):
    """An engine whose histories come late, or as they were."""

    def __init__(self) -> None:
        super().__init__(lease=10 * SECOND)
        self.open = asyncio.Event()
        self.open.set()
        self.kept: Sequence[Recorded] | None = None

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        await self.open.wait()
        return await super().history(run_id, after) if self.kept is None else self.kept


def app_that_charges(*, after_a_signal: bool = False, times: int = 1) -> tuple[App, list[int]]:
    app = App()
    charged: list[int] = []

    async def charge(number: int) -> None:
        charged.append(number)

    @app.workflow
    async def pay(ctx: Context) -> Any:
        if after_a_signal:
            await ctx.wait_for_signal("go")
        for number in range(times):
            await ctx.run("charge", charge, number)

    return app, charged


@on_loop
async def test_a_task_that_is_given_again_when_its_run_is_closed_begins_no_step():
    app, charged = app_that_charges(times=2)
    fake = Library()
    async with serving(app, fake=fake) as (_, worker):
        run = fake.start("pay")
        await fake.result()
        fake.kept = fake.world.histories[run.run_id][:2]  # as they were read for the task, before the second step
        worker.slots.tasks -= 1
        worker.take(TaskGrant(run.key, run.start, 2, 2, 2, 0, None))
        await fake.quiet()
        assert charged == [0, 1]


@on_loop
async def test_a_history_that_comes_after_the_lease_is_over_begins_no_step():
    app, charged = app_that_charges(after_a_signal=True)
    fake = Library()
    async with serving(app, fake=fake):
        run = fake.start("pay")
        await fake.quiet()
    fake.signal("go")
    fake.open.clear()
    async with serving(app, fake=fake, drain_seconds=0):
        await fake.quiet()
        fake.worker = None
        fake.world.now += 11 * SECOND
        fake.ask(rq.Elapse(run.run_id, "run"))
        fake.world.take(rq.LeaseTask(run.run_id, WorkerId("another"), 10 * SECOND))
        fake.open.set()
        await fake.quiet()
        assert charged == []


@on_loop
async def test_a_run_that_is_terminated_while_its_task_is_on_its_way_begins_no_step():
    app, charged = app_that_charges()
    async with serving(app) as (fake, _):
        run = fake.start("pay")  # the task is in the worker's hands, and not yet looked at
        fake.ask(rq.Terminate(MAIN, WorkflowId("one")))
        assert fake.worker is not None
        fake.worker.news(run.run_id)  # as the engine does for a run that ends in somebody's hands
        await fake.quiet()
        assert (run.closed, charged) == (True, [])


@on_loop
async def test_a_cancel_that_comes_while_the_task_is_on_its_way_does_not_wait_for_the_first_step():
    app = App()

    @app.workflow
    async def pay(ctx: Context) -> Any:
        await ctx.run("wait", asyncio.Event().wait)

    async with serving(app) as (fake, _):
        run = fake.start("pay")
        fake.cancel()
        await asyncio.wait_for(fake.until(lambda: run.closed), 5)
        assert run.status == "CANCELLED"


@on_loop
async def test_a_step_that_a_signal_led_to_waits_until_the_signal_counts_as_seen():
    """Otherwise a continue-as-new by a client would carry the signal over, and code would process it twice."""
    app, charged = app_that_charges(after_a_signal=True)
    async with serving(app) as (fake, _):
        run = fake.start("pay")
        await fake.quiet()
        fake.held = (rq.Advance,)
        fake.signal("go")
        await fake.held_request(rq.Advance)
        assert charged == []
        fake.held = ()
        fake.answer_next()
        await fake.until(lambda: charged == [0])
        assert run.seen_seq >= 2


@on_loop
async def test_a_worker_that_stops_with_a_turn_on_its_way_gives_back_the_task_that_comes_with_the_answer():
    """An engine in the same process would never take the lease back by itself."""
    app, charged = app_that_charges(times=2)
    async with serving(app, drain_seconds=0) as (fake, worker):
        fake.held = (rq.Advance, rq.ReleaseTask)
        run = fake.start("pay")
        turn = await fake.held_request(rq.Advance)
        assert turn.pending
        worker.stop()
        await fake.held_request(rq.ReleaseTask)  # comes too late: the turn before it has renewed the lease
        fake.held = ()
        fake.answer_next()
        fake.answer_next()
        await fake.quiet()
        assert (run.task.worker, run.task.ready, charged) == (None, True, [0])
