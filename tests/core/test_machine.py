"""Random requests, valid, stale, doubled and late, against one tree of runs; the contract holds after each (I4-I18).

Hypothesis gives every step a seed and the dice do the rest: drawing each detail through Hypothesis costs more time than
deciding it, and its choices repeat themselves so much that most planted bugs of the rules survived them.
"""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.errors import AssayError
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, RunId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse, RetryPolicy
from assay.core.model.replies import Advanced
from assay.core.model.run import Activity, Run, Task
from assay.core.rules.decide import decide
from assay.core.rules.moment import Moment
from tests.core.invariants import check_families, check_healed, check_run, picture
from tests.core.ledger import Ledger
from tests.core.support import LEASE, MAIN, MOST_MESSAGES, FixedIds, World, events

ACTIONS_PER_STEP = 3
ROOTS = [WorkflowId("a"), WorkflowId("b")]
CHILDREN = [WorkflowId(name) for name in "cdea"]
WORKERS = ["w-1", "w-2"]
DOCUMENTS = [Payload(b'{"k":1}'), Payload(b'{"k":null,"l":"x"}'), Payload(b"{}")]
FINAL, AGAIN = FailureInfo(message="final", retryable=False), FailureInfo(message="again")
TWICE = RetryPolicy(2, SECOND, 2.0, 10 * SECOND)
LENGTHS = [1_000, SECOND, SECOND, 5 * SECOND, 11 * SECOND, 61 * SECOND, -5 * SECOND]
CHANCES = {
    "turn": 10,
    "report": 8,
    "lease_activity": 5,
    "fused": 4,
    "late_turn": 4,
    "wait": 4,
    "keep_time": 3,
    "deliver": 4,
    "repeat": 3,
    "signal": 3,
    "other_than_a_turn": 2,
    "look_at_a_deadline": 2,
    "just_before_a_deadline": 2,
    "start": 1,
    "cancel": 1,
    "terminate": 1,
    "restart": 1,
    "retry": 1,
    "schedule_directly": 1,
}
"""What happens, and how often: among equals most runs would be dead before they do anything."""

Item = TypeVar("Item")


class Dice:
    """Chance that can be repeated."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # chance, not a secret

    def some(self, items: Sequence[Item]) -> Item:
        return self._random.choice(items)

    def seldom(self, one_in: int = 6) -> bool:
        return self._random.randrange(one_in) == 0

    def up_to(self, most: int) -> int:
        return self._random.randint(0, most)

    def action(self) -> str:
        return self._random.choices(list(CHANCES), list(CHANCES.values()))[0]


def commands(dice: Dice, run: Run) -> tuple[cmd.AnyCommand, ...]:
    """A turn of one to five commands; most have a new seq, some repeat one, a few skip one."""
    marks = {"activity": run.activity_mark, "timer": run.timer_mark, "effect": run.effect_mark}

    def seq(kind: str) -> int:
        found = max(marks[kind] + dice.some([-1, 0, 1, 1, 1, 1, 2]), 0)
        marks[kind] = max(marks[kind], found)
        return found

    found = [command(dice, seq) for _ in range(1 + dice.up_to(3))]
    if dice.seldom(12):
        found.append(cmd.UpsertAttributes(Payload(b"[]")))  # no object: the turn is refused
    return (*found, closing(dice)) if dice.seldom() else tuple(found)


def command(dice: Dice, seq: Any) -> cmd.AnyCommand:
    match dice.up_to(12):
        case 0 | 1 | 2 | 3:
            return activity(dice, seq("activity"))
        case 4 | 5:
            return child(dice)
        case 6:
            return cmd.ScheduleTimer(seq("timer"), dice.some([0.0, 1.1, 30.0]))
        case 7:
            return cmd.CancelTimer(max(seq("timer") - 1, 0))
        case 8:
            return cmd.RequestCancelActivity(max(seq("activity") - dice.up_to(2), 0))
        case 9:
            return cmd.WaitForSignal(dice.some(["paid", "other"]))
        case 10:
            return cmd.RecordSideEffect(
                seq("effect"), "id", dice.some([NULL, *DOCUMENTS]), resume=dice.some([True, False])
            )
        case 11:
            return cmd.RecordVersion("change", 1) if dice.seldom(2) else cmd.RecordSnapshot(dice.some(DOCUMENTS))
        case _:
            return cmd.UpsertAttributes(dice.some(DOCUMENTS), dice.some(DOCUMENTS))


def activity(dice: Dice, seq: int) -> cmd.ScheduleActivity:
    return cmd.ScheduleActivity(
        seq=seq,
        name=dice.some(["charge", "ship"]),
        max_attempts=dice.some([None, 0, 1, 2]),
        initial_interval_secs=dice.some([None, 0.0, 5.0]),
        start_to_close_secs=dice.some([None, 4.0]),
        schedule_to_start_secs=dice.some([None, None, 3.0]),
        schedule_to_close_secs=dice.some([None, None, 20.0]),
        heartbeat_timeout_secs=dice.some([None, 2.0]),
        survives_cancel=dice.some([True, False]),
    )


def child(dice: Dice) -> cmd.StartChildWorkflow:
    return cmd.StartChildWorkflow(
        workflow_type="" if dice.seldom(8) else "Child",
        workflow_id=dice.some(CHILDREN),
        seq=dice.up_to(3),
        parent_close_policy=dice.some([None, "terminate", "abandon", "request_cancel"]),
        retry_policy=dice.some([None, {"max_attempts": 2}]),
    )


def closing(dice: Dice) -> cmd.AnyCommand:
    kinds = [cmd.CompleteWorkflow(DOCUMENTS[0]), cmd.FailWorkflow("no", AGAIN), cmd.FailWorkflow("no", FINAL)]
    return dice.some([*kinds, cmd.ContinueAsNew(memo=DOCUMENTS[1]), cmd.CancelWorkflow()])


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
        self.submitted: list[rq.Request] = []
        self.steps = 0
        self.count = 0

    @initialize(policy=st.sampled_from([None, TWICE]), timeout=st.sampled_from([None, None, 60 * SECOND]))
    def begin(self, policy: RetryPolicy | None, timeout: int | None) -> None:
        options = {"retry_policy": policy, "run_timeout": timeout}
        self.ask(rq.StartWorkflow(namespace=MAIN, workflow_id=ROOTS[0], workflow_type="Root", **options))

    @rule(seed=st.integers(0, 2**64 - 1))
    def something_happens(self, seed: int) -> None:
        self.steps += 1
        dice = Dice(seed + self.steps)
        for _ in range(ACTIONS_PER_STEP):
            getattr(self, dice.action())(dice)

    def teardown(self) -> None:
        """Heal: deliver every message, and look at the families once more."""
        for _ in range(MOST_MESSAGES):
            if self.world.outbox:
                message = next(iter(self.world.outbox.values()))
                self.ask(rq.Deliver.of(message))
        assert not self.world.outbox, "I17: a message is never taken"
        check_healed(self.world)

    # asking

    def ask(self, request: rq.Request) -> None:
        """Decide twice, change nothing; keep the decision, and check everything."""
        self.submitted.append(request)
        run = self.world.find(request)
        before = {run_id: picture(found) for run_id, found in self.world.runs.items()}
        (first, ids), (second, _) = self.decide(run, request), self.decide(run, request)
        after = {run_id: picture(found) for run_id, found in self.world.runs.items()}
        note(f"{request}\n    -> {first if isinstance(first, AssayError) else events(first)}")
        assert before == after, "I2: deciding has changed a run"
        if isinstance(first, AssayError) or isinstance(second, AssayError):
            assert (type(first), str(first)) == (type(second), str(second)), "refused for another reason"
            return self.ledger.refused(request, run)
        assert described(first) == described(second), "deciding is not a function"
        self.expect(request, first)
        self.world.ids = ids
        self.world.keep(first)
        self.remember(first)
        return self.check(first)

    def decide(self, run: Run | None, request: rq.Request) -> tuple[Decision | AssayError, FixedIds]:
        ids = self.world.ids.copy()
        try:
            return decide(run, request, Moment(self.world.now, ids, self.world.current())), ids
        except AssayError as error:
            return error, ids

    def expect(self, request: rq.Request, decision: Decision) -> None:
        """Let the ledger hear of it, before any run has changed."""
        for other in decision.others:
            link = other.run.start.parent
            if link is not None and other.run.start.previous_run_id is None and other.run.last_seq == 0:
                assert link.run_id == decision.run.run_id, "I16: a child of somebody else"
                assert not decision.run.closed, "I16: a child of a closed run"
        continued = bool(decision.events) and isinstance(events(decision)[-1], ev.WorkflowContinuedAsNew)
        if isinstance(request, rq.Advance) and continued:
            self.ledger.carried(decision.others[-1].run.run_id, request.unread)
        if isinstance(request, rq.RestartAsNew) and decision.others:
            self.ledger.carried(decision.run.run_id, self.unread(decision.others[0].run.run_id))
        if isinstance(request, rq.RetryFailed):
            for part in (decision, *decision.others):
                if part.run.last_seq == 0:
                    self.ledger.carried(part.run.run_id, part.events)
        self.ledger.took(request, decision, self.world.histories.get(decision.run.run_id, []))

    def remember(self, decision: Decision) -> None:
        run, reply = decision.run, decision.reply
        if isinstance(reply, Task) or (isinstance(reply, Advanced) and reply.leased):
            self.grants.append((run.run_id, run.task.worker or "", run.task.epoch, run.last_seq))
        if isinstance(reply, Activity) and reply.running:
            self.attempts.append((run.run_id, reply.seq, reply.attempt_id))

    def check(self, decision: Decision) -> None:
        for part in (decision, *decision.others):
            history = self.world.histories[part.run.run_id]
            check_run(part.run, history)
            self.ledger.agrees_with(part.run, history)
        check_families(self.world)

    def unread(self, run_id: RunId) -> tuple[ev.Recorded, ...]:
        """What the engine would find in the store for a run that continues as new."""
        seen = self.world.runs[run_id].seen_seq
        history = self.world.histories[run_id]
        return tuple(entry for entry in history if entry.seq > seen and isinstance(entry.event, ev.SignalReceived))

    def any_run(self, dice: Dice) -> Run:
        return dice.some(list(self.world.runs.values()))

    def open_run(self, dice: Dice) -> Run:
        """One that is open; if there is none, a new one."""
        opened = [run for run in self.world.runs.values() if not run.closed]
        if not opened:
            self.ask(rq.StartWorkflow(namespace=MAIN, workflow_id=ROOTS[0], workflow_type="Root"))
            opened = [self.world.newest[ROOTS[0]]]
        return dice.some(opened)

    def claimed_run(self, dice: Dice) -> Run:
        """Rather an open one that somebody has claimed: a cancel closes others at once, and nothing comes of them."""
        claimed = [run for run in self.world.runs.values() if run.task.epoch and not run.closed]
        return dice.some([*claimed * 4, self.any_run(dice)])

    # callers

    def start(self, dice: Dice) -> None:
        self.ask(
            rq.StartWorkflow(
                namespace=MAIN,
                workflow_id=dice.some(ROOTS),
                workflow_type="Root",
                id_conflict_policy=dice.some(list(IdConflict)),
                id_reuse_policy=dice.some([IdReuse.ALLOW_DUPLICATE, IdReuse.ALLOW_DUPLICATE_FAILED_ONLY]),
                retry_policy=dice.some([None, TWICE]),
                cron_schedule="@every 30s" if dice.seldom() else None,
                start_delay=5 * SECOND if dice.seldom() else None,
                execution_timeout=dice.some([None, 20 * SECOND]),
                request_id=dice.some([None, "r-1"]),
                signals=tuple(rq.FirstSignal("first", self.fresh()) for _ in range(dice.up_to(2))),
            )
        )

    def fresh(self) -> Payload:
        """A payload that no other signal has."""
        self.count += 1
        return Payload(str(self.count).encode())

    def signal(self, dice: Dice) -> None:
        run = self.any_run(dice)
        self.ask(rq.Signal(MAIN, run.workflow_id, run.run_id, "paid", self.fresh()))

    def cancel(self, dice: Dice) -> None:
        run = self.claimed_run(dice)
        self.ask(rq.RequestCancel(MAIN, run.workflow_id, run.run_id, deadline=dice.some([None, None, 5 * SECOND])))

    def terminate(self, dice: Dice) -> None:
        run = self.claimed_run(dice)
        self.ask(rq.Terminate(MAIN, run.workflow_id, run.run_id))

    def restart(self, dice: Dice) -> None:
        run = self.any_run(dice)
        self.ask(rq.RestartAsNew(MAIN, run.workflow_id, run.run_id, signals=self.unread(run.run_id)))

    def retry(self, dice: Dice) -> None:
        """An operator lets a closed run go on, at times from an earlier event."""
        closed = [run for run in self.world.runs.values() if run.closed and run.status != "COMPLETED"]
        run = dice.some(closed or [self.any_run(dice)])
        seq = 1 + dice.up_to(run.last_seq) if dice.seldom() else None
        histories = {run_id: tuple(history) for run_id, history in self.world.histories.items()}
        self.ask(rq.RetryFailed(MAIN, run.workflow_id, run.run_id, "ada", "again", seq, histories))

    def schedule_directly(self, dice: Dice) -> None:
        run = self.any_run(dice)
        command = activity(dice, run.activity_mark + 1)
        self.ask(rq.ScheduleDirect(MAIN, run.workflow_id, run.run_id, command))

    # workers of workflow tasks

    def turn(self, dice: Dice) -> None:
        """An honest turn of a holder; if nobody holds the task, somebody claims it, perhaps after a nudge."""
        run = self.open_run(dice)
        if run.task.worker is None and not run.task.ready:
            self.ask(rq.Signal(MAIN, run.workflow_id, run.run_id, "nudge", self.fresh()))
        if run.task.worker is None:
            self.ask(rq.LeaseTask(run.run_id, dice.some(WORKERS), dice.some([LEASE, LEASE, None])))
            if dice.seldom(2):
                return  # and works for a while
        seen = dice.some([run.last_seq, run.task.granted_seq, -1])
        self.advance(dice, run, run.task.worker or WORKERS[0], run.task.epoch, seen, self.some_steps(dice, run))

    def fused(self, dice: Dice) -> None:
        """Send results together with the commands that follow from them (fused completion)."""
        run = self.open_run(dice)
        for found in tuple(run.activities.values()):
            if found.ready:
                self.ask(rq.LeaseActivity(run.run_id, found.seq, WORKERS[0], LEASE))
        running = [found for found in run.activities.values() if found.running]
        time = self.world.now + dice.some([0, 0, 0, -1_000, 1_000, 2 * SECOND])
        outcomes = tuple(rq.ActivityOutcome(found.seq, found.attempt_id, time, NULL) for found in running[:2])
        if outcomes:
            epoch = run.task.epoch - (1 if dice.seldom(4) else 0)
            self.advance(dice, run, running[0].worker or WORKERS[0], epoch, run.last_seq, outcomes)

    def late_turn(self, dice: Dice) -> None:
        """A turn under any lease that was ever given, with any result that ever was."""
        if not self.grants:
            return
        run_id, worker, epoch, granted = dice.some(self.grants[-8:])
        run = self.world.runs[run_id]
        own = [entry for entry in self.attempts if entry[0] == run_id]
        results = [dice.some(own) for _ in range(dice.up_to(2)) if own]
        outcomes = tuple(rq.ActivityOutcome(seq, attempt_id, self.world.now) for _, seq, attempt_id in results)
        seen = dice.some([granted, granted + 1, run.last_seq])
        self.advance(dice, run, worker, epoch, seen, (*self.some_steps(dice, run), *outcomes))

    def some_steps(self, dice: Dice, run: Run) -> tuple[rq.StepOutcome, ...]:
        if not dice.seldom(3):
            return ()
        seqs = [run.step_mark + dice.some([0, 1, 1, 2]) for _ in range(1 + dice.up_to(1))]
        return tuple(rq.StepOutcome(seq, "step", self.world.now, failure=dice.some([None, FINAL])) for seq in seqs)

    def advance(self, dice: Dice, run: Run, worker: Any, epoch: int, seen: int, outcomes: Any) -> None:
        pending, early = dice.seldom(3), dice.seldom(4)
        lease, unread = LEASE if pending or early else None, self.unread(run.run_id)
        turn = commands(dice, run)
        self.ask(rq.Advance(run.run_id, worker, epoch, seen, turn, outcomes, pending, early, lease, unread=unread))

    def other_than_a_turn(self, dice: Dice) -> None:
        if not self.grants:
            return
        run_id, worker, epoch, _ = dice.some(self.grants[-4:])
        requests: list[rq.Request] = [
            rq.FailTask(run_id, worker, epoch, "no_handler", "none"),
            rq.ExtendTask(run_id, worker, epoch, LEASE),
            rq.ReleaseTask(run_id, worker, epoch),
            rq.LoseTask(run_id, epoch),
        ]
        self.ask(dice.some(requests))

    # workers of activities

    def lease_activity(self, dice: Dice) -> None:
        every = [(run.run_id, seq) for run in self.world.runs.values() for seq in run.activities]
        if every:
            self.ask(rq.LeaseActivity(*dice.some(every), dice.some(WORKERS), dice.some([LEASE, LEASE, None])))

    def report(self, dice: Dice) -> None:
        """A report of an attempt that runs, or of any that ever began."""
        current = self.ledger.current
        running = [entry for entry in self.attempts if current.get(entry[:2]) == entry[2]]
        stale = [entry for entry in self.attempts if current.get(entry[:2]) not in (None, entry[2])]
        known = [*running, *stale * 2, *self.attempts[-2:]]
        if not known:
            return self.lease_activity(dice)
        run_id, seq, attempt_id = dice.some(known)
        requests: list[rq.Request] = [
            rq.CompleteActivity(run_id, seq, attempt_id, DOCUMENTS[0]),
            rq.FailActivity(run_id, seq, attempt_id, FINAL),
            rq.FailActivity(run_id, seq, attempt_id, AGAIN),
            rq.FailActivity(run_id, seq, attempt_id, AGAIN),
            rq.CancelledActivity(run_id, seq, attempt_id),
            rq.HeartbeatActivity(run_id, seq, attempt_id, DOCUMENTS[0], LEASE),
            rq.ExtendActivity(run_id, seq, attempt_id, LEASE),
            rq.ReleaseActivity(run_id, seq, attempt_id),
            rq.ReleaseActivity(run_id, seq, attempt_id, lost=True),
        ]
        return self.ask(dice.some(requests))

    # time, messages, repetition

    def wait(self, dice: Dice) -> None:
        self.world.now += dice.some(LENGTHS)

    def look_at_a_deadline(self, dice: Dice) -> None:
        run = self.any_run(dice)
        kind = dice.some(["run", "activity", "timer"])
        refs = {"run": [0], "activity": list(run.activities) or [1], "timer": list(run.timers) or [1]}
        self.ask(rq.Elapse(run.run_id, kind, dice.some(refs[kind])))

    def just_before_a_deadline(self, dice: Dice) -> None:
        """A moment before its time nothing happens, whatever the deadline is for (I10)."""
        every = [(due, ask) for run in self.world.runs.values() for due, ask in deadlines(run) if due > self.world.now]
        if every:
            due, ask = dice.some(every)
            self.world.now = due - 1
            decision, _ = self.decide(self.world.find(ask), ask)
            assert isinstance(decision, Decision)
            assert (decision.events, decision.effects, decision.others) == ([], [], []), "I10: early"
            assert decision.task is decision.run.task, "I10: early"

    def keep_time(self, _: Dice) -> None:
        """Everything that is due is looked at until nothing is due: each deadline has its consequence (I12)."""
        for _round in range(5):
            every = [deadline for run in self.world.runs.values() for deadline in deadlines(run)]
            due = [request for time, request in every if time <= self.world.now]
            for request in due:
                self.ask(request)
            if not due:
                return
        raise AssertionError("I12: a deadline without a consequence")

    def deliver(self, dice: Dice) -> None:
        """Any message that waits, or one that was taken before."""
        if self.world.sent:
            message = dice.some([*self.world.outbox.values(), *self.world.sent[-3:]])
            self.ask(rq.Deliver.of(message))

    def repeat(self, dice: Dice) -> None:
        """Any request again, as if its answer had been lost."""
        request = dice.some(self.submitted[-12:])
        if isinstance(request, rq.Advance):
            request = msgspec.structs.replace(request, unread=self.unread(request.run_id))
        if isinstance(request, rq.RestartAsNew) and request.run_id is not None:
            request = msgspec.structs.replace(request, signals=self.unread(request.run_id))
        if isinstance(request, rq.ScheduleDirect) and request.run_id is not None:
            request = msgspec.structs.replace(request, known=self.has_scheduled(request.run_id, request.command.seq))
        self.ask(request)

    def has_scheduled(self, run_id: RunId, seq: int) -> bool:
        """What the store says about a seq."""
        events = [recorded.event for recorded in self.world.histories[run_id]]
        return any(isinstance(event, ev.ActivityScheduled) and event.activity_seq == seq for event in events)


def deadlines(run: Run) -> list[tuple[int, rq.Elapse]]:
    """The next moment of a run, of each of its activities and of each of its timers."""
    found: list[tuple[int | None, rq.Elapse]] = [(run.deadline(), rq.Elapse(run.run_id, "run", 0))]
    found += [(held.deadline(), rq.Elapse(run.run_id, "activity", seq)) for seq, held in run.activities.items()]
    found += [(due, rq.Elapse(run.run_id, "timer", seq)) for seq, due in run.timers.items()]
    return [(due, request) for due, request in found if due is not None]


TestRuns = Runs.TestCase
TestRuns.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],  # a seed cannot be shrunk; the notes say what was asked
    suppress_health_check=[HealthCheck.too_slow],
)
