"""The engine's end of the protocol for one worker: messages in, requests to the engine and messages out.

An endpoint outlives connections. A report repeated after a lost connection gets its first answer again. A lease that
was never sent is released, uncounted. A lease that was sent, but is not in the worker's list, is sent again.

Endpoints never wait: the driver reads the store for them (`EngineDriver`), and waits between the steps of a hello.
"""

import functools
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from assay.core.model.errors import AssayError, Unavailable
from assay.core.model.events import Recorded
from assay.core.model.grants import ActivityGrant, ConnectedWorker, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId
from assay.core.model.limits import WORKER_LEASE
from assay.core.model.replies import Advanced, ReplyCallback
from assay.core.model.requests import Advance, ExtendActivity, ExtendTask, ReleaseActivity, ReleaseTask, Request
from assay.core.model.run import Activity
from assay.core.model.slots import Slots
from assay.worker_protocol import messages as wire
from assay.worker_protocol.foreign_namespaces import MayAct, restricted
from assay.worker_protocol.outgoing import Grant, Outgoing
from assay.worker_protocol.problems import problem_of
from assay.worker_protocol.tokens import Lease, LeaseTokens, Token, unknown_task
from assay.worker_protocol.translate import request_of
from assay.worker_protocol.wakeup import Wakeup

log = logging.getLogger("assay.exchange")
TASK_SEQ: Final = -1
"""The seq of a workflow task among leases; the seqs of activities begin with 0."""
MAX_SLOTS: Final = 100_000
"""The maximum of free slots of one kind that a worker can announce."""
MAX_TASK_EVENTS: Final = 500
"""The maximum of events in a task; the worker reads a longer history in pages."""

LeaseKey = tuple[RunId, int, int]
"""Run, seq or `TASK_SEQ`, and epoch or attempt id."""


class EnginePort(Protocol):
    """The methods of an engine that an endpoint calls."""

    def now(self) -> Time:
        """Return engine time."""
        ...

    def post(self, request: Request, callback: ReplyCallback | None = None) -> None:
        """Have a request decided and written; call back with the outcome."""
        ...

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Lease work to a worker."""
        ...

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to a worker."""
        ...

    def offer_work(self, worker: ConnectedWorker) -> None:
        """Lease queued work to a worker with more free slots than before."""
        ...


class EngineDriver(Protocol):
    """Reads the store for an endpoint."""

    def leased_task(self, run_id: RunId) -> TaskGrant | None:
        """Return the workflow task of a run in memory, if the task is leased to this worker."""
        ...

    def load_task(self, grant: TaskGrant, after: int) -> None:
        """Read the events of a task after a seq, then call `EngineEndpoint.task_loaded`."""
        ...

    def load_history(self, report: wire.ReadHistory, run_id: RunId) -> None:
        """Read a page of a history, then call `EngineEndpoint.history_loaded`."""
        ...


class EngineEndpoint:
    """The engine's end of the protocol for one worker; a `ConnectedWorker` of the dispatcher."""

    local = False
    lease: Time | None = WORKER_LEASE

    def __init__(
        self, engine: EnginePort, driver: EngineDriver, tokens: LeaseTokens, namespace: str, worker: str
    ) -> None:
        self.worker = WorkerId(worker)
        self.namespace = Namespace(namespace)
        self.identity = ""
        self.queue = ""
        self.workflows: frozenset[str] | None = None
        self.activities: frozenset[str] | None = None
        self.slots = Slots()
        self.may_act: MayAct | None = None
        """Checks the namespaces that commands name; None if the worker may act in all of them."""
        self.outgoing = Outgoing(engine.now, tokens, namespace, worker)
        self.hellos = 0
        self.released = Wakeup()
        """Set while no release of an unsent lease waits for its decision."""
        self.released.set()
        self._releasing = 0
        self._engine = engine
        self._driver = driver
        self._tokens = tokens
        self._added = False
        self._leaving = False
        self._runs: set[str] = set()
        """The runs whose live coroutine the worker keeps."""
        self._released_slots = (0, 0, 0)
        self._answers: OrderedDict[int, wire.ReportAnswer] = OrderedDict()
        self._pending: set[int] = set()
        self._answered = 0
        """The worker has received the answers to all reports below this number."""
        self._totals_of = 0
        """The number of the message whose totals of released slots count; a message that it overtook has older ones."""
        self._next = 0
        self._ahead: set[int] = set()
        """The number of the next message, and the numbers of messages that overtook it."""

    # as a connected worker

    def holds(self, run_id: RunId) -> bool:
        """See `ConnectedWorker`."""
        return run_id in self._runs

    def take(self, grant: Grant) -> None:
        """Send leased work; release the lease if the worker has disconnected meanwhile."""
        if not self._added:
            self._release(grant)
        elif isinstance(grant, ActivityGrant):
            self.outgoing.activity(grant)
        elif grant.tail is not None and (grant.seen_seq == 0 or grant.key.run_id in self._runs):
            # The fast path: the events in memory are the whole history, or continue the worker's live run.
            self._runs.add(grant.key.run_id)
            self.outgoing.task(grant, grant.tail, grant.seen_seq)
        else:
            self._send_task(grant)

    def news(self, run_id: RunId) -> None:
        """See `ConnectedWorker`."""
        self.outgoing.news(run_id)

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """See `ConnectedWorker`."""
        self.outgoing.cancel(attempt_id, over=over)

    # connections

    def begin_hello(self, hello: wire.Hello) -> None:
        """Begin a connection: release leases that were not sent, and replace the description of the worker.

        If the worker was connected before, the driver waits for `released`, reads the leases of the worker, and
        calls `reconcile` and `resend`; then, in any case, `end_hello`.
        """
        self.hellos += 1
        self.outgoing.wakeup.set()  # held requests of an earlier connection return empty
        self.disconnect()
        self.outgoing.clear_if_empty()
        self.queue = hello.queue
        self.identity = hello.identity
        self.workflows = None if hello.workflows is None else frozenset(hello.workflows)
        self.activities = None if hello.activities is None else frozenset(hello.activities)
        self._runs = set(hello.runs)
        if not hello.again:
            self._count_slots(hello)

    def _count_slots(self, hello: wire.Hello) -> None:
        self._released_slots = (0, 0, 0)
        self.slots = Slots(
            min(hello.free_tasks, MAX_SLOTS),
            min(hello.free_activities, MAX_SLOTS),
            frozenset(hello.process_activities),
            min(hello.free_processes, MAX_SLOTS),
        )

    def reconcile(self, hello: wire.Hello, leased: Iterable[LeaseKey]) -> set[LeaseKey]:
        """Compare the leases in a worker's list with the leases in the store; return the leases to send again.

        Leases in both are extended, because the worker is alive. Attempts only in the list are cancelled.
        """
        # Counted only now: leases of the last connection, released meanwhile, had reserved other slots than these.
        self._count_slots(hello)
        listed = set()
        for token in hello.held:
            try:
                lease = self._open(token)
            except AssayError:
                continue
            listed.add((lease.run_id, lease.seq if lease.activity else TASK_SEQ, lease.fence))
        stored = set(leased)
        for run_id, seq, fence in sorted(stored & listed):
            if seq == TASK_SEQ:
                self._engine.post(ExtendTask(run_id, self.worker, fence, WORKER_LEASE))
            else:
                self._engine.post(ExtendActivity(run_id, seq, fence, WORKER_LEASE))
        for _, seq, attempt_id in sorted(listed - stored):
            if seq != TASK_SEQ:
                self.outgoing.cancel(attempt_id)
        return stored - listed

    def resend(self, grant: Grant) -> None:
        """Send a lease again that is in the store and not in the worker's list."""
        if isinstance(grant, ActivityGrant):
            self.slots.reserve(grant.activity.name)
            self.outgoing.activity(grant)
        else:
            self.slots.reserve()
            self._send_task(grant)

    def end_hello(self) -> None:
        """Let the engine lease work to the worker."""
        self._leaving = False
        self.connect()

    def connect(self) -> None:
        """Let the engine lease work to the worker, unless the worker is leaving."""
        if not self._added and not self._leaving:
            self._added = True
            self._engine.add_worker(self)

    def disconnect(self) -> None:
        """Stop leasing work to the worker, and release unsent leases, uncounted."""
        if self._added:
            self._added = False
            self._engine.remove_worker(self)
        for grant in self.outgoing.take_unsent():
            self._release(grant)

    def _release(self, grant: Grant) -> None:
        self.slots.release(None if isinstance(grant, TaskGrant) else grant.activity.name)
        self._releasing += 1
        self.released.clear()
        self._engine.post(_given_back(grant, self.worker), self._lease_released)

    def _lease_released(self, _reply: object, error: AssayError | None) -> None:
        if isinstance(error, Unavailable):
            log.warning("a lease of %s could not be given back: %s", self.worker, error)
        self._releasing -= 1
        if not self._releasing:
            self.released.set()

    # receiving

    def accepts(self, message: wire.WorkerMessage) -> bool:
        """Return whether a message is new and sent after the last hello; mark its number as received."""
        number = message.number
        if number == 0:
            return True
        if number == self._next and not self._ahead:  # the usual case: in order
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

    def receive(self, message: wire.WorkerMessage) -> None:
        """Handle an accepted message: departure, reports, released slots. The driver has handled its hello before."""
        if message.leaving:
            self._leaving = True
            self.disconnect()
        elif not self._added:
            self.connect()
        self._runs.difference_update(message.dropped)
        self._forget(message.answered)
        for report in message.reports:
            self._take_report(report)
        if message.freed is not None and (message.number >= self._totals_of or not message.number):
            self._totals_of = message.number
            released = (*message.freed, message.freed_processes)
            if released != self._released_slots:
                self._release_slots(released)

    def _release_slots(self, released: tuple[int, int, int]) -> None:
        before, self._released_slots = self._released_slots, released
        self.slots.tasks += released[0] - before[0]
        self.slots.activities += released[1] - before[1]
        self.slots.processes += released[2] - before[2]
        if self._added:
            self._engine.offer_work(self)

    def _forget(self, answered: int) -> None:
        if answered > self._answered:
            self._answered = answered
            answers = self._answers
            while answers and next(iter(answers)) < answered:
                answers.popitem(last=False)

    def has_pending(self, reports: Iterable[wire.Report]) -> bool:
        """Return whether any of these reports is still being decided."""
        return any(report.n in self._pending for report in reports)

    def _take_report(self, report: wire.Report) -> None:
        n = report.n
        if n < self._answered or n in self._pending:
            return  # repeated: the worker has the answer, or the decision is under way
        known = self._answers.get(n)
        if known is not None:
            self.outgoing.answer(known)
            return
        self._pending.add(n)
        try:
            lease = self._open(report.token)
            if isinstance(report, wire.ReadHistory):
                self._driver.load_history(report, RunId(lease.run_id))
                return
            request = request_of(report, lease, self._open)
            if self.may_act is not None and type(request) is Advance:
                request = restricted(request, self.namespace, self.may_act)
        except Exception as error:  # noqa: BLE001  # the worker repeats a report until it is answered
            self._answer(self.failed(n, error))
            return
        self._engine.post(request, functools.partial(self._decided, n, lease, isinstance(request, Advance)))

    def _open(self, token: Token) -> Lease:
        """Return the lease of a token; raise `NotFound` for a token of another worker or namespace."""
        lease = self._tokens.open(token)
        if lease.worker != self.worker or lease.namespace != self.namespace:
            raise unknown_task()
        return lease

    # answering

    def _decided(self, n: int, lease: Lease, turn: bool, reply: object, error: AssayError | None) -> None:
        if error is not None:
            self._answer(wire.ReportAnswer(n, problem_of(error)))
            if turn and error.code == "stale_task":
                self._refused(lease)
        elif isinstance(reply, Advanced):
            self._answer(self._advanced(n, lease, reply))
        elif isinstance(reply, Activity):
            self._answer(wire.ReportAnswer(n, cancel_requested=reply.cancel_requested))
        else:
            self._answer(wire.ReportAnswer(n))

    def _advanced(self, n: int, lease: Lease, reply: Advanced) -> wire.ReportAnswer:
        if reply.closed or not reply.accepted:
            self._runs.discard(lease.run_id)
        if reply.leased and reply.epoch != lease.fence:
            return wire.ReportAnswer(
                n, advanced=reply, token=self.outgoing.next_token(RunId(lease.run_id), reply.epoch)
            )
        return wire.ReportAnswer(n, advanced=reply)

    def _refused(self, lease: Lease) -> None:
        """Send the current task of a run again, because the worker drops the run when a repeated turn is refused."""
        self._runs.discard(lease.run_id)
        grant = self._driver.leased_task(RunId(lease.run_id)) if self._added else None
        if grant is not None:
            self.slots.reserve()
            self._send_task(grant)

    def _answer(self, answer: wire.ReportAnswer) -> None:
        self._pending.discard(answer.n)
        if answer.problem is None or answer.problem.kind != "UNAVAILABLE":
            self._answers[answer.n] = answer  # not kept if the outcome is unknown: the repeated report is decided again
        self.outgoing.answer(answer)

    def failed(self, n: int, error: Exception) -> wire.ReportAnswer:
        """Return the answer to a report that caused an error."""
        if not isinstance(error, AssayError):
            log.error("a report of %s could not be answered", self.worker, exc_info=error)
        return wire.ReportAnswer(n, problem_of(error))

    # reading

    def _send_task(self, grant: TaskGrant) -> None:
        """Send a task with events from the store: new events if the worker keeps the run, otherwise all events.

        A long history is not part of the task: the worker reads the history in pages.
        """
        run_id = grant.key.run_id
        after = grant.seen_seq if run_id in self._runs else 0
        self._runs.add(run_id)
        if after or (grant.history_bytes <= wire.MAX_HISTORY_BYTES and grant.last_seq <= MAX_TASK_EVENTS):
            self._driver.load_task(grant, after)
        else:
            self.outgoing.task(grant, None, after)

    def task_loaded(self, grant: TaskGrant, after: int, events: Sequence[Recorded] | None, hello: int) -> None:
        """Send a task with its events; `events` is None if the read failed.

        Events that were recorded after the lease are left out: they belong to a later lease, or are the run's end.
        `hello` is the number of hellos when the read began; after a later hello, `resend` has sent the task.
        """
        if self.hellos != hello:
            return
        if not self._added:
            self._release(grant)
        elif events is None or len(events) > MAX_TASK_EVENTS:
            self.outgoing.task(grant, None, after)
        else:
            of_lease = [recorded for recorded in events if recorded.seq <= grant.last_seq]
            self.outgoing.task(grant, of_lease, after)

    def history_loaded(self, answer: wire.ReportAnswer) -> None:
        """Answer a report that reads a history; the page is not kept for a repeated report."""
        self._pending.discard(answer.n)
        self.outgoing.answer(answer)


def _given_back(grant: Grant, worker: WorkerId) -> Request:
    if isinstance(grant, TaskGrant):
        return ReleaseTask(grant.key.run_id, worker, grant.epoch)
    return ReleaseActivity(grant.key.run_id, grant.activity.seq, grant.activity.attempt_id)
