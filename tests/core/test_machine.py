"""Random requests, valid, stale, doubled and late, against one tree of runs; the contract holds after each (I4-I18)."""

from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from assay.core import commands as cmd
from assay.core import events as ev
from assay.core import requests as rq
from assay.core.decide import decide
from assay.core.effects import Decision
from assay.core.errors import AssayError
from assay.core.failure import FailureInfo
from assay.core.ids import SECOND, RunId, WorkflowId
from assay.core.moment import Moment
from assay.core.payload import Payload
from assay.core.policies import IdConflict, IdReuse, RetryPolicy
from assay.core.replies import Advanced
from assay.core.run import Activity, Run, Task
from tests.core.invariants import check_families, check_healed, check_run, picture
from tests.core.ledger import Ledger
from tests.core.support import LEASE, MAIN, FixedIds, World, events

ROOTS = [WorkflowId("a"), WorkflowId("b")]
CHILDREN = [WorkflowId(name) for name in "cdeacde"]
WORKERS = ["w-1", "w-2"]
RETRIES = [None, None, RetryPolicy(2, SECOND, 2.0, 10 * SECOND)]
STEPS_OF_TIME = [1_000, SECOND, 5 * SECOND, 11 * SECOND, 61 * SECOND, 3_600 * SECOND, -5 * SECOND]
FINAL, FAILED = FailureInfo(message="final", retryable=False), FailureInfo(message="again")
CONFLICTS = [*[IdConflict.FAIL, IdConflict.USE_EXISTING] * 2, IdConflict.TERMINATE_EXISTING]
CHANCES = (
    ["turn", "report"] * 7
    + ["fused", "lease_activity", "wait", "keep_time"] * 3
    + ["deliver", "late_turn", "repeat", "signal"] * 2
    + ["start", "cancel", "terminate", "restart", "lease_task", "other_than_a_turn", "look_at_a_deadline"]
)
"""What happens, and how often."""

some = st.sampled_from
seldom = some([False] * 5 + [True])
near = some([-1, 0, 1, 1, 1, 1, 2])
"""How far the seq of a command lies beyond the highest of its kind: most are new, some are repeats, a few skip one."""
documents = some([Payload(b'{"k":1}'), Payload(b'{"k":null,"l":"x"}'), Payload(b"{}")])

schedules = st.builds(
    cmd.ScheduleActivity,
    seq=near,
    name=some(["charge", "ship"]),
    max_attempts=some([None, 0, 1, 2]),
    initial_interval_secs=some([None, 0.0, 5.0]),
    start_to_close_secs=some([None, 4.0]),
    schedule_to_start_secs=some([None, None, 3.0]),
    schedule_to_close_secs=some([None, None, 20.0]),
    heartbeat_timeout_secs=some([None, 2.0]),
    survives_cancel=st.booleans(),
)
children = st.builds(
    cmd.StartChildWorkflow,
    workflow_type=some(["Child"] * 7 + [""]),
    workflow_id=some(CHILDREN),
    seq=st.integers(0, 3),
    parent_close_policy=some([None, "terminate", "abandon", "request_cancel"]),
    retry_policy=some([None, {"max_attempts": 2}]),
)
closings = st.one_of(
    st.builds(cmd.CompleteWorkflow, documents),
    st.builds(cmd.FailWorkflow, failure=some([None, FINAL])),
    st.builds(cmd.ContinueAsNew, memo=documents),
    st.builds(cmd.CancelWorkflow),
)
echoes = st.one_of(
    schedules,
    schedules,
    children,
    st.builds(cmd.ScheduleTimer, near, some([0.0, 1.1, 30.0])),
    st.builds(cmd.CancelTimer, near),
    st.builds(cmd.RequestCancelActivity, near),
    st.builds(cmd.WaitForSignal, some(["paid", "other"])),
    st.builds(cmd.RecordSideEffect, near, value=documents, resume=st.booleans()),
    st.builds(cmd.RecordVersion, some(["x"]), st.integers(1, 2)),
    st.builds(cmd.RecordSnapshot, documents),
    st.builds(cmd.UpsertAttributes, documents, documents),
)
turns = st.builds(
    lambda commands, closing, flawed: (*commands, *flawed, *closing),
    st.lists(echoes, min_size=1, max_size=4),
    seldom.flatmap(lambda closes: closings.map(lambda command: (command,)) if closes else st.just(())),
    some([()] * 15 + [(cmd.UpsertAttributes(Payload(b"[]")),)]),
)


def numbered(run: Run, commands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The commands with seqs as code that has got so far would count them."""
    marks = {
        cmd.ScheduleActivity: run.activity_mark,
        cmd.RequestCancelActivity: run.activity_mark - 1,
        cmd.ScheduleTimer: run.timer_mark,
        cmd.CancelTimer: run.timer_mark - 1,
        cmd.RecordSideEffect: run.effect_mark,
    }
    found = []
    for command in commands:
        if type(command) in marks:
            seq = max(marks[type(command)] + command.seq, 0)
            marks[type(command)] = max(marks[type(command)], seq)
            command = msgspec.structs.replace(command, seq=seq)
        found.append(command)
    return tuple(found)


def described(decision: Decision) -> Any:
    """A decision as values that can be compared."""
    return (
        picture(decision.run),
        decision.events,
        decision.effects,
        decision.task,
        decision.seen_seq,
        decision.reply,
        [described(other) for other in decision.others],
    )


class Runs(RuleBasedStateMachine):
    """One tree of runs, several workers, an outbox, and nobody who behaves."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ledger = Ledger()
        self.grants: list[tuple[RunId, str, int, int]] = []
        self.attempts: list[tuple[RunId, int, int]] = []
        self.asked: list[rq.Request] = []
        self.count = 0

    # asking

    def ask(self, request: rq.Request) -> None:
        """Decide twice, change nothing; keep the decision, and check everything."""
        self.asked.append(request)
        run = self.world.find(request)
        before = {run_id: picture(found) for run_id, found in self.world.runs.items()}
        (first, ids), (second, _) = self._decide(run, request), self._decide(run, request)
        after = {run_id: picture(found) for run_id, found in self.world.runs.items()}
        note(f"{request}\n    -> {first if isinstance(first, AssayError) else events(first)}")
        assert before == after, "I2: deciding has changed a run"
        if isinstance(first, AssayError) or isinstance(second, AssayError):
            assert type(first) is type(second)
            assert str(first) == str(second), "the same request is refused for another reason"
            return
        assert described(first) == described(second), "deciding is not a function"
        self._no_orphans(first)
        self._carry_signals(request, first)
        self.ledger.took(request, first)
        self.world.ids = ids
        self.world.keep(first)
        self._note(first)
        self.check()

    def _decide(self, run: Run | None, request: rq.Request) -> tuple[Decision | AssayError, FixedIds]:
        ids = self.world.ids.copy()
        try:
            return decide(run, request, Moment(self.world.now, ids, self.world.newest)), ids
        except AssayError as error:
            return error, ids

    def _no_orphans(self, decision: Decision) -> None:
        for other in decision.others:
            parent = other.run.start.parent
            if parent is not None and other.run.start.previous_run_id is None and other.run.last_seq == 0:
                assert parent.run_id == decision.run.run_id, "I16: a child of somebody else"
                assert not decision.run.closed, "I16: a child of a closed run"

    def _carry_signals(self, request: rq.Request, decision: Decision) -> None:
        """Signals that nobody has read go on to the next run, in order (R19)."""
        if isinstance(request, rq.Advance) and events(decision)[-1:]:
            closing = events(decision)[-1]
            if isinstance(closing, ev.WorkflowContinuedAsNew):
                self.ledger.signals[decision.others[-1].run.run_id] = _payloads(request.unread)
        if isinstance(request, rq.RestartAsNew) and decision.others:
            ended = decision.others[0].run
            unread = [entry for entry in self.world.histories[ended.run_id] if entry.seq > ended.seen_seq]
            self.ledger.signals[decision.run.run_id] = _payloads(unread)

    def _note(self, decision: Decision) -> None:
        run, reply = decision.run, decision.reply
        if isinstance(reply, Task) or (isinstance(reply, Advanced) and reply.leased):
            self.grants.append((run.run_id, run.task.worker or "", run.task.epoch, run.last_seq))
        if isinstance(reply, Activity):
            self.attempts.append((run.run_id, reply.seq, reply.attempt_id))

    def check(self) -> None:
        for run_id, run in self.world.runs.items():
            check_run(run, self.world.histories[run_id])
            self.ledger.agrees_with(run, self.world.histories[run_id])
        check_families(self.world)

    def unread(self, run_id: RunId) -> tuple[ev.Recorded, ...]:
        """What the engine would find in the store for a run that continues as new."""
        seen = self.world.runs[run_id].seen_seq
        history = self.world.histories[run_id]
        return tuple(entry for entry in history if entry.seq > seen and isinstance(entry.event, ev.SignalReceived))

    def any_run(self, data: st.DataObject) -> Run:
        return data.draw(some(list(self.world.runs.values())))

    def open_run(self, data: st.DataObject) -> Run:
        """One that is open; if there is none, a new one."""
        opened = [run for run in self.world.runs.values() if not run.closed]
        if not opened:
            self.ask(rq.StartWorkflow(namespace=MAIN, workflow_id=ROOTS[0], workflow_type="Root"))
            opened = [self.world.newest[ROOTS[0]]]
        return data.draw(some(opened))

    def claimed_run(self, data: st.DataObject) -> Run:
        """Rather one that somebody has claimed: others are closed at once, and nothing comes of them."""
        return data.draw(some([run for run in self.world.runs.values() if run.task.epoch] or [self.any_run(data)]))

    # callers

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        options = {"retry_policy": data.draw(some(RETRIES)), "run_timeout": data.draw(some([None, None, 60 * SECOND]))}
        self.ask(rq.StartWorkflow(namespace=MAIN, workflow_id=ROOTS[0], workflow_type="Root", **options))

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        """One rule that rolls the dice itself: Hypothesis gives all rules the same chance, and most requests kill."""
        getattr(self, data.draw(some(CHANCES)))(data)

    def start(self, data: st.DataObject) -> None:
        self.ask(
            rq.StartWorkflow(
                namespace=MAIN,
                workflow_id=data.draw(some(ROOTS)),
                workflow_type="Root",
                id_conflict=data.draw(some(CONFLICTS)),
                id_reuse=data.draw(some([IdReuse.ALLOW_DUPLICATE, IdReuse.ALLOW_DUPLICATE_FAILED_ONLY])),
                retry_policy=data.draw(some(RETRIES)),
                cron_schedule=data.draw(some([None, None, None, "@every 30s"])),
                start_delay=data.draw(some([None, None, None, 5 * SECOND])),
                execution_timeout=data.draw(some([None, None, 20 * SECOND])),
                request_id=data.draw(some([None, "r-1"])),
                signals=tuple(rq.FirstSignal("first", self.fresh()) for _ in range(data.draw(some([0, 0, 2])))),
            )
        )

    def fresh(self) -> Payload:
        """A payload that no other signal has."""
        self.count += 1
        return Payload(str(self.count).encode())

    def signal(self, data: st.DataObject) -> None:
        run = self.any_run(data)
        self.ask(rq.Signal(MAIN, run.workflow_id, run.run_id, "paid", self.fresh()))

    def cancel(self, data: st.DataObject) -> None:
        deadline = data.draw(some([None, None, 5 * SECOND]))
        self.ask(rq.RequestCancel(MAIN, self.claimed_run(data).workflow_id, deadline=deadline))

    def terminate(self, data: st.DataObject) -> None:
        self.ask(rq.Terminate(MAIN, self.claimed_run(data).workflow_id))

    def restart(self, data: st.DataObject) -> None:
        run = self.any_run(data)
        self.ask(rq.RestartAsNew(MAIN, run.workflow_id, run.run_id, signals=self.unread(run.run_id)))

    # workers of workflow tasks

    def lease_task(self, data: st.DataObject) -> None:
        worker, lease = data.draw(some(WORKERS)), data.draw(some([LEASE, None]))
        self.ask(rq.LeaseTask(self.open_run(data).run_id, worker, lease))

    def turn(self, data: st.DataObject) -> None:
        """An honest turn of a holder; if nobody holds the task, somebody claims it, perhaps after a nudge."""
        run = self.open_run(data)
        if run.task.worker is None and not run.task.ready:
            self.ask(rq.Signal(MAIN, run.workflow_id, run.run_id, "nudge", self.fresh()))
        if run.task.worker is None:
            self.ask(rq.LeaseTask(run.run_id, data.draw(some(WORKERS)), LEASE))
            if data.draw(st.booleans()):
                return  # and works for a while
        seen = data.draw(some([run.last_seq, run.task.granted_seq, -1]))
        steps = [data.draw(self.step(run)) for _ in range(data.draw(some([0, 0, 0, 1, 2])))]
        self.advance(data, run, run.task.worker or WORKERS[0], run.task.epoch, seen, tuple(steps))

    def fused(self, data: st.DataObject) -> None:
        """Results that the worker has advanced on, together with what follows (R8)."""
        run = self.open_run(data)
        for activity in tuple(run.activities.values()):
            if activity.ready:
                self.ask(rq.LeaseActivity(run.run_id, activity.seq, WORKERS[0], LEASE))
        running = [activity for activity in run.activities.values() if activity.running]
        offset = data.draw(some([0, 0, 0, -1_000, 1_000, 2 * SECOND]))
        outcomes = tuple(
            rq.ActivityOutcome(activity.seq, activity.attempt_id, self.world.now + offset, Payload(b"1"))
            for activity in running[: data.draw(st.integers(1, 2))]
        )
        if outcomes:
            worker = running[0].worker or WORKERS[0]
            self.advance(data, run, worker, run.task.epoch, run.last_seq, outcomes)

    def late_turn(self, data: st.DataObject) -> None:
        """A turn under any lease that was ever given, with any result that ever was."""
        run_id, worker, epoch, granted = data.draw(some(self.grants or [(self.asked_first(), WORKERS[0], 0, 1)]))
        run = self.world.runs[run_id]
        own = [entry for entry in self.attempts if entry[0] == run_id]
        steps = data.draw(st.lists(self.step(run), max_size=2))
        results = data.draw(st.lists(some(own), max_size=2)) if own else []
        outcomes = [rq.ActivityOutcome(seq, attempt_id, self.world.now) for _, seq, attempt_id in results]
        seen = data.draw(some([granted, granted + 1, run.last_seq]))
        self.advance(data, run, worker, epoch, seen, (*steps, *outcomes))

    def asked_first(self) -> RunId:
        return next(iter(self.world.runs))

    def step(self, run: Run) -> st.SearchStrategy[rq.StepOutcome]:
        seqs = some([0, 1, 1, 1, 2]).map(lambda offset: run.step_mark + offset)
        return st.builds(rq.StepOutcome, seqs, st.just("step"), st.just(self.world.now), failure=some([None, FINAL]))

    def advance(self, data: st.DataObject, run: Run, worker: Any, epoch: int, seen: int, outcomes: Any) -> None:
        pending = data.draw(some([False, False, True]))
        lease, unread = LEASE if pending else None, self.unread(run.run_id)
        commands = numbered(run, data.draw(turns))
        self.ask(rq.Advance(run.run_id, worker, epoch, seen, commands, outcomes, pending, lease, unread=unread))

    def other_than_a_turn(self, data: st.DataObject) -> None:
        run_id, worker, epoch, _ = data.draw(some(self.grants[-5:] or [(self.asked_first(), WORKERS[0], 0, 1)]))
        requests: dict[str, rq.Request] = {
            "fail": rq.FailTask(run_id, worker, epoch, "no_handler", "none"),
            "extend": rq.ExtendTask(run_id, worker, epoch, LEASE),
            "release": rq.ReleaseTask(run_id, worker, epoch),
            "lose": rq.LoseTask(run_id, epoch),
        }
        self.ask(requests[data.draw(some(list(requests)))])

    # workers of activities

    def lease_activity(self, data: st.DataObject) -> None:
        every = [(run.run_id, seq) for run in self.world.runs.values() for seq in run.activities]
        if not every:
            return self.turn(data)
        lease = rq.LeaseActivity(*data.draw(some(every)), data.draw(some(WORKERS)), data.draw(some([LEASE, None])))
        return self.ask(lease)

    def report(self, data: st.DataObject) -> None:
        """A report of an attempt that runs, or of any that ever began."""
        running = [entry for entry in self.attempts if entry[2] in self.ledger.current.values()]
        if not running:
            self.lease_activity(data)
        known = [*running, *running, *self.attempts[-3:]]
        if not known:
            return
        run_id, seq, attempt_id = data.draw(some(known))
        requests: dict[str, rq.Request] = {
            "complete": rq.CompleteActivity(run_id, seq, attempt_id, Payload(b"1")),
            "fail": rq.FailActivity(run_id, seq, attempt_id, data.draw(some([FINAL, FAILED, FAILED]))),
            "stop": rq.CancelledActivity(run_id, seq, attempt_id),
            "beat": rq.HeartbeatActivity(run_id, seq, attempt_id, Payload(b"2"), LEASE),
            "extend": rq.ExtendActivity(run_id, seq, attempt_id, LEASE),
            "release": rq.ReleaseActivity(run_id, seq, attempt_id),
            "lost": rq.ReleaseActivity(run_id, seq, attempt_id, lost=True),
        }
        self.ask(requests[data.draw(some([*requests, "complete", "fail", "fail"]))])

    # time, messages, repetition

    def wait(self, data: st.DataObject) -> None:
        self.world.now += data.draw(some(STEPS_OF_TIME))

    def look_at_a_deadline(self, data: st.DataObject) -> None:
        run = self.any_run(data)
        kind = data.draw(some(["run", "activity", "timer"]))
        refs = {"run": [0], "activity": list(run.activities) or [1], "timer": list(run.timers) or [1]}
        self.ask(rq.Elapse(run.run_id, kind, data.draw(some(refs[kind]))))

    def keep_time(self, _: st.DataObject) -> None:
        """Everything that is due is looked at until nothing is due: each deadline has its consequence (I12)."""
        for _round in range(5):
            due = [deadline for run in self.world.runs.values() for deadline in deadlines(run, self.world.now)]
            for request in due:
                self.ask(request)
            if not due:
                return
        raise AssertionError("I12: a deadline without a consequence")

    def deliver(self, data: st.DataObject) -> None:
        """Any message that was ever sent, also one that was taken long ago."""
        if self.world.sent:
            message = data.draw(some([*self.world.outbox.values(), *self.world.sent[-4:]]))
            self.ask(rq.Deliver(message.run_id, message))

    def repeat(self, data: st.DataObject) -> None:
        """Any request again, as if its answer had been lost."""
        request = data.draw(some(self.asked[-12:]))
        if isinstance(request, rq.Advance):
            request = msgspec.structs.replace(request, unread=self.unread(request.run_id))
        if isinstance(request, rq.RestartAsNew) and request.run_id is not None:
            request = msgspec.structs.replace(request, signals=self.unread(request.run_id))
        self.ask(request)

    def teardown(self) -> None:
        """Heal: deliver every message, and look at families once more."""
        while self.world.outbox:
            message = next(iter(self.world.outbox.values()))
            self.ask(rq.Deliver(message.run_id, message))
        check_healed(self.world)


def _payloads(recorded: Any) -> list[bytes]:
    return [bytes(entry.event.payload) for entry in recorded if isinstance(entry.event, ev.SignalReceived)]


def deadlines(run: Run, now: int) -> list[rq.Elapse]:
    """What of a run is due now."""
    found = []
    due = run.deadline()
    if due is not None and due <= now:
        found.append(rq.Elapse(run.run_id, "run", 0))
    for activity in run.activities.values():
        limit = activity.deadline()
        if limit is not None and limit <= now:
            found.append(rq.Elapse(run.run_id, "activity", activity.seq))
    found += [rq.Elapse(run.run_id, "timer", seq) for seq, time in run.timers.items() if time <= now]
    return found


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    # Shrinking takes minutes, longer than a test may; the notes of the requests are what one reads anyway.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
