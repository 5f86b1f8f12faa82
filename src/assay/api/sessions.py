"""One worker as the engine knows it: a `ConnectedWorker`, a memory of answers, and what waits to be told.

A session outlives its connections. What a worker repeats after a cut gets its first answer again; what was leased to
it and never sent goes back uncounted; what was sent and it does not name is sent again (R11).
"""

import asyncio
import contextlib
import functools
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from assay.api.orders import Orders
from assay.api.reports import answer_of, problem_of, request_of
from assay.core.errors import AssayError, Invalid, Unavailable
from assay.core.grants import ActivityGrant, TaskGrant
from assay.core.ids import Namespace, RunId, Time, WorkerId
from assay.core.limits import WORKER_LEASE
from assay.core.replies import Advanced
from assay.core.requests import Advance, Elapse, ExtendActivity, ExtendTask, ReleaseActivity, ReleaseTask, Request
from assay.core.rules.activities import HIGHEST_SEQ
from assay.core.slots import Slots
from assay.engine.dispatcher import task_grant
from assay.engine.engine import Engine
from assay.engine.reads import StoredRun
from assay.engine.tokens import Lease, Tokens, unknown
from assay.wire import exchange as wire

log = logging.getLogger("assay.exchange")
TASK: Final = -1
"""Stands for the seq of a workflow task among leases: those of activities begin with 0."""
MAX_SLOTS: Final = 100_000
"""Free slots of one kind that a worker is counted with at most."""
EVENTS_PER_HISTORY_READ: Final = 500
"""Events read at a time for a page of a history."""


class Session:
    """The engine's end of the protocol for one worker; to the dispatcher a `ConnectedWorker`."""

    local = False
    lease: Time | None = WORKER_LEASE

    def __init__(self, engine: Engine, tokens: Tokens, namespace: str, worker: str) -> None:
        self.worker = WorkerId(worker)
        self.namespace = Namespace(namespace)
        self.queue = ""
        self.workflows: frozenset[str] | None = None
        self.activities: frozenset[str] | None = None
        self.identity = ""
        self.slots = Slots()
        self.greetings = 0
        self.forgotten = False
        self.greeting = asyncio.Lock()
        self.heard = self.signed = asyncio.get_running_loop().time()
        self.orders = Orders(engine, tokens, namespace, worker)
        self._engine = engine
        self._added = False
        self._leaving = False
        self._runs: set[str] = set()
        self._freed = (0, 0)
        self._freed_processes = 0
        self._answers: OrderedDict[int, wire.Answer] = OrderedDict()
        self._pending: set[int] = set()
        self._forgotten = 0
        self._next = 0
        self._ahead: set[int] = set()
        """The number of the next message, and those that overtook it."""
        self._releasing: set[asyncio.Future[object]] = set()
        self._reading: set[asyncio.Task[None]] = set()

    # as a connected worker

    def holds(self, run_id: RunId) -> bool:
        """See `ConnectedWorker`."""
        return run_id in self._runs

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """See `ConnectedWorker`; a worker that has gone meanwhile never had it."""
        if not self._added:
            self._release(grant)
        elif isinstance(grant, ActivityGrant):
            self.orders.activity(grant)
        elif grant.tail is not None and (grant.seen_seq == 0 or grant.key.run_id in self._runs):
            self._runs.add(grant.key.run_id)
            self.orders.task(grant, grant.tail, grant.seen_seq)
        else:
            self._give(grant)

    def news(self, run_id: RunId) -> None:
        """See `ConnectedWorker`."""
        self.orders.news(run_id)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """See `ConnectedWorker`."""
        self.orders.cancel(attempt_id, over=over)

    # coming and going

    async def greet(self, hello: wire.Hello) -> None:
        """The worker is there, for the first time or again."""
        self.greetings += 1
        self.orders.ready.ring()  # whoever waits on its behalf from before has nothing more to wait for
        self.leave()
        self.orders.hush()
        self.queue = hello.queue
        self.identity = hello.identity
        self.workflows = None if hello.workflows is None else frozenset(hello.workflows)
        self.activities = None if hello.activities is None else frozenset(hello.activities)
        self._runs = set(hello.runs)
        self._freed = (0, 0)
        self._freed_processes = 0
        self.slots = Slots(
            min(hello.free_tasks, MAX_SLOTS),
            min(hello.free_activities, MAX_SLOTS),
            frozenset(hello.process_activities),
            min(hello.free_processes, MAX_SLOTS),
        )
        if hello.again:
            await self._settle()
            await self._repeat(hello.held)
        self._leaving = False
        self.join()

    def join(self) -> None:
        """Take work."""
        if not self._added and not self._leaving:
            self._added = True
            self._engine.add_worker(self)

    def leave(self) -> None:
        """Take no more work, and give back what was never sent, uncounted (R11)."""
        if self._added:
            self._added = False
            self._engine.remove_worker(self)
        for grant in self.orders.unsent():
            self._release(grant)

    def _release(self, grant: TaskGrant | ActivityGrant) -> None:
        self.slots.release(None if isinstance(grant, TaskGrant) else grant.activity.name)
        released = self._engine.submit(_given_back(grant, self.worker))
        self._releasing.add(released)
        released.add_done_callback(self._released)

    def _released(self, done: "asyncio.Future[object]") -> None:
        self._releasing.discard(done)
        if not done.cancelled() and isinstance(error := done.exception(), Unavailable):
            log.warning("a lease of %s could not be given back: %s", self.worker, error)

    async def _settle(self) -> None:
        """Until all that was leased to the vanished connection is either given back or in the store for certain."""
        nothing = self._engine.submit(Elapse(RunId("")))  # decided after everything that was asked before it
        await asyncio.gather(nothing, return_exceptions=True)
        while self._releasing:  # a lease that was decided with it is given back only now
            await asyncio.gather(*self._releasing, return_exceptions=True)

    async def _repeat(self, held: Iterable[str]) -> None:
        """Send again what is leased to the worker and it does not name; tell it what it names in vain."""
        named = set()
        for token in held:
            with contextlib.suppress(AssayError):
                lease = self._lease_of(token)
                named.add((lease.run_id, lease.seq if lease.activity else TASK, lease.fence))
        leased = {(lease.run_id, lease.seq, lease.fence) for lease in await self._engine.reads.leases(self.worker)}
        for run_id, seq, fence in leased & named:
            self._engine.post(_extended(run_id, seq, fence, self.worker))  # it lives, whoever doubted it
        lost = leased - named
        for run in await self._runs_of({run_id for run_id, _, _ in lost}):
            for run_id, seq, fence in lost:
                if run_id == run.run_id:
                    self._give_again(run, seq, fence)
        for _, seq, attempt_id in named - leased:
            if seq != TASK:
                self.orders.cancel(attempt_id)

    async def _runs_of(self, run_ids: set[RunId]) -> list[StoredRun]:
        return [run for run in await self._engine.reads.live_all(run_ids) if run.namespace == self.namespace]

    def _give_again(self, run: StoredRun, seq: int, fence: int) -> None:
        if seq != TASK:
            activity = run.activities.get(seq)
            if activity is not None and activity.attempt_id == fence and activity.worker == self.worker:
                self.slots.reserve(activity.name)
                self.orders.activity(ActivityGrant(run.key, run.start, activity))
        elif run.task.worker == self.worker and run.task.epoch == fence:
            self.slots.reserve()
            self._give(task_grant(run))

    # hearing

    def is_new(self, message: wire.WorkerMessage) -> bool:
        """Was this message not heard before, and no later hello either? It counts as heard now."""
        number = message.number
        if number == 0:
            return True
        if number == self._next and not self._ahead:  # as it should be
            self._next += 1
            return True
        if number < self._next or number in self._ahead:
            return False
        if message.hello is not None:
            self._next = number
            self._ahead.clear()
        self._ahead.add(number)
        while self._next in self._ahead:
            self._ahead.remove(self._next)
            self._next += 1
        return True

    def hear(self, message: wire.WorkerMessage) -> None:
        """Take in what the worker says."""
        self.heard = asyncio.get_running_loop().time()
        if message.leaving:
            self._leaving = True
            self.leave()
        elif not self._added:
            self.join()
        self._runs.difference_update(message.dropped)
        self._forget(message.answered)
        for report in message.reports:
            self._take_report(report)
        if message.freed is not None:
            processes = message.freed_processes
            if message.freed != self._freed or processes != self._freed_processes:
                self._free(message.freed, processes)

    def _free(self, freed: tuple[int, int], processes: int) -> None:
        before, self._freed = self._freed, freed
        self.slots.tasks += freed[0] - before[0]
        self.slots.activities += freed[1] - before[1]
        self.slots.processes += processes - self._freed_processes
        self._freed_processes = processes
        if self._added:
            self._engine.offer_work(self)

    def _forget(self, answered: int) -> None:
        if answered > self._forgotten:
            self._forgotten = answered
            answers = self._answers
            while answers and next(iter(answers)) < answered:
                answers.popitem(last=False)

    def unanswered(self, reports: Iterable[wire.Report]) -> bool:
        """Is any of these still being decided?"""
        return any(report.n in self._pending for report in reports)

    def _take_report(self, report: wire.Report) -> None:
        n = report.n
        if n < self._forgotten or n in self._pending:
            return
        known = self._answers.get(n)
        if known is not None:
            self.orders.answer(known)
            return
        self._pending.add(n)
        try:
            lease = self._lease_of(report.token)
            if isinstance(report, wire.ReadHistory):
                self._read(self._answer_history(report, lease))
                return
            request = request_of(report, lease, self._lease_of)
        except Exception as error:  # noqa: BLE001  # who reports waits for an answer, whatever happened
            self._answer(self._unanswerable(n, error))
            return
        self._engine.post(request, functools.partial(self._decided, n, lease, isinstance(request, Advance)))

    def _lease_of(self, token: str) -> Lease:
        """The lease of a token, which must be this worker's own and of this namespace (4.1)."""
        lease = self.orders.given(token)
        if lease is not None:
            return lease
        lease = self.orders.lease_of(token)
        if lease.namespace != self.namespace or lease.worker != self.worker:
            raise unknown()
        return lease

    def _decided(self, n: int, lease: Lease, turn: bool, reply: object, error: AssayError | None) -> None:
        if error is not None:
            self._answer(wire.Answer(n, problem_of(error)))
            if turn and error.code == "stale_task":
                self._refused(lease)
        elif isinstance(reply, Advanced):
            self._answer(self._advanced(n, lease, reply))
        else:
            self._answer(answer_of(n, reply))

    def _advanced(self, n: int, lease: Lease, reply: Advanced) -> wire.Answer:
        if reply.closed or not reply.accepted:
            self._runs.discard(lease.run_id)
        if reply.leased and reply.epoch != lease.fence:
            return wire.Answer(n, advanced=reply, token=self.orders.next_token(RunId(lease.run_id), reply.epoch))
        return wire.Answer(n, advanced=reply)

    def _refused(self, lease: Lease) -> None:
        """The worker drops the run now. If it repeated a turn whose answer was lost, it may still hold the task."""
        self._runs.discard(lease.run_id)
        run = self._engine.reads.live(RunId(lease.run_id))
        if run is not None and run.task.worker == self.worker and self._added:
            self.slots.reserve()
            self._give(task_grant(run))

    def _answer(self, answer: wire.Answer) -> None:
        self._pending.discard(answer.n)
        if answer.problem is None or answer.problem.kind != "UNAVAILABLE":
            self._answers[answer.n] = answer  # one that leaves the outcome open is no answer to keep
        self.orders.answer(answer)

    # reading

    def _read(self, reading: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    def _give(self, grant: TaskGrant) -> None:
        self._read(self._give_read(grant, self.greetings))

    async def _give_read(self, grant: TaskGrant, greeting: int) -> None:
        """Give a task with events from the store: those that are new to a worker that keeps the run, else all of them.

        A long history does not come with its task: the worker asks for it page by page. A hello that comes meanwhile
        has the task repeated by itself.
        """
        run_id, events = grant.key.run_id, None
        after = grant.seen_seq if run_id in self._runs else 0
        self._runs.add(run_id)
        if after or (grant.history_bytes <= wire.HISTORY_LIMIT and grant.last_seq <= EVENTS_PER_HISTORY_READ):
            with contextlib.suppress(AssayError):
                events = await self._engine.reads.events_after(run_id, after, EVENTS_PER_HISTORY_READ + 1)
        if self.greetings != greeting:
            return
        if not self._added:
            self._release(grant)
        elif events is None or len(events) > EVENTS_PER_HISTORY_READ:
            self.orders.task(grant, None, after)
        else:
            self.orders.task(grant, events, after)

    async def _answer_history(self, report: wire.ReadHistory, lease: Lease) -> None:
        try:
            answer = await self._history(report.n, RunId(lease.run_id), report.after)
        except Exception as error:  # noqa: BLE001  # as above
            answer = self._unanswerable(report.n, error)
        self._pending.discard(report.n)
        self.orders.answer(answer)

    def _unanswerable(self, n: int, error: Exception) -> wire.Answer:
        if not isinstance(error, AssayError):
            log.error("a report of %s could not be answered", self.worker, exc_info=error)
        return wire.Answer(n, problem_of(error))

    async def _history(self, n: int, run_id: RunId, after: int) -> wire.Answer:
        if not 0 <= after <= HIGHEST_SEQ:
            raise Invalid(f"after must be from 0 to {HIGHEST_SEQ}", field="after")
        found: list[wire.SentEvent] = []
        size, more = 0, True
        while more and size < wire.HISTORY_LIMIT:
            page = wire.sent(await self._engine.reads.events_after(run_id, after, EVENTS_PER_HISTORY_READ))
            found.extend(page)
            size += wire.size_of(page)
            more = len(page) == EVENTS_PER_HISTORY_READ
            after = page[-1].seq if page else after
        return wire.Answer(n, events=tuple(found), more=more)


def _extended(run_id: RunId, seq: int, fence: int, worker: WorkerId) -> Request:
    return (
        ExtendTask(run_id, worker, fence, WORKER_LEASE)
        if seq == TASK
        else ExtendActivity(run_id, seq, fence, WORKER_LEASE)
    )


def _given_back(grant: TaskGrant | ActivityGrant, worker: WorkerId) -> Request:
    if isinstance(grant, TaskGrant):
        return ReleaseTask(grant.key.run_id, worker, grant.epoch)
    return ReleaseActivity(grant.key.run_id, grant.activity.seq, grant.activity.attempt_id)
