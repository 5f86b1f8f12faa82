"""THE WRITE PATH: every change of every run goes through here, in batches.

Requests that wait while a commit is in flight form the next batch. A batch loads the runs it touches, decides one
request after the other in memory, leases what became ready, writes everything in one transaction and publishes it only
then (I1): `Committer._flush`, whose steps stand in `attempt.py`. A refused request fails alone. An idle engine commits
a single request at once: there is no window to wait for.
"""

import asyncio
import logging
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from assay.core.model.effects import Message
from assay.core.model.errors import AssayError, Kind, Unavailable
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, Time
from assay.core.model.limits import CACHE_BYTES
from assay.core.model.replies import ReplyCallback, telling
from assay.core.model.requests import Request
from assay.engine.clock import Clock
from assay.engine.commit.attempt import BatchAttempt, Tools
from assay.engine.commit.batch import Batch
from assay.engine.commit.cache import RunCache
from assay.engine.commit.fair_share import fair_share
from assay.engine.commit.idempotency import IdempotencyKey
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.unknown_outcome import was_written
from assay.engine.dispatch import Dispatcher, Lease
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.ports import Broken, Conflict, OutcomeUnknown, Rejected, Store

log = logging.getLogger("assay.engine")

MAX_BATCH = 256
"""Requests in one transaction: enough for full speed, few enough that nobody waits long for a stranger's work."""
WORTH_A_COMMIT = 32
"""Requests that are never split between two transactions: it would cost more than it gains."""


CONFLICTS = 3
"""How often a request may run into a constraint before that is its answer."""


class Undecidable(AssayError):
    """A request that the engine fails on because of a bug; nothing was changed, and a repetition would fail too."""

    code = "internal_error"
    kind = Kind.INTERNAL


class Committed:
    """What a batch made durable, for the listeners of the committer: without the runs that another engine won."""

    __slots__ = ("attempts", "born", "ended", "events", "messages", "next_due", "next_schedule", "tally")

    def __init__(self, batch: Batch, lost: frozenset[RunId], next_due: Time | None) -> None:
        changes = batch.changes
        self.events = batch.published
        self.ended = batch.ended
        self.born = changes.new_runs
        self.attempts = changes.attempts
        self.messages: Sequence[Message] = [message for run, message, _ in changes.messages if run not in lost]
        self.next_due = next_due
        self.next_schedule = batch.next_schedule
        self.tally = batch.tally
        if lost:
            self._leave_out(lost)

    def _leave_out(self, lost: frozenset[RunId]) -> None:
        self.events = [one for one in self.events if one[0].run_id not in lost]
        self.ended = [one for one in self.ended if one[0].run_id not in lost]
        self.born = [run for run in self.born if run.run_id not in lost]
        self.attempts = [end for end in self.attempts if end.run.run_id not in lost]


class Committer:
    """The write path: takes requests and answers them when their outcome is durable."""

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
        """`halving` is for workers in other processes: they go to work on one half of what waits while this engine
        decides the other. Without it, all who ask together are answered together, and then both sides wait in turn."""
        self.cache = RunCache(cache_limit, cache_bytes)
        self.answering = False
        """True while replies are delivered. Messages to workers that result from them are sent once, after the last."""
        self._tools = Tools(store, clock, ids, dispatcher, self.cache, presence)
        self._halving = halving
        self._queue: list[PendingRequest] = []
        self._flushing = False
        self._flusher: asyncio.Task[None] | None = None
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._stopped: AssayError | None = None
        self._listeners: list[Callable[[Committed], None]] = []
        self._senders: list[Callable[[], None]] = []
        self._enders: list[Callable[[AssayError], None]] = []
        self._losers: list[Callable[[], None]] = []
        dispatcher.connect(self._lease)

    def listen(self, listener: Callable[[Committed], None]) -> None:
        """Call `listener` after each commit, in order of commits."""
        self._listeners.append(listener)

    def on_answers(self, listener: Callable[[], None]) -> None:
        """Call `listener` as soon as all who asked in a batch have their answers: somebody may have to send them."""
        self._senders.append(listener)

    def on_stop(self, listener: Callable[[AssayError], None]) -> None:
        """Call `listener` when nothing more will be committed."""
        self._enders.append(listener)

    def on_loss(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a batch was not written: what it was to do is still to be done."""
        self._losers.append(listener)

    def submit(
        self, request: Request, key: IdempotencyKey | None = None, caller: str | None = None
    ) -> asyncio.Future[object]:
        """Ask for a request to be decided; the answer comes when it is durable, a refusal as an exception.

        With a key the answer is a `Rendered` one, refusals included, and the same each time the key is used. With a
        caller, the namespace of one over the network, the request waits for its turn among those of other namespaces.
        """
        future: asyncio.Future[object] = self._loop().create_future()
        self._enqueue(PendingRequest(request, telling(future), None, key, caller))
        return future

    def _loop(self) -> asyncio.AbstractEventLoop:
        """The engine's loop, asked for once: asking costs a system call on some Pythons, and this is the hot path."""
        if self._own_loop is None:
            self._own_loop = asyncio.get_running_loop()
        return self._own_loop

    def post(self, request: Request, told: ReplyCallback | None = None) -> None:
        """Like `submit`, for callers with a callback in place of a future, or without interest in the outcome."""
        self._enqueue(PendingRequest(request, told))

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
        """Why everything is refused, if it is."""
        return self._stopped

    async def drain(self) -> None:
        """Wait until everything asked so far is answered."""
        while self._flushing:
            if self._flusher is None or self._flusher.done():  # a moment before a flush, or after it
                await asyncio.sleep(0)
            else:
                await asyncio.shield(self._flusher)

    def stop(self, reason: AssayError) -> None:
        """Refuse everything from now on."""
        self._stopped = reason
        for listener in self._enders:
            listener(reason)
        queue, self._queue = self._queue, []
        for pending in queue:
            pending.fail(reason)

    # when to flush

    def _begin(self) -> None:
        """Flush a batch in the next iteration of the loop, so that other requests of this one join it."""
        if self._tools.store.inline:
            self._loop().call_soon(self._flush_at_once)
        else:
            self._follow(self._flush_next())

    def _flush_at_once(self) -> None:
        """Flush a batch without a task, as far as it goes without waiting.

        The write of an inline store (SQLite on the engine's own thread) never suspends, so a flush waits only where
        runs or ids have to be read first. The coroutine is therefore driven by hand: one `send` mostly runs it from
        load to publish. A task for every batch would cost its creation, a done callback and one more iteration of the
        loop: measured, 3 µs of CPU per batch, and 2 % of the calls of a workflow that runs alone (W4, three batches).
        In large batches it does not show.
        """
        flushing = self._flush_next()
        try:
            waited_for = flushing.send(None)
        except StopIteration:  # it ran to its end
            self._go_on()
        except BaseException:
            self._flushing = False
            raise
        else:  # it waits for something: a task takes over where it stands
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
        """Take the next batch from the queue and flush it; whatever happens, the engine goes on with the next one."""
        size = min(max(WORTH_A_COMMIT, len(self._queue) // 2), MAX_BATCH) if self._halving else MAX_BATCH
        if len(self._queue) <= size:  # the usual case: all that waits goes together, and nobody has to take turns
            requests, self._queue = self._queue, []
        else:
            requests, self._queue = fair_share(self._queue, size)
        try:
            await self._flush(requests)
        except BaseException as error:
            # `_flush` answers errors of the store and of decisions itself. An error in its own handling, or in
            # publishing, leaves open what is durable: that is the answer, and the cache is not trusted any more.
            self.cache.clear()
            reason = Unavailable(f"the engine could not answer this: {error!r}", code="unanswered")
            for pending in requests:
                pending.fail(reason)  # those that are answered already keep their answer
            if not isinstance(error, Exception):
                raise
            log.exception("a batch of %d requests failed", len(requests))

    async def _flush(self, requests: list[PendingRequest]) -> None:
        """Commit a batch: load, decide, lease, write, publish.

        Each pass is one attempt at the requests that have no outcome yet. An attempt that is not written leaves nothing
        behind: its runs leave the cache, its reserved slots are released.
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
                # A unique constraint rolled the transaction back: another engine has created the same row, for example
                # the first run of a workflow id. Decide again on what it left. The store does not name the request that
                # is concerned, so each is committed by itself, and only the one that keeps failing is refused.
                self.cache.drop_all(attempt.batch.touched.values())
                conflicts += 1
                if conflicts > CONFLICTS:
                    return attempt.fail(conflict)
                attempt.release_slots()
                if len(requests) > 1:
                    return await self._one_by_one(requests)
                continue
            except OutcomeUnknown as error:
                # COMMIT was sent and not answered. Neither success nor failure may be assumed (I3): ask the store.
                written = await self._find_out(attempt, error)
                if written is None:
                    return None
                lost = written
            except Rejected as error:
                # The store took nothing and may take it later. Callers get the error; nothing is tried again here.
                return self._give_up(attempt, error)
            except Exception as error:  # noqa: BLE001  # logged, and answered to the request that caused it
                # A bug: the request that caused it fails alone, and the others are decided again without it.
                requests = await self._isolate(attempt, requests, error)
                continue
            # Durable. Requests about runs that another engine changed first (`lost`) come back, to be decided again on
            # what that engine wrote.
            requests = self._publish(attempt, lost)

    async def _one_by_one(self, requests: list[PendingRequest]) -> None:
        for single in requests:
            await self._flush([single])

    async def _find_out(self, attempt: BatchAttempt, error: OutcomeUnknown) -> frozenset[RunId] | None:
        """Return the lost runs of a batch that turns out to be durable; otherwise refuse it and return None."""
        commit = error.commit
        # After an I/O error nobody knows what is on disk, so the store is not asked.
        written = None if isinstance(error, Broken) else await was_written(self._tools.store, attempt.batch, commit)
        if written:
            return frozenset() if commit is None else commit.lost
        self._give_up(attempt, error if written is None else Rejected(str(error)))
        return None

    async def _isolate(
        self, attempt: BatchAttempt, requests: list[PendingRequest], error: Exception
    ) -> list[PendingRequest]:
        """Refuse the request that caused an unexpected error; return the others. Nothing was written.

        The refusal is final and no `Unavailable`: a request that the engine cannot decide now it cannot decide later.
        """
        self.cache.drop_all(attempt.batch.touched.values())
        attempt.release_slots()
        culprit = requests[0] if len(requests) == 1 else attempt.culprit
        if culprit is None:  # not raised by a decision: only trying each request alone finds the one
            await self._one_by_one(requests)
            return []
        log.error("the engine could not decide %s", type(culprit.request).__name__, exc_info=error)
        if not isinstance(error, AssayError):
            error = Undecidable(f"the engine could not decide this: {error!r}")
        attempt.refuse(culprit, error)
        return [pending for pending in requests if pending is not culprit]

    def _give_up(self, attempt: BatchAttempt, error: AssayError) -> None:
        """Refuse a batch that the store did not take; the cache must not hold what it decided (I3)."""
        self.cache.drop_all(attempt.batch.touched.values())
        attempt.fail(error)
        for listener in self._losers:
            listener()
        if isinstance(error, Broken):
            self.stop(error)

    def _publish(self, attempt: BatchAttempt, lost: frozenset[RunId]) -> list[PendingRequest]:
        """Answer callers, workers and listeners of a durable batch (I1); return the requests to decide again."""
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
            for send in self._senders:
                send()
        committed = Committed(attempt.batch, lost, attempt.next_due)
        for listener in self._listeners:
            listener(committed)
        return again


async def _rest(work: Coroutine[Any, Any, None], waited_for: Any) -> None:
    """Run the rest of a coroutine that was begun by hand and has yielded `waited_for`; a task needs a coroutine."""
    await _resume(work, waited_for)


@types.coroutine
def _resume(work: Coroutine[Any, Any, None], waited_for: Any) -> Generator[Any, Any, None]:
    """Pass what `work` yields to the task, and results and cancellation of the task to `work`.

    This is `yield from work` for a coroutine whose first yield has happened already.
    """
    try:
        while True:
            try:
                result = yield waited_for
            except BaseException as error:  # noqa: BLE001  # for example a cancellation: it is for `work` to handle
                waited_for = work.throw(error)
            else:
                waited_for = work.send(result)
    except StopIteration:
        return
