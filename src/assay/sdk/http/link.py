"""One worker's end of the exchange: what it has to say, and what it has said and not heard of; not how that travels.

A report is sent until it is answered, always under the same number. So an engine that is restarted, or a network that
loses answers, costs time and nothing else: what had its effect has it once (see `assay.wire.exchange`).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence

from msgspec.structs import replace

from assay.core import requests as rq
from assay.core.errors import AssayError, Invalid, Kind, Refused, Unavailable
from assay.core.events import Recorded
from assay.core.grants import ConnectedWorker
from assay.core.ids import RunId
from assay.core.replies import Told, telling
from assay.sdk.http.clock import LearnedClock
from assay.sdk.http.holdings import AnnouncedSlots, Holdings
from assay.sdk.http.problems import error_of
from assay.sdk.http.replies import BEATEN, Waiting
from assay.sdk.http.wording import REPORTS, activity_grant, task_grant
from assay.wire import exchange as wire
from assay.wire.bell import Bell

log = logging.getLogger("assay.worker")


class Link:
    """What one worker and its engine tell each other."""

    def __init__(self, worker: ConnectedWorker, clock: LearnedClock) -> None:
        self.worker = worker
        self.ready = Bell()
        """Is there something to say?"""
        self.leaving = False
        self._clock = clock
        self._held = Holdings(worker)
        self._slots = AnnouncedSlots(worker.slots)
        self._next = 1
        self._spoken = 0
        self._outgoing: list[wire.Report] = []
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()  # in which the first is found at once
        self._histories: dict[str, tuple[Recorded, ...]] = {}
        """Histories that came with their task, until the worker asks for them."""
        self._dropped: list[str] = []
        self._greeted = False

    @property
    def idle(self) -> bool:
        """Is nothing left to be told or heard?"""
        return not (self._waiting or self._held)

    @property
    def alone(self) -> bool:
        """Is nothing else under way whose answer would bring more to say?"""
        return len(self._waiting) <= 1

    def has(self, request: rq.Request) -> bool:
        """Is it this worker that the request is from?"""
        attempt_id = getattr(request, "attempt_id", None)
        if attempt_id is not None:
            return self._held.has_attempt(attempt_id)
        return getattr(request, "worker", None) == self.worker.worker

    def knows(self, run_id: str) -> bool:
        """Was this worker given the run?"""
        return self._held.knows(run_id)

    # reporting

    def send(self, request: rq.ToRun, told: Told) -> None:
        """Report to the engine; it is told when there is an answer."""
        build = REPORTS.get(type(request))
        if build is None:
            raise Invalid(f"a worker has no use for {type(request).__name__}")
        try:
            report = build(self._held, self._next, request)
        except Refused as error:
            told(None, error)
        else:
            self._post(Waiting(report, request, told))

    def _post(self, waiting: Waiting) -> None:
        self._waiting[self._next] = waiting
        self._next += 1
        self._outgoing.append(waiting.report)
        self.ready.ring()

    async def history(self, run_id: RunId, after: int) -> Sequence[Recorded]:
        """A run's events after a seq, all pages of them; a history that came with its task is not asked for again."""
        brought = self._histories.pop(run_id, None)
        if brought is not None and after == 0:
            return brought
        events: list[Recorded] = []
        while True:
            there: asyncio.Future[wire.Answer] = asyncio.get_running_loop().create_future()
            report = wire.ReadHistory(self._next, self._held.run_token(run_id), after)
            self._post(Waiting(report, None, telling(there)))
            answer = await there
            events.extend(wire.received(answer.events or ()))
            if not answer.more:
                return events
            after = events[-1].seq

    def freed(self) -> None:
        """Announce a slot that became free: with the next message, or at once if the engine counts too few to wait."""
        if self._slots.urgent:
            self.ready.ring()

    def live(self) -> None:
        """Say something even if there is nothing to say: at least that it is there, and what it keeps no longer."""
        left = self._held.left()
        self._dropped.extend(left)
        for run_id in left:
            self._histories.pop(run_id, None)
        self.ready.ring()

    # telling

    def compose(self, *, hello: bool = False) -> list[bytes]:
        """All there is to tell, as one message or as several within the limit of one."""
        self.ready.clear()
        greeting = self._hello() if hello else None
        reports, self._outgoing = self._outgoing, []
        if hello:
            reports = [waiting.report for waiting in self._waiting.values()]
        dropped, self._dropped = self._dropped, []
        released = self._slots.announce()
        message = wire.WorkerMessage(
            number=self._number(),
            hello=greeting,
            reports=tuple(reports),
            freed=(released.tasks, released.activities),
            freed_processes=released.processes,
            answered=next(iter(self._waiting), self._next),
            dropped=tuple(dropped),
            leaving=self.leaving,
        )
        try:
            body = wire.encode(message)
        except Exception:  # noqa: BLE001  # told to whoever reports what cannot be said
            message = replace(message, reports=self._sayable(message.reports))
            body = wire.encode(message)
        return [body] if len(body) <= wire.MESSAGE_LIMIT else self._parts(message)

    def waiting(self, seconds: float) -> bytes:
        """A message that only waits for one."""
        return wire.encode(wire.WorkerMessage(number=self._number(), wait_secs=seconds))

    def _number(self) -> int:
        self._spoken += 1
        return self._spoken

    def _hello(self) -> wire.Hello:
        worker, slots, most = self.worker, self._slots.restart(), self._slots.most
        again, self._greeted = self._greeted, True
        return wire.Hello(
            queue=worker.queue,
            namespace=worker.namespace,
            identity=worker.identity,
            workflows=None if worker.workflows is None else tuple(sorted(worker.workflows)),
            activities=None if worker.activities is None else tuple(sorted(worker.activities)),
            max_concurrent_workflows=most.tasks,
            max_concurrent_activities=most.activities,
            free_tasks=slots.tasks,
            free_activities=slots.activities,
            process_activities=tuple(sorted(slots.process_activities)),
            free_processes=slots.processes,
            held=self._held.held(),
            runs=self._held.live(),
            again=again,
        )

    def _parts(self, message: wire.WorkerMessage) -> list[bytes]:
        """A message in several; a single report that no message can hold is refused here."""
        parts: list[bytes] = []
        chunk: list[wire.Report] = []
        size = 0
        for report in message.reports:
            length = len(wire.encode(report))
            if length > wire.MESSAGE_LIMIT - ENVELOPE:
                text = f"{length:,} bytes in one turn are more than a message can hold ({wire.MESSAGE_LIMIT:,})"
                self._refuse(report, Invalid(text, code="body_too_large"))
                continue
            if size + length > wire.MESSAGE_LIMIT - ENVELOPE and chunk:
                parts.append(wire.encode(replace(message, reports=tuple(chunk))))
                message = replace(message, number=self._number(), hello=None)
                chunk, size = [], 0
            chunk.append(report)
            size += length
        return [*parts, wire.encode(replace(message, reports=tuple(chunk)))]

    def _sayable(self, reports: Sequence[wire.Report]) -> tuple[wire.Report, ...]:
        """The reports that can be written; one that cannot must not keep all others from being heard (L2)."""
        sayable = []
        for report in reports:
            try:
                wire.encode(report)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told to whoever reports
                self._refuse(report, Invalid(f"this cannot be written as JSON: {error}", code="unencodable"))
            else:
                sayable.append(report)
        return tuple(sayable)

    def _refuse(self, report: wire.Report, error: Invalid) -> None:
        """Say so as soon as this message is said: what is reported instead comes after it."""
        waiting = self._waiting.pop(report.n)
        if waiting.request is not None:
            self._held.refuse(waiting.request, error)
        asyncio.get_running_loop().call_soon(waiting.settle, None, error)

    # hearing

    def hear(self, body: bytes) -> None:
        """Take in what the engine says: first what became of what was reported, then what is new."""
        message = wire.decode_from_engine(body)
        if message.problem is not None:
            raise _error(message.problem)
        self._clock.learn(message.time)
        for answer in message.answers:
            self._answered(answer)
        for task in message.tasks:
            self._take_task(task)
        for order in message.activities:
            self._slots.leased(order.name)
            if self._held.take_attempt(order):
                self.worker.slots.reserve(order.name)
                self.worker.take(activity_grant(order, self.worker.namespace, self.worker.worker))
        for run_id in message.news:
            self.worker.news(RunId(run_id))
        for attempt_id in message.cancelled:
            self.worker.cancel(attempt_id, over=attempt_id in message.over)

    def _take_task(self, task: wire.Task) -> None:
        self._slots.leased()
        if self._held.take_task(task):
            self.worker.slots.reserve()
            grant = task_grant(task, self.worker.namespace)
            if grant.tail is None and task.events is not None:
                self._histories[task.run_id] = wire.received(task.events)
            self.worker.take(grant)

    def _answered(self, answer: wire.Answer) -> None:
        waiting = self._waiting.pop(answer.n, None)
        if waiting is None:
            return
        request = waiting.request
        if answer.problem is not None:
            error = _error(answer.problem)
            log.debug("refused: report %d, %s %s: %s", answer.n, error.kind.value, error.code, error)
            if request is not None and not isinstance(error, Unavailable):
                self._held.refuse(request, error)
            waiting.settle(None, error)
        elif request is None:
            waiting.settle(answer)
        else:
            self._held.settle(request, answer)
            waiting.settle(BEATEN[answer.cancel_requested] if answer.advanced is None else answer.advanced)

    def end(self, error: AssayError) -> None:
        """Nothing will be answered any more."""
        waiting, self._waiting = self._waiting, OrderedDict()
        for one in waiting.values():
            one.settle(None, error)


ENVELOPE = 1024 * 1024
"""What a message may need around its reports: tokens of thousands of leases, after a lost connection."""


def _error(problem: wire.Problem) -> AssayError:
    return error_of(problem.error, problem.code, Kind.parse(problem.kind), problem.field)
