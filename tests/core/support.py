"""Given, when, then for the pure core: runs in memory, the clock in hand, no store and no loop.

A step is a request, or a function that makes one from the world as it stands; `given` takes steps through the real
`decide` and `fold`. Names in the past tense are for `given` and may stand for several requests; names in the present
tense make the one request that a test looks at with `World.when`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.effects import Acknowledge, Decision, Effect, OutboxMessage, Send
from assay.core.model.errors import AssayError, Kind
from assay.core.model.events import Event, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import Activity, Run
from assay.core.rules.decide import decide
from assay.core.rules.fold import fold
from assay.core.rules.messages import undeliverable
from assay.core.rules.moment import Moment

NOW: Time = 1_700_000_000 * SECOND
LEASE: Time = 10 * SECOND
MOST_MESSAGES = 1_000
MAIN = Namespace("main")
ORDER, CHILD, GRANDCHILD = WorkflowId("order-1"), WorkflowId("child-1"), WorkflowId("grandchild-1")
WORKER, OTHER = WorkerId("w-1"), WorkerId("w-2")
ONE, TWO = Payload(b"1"), Payload(b"2")
OBJECT = Payload(b'{"a":1}')
BROKEN = FailureInfo(kind=Kind.INTERNAL, message="broken", type="BrokenError")

Step = rq.Request | Callable[["World"], rq.Request | None]
Found = TypeVar("Found", bound=Effect)


class FixedIds:
    """Predictable ids: run-1, run-2, ...; task numbers in pairs from 100, as the engine assigns them."""

    def __init__(self, runs: int = 0, numbers: int = 100) -> None:
        self.runs = runs
        self.numbers = numbers

    def run_id(self) -> RunId:
        self.runs += 1
        return RunId(f"run-{self.runs}")

    def number(self) -> int:
        self.numbers += 2
        return self.numbers - 2

    def copy(self) -> "FixedIds":
        return FixedIds(self.runs, self.numbers)


class World:
    """What an engine would keep: runs and their histories, the outbox, the time."""

    def __init__(self) -> None:
        self.now = NOW
        self.ids = FixedIds()
        self.runs: dict[RunId, Run] = {}
        self.newest: dict[WorkflowId, Run] = {}
        self.histories: dict[RunId, list[Recorded]] = {}
        self.outbox: dict[str, OutboxMessage] = {}
        self.sent: list[OutboxMessage] = []
        self.effects: list[Effect] = []
        self.history_full = False

    @property
    def run(self) -> Run:
        """The newest run of the workflow that most tests are about."""
        return self.newest[ORDER]

    def activity(self, seq: int, of: WorkflowId = ORDER) -> Activity:
        return self.newest[of].activities[seq]

    def history(self, of: WorkflowId = ORDER) -> list[Event]:
        """What the newest run's history says."""
        return [recorded.event for recorded in self.histories[self.newest[of].run_id]]

    def find(self, request: rq.Request) -> Run | None:
        if isinstance(request, rq.StartWorkflow):
            return self.newest.get(request.workflow_id)
        if isinstance(request, rq.ToWorkflow) and request.run_id is None:
            return self.newest.get(request.workflow_id)
        return self.runs.get(request.run_id) if isinstance(request, rq.ToRun | rq.ToWorkflow) else None

    def moment(self) -> Moment:
        return Moment(self.now, self.ids, self.current(), history_full=self.history_full)

    def current(self) -> dict[tuple[Namespace, WorkflowId], Run]:
        """The newest run of each id, as a decision looks it up."""
        return {(run.namespace, name): run for name, run in self.newest.items()}

    def when(self, step: Step) -> Decision:
        """What the core decides; the world stays as it is."""
        request = step if isinstance(step, rq.Request) else step(self)
        assert request is not None
        return decide(self.find(request), request, self.moment())

    def take(self, step: Step) -> Decision | None:
        """Decide and let it happen; a step may also only move the clock."""
        request = step if isinstance(step, rq.Request) else step(self)
        if request is None:
            return None
        if isinstance(request, rq.Deliver):
            if self.find(request) is None:
                self._keep_effects(undeliverable(request.messages))
                return None
            request = self.with_endings(request)
        decision = decide(self.find(request), request, self.moment())
        self.keep(decision)
        return decision

    def with_endings(self, request: rq.Deliver) -> rq.Deliver:
        """The request with the closing events that an engine would read for it."""
        about = [message.about for message in request.messages if message.about is not None]
        return replace(request, endings={run_id: self.histories[run_id][-1].event for run_id in about})

    def keep(self, decision: Decision) -> None:
        """Fold a decision and those that belong to it, as one transaction would."""
        for part in (decision, *decision.others):
            run = part.run
            fold(run, part)
            self.runs[run.run_id] = run
            if run.workflow_id not in self.newest or self.newest[run.workflow_id].number < run.number:
                self.newest[run.workflow_id] = run
            self.histories.setdefault(run.run_id, []).extend(part.events)
            self._keep_effects(part.effects)

    def _keep_effects(self, effects: list[Effect]) -> None:
        self.effects.extend(effects)
        for effect in effects:
            if isinstance(effect, Send):
                self.outbox[effect.message.key] = effect.message
                self.sent.append(effect.message)
            elif isinstance(effect, Acknowledge):
                self.outbox.pop(effect.key, None)


def given(*steps: Step) -> World:
    """A world in which all of this has happened."""
    world = World()
    for step in steps:
        world.take(step)
    return world


def events(decision: Decision | None) -> list[Event]:
    """What a decision records."""
    assert decision is not None
    return [recorded.event for recorded in decision.events]


def effects(decision: Decision | None, kind: type[Found]) -> list[Found]:
    """The effects of one kind, in order."""
    assert decision is not None
    return [effect for effect in decision.effects if isinstance(effect, kind)]


def sent(decision: Decision | None) -> list[tuple[str, str]]:
    """The messages a decision sends: to which workflow, and of what kind."""
    return [(effect.message.workflow_id, effect.message.kind) for effect in effects(decision, Send)]


@contextmanager
def refused(code: str) -> Iterator[None]:
    """The block is refused with this code, and with no other."""
    with pytest.raises(AssayError) as caught:
        yield
    assert caught.value.code == code


def later(duration: Time) -> Step:
    """Time goes by; nobody looks at a deadline."""

    def move(world: World) -> None:
        world.now += duration

    return move


def both(*steps: Step) -> Step:
    """Several steps as one."""

    def take_all(world: World) -> None:
        for step in steps:
            world.take(step)

    return take_all


# lifecycle


def starts(workflow_id: str = ORDER, **options: Any) -> Step:
    fields = {"workflow_type": "Order", **options}
    return rq.StartWorkflow(namespace=MAIN, workflow_id=WorkflowId(workflow_id), **fields)


def signals(name: str = "paid", payload: Payload = NULL, of: WorkflowId = ORDER, **fields: Any) -> Step:
    return rq.Signal(MAIN, of, name=name, payload=payload, **fields)


def asks_to_cancel(of: WorkflowId = ORDER, **fields: Any) -> Step:
    return rq.RequestCancel(MAIN, of, **fields)


def terminates(of: WorkflowId = ORDER, **fields: Any) -> Step:
    return rq.Terminate(MAIN, of, **fields)


def restarts(of: WorkflowId = ORDER, **fields: Any) -> Step:
    return rq.RestartAsNew(MAIN, of, **fields)


def elapses(kind: str = "run", ref: int = 0, of: WorkflowId = ORDER) -> Step:
    """A deadline of the newest run is looked at."""
    return lambda world: rq.Elapse(world.newest[of].run_id, kind, ref)


# the workflow task


def claims(worker: WorkerId = WORKER, of: WorkflowId = ORDER, lease: Time | None = LEASE, local: bool = False) -> Step:
    return lambda world: rq.LeaseTask(world.newest[of].run_id, worker, lease, local)


def turns(*commands: cmd.Command, of: WorkflowId = ORDER, **fields: Any) -> Step:
    """The holder's turn; unless told otherwise it has seen everything and brings no outcomes."""

    def make(world: World) -> rq.Request:
        run = world.newest[of]
        outcomes = tuple(outcome(world) if callable(outcome) else outcome for outcome in fields.get("outcomes", ()))
        given_fields = {"worker": run.task.worker or WORKER, "epoch": run.task.epoch, "seen_seq": run.last_seq}
        return rq.Advance(run.run_id, commands=commands, **{**given_fields, **fields, "outcomes": outcomes})

    return make


def turned(*commands: cmd.Command, of: WorkflowId = ORDER, **fields: Any) -> Step:
    """A worker has claimed the task, if nobody had, and done a turn."""

    def make(world: World) -> rq.Request | None:
        if world.newest[of].task.worker is None:
            world.take(claims(fields.get("worker", WORKER), of=of))
        step = turns(*commands, of=of, **fields)
        return step(world) if callable(step) else step

    return make


def did(
    seq: int, result: Payload = ONE, of: WorkflowId = ORDER, **fields: Any
) -> Callable[[World], rq.ActivityOutcome]:
    """Return the success of the current attempt, on which the worker has already advanced the code."""

    def make(world: World) -> rq.ActivityOutcome:
        given_fields = {"attempt_id": world.activity(seq, of).attempt_id, "time": world.now, "result": result}
        return rq.ActivityOutcome(seq=seq, **{**given_fields, **fields})

    return make


def stepped(seq: int, result: Payload = ONE, **fields: Any) -> Callable[[World], rq.StepOutcome]:
    """Return the outcome of an inline step."""
    return lambda world: rq.StepOutcome(seq, "step", **{"time": world.now, "result": result, **fields})


def fails_task(reason: str = "no_handler", message: str = "no such workflow", **fields: Any) -> Step:
    return _holding(rq.FailTask, reason=reason, message=message, **fields)


def keeps_task(lease: Time = LEASE, **fields: Any) -> Step:
    return _holding(rq.ExtendTask, lease=lease, **fields)


def gives_back_task(**fields: Any) -> Step:
    return _holding(rq.ReleaseTask, **fields)


def loses_task(**fields: Any) -> Step:
    return lambda world: rq.LoseTask(world.run.run_id, **{"epoch": world.run.task.epoch, **fields})


def _holding(kind: Callable[..., rq.Request], **fields: Any) -> Step:
    def make(world: World) -> rq.Request:
        run = world.run
        return kind(run.run_id, **{"worker": run.task.worker or WORKER, "epoch": run.task.epoch, **fields})

    return make


# activities


def scheduled(seq: int = 1, name: str = "charge", of: WorkflowId = ORDER, **options: Any) -> Step:
    return turned(cmd.ScheduleActivity(seq, name, **options), of=of)


def leases(seq: int = 1, worker: WorkerId = WORKER, lease: Time | None = LEASE, of: WorkflowId = ORDER) -> Step:
    return lambda world: rq.LeaseActivity(world.newest[of].run_id, seq, worker, lease)


def completes(seq: int = 1, result: Payload = ONE, **fields: Any) -> Step:
    return _attempting(rq.CompleteActivity, seq, result=result, **fields)


def fails(seq: int = 1, failure: FailureInfo = BROKEN, **fields: Any) -> Step:
    return _attempting(rq.FailActivity, seq, failure=failure, **fields)


def stops(seq: int = 1, **fields: Any) -> Step:
    return _attempting(rq.CancelledActivity, seq, **fields)


def beats(seq: int = 1, details: Payload = NULL, **fields: Any) -> Step:
    return _attempting(rq.HeartbeatActivity, seq, details=details, **fields)


def keeps(seq: int = 1, lease: Time = LEASE, **fields: Any) -> Step:
    return _attempting(rq.ExtendActivity, seq, lease=lease, **fields)


def gives_back(seq: int = 1, lost: bool = False, **fields: Any) -> Step:
    return _attempting(rq.ReleaseActivity, seq, lost=lost, **fields)


def _attempting(kind: Callable[..., rq.Request], seq: int, **fields: Any) -> Step:
    """A report of the current attempt, unless `attempt_id` names another."""

    def make(world: World) -> rq.Request:
        if "attempt_id" in fields:
            return kind(world.run.run_id, seq, **fields)
        return kind(world.run.run_id, seq, world.activity(seq).attempt_id, **fields)

    return make


# children


def bore(child: WorkflowId = CHILD, of: WorkflowId = ORDER, **options: Any) -> Step:
    """The run has started a child."""
    return turned(cmd.StartChildWorkflow("Child", child, **options), of=of)


def delivers(kind: str, to: WorkflowId) -> Step:
    """The first message of this kind in the outbox for this workflow goes to its run."""

    def make(world: World) -> rq.Request:
        found = [message for message in world.outbox.values() if message.kind == kind and message.workflow_id == to]
        return rq.Deliver.of(found[0])

    return make


def delivered() -> Step:
    """Every message of the outbox has been taken, and those that followed from them."""

    def drain(world: World) -> None:
        for _ in range(MOST_MESSAGES):
            if not world.outbox:
                return
            message = next(iter(world.outbox.values()))
            world.take(rq.Deliver.of(message))
        raise AssertionError("a message is never taken")

    return drain


started, signalled, cancel_requested, terminated, restarted = starts, signals, asks_to_cancel, terminates, restarts
elapsed, claimed, leased, completed, failed, beaten, given_back = (
    elapses,
    claims,
    leases,
    completes,
    fails,
    beats,
    gives_back,
)
