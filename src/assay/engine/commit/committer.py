"""The write path: every change of every run is committed here, in batches.

Requests that arrive while a commit is in flight form the next batch. `Committer._flush` commits a batch: load the runs,
decide the requests in order, lease the work that became ready, write everything in one transaction, and only after
COMMIT publish the outcome (I1). The steps are methods of `BatchAttempt`.

Batches form by themselves, without a timer. An idle engine commits a single request at once; under load the requests
that arrive during a commit share the next. A timer would add its delay to each request of an idle engine, and gain
nothing under load.
"""

import asyncio
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any

from assay.core.model.effects import OutboxMessage
from assay.core.model.errors import AssayError, Kind, Unavailable
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, Time
from assay.core.model.limits import CACHE_BYTES
from assay.core.model.replies import ReplyCallback, future_callback
from assay.core.model.requests import Request
from assay.engine.clock import Clock
from assay.engine.commit.attempt import BatchAttempt
from assay.engine.commit.audit_note import AuditNote
from assay.engine.commit.batch import Batch
from assay.engine.commit.cache import RunCache
from assay.engine.commit.fair_share import fair_share
from assay.engine.commit.idempotency import IdempotencyKey
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.tools import Tools
from assay.engine.commit.unknown_outcome import was_written
from assay.engine.dispatch import Dispatcher, Lease
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.ports import Broken, Conflict, OutcomeUnknown, Rejected, Store

log = logging.getLogger("assay.engine")

MAX_BATCH_REQUESTS = 256
"""Most requests of one transaction. Larger batches are no faster, and each request waits for its whole batch."""
MIN_BATCH_REQUESTS = 32
"""Fewest requests that a batch takes from a longer queue: smaller batches cost more fsyncs than they save time."""
MAX_CONFLICTS = 3
"""Conflicts with another engine's rows after which a request is refused instead of decided again."""


class Undecidable(AssayError):
    """A request whose decision raised an unexpected error: a bug. Nothing was changed; a repetition fails as well."""

    code = "internal_error"
    kind = Kind.INTERNAL


class Committed:
    """The durable part of a batch, for listeners: without the runs that another engine changed first."""

    __slots__ = (
        "attempts",
        "ended",
        "events",
        "mailed",
        "messages",
        "new_runs",
        "next_due",
        "next_schedule",
        "tally",
        "updated",
    )  # fmt: skip

    def __init__(self, batch: Batch, lost: frozenset[RunId], next_due: Time | None) -> None:
        changes = batch.changes
        self.events = batch.published
        self.ended = batch.ended
        self.new_runs = changes.new_runs
        self.attempts = changes.attempts
        self.messages: Sequence[OutboxMessage] = [message for run, message, _ in changes.messages if run not in lost]
        self.updated: Sequence[RunId] = [run_id for run_id, _ in changes.updates if run_id not in lost]
        """Runs with news about updates."""
        self.mailed: Sequence[str] = [letter.mailbox for letter in changes.mail if letter.owner not in lost]
        """Mailboxes with new mail."""
        self.next_due = next_due
        self.next_schedule = batch.next_schedule
        self.tally = batch.tally
        if lost:
            self._leave_out(lost)

    def _leave_out(self, lost: frozenset[RunId]) -> None:
        self.events = [(run, events) for run, events in self.events if run.run_id not in lost]
        self.ended = [(run, closing) for run, closing in self.ended if run.run_id not in lost]
        self.new_runs = [run for run in self.new_runs if run.run_id not in lost]
        self.attempts = [end for end in self.attempts if end.run.run_id not in lost]


class Committer:
    """The write path of one engine: queues requests, commits them in batches, replies after COMMIT."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: BlockIds,
        dispatcher: Dispatcher,
        presence: Presence,
        *,
        cache_limit: int = 10_000,
        cache_bytes: int = CACHE_BYTES,
        halving: bool = False,
    ) -> None:
        """Create a committer with an empty queue and cache.

        Args:
            store: The store that batches are read from and written to.
            clock: The clock of decisions.
            ids: The source of run ids and activity ids.
            dispatcher: Finds workers for ready work, and submits leases of queued work through this committer.
            presence: Shows whether the engine was suspended, in which case no lease may end yet.
            cache_limit: Most runs in the cache.
            cache_bytes: Most bytes of runs in the cache.
            halving: Commit half of a long queue at a time. Workers in other processes then work on the first half while
                this engine decides the second. Without halving, engine and workers wait for each other in turn.
        """
        self.cache = RunCache(cache_limit, cache_bytes)
        self.answering = False
        """True while replies are delivered. Messages to workers that result from them are sent once, after the last."""
        self._tools = Tools(store, clock, ids, dispatcher, self.cache, presence)
        self._halving = halving
        self._queue: list[PendingRequest] = []
        self._flushing = False
        """True from the first request in the queue until the queue is empty: at most one flush runs at a time."""
        self._flusher: asyncio.Task[None] | None = None
        """The task of the running flush; None while no flush runs, and for a flush that runs without a task."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._stopped: AssayError | None = None
        self._commit_listeners: list[Callable[[Committed], None]] = []
        self._answers_listeners: list[Callable[[], None]] = []
        self._stop_listeners: list[Callable[[AssayError], None]] = []
        self._loss_listeners: list[Callable[[], None]] = []
        dispatcher.connect(self._lease)

    def create_namespaces_with(self, create: Callable[[str], Awaitable[None]]) -> None:
        """Call `create` before a child is started in a namespace other than its parent's."""
        self._tools.create_namespace = create

    def listen(self, listener: Callable[[Committed], None]) -> None:
        """Call `listener` after each commit, in order of commits."""
        self._commit_listeners.append(listener)

    def on_answers(self, listener: Callable[[], None]) -> None:
        """Call `listener` after the last reply of each batch, to send the messages produced by the replies."""
        self._answers_listeners.append(listener)

    def on_stop(self, listener: Callable[[AssayError], None]) -> None:
        """Call `listener` with the reason when the committer stops: no commit follows."""
        self._stop_listeners.append(listener)

    def on_loss(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a batch was not written: leases and messages of the batch remain to be sent."""
        self._loss_listeners.append(listener)

    def submit(
        self,
        request: Request,
        key: IdempotencyKey | None = None,
        caller: str | None = None,
        audit: AuditNote | None = None,
    ) -> asyncio.Future[object]:
        """Queue a request; return a future of its reply, done once the outcome is durable.

        Args:
            request: The change.
            key: The caller's idempotency key. The result is then a `Rendered` answer, refusals included, and the same
                for every use of the key.
            caller: The namespace of a caller over the network. In a long queue namespaces take turns (`fair_share`).
            audit: The audit of the request, written with its effect if it is accepted.

        Returns:
            A future; a refusal is its exception.
        """
        future: asyncio.Future[object] = self._loop().create_future()
        self._enqueue(PendingRequest(request, future_callback(future), None, key, caller, audit))
        return future

    def _loop(self) -> asyncio.AbstractEventLoop:
        """Return the engine's event loop. Looked up once: the lookup costs a system call in some Python versions."""
        if self._own_loop is None:
            self._own_loop = asyncio.get_running_loop()
        return self._own_loop

    def post(self, request: Request, callback: ReplyCallback | None = None) -> None:
        """Queue a request like `submit`, without a future: `callback` gets the outcome, or the outcome is dropped.

        A callback runs in the loop iteration of its commit. A future would wake its waiter one iteration later.
        """
        self._enqueue(PendingRequest(request, callback))

    def _lease(self, lease: Lease, worker: ConnectedWorker) -> None:
        self._enqueue(PendingRequest(lease, None, worker))

    def _enqueue(self, pending: PendingRequest) -> None:
        if self._stopped is not None:
            pending.fail(self._stopped)
            return
        self._queue.append(pending)
        if not self._flushing:
            self._flushing = True
            self._begin()

    @property
    def stopped(self) -> AssayError | None:
        """The error that refuses every request from now on; None while the committer works."""
        return self._stopped

    async def drain(self) -> None:
        """Wait until every queued request has its reply."""
        while self._flushing:
            if self._flusher is None or self._flusher.done():  # a flush is scheduled, or has just ended: no task yet
                await asyncio.sleep(0)
            else:
                await asyncio.shield(self._flusher)  # a cancelled `drain` must not cancel the flush

    def stop(self, reason: AssayError) -> None:
        """Refuse queued and later requests with `reason`."""
        self._stopped = reason
        for listener in self._stop_listeners:
            listener(reason)
        queue, self._queue = self._queue, []
        for pending in queue:
            pending.fail(reason)

    # when to flush

    def _begin(self) -> None:
        """Flush a batch in the next iteration of the loop: further requests of this iteration join the batch."""
        if self._tools.store.inline:
            self._loop().call_soon(self._flush_at_once)
        else:
            self._follow(self._flush_next())

    def _flush_at_once(self) -> None:
        """Flush a batch without creating a task, as long as no step has to wait.

        The write of an inline store (SQLite on the engine's own thread) never suspends, and a flush suspends only to
        read runs or reserve ids. The coroutine is therefore driven by hand: most batches run from load to publish in a
        single `send`. A task per batch costs its creation, a done callback and a further iteration of the loop:
        measured, 3 µs of CPU per batch, 2 % for a workflow that runs alone, nothing in large batches.
        """
        flushing = self._flush_next()
        try:
            waited_for = flushing.send(None)
        except StopIteration:  # the coroutine returned: the batch is published
            self._go_on()
        except BaseException:
            self._flushing = False
            raise
        else:  # the coroutine has suspended on a future: a task continues from this point
            self._follow(_rest(flushing, waited_for))

    def _follow(self, flushing: Coroutine[Any, Any, None]) -> None:
        self._flusher = self._loop().create_task(flushing)
        self._flusher.add_done_callback(self._flushed)

    def _flushed(self, flusher: asyncio.Task[None]) -> None:
        self._flusher = None
        if flusher.cancelled():
            self._flushing = False
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._queue:
            self._begin()
        else:
            self._flushing = False

    # the flush

    async def _flush_next(self) -> None:
        """Flush the next batch of the queue; an error of this batch must not stop later ones."""
        size = MAX_BATCH_REQUESTS
        if self._halving:
            size = min(max(MIN_BATCH_REQUESTS, len(self._queue) // 2), MAX_BATCH_REQUESTS)
        if len(self._queue) <= size:  # the usual case: the batch is the whole queue, and fairness costs nothing
            requests, self._queue = self._queue, []
        else:
            requests, self._queue = fair_share(self._queue, size)
        try:
            await self._flush(requests)
        except BaseException as error:
            # `_flush` replies to errors of the store and of decisions itself. An error here comes from publishing or
            # from error handling, and the batch may be durable or not. Callers get exactly this reply, and the cache is
            # cleared: its runs may differ from the store's.
            self.cache.clear()
            reason = Unavailable(f"the outcome of this request is unknown: {error!r}", code="unanswered")
            for pending in requests:
                pending.fail(reason)  # no-op for requests with a reply
            if not isinstance(error, Exception):
                raise
            log.exception("a batch of %d requests failed", len(requests))

    async def _flush(self, requests: list[PendingRequest]) -> None:
        """Commit a batch: load, decide, lease, write, publish.

        Each pass of the loop is an attempt at the requests without an outcome. Invariant: an attempt that was not
        written leaves no trace. Its decisions were folded into the very objects of the cache: these runs are dropped
        from the cache, and the reserved worker slots are released.
        """
        conflicts = 0
        while requests:
            attempt = BatchAttempt(self._tools, requests)
            try:
                await attempt.load()
                attempt.decide()
                attempt.lease()
                lost = await attempt.write()
            except Conflict as conflict:
                # A unique constraint rolled the transaction back: another engine has inserted the same row, for example
                # the first run of a workflow id. Decide again on the other engine's rows. The store does not name the
                # request at fault: commit each request alone, and refuse only a request that keeps failing.
                self.cache.drop_all(attempt.batch.touched.values())
                conflicts += 1
                if conflicts > MAX_CONFLICTS:
                    return attempt.fail(conflict)
                attempt.release_slots()
                if len(requests) > 1:
                    return await self._one_by_one(requests)
                continue
            except OutcomeUnknown as error:
                # COMMIT was sent and not confirmed. Assume neither success nor failure (I3): query the store.
                written = await self._find_out(attempt, error)
                if written is None:
                    return None
                lost = written
            except Rejected as error:
                # The store rolled back, and may accept a later write. Callers get the error and decide about a retry:
                # a retry here would hold up every other request while the store is away.
                return self._give_up(attempt, error)
            except Exception as error:  # noqa: BLE001  # logged, and sent to the caller of the request at fault
                # A bug. The request at fault fails alone; the other requests are decided again.
                requests = await self._isolate(attempt, requests, error)
                continue
            # Durable. Another engine changed the runs in `lost` first: the store left them out of the transaction, and
            # their requests are decided again on the other engine's rows.
            requests = self._publish(attempt, lost)

    async def _one_by_one(self, requests: list[PendingRequest]) -> None:
        for single in requests:
            await self._flush([single])

    async def _find_out(self, attempt: BatchAttempt, error: OutcomeUnknown) -> frozenset[RunId] | None:
        """Return the lost runs if the batch proves durable; otherwise refuse the batch and return None."""
        commit = error.commit
        # After an I/O error a read may return pages that never reached the disk: do not query the store.
        written = None if isinstance(error, Broken) else await was_written(self._tools.store, attempt.batch, commit)
        if written:
            return frozenset() if commit is None else commit.lost
        self._give_up(attempt, error if written is None else Rejected(str(error)))
        return None

    async def _isolate(
        self, attempt: BatchAttempt, requests: list[PendingRequest], error: Exception
    ) -> list[PendingRequest]:
        """Refuse the request at fault for an unexpected error; return the remaining requests. Nothing was written.

        The refusal is `Undecidable`, not `Unavailable`: the same request would raise the same error again.
        """
        self.cache.drop_all(attempt.batch.touched.values())
        attempt.release_slots()
        culprit = requests[0] if len(requests) == 1 else attempt.culprit
        if culprit is None:  # not raised by a decision: commit each request alone to find the request at fault
            await self._one_by_one(requests)
            return []
        log.error("the engine could not decide %s", type(culprit.request).__name__, exc_info=error)
        if not isinstance(error, AssayError):
            error = Undecidable(f"the engine could not decide this: {error!r}")
        attempt.refuse(culprit, error)
        return [pending for pending in requests if pending is not culprit]

    def _give_up(self, attempt: BatchAttempt, error: AssayError) -> None:
        """Refuse a batch that was not written, and drop its runs from the cache: they hold discarded decisions.

        `Broken` is final: the state on disk is unknown, and the committer stops instead of writing more (I3).
        """
        self.cache.drop_all(attempt.batch.touched.values())
        attempt.fail(error)
        for listener in self._loss_listeners:
            listener()
        if isinstance(error, Broken):
            self.stop(error)

    def _publish(self, attempt: BatchAttempt, lost: frozenset[RunId]) -> list[PendingRequest]:
        """Reply to callers, send leases and call listeners for a durable batch; return the requests to decide again."""
        # The cache first: a reply may run a caller's code at once, and its next request must find the committed run.
        for run in attempt.batch.touched.values():
            if run.closed_at is not None or run.run_id in lost:
                self.cache.drop(run)
            else:
                self.cache.put(run)
        self.cache.trim()
        self.answering = True
        try:
            again = attempt.answer(lost)
        finally:
            self.answering = False
            for send in self._answers_listeners:
                send()
        # Listeners after replies: timers, streams and waiting callers may come later, the worker's next task may not.
        committed = Committed(attempt.batch, lost, attempt.next_due)
        for listener in self._commit_listeners:
            listener(committed)
        return again


async def _rest(work: Coroutine[Any, Any, None], waited_for: Any) -> None:
    """Run the rest of a coroutine that has yielded `waited_for`; a task accepts coroutines only."""
    await _resume(work, waited_for)


@types.coroutine
def _resume(work: Coroutine[Any, Any, None], waited_for: Any) -> Generator[Any, Any, None]:
    """Pass futures from `work` to the task, and results and cancellation from the task to `work`.

    This is `yield from work` after the first yield of `work`: `await work` would drop the pending future.
    """
    try:
        while True:
            try:
                result = yield waited_for
            except BaseException as error:  # noqa: BLE001  # for example a cancellation, which `work` has to handle
                waited_for = work.throw(error)
            else:
                waited_for = work.send(result)
    except StopIteration:
        return
