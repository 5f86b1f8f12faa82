"""The worker's end of the protocol: requests of a worker in, messages out; messages of its engine in, work out.

A report is sent until it is answered, always under the same number. A restarted engine or a lost message costs only
time: each report has its effect once.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from assay.core.model import requests as rq
from assay.core.model.errors import AssayError, Invalid, Refused, Unavailable
from assay.core.model.events import Recorded, StartData
from assay.core.model.grants import ActivityGrant, ConnectedWorker, TaskGrant
from assay.core.model.ids import RunId, RunKey, Time, WorkflowId
from assay.core.model.replies import ReplyCallback
from assay.core.model.run import Activity
from assay.worker_protocol import messages as wire
from assay.worker_protocol.held_leases import AnnouncedSlots, HeldLeases
from assay.worker_protocol.problems import error_of_problem
from assay.worker_protocol.translate import BY_REQUEST, advance_report
from assay.worker_protocol.unacknowledged import HEARTBEAT_REPLIES, Unacknowledged
from assay.worker_protocol.wakeup import Wakeup

log = logging.getLogger("assay.worker")


class WorkerEndpoint:
    """The worker's end of the protocol, independent of the transport.

    Args:
        worker: Receives the leased work, and lists its live runs.
        learn_time: Called with the engine time of each message.
    """

    def __init__(self, worker: ConnectedWorker, learn_time: Callable[[Time], None]) -> None:
        self.worker = worker
        self.wakeup = Wakeup()
        self.leaving = False
        self._learn_time = learn_time
        self._held = HeldLeases(worker)
        self._slots = AnnouncedSlots(worker.slots)
        self._next_report = 1
        self._messages = 0
        self._outgoing: list[wire.Report] = []
        self._unacknowledged: OrderedDict[int, Unacknowledged] = OrderedDict()  # finds the first entry fast
        self._unencodable: list[tuple[Unacknowledged, Invalid]] = []
        self._histories: dict[str, tuple[Recorded, ...]] = {}
        """Histories that arrived with their task and were not read yet."""
        self._dropped: list[str] = []
        self._connected_before = False
        self._withheld = worker.slots.withheld

    @property
    def idle(self) -> bool:
        """Return whether no report waits for an answer and no lease is held."""
        return not (self._unacknowledged or self._held)

    @property
    def alone(self) -> bool:
        """Return whether at most one report is in flight, so that no other answer can cause a report soon."""
        return len(self._unacknowledged) <= 1

    def owns(self, request: rq.Request) -> bool:
        """Return whether this worker issued a request."""
        attempt_id = getattr(request, "attempt_id", None)
        if attempt_id is not None:
            return self._held.has_attempt(attempt_id)
        return getattr(request, "worker", None) == self.worker.worker

    def has_run(self, run_id: str) -> bool:
        """Return whether a task of this run was leased to this worker."""
        return self._held.has_run(run_id)

    # reporting

    def send(self, request: rq.ToRun, callback: ReplyCallback) -> None:
        """Report a request to the engine; call back once with its reply, or with the error."""
        n, held = self._next_report, self._held
        report: wire.Report
        try:
            if type(request) is rq.Advance:
                token = held.task_token(request.run_id, request.epoch)
                report = advance_report(request, n, token, held.attempt_token)
            else:
                report = self._report(request, n)
        except Refused as error:
            callback(None, error)
        else:
            self._post(Unacknowledged(report, request, callback))

    def _report(self, request: Any, n: int) -> wire.Report:
        translation = BY_REQUEST.get(type(request))
        if translation is None:
            raise Invalid(f"a worker cannot send {type(request).__name__}")
        if translation.about_attempt:
            return translation.report(request, n, self._held.attempt_token(request.attempt_id))
        return translation.report(request, n, self._held.task_token(request.run_id, request.epoch))

    def _post(self, entry: Unacknowledged) -> None:
        self._unacknowledged[self._next_report] = entry
        self._next_report += 1
        self._outgoing.append(entry.report)
        self.wakeup.set()

    def read_history(self, run_id: RunId, after: int, callback: ReplyCallback) -> None:
        """Call back with a run's events after a seq, from all pages or from the history that arrived with the task."""
        history = self._histories.pop(run_id, None)
        if history is not None and after == 0:
            callback(history, None)
        else:
            self._read_page(run_id, after, [], callback)

    def _read_page(self, run_id: RunId, after: int, events: list[Recorded], callback: ReplyCallback) -> None:
        def received(answer: Any, error: AssayError | None) -> None:
            if error is not None:
                callback(None, error)
                return
            events.extend(wire.received(answer.events or ()))
            if answer.more:
                self._read_page(run_id, events[-1].seq, events, callback)
            else:
                callback(events, None)

        report = wire.ReadHistory(self._next_report, self._held.run_token(run_id), after)
        self._post(Unacknowledged(report, None, received))

    def offer_slots(self) -> None:
        """Announce released slots with the next message, or at once if the engine may run out of free slots."""
        if self._slots.urgent or self._has_changed:
            self.wakeup.set()

    @property
    def _has_changed(self) -> bool:
        """Return whether the worker accepts other activities than at its last hello."""
        return self.worker.slots.withheld is not self._withheld

    def keep_alive(self) -> None:
        """Send a message, even if empty, with the runs that were dropped."""
        dropped = self._held.take_dropped()
        self._dropped.extend(dropped)
        for run_id in dropped:
            self._histories.pop(run_id, None)
        self.wakeup.set()

    def leave(self) -> None:
        """Accept no more work; reports are still sent."""
        self.leaving = True
        self.wakeup.set()

    # sending

    def compose(self, *, hello: bool = False) -> wire.WorkerMessage:
        """Return the next message with all new reports; with a hello, also all reports without an answer."""
        self.wakeup.clear()
        hello = hello or self._has_changed
        greeting = self._hello() if hello else None
        reports, self._outgoing = self._outgoing, []
        if hello:
            reports = [entry.report for entry in self._unacknowledged.values()]
        dropped, self._dropped = self._dropped, []
        released = self._slots.announce()
        return wire.WorkerMessage(
            number=self.next_number(),
            hello=greeting,
            reports=tuple(reports),
            freed=(released.tasks, released.activities),
            freed_processes=released.processes,
            answered=next(iter(self._unacknowledged), self._next_report),
            dropped=tuple(dropped),
            leaving=self.leaving,
        )

    def poll(self, seconds: float) -> wire.WorkerMessage:
        """Return an empty message that waits for a message of the engine, for POST requests."""
        return wire.WorkerMessage(number=self.next_number(), wait_secs=seconds)

    def next_number(self) -> int:
        """Return the number of the next message."""
        self._messages += 1
        return self._messages

    def _hello(self) -> wire.Hello:
        worker, slots, capacity = self.worker, self._slots.restart(), self._slots.capacity
        again, self._connected_before = self._connected_before, True
        self._withheld = worker.slots.withheld
        return wire.Hello(
            queue=worker.queue,
            namespace=worker.namespace,
            identity=worker.identity,
            workflows=None if worker.workflows is None else tuple(sorted(worker.workflows)),
            activities=None if worker.activities is None else tuple(sorted(worker.activities)),
            max_concurrent_workflows=capacity.tasks,
            max_concurrent_activities=capacity.activities,
            free_tasks=slots.tasks,
            free_activities=slots.activities,
            process_activities=tuple(sorted(slots.process_activities)),
            free_processes=slots.processes,
            held=self._held.tokens(),
            runs=self._held.live(),
            again=again,
        )

    def refuse(self, report: wire.Report, error: Invalid) -> None:
        """Drop a report that cannot be encoded; `settle_refused` calls back after the rest of the message was sent."""
        entry = self._unacknowledged.pop(report.n)
        if entry.request is not None:
            self._held.refuse(entry.request, error)
        self._unencodable.append((entry, error))

    def settle_refused(self) -> None:
        """Call back for reports that could not be encoded; reports that replace them follow in another message."""
        if self._unencodable:
            refused, self._unencodable = self._unencodable, []
            for entry, error in refused:
                entry.settle(None, error)

    # receiving

    def receive(self, message: wire.EngineMessage) -> None:
        """Handle a message: first answers to reports, then new work, then notices.

        Raises:
            AssayError: The engine refused the worker's message as a whole.
        """
        if message.problem is not None:
            raise error_of_problem(message.problem)
        self._learn_time(message.time)
        for answer in message.answers:
            self._settle(answer)
        for task in message.tasks:
            self._take_task(task)
        for activity in message.activities:
            self._take_activity(activity)
        for run_id in message.news:
            self.worker.news(RunId(run_id))
        for attempt_id in message.cancelled:
            self.worker.cancel(attempt_id, over=attempt_id in message.over)

    def _take_task(self, task: wire.SentTask) -> None:
        self._slots.leased()
        if not self._held.take_task(task):
            return
        self.worker.slots.reserve()
        run_id = RunId(task.run_id)
        key = RunKey(self.worker.namespace, WorkflowId(task.workflow_id), run_id)
        start = StartData(task.workflow_type, task.task_queue, run_id)
        events = None if task.events is None else wire.received(task.events)
        # Events after `seen_seq` continue a live run. Events from the beginning are kept for `read_history`.
        tail = events if task.after == task.seen_seq else None
        if tail is None and events is not None:
            self._histories[task.run_id] = events
        else:
            # A history of an earlier lease that was never read: it lacks the events that this lease counts as seen.
            self._histories.pop(task.run_id, None)
        grant = TaskGrant(key, start, task.epoch, task.seen_seq, task.last_seq, task.history_bytes, tail)
        self.worker.take(grant)

    def _take_activity(self, activity: wire.SentActivity) -> None:
        self._slots.leased(activity.name)
        if self._held.take_attempt(activity):
            self.worker.slots.reserve(activity.name)
            self.worker.take(_activity_grant(activity, self.worker))

    def _settle(self, answer: wire.ReportAnswer) -> None:
        entry = self._unacknowledged.pop(answer.n, None)
        if entry is None:
            return  # a repeated answer
        request = entry.request
        if answer.problem is not None:
            error = error_of_problem(answer.problem)
            log.debug("refused: report %d, %s %s: %s", answer.n, error.kind.value, error.code, error)
            if request is not None and not isinstance(error, Unavailable):
                self._held.refuse(request, error)
            entry.settle(None, error)
        elif request is None:
            entry.settle(answer)
        else:
            self._held.settle(request, answer)
            entry.settle(HEARTBEAT_REPLIES[answer.cancel_requested] if answer.advanced is None else answer.advanced)

    def end(self, error: AssayError) -> None:
        """Call back for all reports with an error, because no answer will arrive any more."""
        entries, self._unacknowledged = self._unacknowledged, OrderedDict()
        for entry in entries.values():
            entry.settle(None, error)


def _activity_grant(order: wire.SentActivity, worker: ConnectedWorker) -> ActivityGrant:
    run_id = RunId(order.run_id)
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
        worker=worker.worker,
        details=order.details,
    )
    start = StartData(
        order.workflow_type,
        order.task_queue,
        run_id,
        context=order.context,
        actor=order.actor,
        scope=order.scope,
    )
    return ActivityGrant(RunKey(worker.namespace, WorkflowId(order.workflow_id), run_id), start, activity)
