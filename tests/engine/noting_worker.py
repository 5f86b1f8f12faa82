"""A worker as the dispatcher sees it, that only writes down what it is given."""

import asyncio

from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId
from assay.core.model.slots import Slots


class NotingWorker:
    """Takes work and keeps it in a list; `given` is set with each piece."""

    def __init__(self, name: str = "w-1", queue: str = "default", tasks: int = 1, activities: int = 1) -> None:
        self.worker = WorkerId(name)
        self.namespace = Namespace("main")
        self.queue = queue
        self.identity = ""
        self.slots = Slots(tasks, activities)
        self.lease: Time | None = 10_000_000
        self.local = False
        self.workflows: frozenset[str] | None = None
        self.activities: frozenset[str] | None = None
        self.held: set[RunId] = set()
        self.grants: list[TaskGrant | ActivityGrant] = []
        self.notified: list[RunId] = []
        self.unwanted: list[int] = []
        self.given = asyncio.Event()

    def holds(self, run_id: RunId) -> bool:
        return run_id in self.held

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        self.grants.append(grant)
        self.given.set()

    def news(self, run_id: RunId) -> None:
        self.notified.append(run_id)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        self.unwanted.append(attempt_id)
