"""One live run in a worker: history in, commands out, no I/O.

Input events are applied one at a time in order of seq, and the code runs until every coroutine is blocked before the
next event is applied. So the outcome does not depend on how events were batched, and a replay makes the same turns.
`activate`, `speculate` and `resume` never raise: a failure is part of the completion.

The parts of a run: its clock and commands (commands.py), awaited results (futures.py, mailbox.py), turns that may still
be refused (speculation.py), requests to end the run (cancellation.py), and its end (closing.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError, RunawayError, UnsupportedVersion
from assay.core.model.events import Recorded
from assay.core.model.ids import SECOND, RunKey
from assay.core.model.payload import Payload
from assay.core.model.run import NON_DETERMINISM, TASK_FAILED, UNSUPPORTED_VERSION
from assay.sdk.app import App, Definition
from assay.sdk.values.converter import Converter
from assay.sdk.workflow.replay import deadlocks, outcomes, strict_guard, task_errors
from assay.sdk.workflow.replay.cancellation import Cancellation
from assay.sdk.workflow.replay.closing import Closing
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.completion import Completion
from assay.sdk.workflow.replay.exceptions import TaskFailed
from assay.sdk.workflow.replay.futures import Futures
from assay.sdk.workflow.replay.journal import diverged
from assay.sdk.workflow.replay.mailbox import Mailbox
from assay.sdk.workflow.replay.peers import Peers
from assay.sdk.workflow.replay.queries import Queries
from assay.sdk.workflow.replay.speculation import Speculation

FOLLOW_AGAIN: Final = "The run goes on when code is deployed that takes the recorded steps"
SUPPORT_AGAIN: Final = "The run goes on when code is deployed that supports this version"
Main = Callable[["Execution", Payload], Any]


class Execution:
    """The live coroutine of a run, with its awaited results."""

    __slots__ = (
        "__weakref__", "_inputs", "_main", "app", "cancellation", "closing", "commands", "converter", "definition",
        "futures", "key", "loop", "mailbox", "main", "peers", "queries", "seen", "speculation", "start", "updates",
    )  # fmt: skip

    def __init__(
        self,
        key: RunKey,
        definition: Definition,
        app: App,
        converter: Converter,
        main: Main,
        *,
        errors: str = "fail",
        strict: bool = False,
        commands: Commands | None = None,
    ) -> None:
        self.key = key
        self.definition = definition
        self.app = app
        self.converter = converter
        self.start: ev.StartData | None = None
        self.seen = 0
        self.commands = Commands(key) if commands is None else commands
        self.loop = loop = self.commands.loop
        loop.handler = definition.name
        if strict:
            strict_guard.install()
            loop.strict = True
        self.futures = Futures(self.commands)
        self.mailbox = Mailbox()
        self.updates: dict[str, str] = {}
        """The status of each update that the run has received, by id."""
        self.queries = Queries(key.workflow_id, converter)
        self.speculation = Speculation(loop)
        self.cancellation = Cancellation(loop)
        self.peers: Peers | None = None
        """Watches and events; None until code or an input needs them."""
        waits = (definition.errors or errors) == "wait"
        annotation = definition.signature.result_annotation
        self.closing = Closing(converter, loop, self.mailbox, self.cancellation, annotation, waits=waits)
        self.main: asyncio.Task[Any] | None = None
        self._main = main
        self._inputs: deque[Recorded] = deque()

    @property
    def origin(self) -> str:
        """Return the id of the run that had this history first; it seeds random numbers and generated ids."""
        reopening = None if self.start is None else self.start.reopening
        return self.key.run_id if reopening is None or reopening.origin is None else reopening.origin

    def open_peers(self) -> Peers:
        """Return the watches and events of the run."""
        if self.peers is None:
            self.peers = self.closing.peers = Peers(self.commands, self.futures, self.cancellation)
        return self.peers

    @property
    def closed(self) -> bool:
        """Return True if the code has ended."""
        return self.main is not None and (self.main.done() or bool(self.loop.errors))

    @property
    def busy(self) -> bool:
        """Return True while the code waits for the outcome of local work."""
        if self.speculation.paused_at is not None:
            return True
        return bool(self.futures.steps) and self.futures.wants_any_step()

    @property
    def has_task_timeout(self) -> bool:
        """Return True if the run was started with a limit for its tasks, which the first lease must observe."""
        return self.start is None or self.start.task_timeout is not None

    def activate(self, events: Sequence[Recorded], replay_until: int) -> Completion:
        """Apply events and run the code; `replay_until` is the last event of the accepted turns."""
        self.commands.begin_replay(events, replay_until)
        turn = self._turn(events)
        self.commands.end_replay()
        return turn

    def speculate(self, events: Sequence[Recorded]) -> Completion:
        """Apply events before the engine has recorded them; the completion is valid once the engine accepts them."""
        self.speculation.active = True
        return self._turn(events)

    def resume(self) -> Completion:
        """Continue after a paused turn was accepted: the paused coroutine first, as if it had never stopped."""
        self.speculation.resume()
        return self._turn(())

    def acknowledge_part(self, seen_seq: int) -> None:
        """Advance past the echoes of a part of a turn; the rest of the turn has yet to be accepted."""
        self.seen = max(self.seen, seen_seq)

    def acknowledge(self, seen_seq: int, last_seq: int) -> None:
        """Note that the engine has accepted the turn."""
        self.seen = max(self.seen, seen_seq)
        if seen_seq == last_seq:
            self.commands.journal.settled()
        self.speculation.accept()

    def drop(self) -> None:
        """Close the coroutines of the run; nothing that they do afterwards has an effect."""
        self.loop.drop()
        self.speculation.held_logs.clear()

    def _turn(self, events: Sequence[Recorded]) -> Completion:
        commands = self.commands
        try:
            try:
                self.loop.drive(self._apply_all, events)
            except NonDeterminismError as error:
                commands.diverge(error)
            if commands.divergence is not None:
                return Completion(failure=_blocked(commands.divergence))
            return self._outcome()
        except TaskFailed as error:
            return Completion(failure=(TASK_FAILED, str(error)))
        except RunawayError as error:
            return Completion(failure=(TASK_FAILED, f"RunawayError: {self.loop.interrupted or error}"))
        except Exception as error:  # noqa: BLE001  # never raised: the worker reports it as the failure of the task
            return Completion(failure=(TASK_FAILED, f"{type(error).__name__}: {error}"))

    def _apply_all(self, events: Sequence[Recorded]) -> None:
        commands, inputs = self.commands, self._inputs
        is_whole_history = self.seen == 0
        for recorded in events:
            if recorded.seq > self.seen:
                self.seen = recorded.seq
                self._read(recorded)
        if not events:
            self._run()
        while inputs and not self.closed and self.speculation.paused_at is None and commands.divergence is None:
            self._apply(inputs.popleft())
        if commands.divergence is None and (self.closed or not inputs):
            # Echoes of a turn whose worker was lost between two parts stand after the last seen event: the code has
            # them behind it only now. The history of a retried run is of another run, which code may leave.
            is_retried = self.start is not None and self.start.reopening is not None
            if commands.replaying or (is_whole_history and not is_retried):
                self._check_leftover()

    def _read(self, recorded: Recorded) -> None:
        event = recorded.event
        if not event.is_input:
            self.commands.journal.read(event)
            return
        if isinstance(event, ev.ChildWorkflowFailed) and event.close_reason == "not_started":
            self.commands.journal.read_unstarted_child(event.child_seq)
        self._inputs.append(recorded)

    def _apply(self, recorded: Recorded) -> None:
        commands = self.commands
        if commands.replaying and recorded.seq > commands.replay_until and not commands.journal.empty:
            self._check_leftover(seen_only=True)
        commands.move_to(recorded)
        outcomes.apply(self, recorded)
        self._run()

    def _run(self) -> None:
        try:
            self.loop.drain()
            if self.loop.failed or self.cancellation.intrusion is not None:
                task_errors.settle(self)
        except (SystemExit, KeyboardInterrupt) as error:
            self.loop.errors.append(error)  # ends this run, not the worker and its other runs
        if self.loop.interrupted is not None:
            # Raised even if the code caught the exception, which a replay would not raise at the same place.
            raise RunawayError(self.loop.interrupted)

    def _check_leftover(self, *, seen_only: bool = False) -> None:
        """Raise if the history has commands that the code has not ordered; `seen_only` for accepted turns alone.

        Raises:
            NonDeterminismError: The code diverged from its history.
            TaskFailed: The code raised an exception before the end of its history.
        """
        commands = self.commands
        following = self._inputs[0] if self._inputs and self._inputs[0].seq <= commands.replay_until else None
        if following is None and commands.journal.empty:
            return
        missing = commands.first_missing(seen_only=seen_only)
        closing, main = self.closing, self.main
        raised = None if main is None or not self.closed else closing.exception(main)
        if raised is not None:
            shown = missing or (None if following is None else f"event {following.seq}, {_name_of(following)}")
            raise closing.prevented(raised, None if shown is None else str(shown))
        if missing is not None:
            raise missing.error(f"nothing of the kind: {self._found()}")
        if following is not None:
            shown = f"{_name_of(following)} at event {following.seq}"
            raise diverged("event", following.seq, shown, "nothing more: it has ended")

    def _found(self) -> str:
        """Describe the state of the code at the place where its history has another command."""
        if self.closed:
            return "it has ended"
        return ", ".join(self.futures.new_steps()) or "it waits for what the history has recorded"

    def begin(self, event: ev.WorkflowStarted) -> None:
        """Start the code."""
        self.start = event.start
        if event.start is not None:
            self.closing.policy = event.start.retry_policy
            if event.start.reopening is not None:
                self.commands.copied_until = event.start.reopening.replay_until
            if event.start.watches:
                self.open_peers().take_over(event.start)
            if event.start.task_timeout is not None:
                self.loop.lease_seconds = event.start.task_timeout / SECOND
        # In the run's own context: workflow code must not read context variables of the worker.
        self.main = self.loop.create_task(self._main(self, event.input), context=self.loop.context.copy())
        self.cancellation.main = self.main

    def _outcome(self) -> Completion:
        closing, main = None, self.main
        if main is not None and (main.done() or self.loop.errors):
            closing = self.closing.command(main, self._inputs)
        commands = self.commands.take_issued()
        snapshot = self.queries.snapshot(replaying=self.commands.replaying) if self.queries else None
        if snapshot is not None:
            # After the commands: it shows a state that is durable only when the last part of a long turn is.
            commands.append(snapshot)
        if closing is not None:
            commands.append(closing)
            return Completion(tuple(commands), closes=True)
        fresh = self.futures.fresh_steps() if self.futures.steps else ()
        # The most frequent reasons against a deadlock are looked at here, without a call.
        deadlock = None if fresh or self.futures.activities else deadlocks.found(self)
        return Completion(tuple(commands), fresh, self.speculation.paused_at is not None, deadlock=deadlock)


def _blocked(error: NonDeterminismError | UnsupportedVersion) -> tuple[str, str]:
    """Return the reason and the message of a task whose code cannot follow its history."""
    if isinstance(error, UnsupportedVersion):
        return UNSUPPORTED_VERSION, f"{error}. {SUPPORT_AGAIN}"
    return NON_DETERMINISM, f"{error}. {FOLLOW_AGAIN}"


def _name_of(recorded: Recorded) -> str:
    return type(recorded.event).__name__
