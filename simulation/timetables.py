"""A schedule in a world whose wall clocks step: each due time fires once, when the wall clock reaches it (I11)."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.model.errors import AlreadyExists, AssayError
from assay.core.model.ids import SECOND, Namespace, Time
from assay.core.model.payload import Payload
from assay.core.schedules.model import Missed, Overlap, Schedule
from assay.core.schedules.requests import CreateSchedule
from assay.storage.ports import Changes
from assay.storage.sql.schedule_rows import schedule_of
from simulation.loop import Node
from simulation.settings import chance_of
from simulation.store import EPOCH
from simulation.tables import PLACE

if TYPE_CHECKING:
    from simulation.world import World

NAME = "ticks"
MAIN = Namespace("main")
EVERY = 4
"""Seconds between two due times."""
LATE: Time = 8 * SECOND
"""How much later than its due time a fire is started at the latest by an engine that runs."""
FIRES, DOCUMENT = PLACE["schedule_fires"], PLACE["schedules"]["document"]
QUIET = frozenset(("step_clock", "hiccup", "mute", "lose", "delay", "repeat", "clock"))
"""Faults under which some engine looks at the schedule all the time."""


class ScheduleKeeper:
    """A client that makes a schedule, and waits until the last of its due times is over."""

    def __init__(self, world: "World") -> None:
        self.name = "client-schedule"
        self.node = Node(self.name)
        self.busy = world.settings.has("step_clock")
        self._world = world
        self._chance = chance_of(world.settings.seed, self.name)
        self._ends_at = EPOCH + (world.settings.fault_seconds + 12) * SECOND

    def begin(self) -> None:
        """Start doing what it does."""
        if self.busy:
            self._world.loop.spawn(self.node, self._run())

    async def _run(self) -> None:
        program = {"id": NAME, "steps": [], "done": []}
        schedule = Schedule(
            MAIN,
            NAME,
            "program",
            f"*/{EVERY} * * * * *",
            input=Payload(msgspec.json.encode(program)),
            overlap_policy=Overlap.ALLOW_ALL,
            missed=self._chance.choice((Missed.LAST, Missed.SKIP)),
            end_at=self._ends_at,
        )
        await self._create(CreateSchedule(MAIN, NAME, schedule))
        await asyncio.sleep(max(0, self._ends_at + LATE - EPOCH - self._world.loop.now) / SECOND)
        self.busy = False

    async def _create(self, request: CreateSchedule) -> None:
        while True:
            engine = self._chance.choice(self._world.engines)
            try:
                await self._world.network.call(self, engine, lambda: engine.submit(request), once=True)  # noqa: B023
            except AlreadyExists:
                return
            except AssayError:
                await asyncio.sleep(0.5)
            else:
                return

    def look(self, changes: Changes) -> Iterator[str]:
        """Check the fires of one transaction."""
        wall = self._world.wall()
        for fire in changes.fires:
            if fire.run_id is not None and wall < fire.due_at:
                yield f"I11 the due time {_shown(fire.due_at)} fired {(fire.due_at - wall) / SECOND:.1f} s early"

    def check(self) -> Iterator[str]:
        """Check what became of all due times."""
        tables = self._world.database.tables.rows
        for row in tables["schedules"].values():
            schedule = schedule_of(row[DOCUMENT])
            fires = {fire[FIRES["due_at"]]: fire for fire in tables["schedule_fires"].values()}
            yield from _runs(self._world)
            begin = schedule.created_at
            for due in schedule.timetable().fires_between(begin, self._ends_at, 1_000, begin):
                yield from self._became(due, fires)

    def _became(self, due: Time, fires: dict[Time, Any]) -> Iterator[str]:
        if due not in fires:
            yield f"I11 nothing is recorded of the due time {_shown(due)}"
        elif fires[due][FIRES["outcome"]] != "started" and self._reached(due):
            yield f"I11 the due time {_shown(due)} did not fire although the wall clock reached it"

    def _reached(self, due: Time) -> bool:
        """Did the wall clock come to a due time second by second, with an engine that looked?"""
        return self._world.settings.faults <= QUIET and due > self._world.nemesis.set_at + SECOND


def _runs(world: "World") -> Iterator[str]:
    started = Counter(row[2] for row in world.database.tables.rows["runs"].values() if row[2].startswith(f"{NAME}-"))
    for workflow_id, count in started.items():
        if count > 1:
            yield f"I11 {count} runs were started as {workflow_id}"


def _shown(due: Time) -> str:
    return f"{(due - EPOCH) / SECOND:g} s"
