"""Work that no worker serves: runs that wait from the beginning, and must neither hide other work nor slow it down."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from assay.core.model.errors import AssayError
from assay.core.model.ids import WorkflowId
from assay.core.model.requests import Request, StartWorkflow, Terminate
from simulation.clients import NAMESPACE
from simulation.loop import Node
from simulation.settings import chance_of
from simulation.tables import PLACE

if TYPE_CHECKING:
    from simulation.world import World

CLOSED_AT = PLACE["runs"]["closed_at"]


class UnservedLoad:
    """A program outside that starts runs of types and on task queues without workers, and ends them at last."""

    def __init__(self, world: "World") -> None:
        self.name = "unserved"
        self.node = Node(self.name)
        self._world = world
        self._chance = chance_of(world.settings.seed, self.name)
        self.busy = world.settings.unserved > 0

    def begin(self) -> None:
        """Start the runs, wait until all other work is done, and terminate them."""
        if self.busy:
            self._world.loop.spawn(self.node, self._run())

    @staticmethod
    def owns(workflow_id: str) -> bool:
        """Return whether a run is one of this load."""
        return workflow_id.startswith("unserved-")

    async def _run(self) -> None:
        starts = [self._start(number) for number in range(self._world.settings.unserved)]
        for start in starts:
            await self._until_done(start)
        await self._until_alone()
        for start in starts:
            await self._until_done(Terminate(NAMESPACE, start.workflow_id))
        self.busy = False

    async def _until_alone(self) -> None:
        """Look every second whether all other work is done: nothing tells of the last of it."""
        for _ in range(self._world.settings.fault_seconds + self._world.settings.heal_seconds):
            if self._alone():
                return
            await asyncio.sleep(1)

    def _start(self, number: int) -> StartWorkflow:
        elsewhere = number % 2 == 0
        return StartWorkflow(
            namespace=NAMESPACE,
            workflow_id=WorkflowId(f"unserved-{number}"),
            workflow_type="elsewhere" if elsewhere else "nobody",
            task_queue="nowhere" if elsewhere else "default",
            request_id=f"unserved-{number}",
        )

    def _alone(self) -> bool:
        """Return whether all other clients and runs are done."""
        rows = self._world.database.tables.rows["runs"].values()
        others = [row for row in rows if not self.owns(row[2])]
        return all(row[CLOSED_AT] is not None for row in others) and not self._world.others_busy

    async def _until_done(self, request: Request) -> None:
        while True:
            engine = self._chance.choice(self._world.engines)
            try:
                await self._world.network.call(self, engine, partial(engine.submit, request), once=True)
            except AssayError:
                row = self._world.newest(getattr(request, "workflow_id", ""))
                if isinstance(request, Terminate) and row is not None and self._is_closed(row):
                    return
                await asyncio.sleep(0.5)
            else:
                return

    def _is_closed(self, run_id: str) -> bool:
        return self._world.database.tables.rows["runs"][(run_id,)][CLOSED_AT] is not None
