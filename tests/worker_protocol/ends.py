"""Both ends of the protocol in memory, between a worker that plays a script and an engine on the real rules.

Messages are structs. A connection loses messages, delivers them late and in any order, and delivers a worker's message
twice; it is cut, and the engine restarts. Leases never expire: only the protocol can bring a lost one back. As over
HTTP, a worker that has lost a message connects again, and receives nothing of an earlier connection any more.
"""

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.errors import AssayError
from assay.core.model.events import ActivityScheduled, Recorded
from assay.core.model.grants import ActivityGrant, ConnectedWorker, TaskGrant
from assay.core.model.ids import RunId, Time, WorkflowId
from assay.core.model.replies import ReplyCallback
from assay.core.model.run import Run
from assay.core.model.slots import Slots
from assay.worker_protocol import messages as wire
from assay.worker_protocol.engine_side import TASK_SEQ, EngineEndpoint
from assay.worker_protocol.tokens import PlainLeases
from assay.worker_protocol.worker_side import WorkerEndpoint
from tests.core.support import LEASE, MAIN, WORKER, World

Action = Callable[[], object]
TASK_SLOTS, ACTIVITY_SLOTS = 3, 2
ACTIVITIES_PER_RUN = 3
PAGE_EVENTS = 2


class RulesEngine:
    """An `EnginePort` and `EngineDriver`: requests are decided in order, by the real rules, some time after `post`."""

    def __init__(self, ends: "Ends") -> None:
        self.world = World()
        self.applied: Counter[object] = Counter()
        """How often each turn and each result of an attempt was accepted."""
        self.most_leased = 0, 0
        """The most workflow tasks and the most activities that the worker had at a time."""
        self._ends = ends
        self._worker: ConnectedWorker | None = None
        self._queue: deque[Action] = deque()

    def now(self) -> Time:
        return self.world.now

    def post(self, request: rq.Request, callback: ReplyCallback | None = None) -> None:
        self._enqueue(lambda: self._decide(request, callback))

    def _enqueue(self, decide: Action) -> None:
        self._queue.append(decide)
        self._ends.later(self.decide_next)

    def decide_next(self) -> None:
        if self._queue:
            self._queue.popleft()()

    def decide_all(self) -> None:
        while self._queue:
            self.decide_next()

    def forget_workers(self) -> None:
        """Lose the memory of a process; requests that are decided and not written are lost with it."""
        self._worker = None
        self._queue.clear()

    def _decide(self, request: rq.Request, callback: ReplyCallback | None) -> None:
        try:
            decision = self.world.take(request)
        except AssayError as error:
            reply, refusal = None, error
        else:
            assert decision is not None
            reply, refusal = decision.reply, None
            self._note(request, reply)
        if callback is not None:
            callback(reply, refusal)
        self._lease()

    def _note(self, request: rq.Request, reply: Any) -> None:
        if isinstance(request, rq.Advance) and reply.accepted:
            self.applied[request.run_id, request.epoch, request.seen_seq] += 1
        elif isinstance(request, rq.CompleteActivity):
            self.applied[request.attempt_id] += 1

    # leases

    def add_worker(self, worker: ConnectedWorker) -> None:
        self._worker = worker
        self._lease()

    def remove_worker(self, worker: ConnectedWorker) -> None:
        self._worker = None

    def offer_work(self, worker: ConnectedWorker) -> None:
        self._lease()

    def _lease(self) -> None:
        worker = self._worker
        if worker is None:
            return
        for run in [run for run in self.world.runs.values() if not run.closed]:
            if run.task.ready and worker.slots.tasks > 0:
                worker.slots.reserve()
                self.world.take(rq.LeaseTask(run.run_id, worker.worker, LEASE))
                self._enqueue(lambda run=run: worker.take(_task_grant(run, self.world)))  # type: ignore[misc]
            for activity in [activity for activity in run.activities.values() if activity.ready]:
                if worker.slots.activities > 0:
                    worker.slots.reserve(activity.name)
                    self.world.take(rq.LeaseActivity(run.run_id, activity.seq, worker.worker, LEASE))
                    grant = ActivityGrant(run.key, run.start, run.activities[activity.seq])
                    self._enqueue(lambda grant=grant: worker.take(grant))  # type: ignore[misc]
        leased = [seq == TASK_SEQ for _, seq, _ in self.leases()]
        self.most_leased = max(self.most_leased[0], sum(leased)), max(self.most_leased[1], len(leased) - sum(leased))

    def leases(self) -> list[tuple[RunId, int, int]]:
        """Return the leases in the store."""
        open_runs = [run for run in self.world.runs.values() if not run.closed]
        tasks = [(run.run_id, TASK_SEQ, run.task.epoch) for run in open_runs if run.task.worker == WORKER]
        return tasks + [
            (run.run_id, activity.seq, activity.attempt_id)
            for run in open_runs
            for activity in run.activities.values()
            if activity.worker == WORKER
        ]

    def grant(self, run_id: RunId, seq: int) -> TaskGrant | ActivityGrant:
        run = self.world.runs[run_id]
        return (
            _task_grant(run, self.world) if seq == TASK_SEQ else ActivityGrant(run.key, run.start, run.activities[seq])
        )

    # reads

    def leased_task(self, run_id: RunId) -> TaskGrant | None:
        run = self.world.runs[run_id]
        return _task_grant(run, self.world) if run.task.worker == WORKER else None

    def load_task(self, grant: TaskGrant, after: int) -> None:
        endpoint = self._ends.engine_side
        assert endpoint is not None
        hello = endpoint.hellos
        events = self.world.histories[grant.key.run_id][after : grant.last_seq]
        self._ends.later(lambda: endpoint.task_loaded(grant, after, events, hello))

    def load_history(self, report: wire.ReadHistory, run_id: RunId) -> None:
        endpoint = self._ends.engine_side
        assert endpoint is not None
        events = self.world.histories[run_id][report.after :]
        page, more = wire.sent(events[:PAGE_EVENTS]), len(events) > PAGE_EVENTS
        self._ends.later(lambda: endpoint.history_loaded(wire.ReportAnswer(report.n, events=page, more=more)))


def _task_grant(run: Run, world: World) -> TaskGrant:
    tail = tuple(world.histories[run.run_id][run.seen_seq : run.last_seq])
    return TaskGrant(run.key, run.start, run.task.epoch, run.seen_seq, run.last_seq, 0, tail)


class ScriptedWorker:
    """A `ConnectedWorker`: schedules a few activities in each run, one after the other, and completes it."""

    worker = WORKER
    namespace = MAIN
    queue = "default"
    identity = "scripted"
    lease: Time | None = LEASE
    local = False
    workflows: frozenset[str] | None = None
    activities: frozenset[str] | None = None

    def __init__(self, ends: "Ends") -> None:
        self.slots = Slots(TASK_SLOTS, ACTIVITY_SLOTS)
        self.begun: Counter[int] = Counter()
        """How often each attempt was begun."""
        self.callbacks: Counter[int] = Counter()
        """How often each report was called back, by a number of our own."""
        self.reports = 0
        self.refused: list[AssayError] = []
        self._ends = ends
        self._kept: set[RunId] = set()

    def holds(self, run_id: RunId) -> bool:
        return run_id in self._kept

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        if isinstance(grant, TaskGrant):
            self._ends.later(lambda: self._read(grant))
        else:
            self.begun[grant.activity.attempt_id] += 1
            self._ends.later(lambda: self._finish(grant))

    def news(self, run_id: RunId) -> None:
        """New events come with the next task."""

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """An attempt that is cancelled runs on, and its result is refused."""

    def _send(self, request: rq.ToRun, released: str | None) -> None:
        self.reports += 1
        number = self.reports

        def answered(_reply: Any, error: AssayError | None) -> None:
            self.callbacks[number] += 1
            if error is not None:
                self.refused.append(error)
            self.slots.release(released)
            self._ends.worker_side.offer_slots()

        self._ends.worker_side.send(request, answered)

    def _read(self, grant: TaskGrant) -> None:
        if grant.tail is not None and grant.seen_seq == 0:
            self._advance(grant, grant.tail)
        else:
            self._ends.worker_side.read_history(grant.key.run_id, 0, lambda events, _: self._advance(grant, events))

    def _advance(self, grant: TaskGrant, events: tuple[Recorded, ...]) -> None:
        run_id = grant.key.run_id
        self._kept.add(run_id)
        scheduled = sum(isinstance(recorded.event, ActivityScheduled) for recorded in events)
        command: cmd.AnyCommand = cmd.ScheduleActivity(scheduled + 1, "act")
        if scheduled == ACTIVITIES_PER_RUN:
            command = cmd.CompleteWorkflow()
        self._send(rq.Advance(run_id, WORKER, grant.epoch, events[-1].seq, (command,), lease=LEASE), None)
        if self._ends.chance.random() < 0.3:
            self._kept.discard(run_id)

    def _finish(self, grant: ActivityGrant) -> None:
        key, activity = grant.key, grant.activity
        if self._ends.chance.random() < 0.1:
            self._send(rq.ReleaseActivity(key.run_id, activity.seq, activity.attempt_id), activity.name)
        else:
            self._send(rq.CompleteActivity(key.run_id, activity.seq, activity.attempt_id), activity.name)


class Ends:
    """Both ends and the network between them; `step` lets one thing happen, chosen by chance."""

    def __init__(self, seed: int, runs: int, *, restarts: bool) -> None:
        self.chance = random.Random(seed)  # noqa: S311  # a repeatable choice
        self.faulty = True
        self._faults = (self.connect, self.restart) if restarts else (self.connect,)
        self.engine = RulesEngine(self)
        self.worker = ScriptedWorker(self)
        self.worker_side = WorkerEndpoint(self.worker, lambda _: None)
        self.engine_side: EngineEndpoint | None = None
        self._actions: list[Action] = []
        self._connection = 0
        self._known_connection = 0
        """The connection on which the engine received the last hello."""
        for number in range(runs):
            workflow_id = WorkflowId(f"w-{number}")
            self.engine.post(rq.StartWorkflow(namespace=MAIN, workflow_id=workflow_id, workflow_type="W"))
        self.engine.decide_all()
        self.connect()

    def later(self, action: Action) -> None:
        self._actions.append(action)

    @property
    def done(self) -> bool:
        runs = self.engine.world.runs.values()
        quiet = not (self._actions or self.worker_side.wakeup.is_set)
        return all(run.closed for run in runs) and self.worker_side.idle and quiet

    def step(self) -> None:
        """Let one of the things happen that are due, or a fault."""
        if self.faulty and self.chance.random() < 0.01:
            self.chance.choice(self._faults)()
        if self.worker_side.wakeup.is_set and self._known_connection == self._connection:
            self.later(self._send_to_engine)
        elif not self._actions:
            self.worker_side.keep_alive()
        outgoing = None if self.engine_side is None else self.engine_side.outgoing
        if outgoing is not None and outgoing.wakeup.is_set:
            self.later(self._send_to_worker)
        if self._actions:
            self._actions.pop(self.chance.randrange(len(self._actions)))()

    # connections

    def connect(self) -> None:
        """Begin another connection with a hello; what the last one carried to the worker is lost."""
        self._connection += 1
        self._carry(self.worker_side.compose(hello=True))

    def restart(self) -> None:
        """Restart the engine: its end is gone, and its connections with it."""
        self.engine_side = None
        self.engine.forget_workers()
        self.connect()

    def _reconnect(self, connection: int) -> None:
        if connection == self._connection:  # else the worker has done so already
            self.connect()

    # messages

    def _send_to_engine(self) -> None:
        # No carrier sends a message of a connection before its hello has arrived.
        if self.worker_side.wakeup.is_set and self._known_connection == self._connection:
            self._carry(self.worker_side.compose())

    def _carry(self, message: wire.WorkerMessage) -> None:
        connection = self._connection
        if self.faulty and self.chance.random() < 0.05:
            self.later(lambda: self._reconnect(connection))  # a time-out finds the loss
            return
        self.later(lambda: self._arrive(message, connection))
        if self.faulty and self.chance.random() < 0.1:
            self.later(lambda: self._arrive(message, connection, copy=True))

    def _arrive(self, message: wire.WorkerMessage, connection: int, *, copy: bool = False) -> None:
        endpoint = self.engine_side
        if endpoint is None:
            if message.hello is None:
                self._refuse(connection, copy=copy)
                return
            endpoint = self.engine_side = EngineEndpoint(self.engine, self.engine, PlainLeases(), MAIN, WORKER)
        if not endpoint.accepts(message):
            self._refuse(connection, copy=copy)
            return
        if message.hello is not None:
            self._known_connection = connection
            self._greet(endpoint, message.hello)
        endpoint.receive(message)

    def _refuse(self, connection: int, *, copy: bool) -> None:
        if not copy:  # the answer to a copy reaches nobody
            self.later(lambda: self._reconnect(connection))

    def _greet(self, endpoint: EngineEndpoint, hello: wire.Hello) -> None:
        endpoint.begin_hello(hello)
        if hello.again:
            while not endpoint.released.is_set or self.engine._queue:
                self.engine.decide_all()
            for run_id, seq, _ in sorted(endpoint.reconcile(hello, self.engine.leases())):
                endpoint.resend(self.engine.grant(run_id, seq))
        endpoint.end_hello()

    def _send_to_worker(self) -> None:
        endpoint, connection = self.engine_side, self._known_connection
        if endpoint is None or not endpoint.outgoing.wakeup.is_set:
            return
        message = endpoint.outgoing.compose()
        endpoint.outgoing.sent()
        if self.faulty and self.chance.random() < 0.05:
            self.later(lambda: self._reconnect(connection))
        else:
            self.later(lambda: self._receive(message, connection))

    def _receive(self, message: wire.EngineMessage, connection: int) -> None:
        if connection == self._connection:
            self.worker_side.receive(message)
