"""The public interface of the engine: changes, reads, workers and notifications are methods of `Engine`.

Callers outside this package hold an `Engine` and never its parts, so that parts can change without them. Reads are in
`Engine.reads`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from assay.core.model.errors import AssayError, NotFound, Unavailable
from assay.core.model.events import Event, next_run_of
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import Namespace, RunKey, Time
from assay.core.model.limits import CACHE_BYTES, STARTUP_GRACE
from assay.core.model.replies import ReplyCallback, Started
from assay.core.model.requests import Request, StartWorkflow
from assay.engine.clock import Clock, SharedClock, SystemClock
from assay.engine.clock_keeper import ClockKeeper, clock_offset
from assay.engine.commit.audit_note import AuditNote
from assay.engine.commit.committer import Committed, Committer
from assay.engine.commit.idempotency import IdempotencyKey, check_same
from assay.engine.dispatch import Dispatcher
from assay.engine.feed import Feed
from assay.engine.ids import BlockIds
from assay.engine.lease_log import log_lost_leases
from assay.engine.mail import Mail
from assay.engine.outbox_relay import OutboxRelay
from assay.engine.presence import Presence
from assay.engine.reads import Reads
from assay.engine.ready_reader import READY_PAGE_ENTRIES, ReadyReader
from assay.engine.reaper import Reaper
from assay.engine.scheduler import Scheduler
from assay.engine.service import Loop
from assay.engine.timekeeper import Timekeeper
from assay.engine.unserved import explained, with_served
from assay.storage.ports import RunFilter, RunRecord, Store

log = logging.getLogger("assay.engine")
RESULT_POLL_SECONDS = 1.0
RECOVERY_SECONDS = 0.5
"""Pause after a failed write before the store is read for lost work."""

__all__ = ["AssayError", "Committed", "Engine", "Gauges"]


class Gauges(msgspec.Struct, frozen=True):
    """Values of an engine at one moment, for metrics."""

    now: Time
    clock_offset: Time
    """Engine time minus wall clock."""
    wal_bytes: int | None = None
    """The size of the write-ahead log on SQLite."""


class Engine:
    """An engine on a store, from `start` to `stop`.

    A change is a `Request`: `submit` and `post` decide and write it, in a batch with other requests. Workers are added
    with `add_worker` and receive tasks from then on. `reads` has all reads.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock | None = None,
        *,
        ids: BlockIds | None = None,
        cache_limit: int = 10_000,
        cache_bytes: int = CACHE_BYTES,
        halving: bool = False,
        task_lease: Time = STARTUP_GRACE,
        ready_page: int = READY_PAGE_ENTRIES,
    ) -> None:
        self._store = store
        self._clock = clock or (SharedClock() if store.shared else SystemClock())
        self._dispatcher = Dispatcher(shared=store.shared)
        self._reader = ReadyReader(store, self._clock, self._dispatcher, ready_page)
        presence = Presence(self._clock)
        self._committer = Committer(
            store,
            self._clock,
            ids or BlockIds(self._clock),
            self._dispatcher,
            presence,
            cache_limit=cache_limit,
            cache_bytes=cache_bytes,
            halving=halving,
        )
        workers = self._dispatcher.workers
        self.reads = Reads(store, self._clock, self._committer.cache, self._explained, self._with_served, workers)
        self._feed = Feed()
        self.mail = Mail(store, self._feed, self._committer.submit, self._clock)
        self._outbox_relay = OutboxRelay(store, self._clock, self._committer)
        self._reaper = Reaper(store, self._clock, self._committer, self._dispatcher, self._reader, task_lease)
        self._timekeeper = Timekeeper(store, self._clock, self._committer, presence, self._reaper.extend_leases)
        self._clock_keeper = ClockKeeper(store, self._clock, presence)
        self._scheduler = Scheduler(store, self._clock, self._committer)
        self._loops = {
            "timekeeper": Loop(self._timekeeper, self._clock),
            "outbox_relay": Loop(self._outbox_relay, self._clock),
            "reaper": Loop(self._reaper, self._clock),
            "clock": Loop(self._clock_keeper, self._clock),
        }
        self._dispatcher.on_join(self._joined)
        self._dispatcher.on_shortage(self._loops["reaper"].wake)
        self._clock_keeper.on_tick(self._keep_time)
        self._clock_keeper.on_step_back(self._scheduler.look_back)
        self._committer.listen(self._committed)
        self._committer.on_stop(self._feed.end)
        self._committer.on_loss(self._lost)
        self._outbox_relay.on_failure(self._lost)

    # life

    async def start(self) -> None:
        """Open the store, take over the predecessor's work, and start timers and background services.

        Raises:
            AssayError: the store cannot be opened, or another engine holds it.
        """
        await self._store.open()
        await self._clock_keeper.begin()
        await self._reaper.run_once()
        await self._outbox_relay.run_once()
        await self._scheduler.take_over()
        for loop in self._loops.values():
            loop.start()
        self._store.subscribe(self._loops["reaper"].wake, self._feed.look_again)

    async def stop(self) -> None:
        """Reply to the requests in flight, refuse later requests with `engine_stopped`, and close the store."""
        for loop in self._loops.values():
            await loop.stop()
        await self._committer.drain()
        stopped = Unavailable("the engine is stopped", code="engine_stopped")
        self._committer.stop(stopped)
        await self._store.close()

    @property
    def stopped(self) -> AssayError | None:
        """The error that refuses every change from now on; None while the engine works."""
        return self._committer.stopped

    async def check_ready(self) -> None:
        """Read the store once; raise an error if changes or reads do not work now."""
        await self._store.next_due()
        if self._committer.stopped is not None:
            raise self._committer.stopped

    def now(self) -> Time:
        """Return engine time, in microseconds since 1970; it never goes back, whatever the wall clock does."""
        return self._clock.now()

    def measure(self) -> Gauges:
        """Return the values for metrics: engine time, its offset from the wall clock, the size of the WAL."""
        return Gauges(self._clock.now(), clock_offset(self._clock), self._store.wal_bytes)

    # changes

    def submit(
        self,
        request: Request,
        key: IdempotencyKey | None = None,
        *,
        caller: Namespace | str | None = None,
        audit: AuditNote | None = None,
    ) -> asyncio.Future[Any]:
        """Decide and write a request; must be called on the engine's event loop.

        Args:
            request: the change, for example `StartWorkflow` or `Signal`.
            key: makes a repetition safe: the same key gets the first outcome again, and no second effect.
            caller: the namespace of a caller over the network; in a long queue, namespaces take turns.
            audit: the audit of the request, written with its effect if it is accepted.

        Returns:
            A future of the reply to `request` (`core/model/replies.py`), done when the outcome is durable (I1). A
            refusal is its exception. With a key the result is a `Rendered` answer, for refusals too.
        """
        return self._committer.submit(request, key, caller, audit)

    def post(self, request: Request, callback: ReplyCallback | None = None) -> None:
        """Decide and write a request like `submit`, without a future: the hot path of workers.

        Args:
            request: the change.
            callback: called once with reply and error, one of them None, when the outcome is durable.
        """
        self._committer.post(request, callback)

    async def check_repeated(self, request: StartWorkflow, reply: Started) -> None:
        """Raise `Invalid` if a start that repeats a request id differs from the first start with this id."""
        await check_same(self._store, request, reply)

    async def wait_closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait until a run is closed.

        Args:
            key: the run.
            follow: wait for the last run of the chain: retries, cron runs and continue-as-new.

        Returns:
            The last run of the chain (without `follow`: the run itself), and its closing event.

        Raises:
            NotFound: the store has no such run.
            Unavailable: the engine stopped first.
        """
        while True:
            event = await self._closing(key)
            following = next_run_of(event) if follow else None
            if following is None:
                return key, event
            key = RunKey(key.namespace, key.workflow_id, following)

    # workers

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Add a worker: the engine sends it tasks of its queue, up to its free slots, until `remove_worker`."""
        self._dispatcher.add_worker(worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Send a worker no more tasks; its leases stay until they are reported, released or run out."""
        self._dispatcher.remove_worker(worker)

    def offer_work(self, worker: ConnectedWorker) -> None:
        """Lease queued work to a worker after slots became free; no-op for a removed worker."""
        self._dispatcher.offer_work(worker)

    async def find_work(self, worker: ConnectedWorker) -> None:
        """Read ready work for an added worker from the store now, and lease it to the worker's free slots."""
        if self._reader.has_unread(worker) and (worker.slots.tasks > 0 or worker.slots.activities > 0):
            await self._reader.find_work(worker)

    # notifications

    def on_commit(self, listener: Callable[[Committed], None]) -> None:
        """Call `listener` after each commit, in the order of commits, with the durable changes."""
        self._committer.listen(listener)

    def create_namespaces_with(self, create: Callable[[str], Awaitable[None]]) -> None:
        """Call `create` before a child is started in a namespace other than its parent's."""
        self._committer.create_namespaces_with(create)

    def on_replies(self, listener: Callable[[], None]) -> None:
        """Call `listener` after the last reply of each batch: messages produced by replies can be sent together."""
        self._committer.on_answers(listener)

    @property
    def replying(self) -> bool:
        """True while the replies of a batch are delivered; `on_replies` listeners are called after the last."""
        return self._committer.answering

    def on_idle_activity(self, listener: Callable[[Namespace, str, str], None]) -> None:
        """Call `listener` with namespace, queue and name of a ready activity without a free worker."""
        self._dispatcher.on_idle_activity(listener)

    # parts

    def _joined(self, worker: ConnectedWorker) -> bool:
        """Return whether the store must be read for a new worker, and if so, wake the service that reads."""
        unread = self._reader.has_unread(worker)
        if unread:
            self._loops["reaper"].wake()
        return unread

    def _committed(self, committed: Committed) -> None:
        if committed.ended:
            for run, _ in committed.ended:
                self._dispatcher.drop(run.run_id)
            self._feed.publish(committed)
        if committed.updated or committed.mailed:
            self._feed.notify((*committed.updated, *committed.mailed))
        if committed.attempts or committed.tally.expired:
            log_lost_leases(committed)
        if committed.messages:
            self._outbox_relay.deliver(committed)
        if committed.ended:
            self._scheduler.continue_after(committed)
        if self._timekeeper.note_deadlines(committed):
            self._loops["timekeeper"].wake()

    def _keep_time(self) -> None:
        if self._timekeeper.is_due():
            self._loops["timekeeper"].wake()

    def _lost(self) -> None:
        asyncio.get_running_loop().call_later(RECOVERY_SECONDS, self._recover)

    def _recover(self) -> None:
        """Read the store for work and messages of a failed batch: the queues in memory have lost them."""
        self._reader.forget()
        self._outbox_relay.deliver_all_next()
        self._loops["outbox_relay"].wake()
        self._loops["reaper"].wake()

    def _explained(self, record: RunRecord) -> RunRecord:
        """Return a record, with the reason if its run is stuck because no connected worker serves its type."""
        return explained(record, self._dispatcher, self._clock.now(), shared=self._store.shared)

    def _with_served(self, wanted: RunFilter) -> RunFilter:
        """Return a filter with the types served by this engine's workers, if the filter is for stuck runs."""
        return with_served(wanted, self._dispatcher, self._clock.now(), shared=self._store.shared)

    async def _closing(self, key: RunKey) -> Event:
        open_here = key.run_id in self._committer.cache  # the cache holds open runs only: no read is needed
        while True:
            # The future before the read: a close between read and wait must not be missed.
            waiter = self._feed.closing(key.run_id)
            try:
                event = None if open_here else await self._already_closed(key)
                if event is not None:
                    return event
                if self._store.shared:
                    # Another engine may close the run. Its hint is fast but may be lost; the poll is certain.
                    await asyncio.wait((waiter,), timeout=RESULT_POLL_SECONDS)
                    event = waiter.result() if waiter.done() else None
                else:  # without `asyncio.wait`, which costs a future and a callback more for each result
                    event = await waiter
                if event is not None:
                    return event
                open_here = False
            finally:
                self._feed.forget(key.run_id, waiter)

    async def _already_closed(self, key: RunKey) -> Event | None:
        record = await self._store.describe(key.namespace, key.workflow_id, key.run_id)
        if record is None:
            raise NotFound(f"workflow {key.workflow_id} not found")
        if not record.run.closed:
            return None
        page = await self._store.events(key.run_id, record.run.last_seq - 1)
        return page[-1].event
