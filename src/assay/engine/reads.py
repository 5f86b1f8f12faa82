"""Reads of runs, histories, activities, leases and schedules, page by page. Nothing is changed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from assay.core.model.errors import Invalid, NotFound
from assay.core.model.events import ActivityScheduled, Event, Recorded, next_run_of
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkerId, WorkflowId
from assay.core.model.limits import EVENTS_PAGE_BYTES
from assay.core.model.payload import NULL
from assay.core.model.sizes import event_bytes
from assay.core.schedules.model import Fire, Schedule
from assay.engine.clock import Clock
from assay.engine.commit.cache import RunCache
from assay.storage.ports import HeldLease, RunFilter, RunPage, RunRecord, Snapshot, Store, StoredActivity, StoredRun

READ_PAGE_ROWS = 500
LARGE_EVENTS_STEP: Final = 8
"""Events read at a time from a large history."""
STORE_READ_EVENTS = 10_000
"""Most events that a store returns for one read."""
PREVIEW_TIMES: Final = 10
LARGEST_PREVIEW_TIMES: Final = 1_000
FIRES_PAGE: Final = 50
LARGEST_FIRES: Final = 1_000

__all__ = ["Reads", "RunFilter", "RunRecord", "Snapshot", "StoredActivity", "StoredRun"]


class Reads:
    """The reads of an engine: from the store, and from the engine's cache where the cache cannot be stale."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cache: RunCache,
        explained: Callable[[RunRecord], RunRecord],
        with_served: Callable[[RunFilter], RunFilter],
        workers: Callable[[], tuple[ConnectedWorker, ...]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._cache = cache
        self._explained = explained
        self._with_served = with_served
        self._workers = workers

    def wall(self) -> Time:
        """Return the wall clock, which schedules follow; it may step."""
        return self._clock.wall()

    def connected_workers(self) -> tuple[ConnectedWorker, ...]:
        """Return the workers that are connected to this engine now; a polling worker is connected during a poll."""
        return self._workers()

    # runs

    async def find(self, namespace: str, workflow_id: str, run_id: str | None = None) -> RunRecord | None:
        """Return a run with its input and result, the newest of its id unless `run_id` names another, or None."""
        found = await self._store.describe(namespace, workflow_id, run_id)
        return None if found is None else self._explained(found)

    async def run(self, namespace: str, workflow_id: str, run_id: str | None = None) -> RunRecord:
        """Return a run like `find`; raise `NotFound` if there is no such run."""
        found = await self.find(namespace, workflow_id, run_id)
        if found is None:
            raise NotFound(f"workflow {workflow_id}")
        return found

    async def current(self, namespace: str, workflow_id: str) -> RunKey:
        """Return the key of the newest run of an id; raise `NotFound` for an unknown id."""
        if not self._store.shared:
            run = self._cache.newest((Namespace(namespace), WorkflowId(workflow_id)))
            if run is not None:
                return run.key
        return (await self.run(namespace, workflow_id)).run.key

    def live(self, run_id: RunId) -> StoredRun | None:
        """Return the state of an open run if this engine holds it in memory; the caller must not change it."""
        return self._cache.get(run_id)

    def current_state(self, run_id: RunId) -> StoredRun | None:
        """Return the state of a run in memory if no other engine can have changed it; the caller must not change it."""
        return None if self._store.shared else self._cache.get(run_id)

    async def state(self, namespace: str, workflow_id: str, run_id: str | None = None) -> StoredRun:
        """Return a run without its documents, the newest of its id unless `run_id` names another.

        Raises:
            NotFound: there is no such run.
        """
        key = (Namespace(namespace), WorkflowId(workflow_id))
        found = None
        if not self._store.shared:
            found = self._cache.newest(key) if run_id is None else self._cache.get(RunId(run_id))
        if found is None:
            run_ids, names = ((), (key,)) if run_id is None else ((RunId(run_id),), ())
            found = next(iter(await self._store.load(run_ids, names)), None)
        if found is None or (found.namespace, found.workflow_id) != key:
            raise NotFound(f"workflow {workflow_id}")
        return self.with_reason(found)

    def with_reason(self, run: StoredRun) -> StoredRun:
        """Return a run, with the reason if it is stuck because no connected worker serves its type."""
        return self._explained(RunRecord(run, NULL, NULL)).run

    def cached(self) -> tuple[Sequence[StoredRun], int]:
        """Return the runs that this engine holds in memory, and their size in bytes as the cache counts it."""
        return self._cache.runs(), self._cache.held_bytes

    async def live_all(self, run_ids: Iterable[RunId]) -> list[StoredRun]:
        """Return the states of runs, from memory where possible and with one read for the others."""
        cached = {run_id: self._cache.get(run_id) for run_id in run_ids}
        absent = [run_id for run_id, run in cached.items() if run is None]
        read = await self._store.load(absent, ()) if absent else ()
        return [*(run for run in cached.values() if run is not None), *read]

    async def leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        """Return the workflow tasks and attempts that are leased to a worker."""
        return await self._store.leases(worker)

    async def closing(self, run: StoredRun) -> Event | None:
        """Return the event that closed a run; None for an open run."""
        if not run.closed:
            return None
        page = await self._store.events(run.run_id, run.last_seq - 1, limit=1)
        return page[0].event if page else None

    async def last(self, run: StoredRun, *, follow: bool = True) -> tuple[StoredRun, Event | None]:
        """Return the last run of a chain so far, and its closing event, or None while it is open."""
        while True:
            event = await self.closing(run)
            following = None if event is None or not follow else next_run_of(event)
            if following is None:
                return run, event
            run = (await self.run(run.namespace, run.workflow_id, following)).run

    async def page(self, wanted: RunFilter) -> tuple[Sequence[RunRecord], int, bool]:
        """Return the runs of a page, the number of all matching runs, and whether more follow."""
        wanted = self._with_served(wanted)
        found, total = await asyncio.gather(self.listed(wanted), self._store.count_runs(wanted))
        return found, total, found.more

    async def count(self, wanted: RunFilter) -> int:
        """Return the number of runs that a filter matches, up to its `count_limit`."""
        return await self._store.count_runs(self._with_served(wanted))

    async def listed(self, wanted: RunFilter) -> RunPage:
        """Return the runs of a page, without the count; `more` shows whether more follow."""
        found = await self._store.list_runs(self._with_served(wanted))
        return RunPage(map(self._explained, found), more=found.more)

    # histories

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """Return all events of a run after a seq."""
        events: list[Recorded] = []
        while True:
            page = await self._store.events(run_id, after)
            events.extend(page)
            if len(page) < STORE_READ_EVENTS:
                return events
            after = page[-1].seq

    async def events_after(self, run_id: RunId, after: int, limit: int) -> Sequence[Recorded]:
        """Return the next events of a run after a seq, `limit` at most."""
        return await self._store.events(run_id, after, limit)

    async def history_pages(self, run: StoredRun) -> AsyncIterator[Sequence[Recorded]]:
        """Yield a whole history, page by page, up to the run's last event at the time of the call."""
        seen = 0
        while seen < run.last_seq:
            page = await self._store.events(run.run_id, seen, min(READ_PAGE_ROWS, run.last_seq - seen))
            if not page:
                return
            yield page
            seen = page[-1].seq

    async def events(self, run: StoredRun, cursor: int | None, limit: int, *, newest_first: bool) -> Sequence[Recorded]:
        """Return a page of a history: `limit` events, or fewer if their size passes `EVENTS_PAGE_BYTES`."""
        if run.history_bytes <= EVENTS_PAGE_BYTES:
            return await self._step(run, cursor, limit, newest_first=newest_first)
        # A few events at a time, to hold at most a page of a large history in memory.
        page, size = list[Recorded](), 0
        while len(page) < limit and size <= EVENTS_PAGE_BYTES:
            step = min(LARGE_EVENTS_STEP, limit - len(page))
            found = await self._step(run, page[-1].seq if page else cursor, step, newest_first=newest_first)
            for recorded in found:
                if size <= EVENTS_PAGE_BYTES:
                    page.append(recorded)
                    size += event_bytes(recorded.event)
            if len(found) < step:
                break
        return page

    async def _step(self, run: StoredRun, cursor: int | None, limit: int, *, newest_first: bool) -> Sequence[Recorded]:
        """Return events after a cursor; seqs have no gaps, so a backward page is a forward page, reversed."""
        if not newest_first:
            return await self._store.events(run.run_id, cursor or 0, limit)
        end = run.last_seq if cursor is None else min(cursor - 1, run.last_seq)
        begin = max(0, end - limit)
        page = await self._store.events(run.run_id, begin, end - begin) if end > begin else ()
        return page[::-1]

    async def snapshot(self, run_id: RunId) -> Snapshot | None:
        """Return the snapshot of a run's state that queries read, or None."""
        return await self._store.snapshot(run_id)

    async def activity_of(self, run_id: RunId, seq: int) -> StoredActivity | None:
        """Return an activity of a run by its seq, or None."""
        after = 0
        while page := await self._store.events(run_id, after, kind="ActivityScheduled"):
            for recorded in page:
                if isinstance(recorded.event, ActivityScheduled) and recorded.event.activity_seq == seq:
                    return await self._store.activity(recorded.event.activity_id)
            after = page[-1].seq
        return None

    async def activity(self, number: int) -> StoredActivity | None:
        """Return an activity by its id or by the id of an attempt, or None; the store keeps both as 63-bit integers."""
        return await self._store.activity(number) if 0 <= number < 2**63 else None

    # schedules

    async def schedule(self, namespace: str, name: str) -> Schedule:
        """Return a schedule; raise `NotFound` for an unknown name."""
        found = await self._store.load_schedules([(Namespace(namespace), name)])
        if not found:
            raise NotFound(f"schedule {name}")
        return found[0]

    async def schedules(self, namespace: str) -> Sequence[Schedule]:
        """Return the schedules of a namespace, by name."""
        return await self._store.list_schedules(namespace)

    async def preview(self, namespace: str, name: str, count: int | None) -> Sequence[Time]:
        """Return the next due times of a schedule; for a paused schedule, the due times after a resume now."""
        wanted = _within(count, PREVIEW_TIMES, LARGEST_PREVIEW_TIMES, "count")
        schedule = await self.schedule(namespace, name)
        left = wanted if schedule.remaining is None else min(wanted, schedule.remaining)
        due: Time | None = max(self._clock.wall(), (schedule.next_run_at or 1) - 1)
        found: list[Time] = []
        while len(found) < left and due is not None and (due := schedule.after(due)) is not None:
            found.append(due)
        return found

    async def fires(self, namespace: str, name: str, limit: int | None) -> Sequence[Fire]:
        """Return the outcomes of the latest due times of a schedule, newest first."""
        wanted = _within(limit, FIRES_PAGE, LARGEST_FIRES, "limit")
        await self.schedule(namespace, name)
        return await self._store.fires(namespace, name, wanted)

    async def count_fires(self, namespace: str, name: str) -> int:
        """Return the number of due times of a schedule with a recorded outcome."""
        return await self._store.count_fires(namespace, name)


def _within(requested: int | None, default: int, largest: int, name: str) -> int:
    if requested is None:
        return default
    if not 1 <= requested <= largest:
        raise Invalid(f"{name} must be from 1 to {largest}", field=name)
    return requested
