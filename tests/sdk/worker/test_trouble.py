"""A whole worker under faults: requests and responses are lost, leases expire, runs are evicted. Afterwards every run
has ended, its code follows its history, and every slot of the worker is free (I7, I19)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, WorkflowId
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.workflow.context import Context
from assay.testing.replay import rehearse, save_history
from tests.sdk.worker.support import FakeTransport, Sent, serving
from tests.sdk.workflow.replay.programs import PROGRAMS, Program, app

EXAMPLES = 60
MOVES = 120
ROUNDS = 300
HELD = [(), (), (rq.Advance,), (rq.Advance, rq.CompleteActivity), (rq.FailActivity,)]


@pytest.fixture(autouse=True)
def engine() -> None:
    """Each example chooses for itself how answers come."""


def app_with_activities(chance: random.Random) -> App:
    """What programs call for."""
    known = app()

    async def charge(_: Any) -> str:
        for _ in range(chance.randint(0, 2)):
            await asyncio.sleep(0)
        if chance.random() < 0.1:
            raise ValueError("declined")
        return "charged"

    async def ship(_: Any) -> str:
        return "shipped"

    async def child(ctx: Context, value: Any) -> Any:
        return await ctx.execute_activity("ship", value)

    known.activity("charge", charge)
    known.activity("ship", ship)
    known.workflow("Child", child)
    return known


class Trouble:
    """What may happen to a worker and its runs."""

    def __init__(self, fake: FakeTransport, names: list[str], chance: random.Random) -> None:
        self.fake = fake
        self.names = names
        self.chance = chance
        self.moves: list[Callable[[], None]] = [
            *[self.hold] * 5,
            *[self.answer] * 5,
            *[self.signal] * 2,
            *[self.fire] * 3,
            self.deliver,
            self.pass_time,
        ]

    @property
    def open(self) -> list[Run]:
        return [run for run in self.fake.world.runs.values() if not run.closed]

    @property
    def over(self) -> bool:
        return all(self.fake.world.newest[WorkflowId(name)].closed for name in self.names)

    async def move(self) -> None:
        """Something happens, and then the worker has a while or not."""
        with contextlib.suppress(AssayError):  # some of it comes too late, as it does in life
            self.cancel() if self.chance.random() < 0.02 else self.chance.choice(self.moves)()
        self.fake.world.now += 100
        for _ in range(self.chance.randint(0, 6)):
            await asyncio.sleep(0)

    def hold(self) -> None:
        self.fake.held = self.chance.choice(HELD)

    def answer(self) -> None:
        if not self.fake.waiting:
            return
        fate = self.chance.random()
        if fate < 0.6:
            self.fake.answer_next()
        elif fate < 0.8:
            self.fake.answer_next(lost=True)
        else:
            self.fake.swallow()

    def signal(self) -> None:
        self.fake.signal(self.chance.choice(["paid", "sent"]), 1, workflow_id=self.chance.choice(self.names))

    def cancel(self) -> None:
        self.fake.cancel(self.chance.choice(self.names))

    def fire(self) -> None:
        for run in self.open:
            for seq in [seq for seq in run.timers if self.chance.random() < 0.3]:
                self.fake.world.now = max(self.fake.world.now, run.timers.get(seq, 0))
                self.fake.ask(rq.Elapse(run.run_id, "timer", seq))

    def pass_time(self, seconds: float | None = None) -> None:
        """Leases run out, back-offs end."""
        self.fake.world.now += round((seconds or self.chance.choice([0.001, 1, 11])) * SECOND)
        for run in self.open:
            self.fake.ask(rq.Elapse(run.run_id, "run"))
            for seq in list(run.activities):
                self.fake.ask(rq.Elapse(run.run_id, "activity", seq))

    def deliver(self) -> None:
        for message in tuple(self.fake.world.outbox.values()):
            self.fake.ask(rq.Deliver.of(message))

    async def heal(self) -> None:
        """Nothing is lost any more, and whatever anybody waits for comes."""
        self.fake.held = ()
        while self.fake.waiting:
            self.fake.answer_next()
        for number in range(ROUNDS):
            await self.fake.quiet()
            if self.over:
                return
            self.deliver()
            self.pass_time(1)
            for run in self.open:
                for seq in list(run.timers):
                    self.fake.world.now = max(self.fake.world.now, run.timers.get(seq, 0))
                    self.fake.ask(rq.Elapse(run.run_id, "timer", seq))
            for name in self.names if number % 3 == 2 else ():
                for signal in ("paid", "sent"):
                    with contextlib.suppress(AssayError):
                        self.fake.signal(signal, 1, workflow_id=name)
            await asyncio.sleep(0.01 if number % 20 == 19 else 0)


def check(fake: FakeTransport, known: App) -> None:
    """Every run has ended in a way that its code stands by."""
    for run in fake.world.runs.values():
        history = fake.world.histories[run.run_id]
        assert run.closed, (run.task, [type(recorded.event).__name__ for recorded in history])
        closing, ended = rehearse(save_history(run.key, run.start.workflow_type, history), known), history[-1].event
        if isinstance(ended, ev.WorkflowCompleted):
            assert isinstance(closing, cmd.CompleteWorkflow)
            assert closing.result == ended.result


async def run_programs(programs: list[Program], chance: random.Random) -> None:
    """Some runs, much trouble, and a happy end."""
    known = app_with_activities(chance)
    fake = FakeTransport(lease=chance.choice([None, 10 * SECOND]))
    names = [f"order-{number}" for number in range(len(programs))]
    settled = {"max_cached_runs": chance.choice([0, 1, 1_000]), "drain_seconds": chance.choice([0, 0.3])}
    async with serving(known, fake=fake, **settled) as (fake, _):
        for name, program in zip(names, programs, strict=True):
            fake.start("Order", program, workflow_id=name)
        trouble = Trouble(fake, names, chance)
        for _ in range(MOVES):
            if not trouble.over:
                await trouble.move()
        await trouble.heal()
        await fake.quiet()
        trouble.deliver()
        await trouble.heal()
    check(fake, known)


@seed(20240611)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.lists(PROGRAMS, min_size=1, max_size=3), st.integers(0, 2**32), st.booleans())
def test_whatever_goes_wrong_every_run_ends_well(programs: list[Program], number: int, instant: bool) -> None:
    Sent.instant = instant
    asyncio.run(asyncio.wait_for(run_programs(programs, random.Random(number)), 30))  # noqa: S311  # repeatable on purpose
