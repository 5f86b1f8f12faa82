"""One worker's end of the exchange: what it holds, and what it has reported and not heard of; not how that travels.

A report is sent until it is answered, always under the same number. So an engine that is restarted, or a network that
loses answers, costs time and nothing else: what had its effect has it once (see `assay.wire.exchange`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from assay.core import requests as rq
from assay.core.errors import AssayError, Invalid, Kind, Refused, Unavailable
from assay.core.events import Recorded, StartData
from assay.core.grants import ActivityGrant, Seat, TaskGrant
from assay.core.ids import RunId, RunKey, WorkflowId
from assay.core.replies import Advanced
from assay.core.run import Activity
from assay.sdk.http.clock import LearnedClock
from assay.sdk.http.problems import error_of
from assay.wire import exchange as wire

log = logging.getLogger("assay.worker")
ENOUGH: Final = 8
"""Hands that the engine must believe free before a worker keeps it waiting for news of more."""


class Colleague(Seat, Protocol):
    """A worker as it introduces itself."""

    identity: str


class Beaten(msgspec.Struct, frozen=True):
    """The answer to a sign of life."""

    cancel_requested: bool


BEATEN: Final = Beaten(False), Beaten(True)


class Reply:
    """The answer to come of a report: it looks like a future to whoever adds a callback, and needs no loop."""

    __slots__ = ("_callback", "_error", "_there", "_value")

    def __init__(self, error: AssayError | None = None) -> None:
        self._there = error is not None
        self._error = error
        self._value: Any = None
        self._callback: Callable[[Any], object] | None = None

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call back when the answer is there; one caller only."""
        self._callback = callback
        if self._there:
            callback(self)

    def cancelled(self) -> bool:
        """Never: a report is sent until it is answered."""
        return False

    def exception(self) -> AssayError | None:
        """Why it was refused, if it was."""
        return self._error

    def result(self) -> Any:
        """The answer; a refusal is raised."""
        if self._error is not None:
            raise self._error
        return self._value

    def settle(self, value: Any, error: AssayError | None = None) -> None:
        """The answer is there."""
        self._value, self._error, self._there = value, error, True
        if self._callback is not None:
            self._callback(self)


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A report that has no answer yet."""

    report: wire.Report
    request: rq.ToRun | None
    reply: Reply


class Link:
    """What one worker and its engine know of each other."""

    def __init__(self, seat: Colleague, clock: LearnedClock) -> None:
        self.seat = seat
        self.ready = asyncio.Event()
        self.leaving = False
        self._clock = clock
        self._next = 1
        self._outgoing: list[wire.Report] = []
        self._waiting: dict[int, Waiting] = {}
        self._tasks: dict[str, tuple[str, int]] = {}
        """By run: the token of its last lease, and the epoch."""
        self._leased: set[str] = set()
        self._attempts: dict[int, str] = {}
        self._histories: dict[str, tuple[Recorded, ...]] = {}
        self._given: set[str] = set()
        """Runs that the engine believes to be live here."""
        self._dropped: list[str] = []
        self._most = seat.free_tasks, seat.free_activities
        self._base = self._most
        self._received = [0, 0]
        self._told = (0, 0)
        self._greeted = False

    @property
    def idle(self) -> bool:
        """Is nothing left to be told or heard?"""
        return not (self._waiting or self._leased or self._attempts)

    @property
    def unanswered(self) -> int:
        """Reports that wait for their answer."""
        return len(self._waiting)

    # reporting

    def send(self, request: rq.ToRun) -> Reply:
        """Report to the engine; the answer comes when there is one."""
        build = _REPORTS.get(type(request))
        if build is None:
            raise Invalid(f"a worker has no use for {type(request).__name__}")
        try:
            report = build(self, self._next, request)
        except Refused as error:
            return Reply(error)
        return self._post(report, request)

    def _post(self, report: wire.Report, request: rq.ToRun | None) -> Reply:
        reply = Reply()
        self._waiting[self._next] = Waiting(report, request, reply)
        self._next += 1
        self._outgoing.append(report)
        self.ready.set()
        return reply

    def task_token(self, run_id: str, epoch: int) -> str:
        """The token of a run's last lease, if that is the one that is meant."""
        found = self._tasks.get(run_id)
        if found is None or found[1] != epoch:
            raise Refused("this worker no longer holds the workflow task", code="stale_task")
        return found[0]

    def attempt_token(self, attempt_id: int) -> str:
        """The token of an attempt."""
        token = self._attempts.get(attempt_id)
        if token is None:
            raise Refused("this attempt is over; another one is pending or running", code="stale_attempt")
        return token

    def has(self, request: rq.Request) -> bool:
        """Is it this worker that the request is from?"""
        attempt_id = getattr(request, "attempt_id", None)
        if attempt_id is not None:
            return attempt_id in self._attempts
        return getattr(request, "worker", None) == self.seat.worker

    def knows(self, run_id: str) -> bool:
        """Was this worker given the run?"""
        return run_id in self._tasks

    async def history(self, run_id: RunId, after: int) -> Sequence[Recorded]:
        """A run's events after a seq, all pages of them; a history that came with its task is not asked for again."""
        brought = self._histories.pop(run_id, None)
        if brought is not None and after == 0:
            return brought
        events: list[Recorded] = []
        while True:
            token, _ = self._tasks.get(run_id, ("", 0))
            answer = await self._awaited(self._post(wire.ReadHistory(self._next, token, after), None))
            events.extend(wire.received(answer.events or ()))
            if not answer.more:
                return events
            after = events[-1].seq

    async def _awaited(self, reply: Reply) -> wire.Answer:
        there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(lambda _: None if there.done() else there.set_result(None))
        await there
        answer: wire.Answer = reply.result()
        return answer

    def freed(self) -> None:
        """A hand is free again: the engine hears of it with the next message, at once if it may believe us busy."""
        free = self.seat.free_tasks, self.seat.free_activities
        for place in (0, 1):
            believed = self._base[place] + self._told[place] - self._received[place]
            if (free[place] > believed and believed < ENOUGH) or free[place] > 2 * believed:
                self.ready.set()

    # telling

    def compose(self, *, hello: bool = False, wait: float = 0.0) -> list[bytes]:
        """All there is to tell, as one message or as several within the limit of one."""
        self.ready.clear()
        greeting = self._hello() if hello else None
        reports, self._outgoing = self._outgoing, []
        if hello:
            reports = [waiting.report for waiting in self._waiting.values()]
        free = self.seat.free_tasks, self.seat.free_activities
        base, received = self._base, self._received
        self._told = free[0] - base[0] + received[0], free[1] - base[1] + received[1]
        dropped, self._dropped = self._dropped, []
        message = wire.WorkerMessage(
            hello=greeting,
            reports=tuple(reports),
            freed=self._told,
            answered=next(iter(self._waiting), self._next),
            dropped=tuple(dropped),
            leaving=self.leaving,
            wait_secs=wait,
        )
        body = wire.encode(message)
        return [body] if len(body) <= wire.MESSAGE_LIMIT else self._parts(message)

    def _hello(self) -> wire.Hello:
        seat = self.seat
        self._base = seat.free_tasks, seat.free_activities
        self._received = [0, 0]
        self._given = {run_id for run_id in self._tasks if seat.holds(RunId(run_id))}
        again, self._greeted = self._greeted, True
        return wire.Hello(
            queue=seat.queue,
            namespace=seat.namespace,
            identity=seat.identity,
            workflows=None if seat.workflows is None else tuple(sorted(seat.workflows)),
            activities=None if seat.activities is None else tuple(sorted(seat.activities)),
            max_concurrent_workflows=self._most[0],
            max_concurrent_activities=self._most[1],
            free_tasks=self._base[0],
            free_activities=self._base[1],
            held=(*(self._tasks[run_id][0] for run_id in self._leased), *self._attempts.values()),
            runs=tuple(self._given),
            again=again,
        )

    def _parts(self, message: wire.WorkerMessage) -> list[bytes]:
        """A message in several; a single report that no message can hold is refused here."""
        parts: list[bytes] = []
        chunk: list[wire.Report] = []
        size = 0
        for report in message.reports:
            length = len(wire.encode(report))
            if length > wire.MESSAGE_LIMIT - 1024 * 1024:
                self._refuse(report, length)
                continue
            if size + length > wire.MESSAGE_LIMIT // 2 and chunk:
                parts.append(wire.encode(msgspec.structs.replace(message, reports=tuple(chunk))))
                message = msgspec.structs.replace(message, hello=None)
                chunk, size = [], 0
            chunk.append(report)
            size += length
        return [*parts, wire.encode(msgspec.structs.replace(message, reports=tuple(chunk)))]

    def _refuse(self, report: wire.Report, length: int) -> None:
        waiting = self._waiting.pop(report.n)
        text = f"{length:,} bytes in one turn are more than a message can hold ({wire.MESSAGE_LIMIT:,})"
        waiting.reply.settle(None, Invalid(text, code="body_too_large"))

    def live(self) -> None:
        """Say something even if there is nothing to say: at least that it is there, and what it keeps no longer."""
        dropped = [run_id for run_id in self._given if not self.seat.holds(RunId(run_id))]
        self._dropped.extend(dropped)
        self._given.difference_update(dropped)
        for run_id in dropped:
            if run_id not in self._leased:
                self._tasks.pop(run_id, None)
        self.ready.set()

    # hearing

    def hear(self, body: bytes) -> None:
        """Take in what the engine says: first what became of what was reported, then what is new."""
        message = wire.decode_from_engine(body)
        if message.problem is not None:
            raise error_of(
                message.problem.error, message.problem.code, Kind.parse(message.problem.kind), message.problem.field
            )
        self._clock.learn(message.time)
        for answer in message.answers:
            self._answered(answer)
        for task in message.tasks:
            self._take_task(task)
        for activity in message.activities:
            self._take_activity(activity)
        for run_id in message.news:
            self.seat.news(RunId(run_id))
        for attempt_id in message.cancelled:
            self.seat.cancel(attempt_id)

    def _answered(self, answer: wire.Answer) -> None:
        waiting = self._waiting.pop(answer.n, None)
        if waiting is None:
            return
        request, problem = waiting.request, answer.problem
        if problem is not None:
            error = error_of(problem.error, problem.code, Kind.parse(problem.kind), problem.field)
            if request is not None and not isinstance(error, Unavailable):
                self._settled(request, None)
            waiting.reply.settle(None, error)
        elif request is None:
            waiting.reply.settle(answer)
        else:
            self._settled(request, answer)
            waiting.reply.settle(BEATEN[answer.cancel_requested] if answer.advanced is None else answer.advanced)

    def _settled(self, request: rq.ToRun, answer: wire.Answer | None) -> None:
        """Forget what is no longer held; without an answer the request was refused."""
        if isinstance(request, rq.Advance):
            if answer is not None and answer.advanced is not None:
                self._advanced(request, answer, answer.advanced)
            else:
                self._unlease(request.run_id, request.epoch)
        elif isinstance(request, rq.FailTask | rq.ReleaseTask):
            self._unlease(request.run_id, request.epoch)
        elif isinstance(request, ENDS):
            self._attempts.pop(request.attempt_id, None)

    def _advanced(self, request: rq.Advance, answer: wire.Answer, reply: Advanced) -> None:
        for outcome, recorded in zip(request.outcomes, reply.recorded, strict=False):
            if recorded and isinstance(outcome, rq.ActivityOutcome):
                self._attempts.pop(outcome.attempt_id, None)
        run_id = request.run_id
        if not reply.accepted or reply.closed:
            self._unlease(run_id, request.epoch)
            if reply.closed:
                self._given.discard(run_id)
        elif reply.leased:
            self._leased.add(run_id)
            if answer.token is not None:
                self._tasks[run_id] = answer.token, reply.epoch
        else:
            self._leased.discard(run_id)

    def _unlease(self, run_id: str, epoch: int) -> None:
        """A lease is gone, unless it is one that has been replaced already."""
        found = self._tasks.get(run_id)
        if found is not None and found[1] <= epoch:
            self._leased.discard(run_id)
            del self._tasks[run_id]

    def _take_task(self, task: wire.Task) -> None:
        self._received[0] += 1
        known = self._tasks.get(task.run_id)
        if known is not None and known[1] >= task.epoch and task.run_id in self._leased:
            return  # sent twice, because an answer crossed it
        self._tasks[task.run_id] = task.token, task.epoch
        self._leased.add(task.run_id)
        self._given.add(task.run_id)
        self.seat.free_tasks -= 1
        key = RunKey(self.seat.namespace, WorkflowId(task.workflow_id), RunId(task.run_id))
        start = StartData(task.workflow_type, task.task_queue, RunId(task.run_id))
        tail = None if task.events is None else wire.received(task.events)
        if tail is not None and task.after < task.seen_seq:
            self._histories[task.run_id] = tail
            tail = None
        self.seat.take(TaskGrant(key, start, task.epoch, task.seen_seq, task.last_seq, task.history_bytes, tail))

    def _take_activity(self, order: wire.Activity) -> None:
        self._received[1] += 1
        if order.attempt_id in self._attempts:
            return
        self._attempts[order.attempt_id] = order.token
        self.seat.free_activities -= 1
        key = RunKey(self.seat.namespace, WorkflowId(order.workflow_id), RunId(order.run_id))
        start = StartData(order.workflow_type, order.task_queue, RunId(order.run_id))
        activity = Activity(
            seq=order.seq,
            id=order.id,
            name=order.name,
            queue=order.task_queue,
            input=order.input,
            options=order.options,
            scheduled_at=0,
            attempt_id=order.attempt_id,
            attempt=order.attempt,
            worker=self.seat.worker,
            details=order.details,
        )
        self.seat.take(ActivityGrant(key, start, activity))

    def end(self, error: AssayError) -> None:
        """Nothing will be answered any more."""
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.reply.settle(None, error)


ENDS: Final = (rq.CompleteActivity, rq.FailActivity, rq.CancelledActivity, rq.ReleaseActivity)
"""Reports after which the worker has nothing more to say about an attempt."""


def _advance(link: Link, n: int, request: rq.Advance) -> wire.Report:
    outcomes = tuple([_outcome(link, outcome) for outcome in request.outcomes]) if request.outcomes else ()
    token = link.task_token(request.run_id, request.epoch)
    return wire.Advance(n, token, request.seen_seq, request.commands, outcomes, request.pending)


def _outcome(link: Link, outcome: rq.StepOutcome | rq.ActivityOutcome) -> wire.StepDone | wire.ActivityDone:
    if isinstance(outcome, rq.ActivityOutcome):
        return wire.ActivityDone(link.attempt_token(outcome.attempt_id), outcome.time, outcome.result)
    return wire.StepDone(
        outcome.seq, outcome.name, outcome.time, outcome.result, outcome.failure, outcome.attempt, outcome.retry_in
    )


_REPORTS: Final[dict[type[rq.Request], Callable[[Link, int, Any], wire.Report]]] = {
    rq.Advance: _advance,
    rq.FailTask: lambda link, n, r: wire.FailTask(n, link.task_token(r.run_id, r.epoch), r.reason, r.message),
    rq.ExtendTask: lambda link, n, r: wire.ExtendTask(n, link.task_token(r.run_id, r.epoch)),
    rq.ReleaseTask: lambda link, n, r: wire.ReleaseTask(n, link.task_token(r.run_id, r.epoch)),
    rq.CompleteActivity: lambda link, n, r: wire.CompleteActivity(n, link.attempt_token(r.attempt_id), r.result),
    rq.FailActivity: lambda link, n, r: wire.FailActivity(n, link.attempt_token(r.attempt_id), r.failure),
    rq.CancelledActivity: lambda link, n, r: wire.CancelledActivity(n, link.attempt_token(r.attempt_id), r.details),
    rq.HeartbeatActivity: lambda link, n, r: wire.HeartbeatActivity(n, link.attempt_token(r.attempt_id), r.details),
    rq.ExtendActivity: lambda link, n, r: wire.ExtendActivity(n, link.attempt_token(r.attempt_id)),
    rq.ReleaseActivity: lambda link, n, r: wire.ReleaseActivity(n, link.attempt_token(r.attempt_id)),
}
