"""THE WRITE PATH: every change of every run goes through here, in batches.

Requests that wait while a commit is in flight form the next batch. A batch loads the runs it touches, decides one
request after the other in memory, writes everything in one transaction and only then lets anybody hear of it (I1). A
refused request fails alone. An idle engine commits a single request at once: there is no window to wait for (R45).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from typing import Any

from assay.core.effects import Message
from assay.core.errors import AssayError, Kind, Unavailable
from assay.core.grants import Seat
from assay.core.ids import RunId, Time
from assay.core.replies import Told, telling
from assay.core.requests import Request
from assay.engine.clock import Clock
from assay.engine.commit.attempt import BatchAttempt, Tools
from assay.engine.commit.batch import Batch
from assay.engine.commit.cache import RunCache
from assay.engine.commit.idempotency import IdempotencyKey
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.unknown_outcome import was_written
from assay.engine.dispatcher import Dispatcher, Lease
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.store import Broken, Conflict, OutcomeUnknown, Rejected, Store

log = logging.getLogger("assay.engine")

MAX_BATCH = 256
"""Requests in one transaction: enough for full speed, few enough that nobody waits long for a stranger's work."""
WORTH_A_COMMIT = 32
"""Requests that are never split between two transactions: it would cost more than it gains."""


CONFLICTS = 3
"""How often a request may run into a constraint before that is its answer."""


class Undecidable(AssayError):
    """The engine met something that nobody thought of; nothing was changed, and to ask again would not help."""

    code = "internal_error"
    kind = Kind.INTERNAL


class Committed:
    """What others may know once a batch is durable."""

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
    """Takes requests, answers them when their outcome is durable."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: BlockIds,
        dispatcher: Dispatcher,
        presence: Presence,
        *,
        cache_limit: int = 10_000,
        halving: bool = False,
    ) -> None:
        """`halving` is for workers in other processes: they go to work on one half of what waits while this engine
        decides the other. Without it, all who ask together are answered together, and then both sides wait in turn."""
        self.cache = RunCache(cache_limit)
        self.answering = False
        """Are those who asked being told just now? What they have to pass on is sent when all of them know."""
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

    def submit(self, request: Request, key: IdempotencyKey | None = None) -> asyncio.Future[object]:
        """Ask for a request to be decided; the answer comes when it is durable, a refusal as an exception.

        With a key the answer is a `Rendered` one, refusals included, and the same each time the key is used.
        """
        future: asyncio.Future[object] = self._loop().create_future()
        self._ask(PendingRequest(request, telling(future), None, key))
        return future

    def _loop(self) -> asyncio.AbstractEventLoop:
        """The engine's loop, asked for once: asking costs a system call on some Pythons, and this is the hot path."""
        if self._own_loop is None:
            self._own_loop = asyncio.get_running_loop()
        return self._own_loop

    def post(self, request: Request, told: Told | None = None) -> None:
        """Like `submit`, for callers that are told and wait for nothing, or do not care for the answer."""
        self._ask(PendingRequest(request, told))

    def _lease(self, lease: Lease, seat: Seat) -> None:
        self._ask(PendingRequest(lease, None, seat))

    def _ask(self, asked: PendingRequest) -> None:
        if self._stopped is not None:
            asked.fail(self._stopped)
            return
        self._queue.append(asked)
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
        for asked in queue:
            asked.fail(reason)

    def _begin(self) -> None:
        """Flush a batch, but not before others of this turn of the loop have asked, too."""
        if self._tools.store.inline:
            self._loop().call_soon(self._flush_at_once)
        else:
            self._follow(self._flush_next())

    def _flush_at_once(self) -> None:
        """Without a task: a store that writes inline needs none, unless something has to be read first."""
        flushing = self._flush_next()
        try:
            waited = flushing.send(None)
        except StopIteration:
            self._go_on()
        except BaseException:
            self._flushing = False
            raise
        else:
            self._follow(_rest(flushing, waited))

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

    async def _flush_next(self) -> None:
        size = min(max(WORTH_A_COMMIT, len(self._queue) // 2), MAX_BATCH) if self._halving else MAX_BATCH
        batch, self._queue = self._queue[:size], self._queue[size:]
        await self._survive(batch)

    async def _survive(self, batch: list[PendingRequest]) -> None:
        """If what is durable cannot be told, for a reason nobody thought of, the engine goes on for the others (L2)."""
        try:
            await self._flush(batch)
        except BaseException as error:
            self.cache.clear()
            reason = Unavailable(f"the engine could not answer this: {error!r}", code="unanswered")
            for asked in batch:
                asked.fail(reason)
            if not isinstance(error, Exception):
                raise
            log.exception("a batch of %d requests failed", len(batch))

    async def _flush(self, asked: list[PendingRequest]) -> None:
        """One batch; what another engine was faster with is decided again, on what that engine left (R45)."""
        tries = 0
        while asked:
            turn = BatchAttempt(self._tools, asked)
            try:
                await turn.prepare()
                turn.decide()
                lost = await turn.write()
            except Conflict as conflict:
                self.cache.drop_all(turn.batch.touched.values())
                tries += 1
                if tries > CONFLICTS:
                    return turn.fail(conflict)
                turn.undo()
                if len(asked) > 1:
                    return await self._one_by_one(asked)
            except OutcomeUnknown as error:
                asked = await self._find_out(turn, error)
            except Rejected as error:
                return self._give_up(turn, error)
            except Exception as error:  # noqa: BLE001  # logged, and answered to whoever caused it
                asked = await self._stumble(turn, asked, error)
            else:
                asked = self._publish(turn, lost)

    async def _stumble(self, turn: BatchAttempt, asked: list[PendingRequest], error: Exception) -> list[PendingRequest]:
        """Nothing was written, for a reason nobody thought of: whoever caused it fails alone (L2). Returns the others.

        It is an answer and no `Unavailable`: what the engine cannot decide it cannot decide the next time either.
        """
        self.cache.drop_all(turn.batch.touched.values())
        culprit = asked[0] if len(asked) == 1 else turn.culprit
        if culprit is None:
            turn.undo()
            await self._one_by_one(asked)
            return []
        log.error("the engine could not decide %s", type(culprit.request).__name__, exc_info=error)
        turn.undo()
        if not isinstance(error, AssayError):
            error = Undecidable(f"the engine could not decide this: {error!r}")
        turn.refuse(culprit, error)
        return [one for one in asked if one is not culprit]

    async def _one_by_one(self, asked: Iterable[PendingRequest]) -> None:
        for single in asked:
            await self._flush([single])

    async def _find_out(self, turn: BatchAttempt, error: OutcomeUnknown) -> list[PendingRequest]:
        """Answer a batch whose COMMIT was not answered as the store knows it; return the requests to decide again."""
        commit = error.commit
        written = None if isinstance(error, Broken) else await was_written(self._tools.store, turn.batch, commit)
        if written:
            return self._publish(turn, frozenset() if commit is None else commit.lost)
        self._give_up(turn, error if written is None else Rejected(str(error)))
        return []

    def _give_up(self, turn: BatchAttempt, error: AssayError) -> None:
        """The store did not take the batch: nobody may believe that it did, and the cache must not either (I3)."""
        self.cache.drop_all(turn.batch.touched.values())
        turn.fail(error)
        for listener in self._losers:
            listener()
        if isinstance(error, Broken):
            self.stop(error)

    def _publish(self, turn: BatchAttempt, lost: frozenset[RunId]) -> list[PendingRequest]:
        """The batch is durable, and only now does anyone hear of it."""
        for run in turn.batch.touched.values():
            if run.closed_at is not None or run.run_id in lost:
                self.cache.drop(run)
            else:
                self.cache.put(run)
        self.cache.trim()
        self.answering = True
        try:
            again = turn.answer(lost)
        finally:
            self.answering = False
            for send in self._senders:
                send()
        committed = Committed(turn.batch, lost, turn.next_due)
        for listener in self._listeners:
            listener(committed)
        return again


async def _rest(work: Coroutine[Any, Any, None], waited: Any) -> None:
    """What is left of work that has begun without a task, and waits."""
    await _Rest(work, waited)


class _Rest:
    def __init__(self, work: Coroutine[Any, Any, None], waited: Any) -> None:
        self._work = work
        self._waited = waited

    def __await__(self) -> Generator[Any, Any, None]:
        waited = self._waited
        with contextlib.suppress(StopIteration):
            while True:
                try:
                    result = yield waited
                except BaseException as error:  # noqa: BLE001  # it is for the work to hear of it
                    waited = self._work.throw(error)
                else:
                    waited = self._work.send(result)
