"""The engine as its callers see it: ask for a change, read what is there, wait for an outcome, sit down as a worker."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeVar, cast

from assay.core.errors import AssayError, NotFound, Unavailable
from assay.core.events import Event, Recorded, next_run_of
from assay.core.grants import Seat
from assay.core.ids import Namespace, RunId, RunKey, Time, WorkflowId
from assay.core.limits import STARTUP_GRACE
from assay.core.replies import Started
from assay.core.requests import Request, StartWorkflow
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.clock_keeper import ClockKeeper
from assay.engine.commit.committer import Committed, Committer
from assay.engine.courier import Courier
from assay.engine.dispatcher import Dispatcher
from assay.engine.feed import Feed
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.engine.reaper import Reaper
from assay.engine.scheduler import Scheduler
from assay.engine.service import Loop
from assay.engine.timekeeper import Timekeeper
from assay.engine.unserved import explained
from assay.storage.store import RunRecord, Store

log = logging.getLogger("assay.engine")
Reply = TypeVar("Reply")
RESULT_POLL_SECONDS = 1.0
RECOVERY_SECONDS = 0.5
"""How long to leave a store alone that did not take a write."""


class Engine:
    """One engine on one store."""

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        ids: BlockIds | None = None,
        cache_limit: int = 10_000,
        halving: bool = False,
        task_lease: Time = STARTUP_GRACE,
    ) -> None:
        self.store = store
        self.clock = clock or (SharedClock() if store.shared else SystemClock())
        self.dispatcher = Dispatcher()
        presence = Presence(self.clock)
        self.committer = Committer(
            store,
            self.clock,
            ids or BlockIds(self.clock),
            self.dispatcher,
            presence,
            cache_limit=cache_limit,
            halving=halving,
        )
        self.feed = Feed()
        self._courier = Courier(store, self.clock, self.committer)
        self._reaper = Reaper(store, self.clock, self.committer, self.dispatcher, task_lease)
        self._timekeeper = Timekeeper(store, self.clock, self.committer, presence, self._reaper.spare)
        self._clock_keeper = ClockKeeper(store, self.clock, presence)
        self.scheduler = Scheduler(store, self.clock, self.committer)
        self._loops = {
            "timekeeper": Loop(self._timekeeper, self.clock),
            "courier": Loop(self._courier, self.clock),
            "reaper": Loop(self._reaper, self.clock),
            "clock": Loop(self._clock_keeper, self.clock),
        }
        self._clock_keeper.on_tick(self._keep_time)
        self._clock_keeper.on_step_back(self.scheduler.look_back)
        self.committer.listen(self._committed)
        self.committer.on_stop(self.feed.end)
        self.committer.on_loss(self._lost)

    def _committed(self, committed: Committed) -> None:
        self.feed.publish(committed)
        if committed.messages:
            self._courier.carry(committed)
        self.scheduler.notice(committed)
        if self._timekeeper.sooner(committed):
            self._loops["timekeeper"].wake()

    def _keep_time(self) -> None:
        if self._timekeeper.is_due():
            self._loops["timekeeper"].wake()

    def _lost(self) -> None:
        asyncio.get_running_loop().call_later(RECOVERY_SECONDS, self._recover)

    def _recover(self) -> None:
        """Look in the store for work and messages that a batch was to hand out and did not."""
        self._courier.hurry()
        self._loops["courier"].wake()
        self._loops["reaper"].wake()

    async def start(self) -> None:
        """Open the store, take over what a predecessor left, begin to keep time."""
        await self.store.open()
        await self._clock_keeper.begin()
        await self._reaper.run_once()
        await self._courier.run_once()
        await self.scheduler.take_over()
        for loop in self._loops.values():
            loop.start()
        self.store.subscribe(self._loops["reaper"].wake)

    async def stop(self) -> None:
        """Finish what is in flight and let go of the store."""
        for loop in self._loops.values():
            await loop.stop()
        await self.committer.drain()
        stopped = Unavailable("the engine is stopped", code="engine_stopped")
        self.committer.stop(stopped)
        await self.store.close()

    @property
    def stopped(self) -> AssayError | None:
        """Why nothing more is committed, if that is so."""
        return self.committer.stopped

    def sit(self, seat: Seat) -> None:
        """A worker is ready for work."""
        self.dispatcher.join(seat)

    def rise(self, seat: Seat) -> None:
        """A worker wants no more work."""
        self.dispatcher.leave(seat)

    async def ask(self, request: Request, reply: type[Reply]) -> Reply:
        """Have a request decided; returns when its outcome is durable, raises what it was refused with."""
        answer = await self.committer.submit(request)
        return cast(Reply, answer)

    async def change(self, request: Request) -> None:
        """Have a request decided whose only answer is that it is done."""
        await self.committer.submit(request)

    async def start_workflow(self, request: StartWorkflow) -> Started:
        """Start a run."""
        return await self.ask(request, Started)

    def explained(self, record: RunRecord) -> RunRecord:
        """A record as callers should see it: why its run waits, if that is known to nobody but this engine."""
        return explained(record, self.dispatcher, self.clock.now(), shared=self.store.shared)

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> RunRecord:
        """A run as callers see it."""
        record = await self.store.describe(namespace, workflow_id, run_id)
        if record is None:
            raise NotFound(f"workflow {workflow_id} not found")
        return record

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """A run's events after a seq, all pages of them."""
        events: list[Recorded] = []
        while True:
            page = await self.store.events(run_id, after)
            events.extend(page)
            if len(page) < HISTORY_PAGE:
                return events
            after = page[-1].seq

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait until a run is closed, or with `follow` its whole chain: the last run and its closing event."""
        while True:
            event = await self._closing(key)
            following = next_run_of(event) if follow else None
            if following is None:
                return key, event
            key = RunKey(key.namespace, key.workflow_id, following)

    async def _closing(self, key: RunKey) -> Event:
        known = key.run_id in self.committer.cache  # then it is open, as far as this engine knows
        while True:
            waiter = self.feed.closing(key.run_id)
            try:
                event = None if known else await self._already_closed(key)
                if event is not None:
                    return event
                if not self.store.shared:
                    return await waiter
                await asyncio.wait((waiter,), timeout=RESULT_POLL_SECONDS)
                if waiter.done():
                    return waiter.result()
                known = False  # another engine may have closed it
            finally:
                self.feed.forget(key.run_id, waiter)

    async def _already_closed(self, key: RunKey) -> Event | None:
        record = await self.store.describe(key.namespace, key.workflow_id, key.run_id)
        if record is None:
            raise NotFound(f"workflow {key.workflow_id} not found")
        if not record.run.closed:
            return None
        page = await self.store.events(key.run_id, record.run.last_seq - 1)
        return page[-1].event

    async def current(self, namespace: str, workflow_id: str) -> RunKey:
        """The key of the newest run of an id."""
        run = self.committer.cache.newest((Namespace(namespace), WorkflowId(workflow_id)))
        if run is not None and not self.store.shared:
            return run.key
        return (await self.describe(namespace, workflow_id)).run.key


HISTORY_PAGE = 10_000
__all__ = ["AssayError", "Engine"]
