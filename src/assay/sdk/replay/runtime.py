"""One live run in a worker: history in, commands out, no I/O.

Input events are applied one at a time in order of seq, and the code runs until every coroutine is blocked before the
next is applied; so the outcome does not depend on how events were batched, and replay takes the same turns (R1).
`activate`, `speculate` and `resume` never raise: what goes wrong is part of the turn.
"""

import asyncio
import functools
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from assay.core import commands as cmd
from assay.core import events as ev
from assay.core.errors import Failure, Invalid, Kind, NonDeterminismError
from assay.core.events import Recorded
from assay.core.ids import SECOND, RunKey, Time
from assay.core.payload import NULL, Payload
from assay.core.run import NON_DETERMINISM, TASK_FAILED
from assay.sdk.app import App, Definition
from assay.sdk.converter import Converter
from assay.sdk.failures import judged, to_info
from assay.sdk.replay import outcomes
from assay.sdk.replay.exceptions import (
    CancelRequested,
    ContinueAsNewRequested,
    Notice,
    TaskFailed,
    defect_in,
    ending_in,
    next_run,
)
from assay.sdk.replay.inputs import COMPARISONS, Difference, RecordedInputs, step_difference, warn_once
from assay.sdk.replay.journal import LENIENT, Journal, diverged
from assay.sdk.replay.loop import WorkflowLoop
from assay.sdk.replay.mailbox import Mailbox
from assay.sdk.replay.queries import Queries
from assay.sdk.replay.turn import ChildFuture, PausePoint, StepCall, StepOrder, Turn

log = logging.getLogger("assay.worker")
Main = Callable[["Execution", Payload], Any]


class Execution:
    """The live coroutine of a run, with all it waits for."""

    def __init__(
        self,
        key: RunKey,
        definition: Definition,
        app: App,
        converter: Converter,
        main: Main,
        *,
        errors: str = "fail",
    ) -> None:
        self.key = key
        self.definition = definition
        self.waits = (definition.errors or errors) == "wait"
        """Whether an exception that is not a `Failure` fails the task and leaves the run open."""
        self.app = app
        self.converter = converter
        self.start: ev.StartData | None = None
        self.loop = WorkflowLoop(self)
        self.mailbox = Mailbox()
        self.queries = Queries(key.workflow_id, converter)
        self.journal = Journal()
        self.seen = 0
        self.history_length = 0
        self.history_size = 0
        self.cancel_reason: str | None = None
        self.cancel_requested = False
        self.shields = 0
        self.held: Notice | None = None
        """What waits for the shields to come down."""
        self.speculative = False
        self.held_logs: list[Callable[[], None]] = []
        self.activities: dict[int, asyncio.Future[Payload]] = {}
        self.children: dict[str, ChildFuture] = {}
        self.steps: dict[int, tuple[StepCall, asyncio.Future[Payload]]] = {}
        self.main: asyncio.Task[Any] | None = None
        self._main = main
        self._counters: defaultdict[str, int] = defaultdict(int)
        self.replaying = False
        self.cancelled_itself = False
        self.error: BaseException | None = None
        """What the code ended with, if it failed."""
        self._time: Time = 0
        self._replay_until = 0
        self._commands: list[cmd.AnyCommand] = []
        self._started_steps: set[int] = set()
        self._paused_at: asyncio.Future[None] | None = None
        self._divergence: NonDeterminismError | None = None
        self._inputs: deque[Recorded] = deque()
        self._history: Sequence[Recorded] = ()
        """All events, while there are echoes among them that code has not produced yet."""
        self._recorded_inputs: RecordedInputs | None = None

    # what the loop needs: durable timers and the time of the last applied input

    def now(self) -> float:
        """Durable time in seconds."""
        return self._time / SECOND

    @property
    def time(self) -> Time:
        """Durable time in microseconds."""
        return self._time

    def start_timer(self, delay_seconds: float) -> int:
        """Order a timer."""
        seq = self.count("timer")
        self.order("timer", seq, "", cmd.ScheduleTimer(seq, delay_seconds))
        return seq

    def cancel_timer(self, seq: int) -> None:
        """Give up a timer."""
        self.order("cancel of timer", seq, "", cmd.CancelTimer(seq))

    # what the context needs

    def count(self, kind: str) -> int:
        """The next id of a kind of command."""
        self._counters[kind] += 1
        return self._counters[kind]

    def order(self, kind: str, ident: int | str, name: str, command: cmd.AnyCommand) -> ev.Event | None:
        """Send a command, or find it recorded: then its echo is the answer."""
        try:
            echo = self.journal.match(kind, ident, name)
            if echo is None and self.replaying and kind not in LENIENT:
                raise self.journal.unexpected(kind, ident, name)
            compare = None if echo is None else COMPARISONS.get(type(echo))
            difference = None if compare is None else compare(echo, command)
            if difference is not None:
                self._differ(difference)
        except NonDeterminismError as error:
            self.diverge(error)
            raise
        if echo is None and not (self.replaying and kind in LENIENT):
            self._commands.append(command)
            self.journal.sent(kind, ident)
        return echo

    def recorded_side_effect(self, seq: int, name: str) -> ev.Event | None:
        """The echo of a side effect, if there is one.

        A replay that has met every echo and asks for one more has come to where a turn paused whose worker was lost
        before it could go on: from there on the code is live (R2).
        """
        if self.journal.empty:
            if self.replaying:
                self.replaying = False
                self._replay_until = self.history_length
            return None
        if not self.replaying and not self.journal.has("side effect", seq):
            return None
        # also when it is not replayed: a run may begin with the history of another (R20)
        return self.order("side effect", seq, name, cmd.RecordSideEffect(seq, name))

    def _differ(self, difference: Difference) -> None:
        """Raise if the code's input was recorded with another command, whose result this one would miss; else warn."""
        if self._recorded_inputs is None:
            self._recorded_inputs = RecordedInputs(self._history)
        holder = self._recorded_inputs.holder(difference)
        if holder is not None:
            raise difference.error(holder)
        self.warn(difference)

    def warn(self, difference: Difference) -> None:
        """Report an input that differs from the recorded one and exchanges no results."""
        warn_once(self.key, difference)

    def diverge(self, error: NonDeterminismError) -> None:
        """Remember that code and history disagree, whatever the code makes of the exception."""
        if self._divergence is None:
            self._divergence = error
        self.loop.pause()

    async def durable_point(self) -> None:
        """Return at once, unless this turn is speculative: then when everything before is durable (R2)."""
        if not self.speculative:
            return
        self._paused_at = PausePoint(self.loop)
        self.loop.pause()
        try:
            await self._paused_at
        except asyncio.CancelledError:
            # on its way to the next await, as on a replay, which does not stop here
            task = asyncio.current_task()
            if task is not None:
                task.cancel()
                task.uncancel()

    def add_step(self, order: StepOrder) -> asyncio.Future[Payload]:
        """Order an inline step; its outcome comes as an input event (R3)."""
        step = StepCall(self.count("step"), order)
        future: asyncio.Future[Payload] = self.loop.create_future()
        self.steps[step.seq] = (step, future)
        return future

    # what the worker needs

    @property
    def closed(self) -> bool:
        """Has the code come to its end?"""
        return self.main is not None and (self.main.done() or bool(self.loop.errors))

    @property
    def busy(self) -> bool:
        """Is there local work whose outcome the code waits for?"""
        if self._paused_at is not None:
            return True
        return bool(self.steps) and any(not future.done() for _, future in self.steps.values())

    @property
    def has_task_timeout(self) -> bool:
        """Was the run started with a limit for its tasks (C28), which their first lease is to keep?"""
        return self.start is None or self.start.task_timeout is not None

    def wants_step(self, seq: int) -> bool:
        """Does code still wait for the step? The outcome of one that was cancelled is nobody's business."""
        return seq in self.steps and not self.steps[seq][1].done()

    def activate(self, events: Sequence[Recorded], replay_until: int) -> Turn:
        """Apply events and run; `replay_until` is the last one that an accepted turn has seen."""
        self._replay_until = max(replay_until, self._replay_until)
        # Only a replay meets echoes of commands that another life of the run has sent, and it is given all events.
        self._history = [*self._history, *events] if self._history else events
        turn = self._turn(events)
        self._recorded_inputs = None
        if self.journal.empty:
            self._history = ()
        return turn

    def speculate(self, events: Sequence[Recorded]) -> Turn:
        """Apply events that are expected to be recorded just so; the turn counts when the engine agrees (R8)."""
        self.speculative = True
        return self._turn(events)

    def resume(self) -> Turn:
        """Go on after a paused turn was acknowledged: the paused coroutine first, as if it had never stopped."""
        waiter, self._paused_at = self._paused_at, None
        if waiter is not None:
            self.loop.resume_first(waiter)
        return self._turn(())

    def acknowledge(self, seen_seq: int, last_seq: int) -> None:
        """The turn was accepted: nothing of it is in doubt any more."""
        self.speculative = False
        self.seen = max(self.seen, seen_seq)
        if seen_seq == last_seq:
            self.journal.settled()
        if self.held_logs:
            logs, self.held_logs = self.held_logs, []
            for write in logs:
                write()

    def drop(self) -> None:
        """Leave the run: its coroutines are closed, nothing they do is heard (R6)."""
        self.loop.drop()
        self.held_logs.clear()

    def _turn(self, events: Sequence[Recorded]) -> Turn:
        try:
            try:
                self.loop.drive(self._apply_all, events)
            except NonDeterminismError as error:
                self.diverge(error)
            if self._divergence is not None:
                return Turn(failure=(NON_DETERMINISM, str(self._divergence)))
            return self._outcome()
        except TaskFailed as error:
            return Turn(failure=(TASK_FAILED, str(error)))
        except Exception as error:  # noqa: BLE001  # a turn never raises: the worker must hear of it
            return Turn(failure=(TASK_FAILED, f"{type(error).__name__}: {error}"))

    def _apply_all(self, events: Sequence[Recorded]) -> None:
        for recorded in events:
            if recorded.seq > self.seen:
                self.seen = recorded.seq
                self._read(recorded)
        if not events:
            self._run()
        while self._inputs and not self.closed and self._paused_at is None and self._divergence is None:
            self._apply(self._inputs.popleft())
        if self.replaying and self._divergence is None and (self.closed or not self._inputs):
            self._check_leftover()

    def _read(self, recorded: Recorded) -> None:
        event = recorded.event
        if not event.is_input:
            self.journal.read(event)
            return
        if isinstance(event, ev.ChildWorkflowFailed) and event.close_reason == "not_started":
            self.journal.read_unstarted_child(event.child_seq)
        self._inputs.append(recorded)

    def _apply(self, recorded: Recorded) -> None:
        known = recorded.seq <= self._replay_until
        if self.replaying and not known:
            self._check_leftover()
        self.replaying = known
        self._time = recorded.time
        self.history_length = recorded.seq
        self.history_size += outcomes.size_of(recorded.event)
        outcomes.apply(self, recorded)
        self._run()

    def _run(self) -> None:
        try:
            self.loop.drain()
        except (SystemExit, KeyboardInterrupt) as error:
            self.loop.errors.append(error)  # it ends the run, not the worker that serves others as well (L2)

    def _check_leftover(self) -> None:
        if self.waits and self.closed and self._defect() is not None:
            return  # reported in place of the divergence: the exception says why the code ended before its history
        error = self.journal.leftover()
        if error is not None:
            raise error
        if self._inputs and self._inputs[0].seq <= self._replay_until:
            following = self._inputs[0]
            shown = f"{type(following.event).__name__} at event {following.seq}"
            raise diverged("event", following.seq, shown, "nothing more: it has ended")

    def begin(self, event: ev.WorkflowStarted) -> None:
        """Start the code."""
        self.start = event.start
        # in the run's own context: that of the worker, in which this is called, is no business of workflow code
        self.main = self.loop.create_task(self._main(self, event.input), context=self.loop.context.copy())

    def cancel(self, reason: str | None) -> None:
        """A cancel was requested: tell the code."""
        self.cancel_requested = True
        self.cancel_reason = reason
        # of children ordered before, in this very turn, the engine cannot know that they came before the cancel (I16)
        self._commands = [
            msgspec.structs.replace(command, unaware=True) if isinstance(command, cmd.StartChildWorkflow) else command
            for command in self._commands
        ]
        self.interrupt(Notice(reason))

    def interrupt(self, notice: Notice) -> None:
        """Raise a notice where the main coroutine waits, or when it is shielded no more (R18)."""
        if self.shields:
            self.held = notice
        elif self.main is not None:
            self.main.cancel(notice)

    def end_by(self, error: CancelRequested | ContinueAsNewRequested) -> None:
        """Code is about to raise its wish to end the run; if it does so beside the main coroutine, that one is told.

        A cancel is told when the task has ended by it. A continue-as-new goes from task to task like any exception, and
        is told where nobody is there to take it.
        """
        task = asyncio.current_task()
        if task is None or task is self.main:
            return
        if isinstance(error, CancelRequested):
            task.add_done_callback(functools.partial(self._tell_of_cancel, error.notice))
            return
        for task in self.loop.unfinished():
            if task is not self.main:
                task.add_done_callback(self._tell_of_continuing)

    def _tell_of_cancel(self, notice: Notice, task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            self.interrupt(notice)

    def _tell_of_continuing(self, task: "asyncio.Task[Any]") -> None:
        # asyncio's own mark of an exception that nobody has asked for
        if task.cancelled() or not task._log_traceback:
            return
        error = ending_in(task.exception())
        if isinstance(error, ContinueAsNewRequested):
            self.interrupt(Notice(command=error.command))

    def take_step(self, seq: int, name: str, input_hash: str | None = None) -> asyncio.Future[Payload] | None:
        """The future of the step whose outcome is recorded; another step than code asked for is non-determinism."""
        if seq > self._counters["step"]:
            raise diverged("step", seq, f"step {seq} '{name}'", "nothing of the kind")
        self._started_steps.discard(seq)
        found = self.steps.pop(seq, None)
        if found is None:
            return None
        order = found[0].order
        if order.name != name:
            raise diverged("step", seq, f"step {seq} '{name}'", f"step {seq} '{order.name}'")
        if input_hash is not None and input_hash != order.input_hash:
            self._differ(step_difference(seq, order, input_hash))
        return found[1]

    def ordered(self, kind: str, seq: int, name: str) -> None:
        """Check that code has ordered what the history has an outcome of."""
        if seq > self._counters[kind]:
            raise diverged(kind, seq, f"{kind} {seq} '{name}'", "nothing of the kind")

    def _outcome(self) -> Turn:
        closing = self._closing()
        commands, self._commands = self._commands, []
        snapshot = self.queries.snapshot(replaying=self.replaying) if self.queries else None
        if snapshot is not None:
            commands.insert(0, snapshot)
        if closing is not None:
            commands.append(closing)
            return Turn(tuple(commands), closes=True)
        fresh = self._fresh_steps() if self.steps else ()
        return Turn(tuple(commands), fresh, self._paused_at is not None)

    def _fresh_steps(self) -> tuple[StepCall, ...]:
        """Steps that wait to be started; those that code gave up are forgotten."""
        fresh = []
        for step, future in tuple(self.steps.values()):
            if future.done():
                del self.steps[step.seq]
            elif step.seq not in self._started_steps:
                self._started_steps.add(step.seq)
                fresh.append(step)
        return tuple(fresh)

    def _closing(self) -> cmd.AnyCommand | None:
        if self.main is None or not (self.main.done() or self.loop.errors):
            return None
        error = self._raised(self.main)
        if error is None:
            return self._completed(self.main.result())
        following = next_run(error)
        if following is not None:
            return msgspec.structs.replace(following, unread_signals=self._unread())
        return self._cancelled() if isinstance(error, asyncio.CancelledError) else self._failed(error)

    def _raised(self, main: "asyncio.Task[Any]") -> BaseException | None:
        """What has ended the code, unless it has returned."""
        if self.loop.errors:
            return self.loop.errors[0]
        try:
            return ending_in(main.exception())
        except asyncio.CancelledError as error:
            return error

    def _defect(self) -> Exception | None:
        """Return the exception other than a `Failure` that has ended the code, if one has."""
        error = None if self.main is None else self._raised(self.main)
        return None if error is None else defect_in(error)

    def _unread(self) -> tuple[int, ...]:
        """Signals that code has not taken, and what it was not told of any more because it ended first (R19).

        A cancel request among them goes along too: it was acknowledged, and asks the whole chain to end (I1).
        """
        kinds = (ev.SignalReceived, ev.WorkflowCancelRequested)
        untold = (recorded.seq for recorded in self._inputs if isinstance(recorded.event, kinds))
        return (*self.mailbox.unread(), *untold)

    def _failed(self, error: BaseException) -> cmd.FailWorkflow:
        self.error = error
        self._wait_for_fix(error)
        info = to_info(error, source="workflow")
        policy = None if self.start is None else self.start.retry_policy
        if policy is not None:
            info = judged(info, error, policy)
        return cmd.FailWorkflow(info.message or type(error).__name__, info)

    def _wait_for_fix(self, error: BaseException) -> None:
        """Raise `TaskFailed` if the run is to wait for code that does not end with `error`."""
        defect = defect_in(error) if self.waits else None
        if defect is not None:
            infos = [to_info(one) for one in ((defect,) if defect is error else (error, defect))]
            raise TaskFailed(": ".join(f"{info.type}: {info.message}" for info in infos))

    def _cancelled(self) -> cmd.AnyCommand:
        if self.cancel_requested or self.cancelled_itself:
            return cmd.CancelWorkflow(self.cancel_reason)
        return self._failed(Failure("the workflow awaited something that it had itself cancelled", kind=Kind.CANCELED))

    def _completed(self, result: Any) -> cmd.AnyCommand:
        try:
            raw = self.converter.encode(result, name="result")
        except Invalid as error:
            return self._failed(error)
        return cmd.CompleteWorkflow(NULL if raw == b"null" else Payload(raw))
