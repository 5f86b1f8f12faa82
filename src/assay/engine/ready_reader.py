"""Reads ready work from the store, for the workers connected to this engine only.

A single engine reads the work left by its predecessor, once for each type served by a worker; later work passes through
the dispatcher. Engines on a shared store reserve as much work as their workers have free slots. Work of other types is
never read: a page full of it would hide work for a connected worker.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import Namespace, RunId, Time
from assay.engine.clock import Clock
from assay.engine.dispatch import Dispatcher, Shortage
from assay.storage.ports import Demand, ReadyActivity, ReadyTask, Store

READY_PAGE_ENTRIES = 1_000
"""Entries of ready work read at a time, for a type on a task queue."""
REMEMBERED_LINES = 10_000
"""Types of task queues remembered as read. Beyond this number all are forgotten and read once more."""

Place = tuple[str, Time, RunId, int]


class _Line(NamedTuple):
    """The work of a type (None: of all types) on a task queue."""

    namespace: Namespace
    queue: str
    kind: str | None
    tasks: bool


class ReadyReader:
    """The reader of ready work for the dispatcher of one engine."""

    def __init__(self, store: Store, clock: Clock, dispatcher: Dispatcher, page: int = READY_PAGE_ENTRIES) -> None:
        self._store = store
        self._clock = clock
        self._dispatcher = dispatcher
        self._page = page
        self._lock = asyncio.Lock()
        self._read: set[_Line] = set()
        """Lines read to their end. Empty on a shared store, where other engines add work."""
        self._forgotten = 0
        """The number of calls of `forget`: a read that began before the last call marks no line as read."""
        self._sizes: dict[tuple[Namespace, str, bool], int] = {}
        """Entries to reserve of a task queue after a full page; more than it has free slots."""

    def has_unread(self, worker: ConnectedWorker) -> bool:
        """Return whether the store may have unread work for a worker."""
        return self._store.shared or any(line not in self._read for line in self._lines_of(worker))

    def forget(self) -> None:
        """Read all lines again in the next `find_work`: a batch was not written, and the work it queued is lost."""
        self._read.clear()
        self._forgotten += 1

    async def find_work(self, worker: ConnectedWorker | None = None) -> None:
        """Queue work from the store for one worker, or for all connected workers, and lease it to free slots."""
        # One read at a time: work that another read has reserved and not yet queued would be missing here, and a poll
        # that is answered at once would find nothing.
        async with self._lock:
            if self._store.shared:
                queue = None if worker is None else (worker.namespace, worker.queue)
                await self._reserve(self._dispatcher.shortages(queue))
            else:
                workers = self._dispatcher.workers() if worker is None else (worker,)
                await self._read_lines(
                    {line for connected in workers for line in self._lines_of(connected)} - self._read
                )
                self._dispatcher.finish_reading(self.has_unread)

    # a single engine

    def _lines_of(self, worker: ConnectedWorker) -> list[_Line]:
        served = ((worker.workflows, True), (worker.activities, False))
        return [
            _Line(worker.namespace, worker.queue, kind, tasks)
            for kinds, tasks in served
            for kind in _named(kinds)
            if kind is None or _Line(worker.namespace, worker.queue, None, tasks) not in self._read
        ]

    async def _read_lines(self, lines: Iterable[_Line]) -> None:
        """Read lines to their end, a page of each in turn: the oldest work of every line comes first."""
        places: dict[_Line, Place | None] = dict.fromkeys(sorted(lines, key=str))
        if len(self._read) + len(places) > REMEMBERED_LINES:
            self._read.clear()
        forgotten = self._forgotten
        while places:
            tasks: list[ReadyTask] = []
            activities: list[ReadyActivity] = []
            ended: list[_Line] = []
            for line, after in tuple(places.items()):
                demand = Demand(line.namespace, line.queue, line.kind, self._page, after)
                found = await self._read_page(line, demand, tasks, activities)
                if len(found) < self._page:
                    del places[line]
                    ended.append(line)
                else:
                    places[line] = _place(found[-1])
            self._dispatcher.load(tasks, activities)
            # Only after the work is queued: if the read of a later line fails, the next call reads all of them again.
            if forgotten == self._forgotten:
                self._read.update(ended)

    async def _read_page(
        self, line: _Line, demand: Demand, tasks: list[ReadyTask], activities: list[ReadyActivity]
    ) -> Sequence[ReadyTask] | Sequence[ReadyActivity]:
        if line.tasks:
            ready = await self._store.ready_tasks((demand,), self._clock.now())
            tasks.extend(ready)
            return ready
        waiting = await self._store.ready_activities((demand,), self._clock.now())
        activities.extend(waiting)
        return waiting

    # engines on a shared store

    async def _reserve(self, shortages: Sequence[Shortage]) -> None:
        wanted = [
            *((short, short.workflows, True, short.free_tasks) for short in shortages if short.free_tasks > 0),
            *(
                (short, short.activities, False, short.free_activities)
                for short in shortages
                if short.free_activities > 0
            ),
        ]
        limits = {
            (short.namespace, short.queue, tasks): min(
                self._page, max(free, self._sizes.get((short.namespace, short.queue, tasks), 0))
            )
            for short, _, tasks, free in wanted
        }
        demands = [
            (tasks, Demand(short.namespace, short.queue, kind, limits[short.namespace, short.queue, tasks]))
            for short, kinds, tasks, _ in wanted
            for kind in _named(kinds)
        ]
        now = self._clock.now()
        of_tasks = [demand for tasks, demand in demands if tasks]
        of_activities = [demand for tasks, demand in demands if not tasks]
        ready = await self._store.ready_tasks(of_tasks, now) if of_tasks else ()
        waiting = await self._store.ready_activities(of_activities, now) if of_activities else ()
        self._dispatcher.load(ready, waiting)
        self._note_depths(limits, ready, waiting)

    def _note_depths(
        self,
        limits: dict[tuple[Namespace, str, bool], int],
        ready: Sequence[ReadyTask],
        waiting: Sequence[ReadyActivity],
    ) -> None:
        """Double the page of a task queue after a full page: a query for each free slot would be slow."""
        found = dict.fromkeys(limits, 0)
        for tasks, page in ((True, ready), (False, waiting)):
            for work in page:
                found[work.namespace, work.queue, tasks] += 1
        for key, limit in limits.items():
            deep = found[key] >= limit
            if deep:
                self._sizes[key] = 2 * limit
            else:
                self._sizes.pop(key, None)
            namespace, queue, tasks = key
            self._dispatcher.note_depth(namespace, queue, tasks=tasks, deep=deep)


def _named(kinds: frozenset[str] | None) -> Sequence[str | None]:
    return (None,) if kinds is None else sorted(kinds)


def _place(work: ReadyTask | ReadyActivity) -> Place:
    if isinstance(work, ReadyTask):
        return work.workflow_type, work.order, work.run_id, 0
    return work.name, work.order, work.run_id, work.seq
