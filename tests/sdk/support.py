"""Workflow code on trial: an engine of plain functions on one side, a live `Execution` on the other, no loop, no store.

The engine is the real core, asked through the `World` of its own tests. A `Trial` plays the worker: it leases, runs the
code, sends what it asks for. Every trial can be compared with a replay of its history (I19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.errors import Kind, Refused
from assay.core.model.events import Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, RunId, RunKey, Seq, Time, WorkerId
from assay.core.model.limits import LIMITS
from assay.core.model.payload import NULL, Payload
from assay.core.model.replies import Advanced
from assay.core.model.run import Run
from assay.sdk.app import App
from assay.sdk.values.converter import Converter
from assay.sdk.values.failures import to_info
from assay.sdk.worker.main import main
from assay.sdk.worker.steps import step_event
from assay.sdk.workflow.replay.completion import Completion, StepCall
from assay.sdk.workflow.replay.runtime import Execution
from tests.core.support import MAIN, ORDER, WORKER, World

CONVERTER = Converter()
ASIDE = WorkerId("w-elsewhere")
"""The worker that runs activities and children, so that the trial's own is only about workflow tasks."""


def payload(value: Any = None) -> Payload:
    """A value as it is recorded."""
    return NULL if value is None else Payload(CONVERTER.encode(value))


def value_of(raw: Payload) -> Any:
    """The value that is recorded."""
    return CONVERTER.decode(raw)


def app_of(workflow: Callable[..., Any], *activities: Callable[..., Any]) -> App:
    """An app with one workflow."""
    app = App()
    app.workflow("Order", workflow)
    for activity in activities:
        app.activity(activity)
    return app


def execution_of(key: RunKey, app: App, workflow_type: str = "Order") -> Execution:
    """A coroutine that has not begun."""
    return Execution(key, app.workflows[workflow_type], app, CONVERTER, main)


def telling(commands: Iterable[cmd.AnyCommand]) -> list[cmd.AnyCommand]:
    """Commands as far as they must be the same however events were batched; snapshots are taken once per turn."""
    return [
        msgspec.structs.replace(command, unaware=False) if isinstance(command, cmd.StartChildWorkflow) else command
        for command in commands
        if not isinstance(command, cmd.RecordSnapshot)
    ]


class Trial:
    """A run of one workflow, served turn by turn. Every call that changes the run is followed by its turn."""

    part_commands: int = LIMITS.commands
    """How many commands of a turn are sent in one message."""
    begun: ClassVar[list[Trial]] = []
    """All of the current test, which leaves them at its end: the garbage collector must not do it later."""

    def __init__(self, workflow: Callable[..., Any] | App, input: Any = None, **options: Any) -> None:
        self.begun.append(self)
        self.app = workflow if isinstance(workflow, App) else app_of(workflow)
        self.world = World()
        self.turns: list[Completion] = []
        self.commands: list[cmd.AnyCommand] = []
        self.execution: Execution | None = None
        self.running: dict[int, StepCall] = {}
        self._held = False
        start = rq.StartWorkflow(
            namespace=MAIN, workflow_id=ORDER, workflow_type="Order", input=payload(input), **options
        )
        self.world.take(start)
        self.key: RunKey = self.world.run.key
        self.work()

    # what is there to look at

    @property
    def run(self) -> Run:
        """The engine's view."""
        return self.world.runs[self.key.run_id]

    @property
    def turn(self) -> Completion:
        """The last turn."""
        return self.turns[-1]

    @property
    def history(self) -> list[Recorded]:
        """All that is recorded."""
        return self.world.histories[self.key.run_id]

    @property
    def events(self) -> list[ev.Event]:
        """What is recorded, without its place."""
        return [recorded.event for recorded in self.history]

    @property
    def closing(self) -> ev.Event | None:
        """How the run ended, if it did."""
        return self.events[-1] if self.run.closed else None

    @property
    def result(self) -> Any:
        """The result of a completed run."""
        closing = self.closing
        assert isinstance(closing, ev.WorkflowCompleted), closing or self.turn
        return value_of(closing.result)

    @property
    def failure(self) -> FailureInfo:
        """What a failed run failed with."""
        closing = self.closing
        assert isinstance(closing, ev.WorkflowFailed), closing or self.turn
        assert closing.failure is not None
        return closing.failure

    @property
    def stuck(self) -> tuple[str, str]:
        """Why the run's task cannot be done."""
        stuck = self.run.task.stuck
        assert stuck is not None, self.turn
        return stuck.reason, stuck.message

    # what happens from outside

    def signal(self, name: str, value: Any = None) -> Trial:
        """Somebody sends a signal."""
        return self._after(rq.Signal(MAIN, ORDER, name=name, payload=payload(value)))

    def cancel(self, reason: str | None = None) -> Trial:
        """Somebody asks the run to end."""
        return self._after(rq.RequestCancel(MAIN, ORDER, reason=reason))

    def fire(self, seq: int) -> Trial:
        """A timer's time comes."""
        self.world.now = max(self.world.now, self.run.timers[seq])
        return self._after(rq.Elapse(self.key.run_id, "timer", seq))

    def lease(self, seq: int, worker: WorkerId = ASIDE) -> Trial:
        """A worker takes an activity."""
        self.world.take(rq.LeaseActivity(self.key.run_id, seq, worker, None))
        return self

    def complete(self, seq: int, value: Any = None) -> Trial:
        """An activity succeeds."""
        attempt_id = self._attempt(seq)
        return self._after(rq.CompleteActivity(self.key.run_id, seq, attempt_id, payload(value)))

    def fail(self, seq: int, message: str = "broken", **fields: Any) -> Trial:
        """An activity fails for good."""
        info = FailureInfo(**{"kind": Kind.INTERNAL, "message": message, "retryable": False, **fields})
        return self._after(rq.FailActivity(self.key.run_id, seq, self._attempt(seq), info))

    def withdraw(self, seq: int) -> Trial:
        """An activity that was asked to stop stops."""
        return self._after(rq.CancelledActivity(self.key.run_id, seq, self._attempt(seq)))

    def _attempt(self, seq: int) -> int:
        if not self.run.activities[seq].running:
            self.lease(seq)
        return self.run.activities[seq].attempt_id

    def child(self, workflow_id: str, *commands: cmd.AnyCommand) -> Trial:
        """A child comes to an end."""
        run = self.world.newest[workflow_id]  # type: ignore[index]
        if not run.closed:  # a cancel of its parent may have been faster
            self.world.take(rq.LeaseTask(run.run_id, ASIDE, None))
            self.world.take(rq.Advance(run.run_id, ASIDE, run.task.epoch, run.last_seq, commands))
        for message in tuple(self.world.outbox.values()):
            self.world.take(rq.Deliver.of(message))
        self.work()
        return self

    @contextmanager
    def together(self) -> Iterator[None]:
        """Everything in the block happens before the worker looks."""
        self._held = True
        yield
        self._held = False
        self.work()

    def _after(self, request: rq.Request) -> Trial:
        self.world.now += 1_000
        self.world.take(request)
        self.work()
        return self

    # the worker

    def work(self) -> None:
        """Do the run's task if it is due, and whatever it makes due in turn."""
        while not self._held and self.run.task.ready and not self.run.closed:
            self.world.take(rq.LeaseTask(self.key.run_id, WORKER, None))
            execution, events = self._begin()
            self.send(execution.activate(events, self.run.seen_seq))

    def _begin(self) -> tuple[Execution, Sequence[Recorded]]:
        if self.execution is None:
            self.execution = execution_of(self.key, self.app)
            return self.execution, self.history
        return self.execution, self.history[self.run.seen_seq :]

    def send(self, turn: Completion, outcomes: Sequence[Any] = (), seen: int | None = None) -> bool:
        """Send a turn and act on the answer, as a worker does; was it accepted?"""
        self.turns.append(turn)
        execution = self.execution
        assert execution is not None
        if turn.failure is not None:
            self.crash()
            self.world.take(rq.FailTask(self.key.run_id, WORKER, self.run.task.epoch, *turn.failure))
            return False
        reply = self._send_parts(execution, turn, tuple(outcomes), execution.seen if seen is None else seen)
        if not reply.accepted:
            self.crash()
            return False
        if reply.closed:
            self.crash()
            return True
        execution.acknowledge(reply.seen_seq, reply.last_seq)
        self.running.update({step.seq: step for step in turn.steps})
        if turn.paused and not self._held:
            return self.send(execution.resume())
        return True

    def _send_parts(self, execution: Execution, turn: Completion, outcomes: tuple[Any, ...], seen: int) -> Advanced:
        """Send a turn in messages of at most `part_commands`, and return the answer to the last one."""
        unsent = turn.commands
        while True:
            part, unsent = unsent[: self.part_commands], unsent[self.part_commands :]
            more = turn.paused or bool(unsent)
            one = msgspec.structs.replace(turn, commands=part, closes=turn.closes and not unsent)
            reply = self._advance(one, outcomes, seen, execution.busy, more)
            if reply.accepted:
                self.commands.extend(part)
            if not reply.accepted or reply.closed or not unsent or self.dies_between_parts():
                return reply if not unsent or reply.closed else Advanced(accepted=False)
            execution.acknowledge_part(reply.seen_seq)
            outcomes, seen = (), execution.seen

    def dies_between_parts(self) -> bool:
        """Return whether the worker dies after a part that was accepted."""
        return False

    def _advance(self, turn: Completion, outcomes: tuple[Any, ...], seen: int, busy: bool, more: bool) -> Advanced:
        pending = more or (busy and not turn.closes)
        request = rq.Advance(
            self.key.run_id, WORKER, self.run.task.epoch, seen, turn.commands, outcomes, pending, more=more
        )
        if turn.deadlock is not None and not pending:
            request = msgspec.structs.replace(request, deadlock=turn.deadlock)
        for command in turn.commands:
            if isinstance(command, cmd.ContinueAsNew):
                named = command.unread or ()
                unread = tuple(recorded for recorded in self.history if recorded.seq in named)
                request = msgspec.structs.replace(request, unread=unread)
        try:
            decision = self.world.take(request)
        except Refused as refused:
            return Advanced(accepted=False, code=refused.code)
        assert decision is not None
        assert isinstance(decision.reply, Advanced)
        return decision.reply

    def step(self, seq: int, failure: Exception | None = None, **fields: Any) -> Trial:
        """An inline step that runs here ends, with what its function returns or as told."""
        order = self.running.pop(seq).order
        if failure is None:
            result = fields.pop("result", None) or payload(order.function(*order.args))
            outcome = rq.StepOutcome(
                seq, order.name, self.now(), result, attempt=order.attempt, input_hash=order.input_hash
            )
        else:
            info = to_info(failure, source="step")
            fields = {"attempt": order.attempt, "input_hash": order.input_hash, **fields}
            outcome = rq.StepOutcome(seq, order.name, self.now(), NULL, info, **fields)
        self.advance((outcome, step_event(outcome)))
        return self

    def did(self, seq: int, value: Any = None) -> Trial:
        """Complete an activity here, and advance the code before the engine has the result (fused completion)."""
        if not self.run.activities[seq].running:
            self.lease(seq, WORKER)
        activity = self.run.activities[seq]
        outcome = rq.ActivityOutcome(seq, activity.attempt_id, self.now(), payload(value))
        self.advance((outcome, ev.ActivityCompleted(activity.id, seq, activity.name, payload(value))))
        return self

    def advance(self, *outcomes: tuple[Any, ev.InputEvent]) -> None:
        """Advance on outcomes that are not recorded yet."""
        execution = self.execution
        assert execution is not None
        seen = execution.seen
        events = [Recorded(Seq(seen + n), outcome.time, event) for n, (outcome, event) in enumerate(outcomes, 1)]
        self.send(execution.speculate(events), [outcome for outcome, _ in outcomes], seen)
        self.work()

    def now(self) -> Time:
        """Return the time that the worker proposes."""
        self.world.now += 1_000
        return max(self.world.now, self.run.last_time)

    def crash(self) -> None:
        """The worker forgets the coroutine; the next turn replays."""
        if self.execution is not None:
            self.execution.drop()
            self.execution = None
        self.running.clear()

    def lose(self) -> Trial:
        """The worker dies, and another one takes over."""
        self.crash()
        if self.run.task.worker is not None:
            self.world.take(rq.ReleaseTask(self.key.run_id, WORKER, self.run.task.epoch))
        self.work()
        return self

    def reopen(self) -> Trial:
        """Retry the failed run: a new run continues from before the last failed activity."""
        self.crash()
        self.world.take(rq.RetryFailed(MAIN, ORDER, None, "ada", "again", histories=self.world.histories))
        self.key = self.world.run.key
        self.work()
        return self

    def deploy(self, workflow: Callable[..., Any]) -> Trial:
        """Other code takes over under the same name, and looks at the run."""
        self.app = app_of(workflow)
        self.crash()
        return self.wait(120)

    def wait(self, seconds: float) -> Trial:
        """Time goes by, and a task that backed off is tried again."""
        self.world.now += int(seconds * SECOND)
        self.world.take(rq.Elapse(self.key.run_id, "run"))
        self.work()
        return self


def inputs_of(history: Iterable[Recorded]) -> list[Recorded]:
    """The events that code is told of."""
    return [recorded for recorded in history if recorded.event.is_input]


def replayed_commands(
    key: RunKey, app: App, batches: Iterable[Sequence[Recorded]], workflow_type: str = "Order"
) -> list[Any]:
    """The commands of code that is told inputs in batches and remembers nothing."""
    execution = execution_of(key, app, workflow_type)
    commands: list[Any] = []
    for batch in batches:
        turn = execution.activate(batch, 0)
        assert turn.failure is None, turn.failure
        commands.extend(telling(turn.commands))
        if turn.closes:
            break
    execution.drop()
    return commands


def replayed(key: RunKey, app: App, history: Sequence[Recorded], seen: int, workflow_type: str = "Order") -> Completion:
    """The turn of a worker that gets the whole history."""
    execution = execution_of(key, app, workflow_type)
    turn = execution.activate(history, seen)
    execution.drop()
    return turn


def check_replay(trial: Trial) -> None:
    """However the inputs are batched, the code does what it did; and its history agrees with that."""
    inputs = inputs_of(trial.history)
    done = telling(trial.commands)
    assert replayed_commands(trial.key, trial.app, [inputs]) == done
    assert replayed_commands(trial.key, trial.app, [[recorded] for recorded in inputs]) == done
    if not trial.run.closed:
        turn = replayed(trial.key, trial.app, trial.history, trial.run.seen_seq)
        assert turn.failure is None, turn.failure
        assert telling(turn.commands) == []


def run_id_of(trial: Trial) -> RunId:
    """The id of the newest run, which may be the successor of the first."""
    return trial.world.run.run_id
