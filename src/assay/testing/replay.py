"""Check in tests that changed workflow code still matches the histories of running workflows, before it is deployed.

    history = await fetch_history(client, "order-1")      # and save it: Path("order.json").write_bytes(history.dump())
    replay_history(Path("order.json"), app)               # in a test: raises NonDeterminismError if the code differs

Files written by `assay workflow events` work, too, and `assay replay` is the same check on the command line. The check
needs no engine, runs no activity, step or side effect, and logs nothing. The history may be of an open run: the code is
compared up to the last event.
"""

from collections.abc import Callable
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError, NotFound
from assay.core.model.events import Event, Recorded
from assay.core.model.ids import RunKey
from assay.core.rules.retry_cut import replay_until
from assay.sdk.app import App, Definition
from assay.sdk.default_app import DEFAULT_APP
from assay.sdk.values.converter import Converter
from assay.sdk.values.signatures import signature_of
from assay.sdk.worker.main import main
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.inputs import Difference
from assay.sdk.workflow.replay.journal import LENIENT, diverged
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.replay.speculation import Speculation
from assay.testing.histories import History, Source, fetch_history, load_history, save_history

__all__ = ["History", "fetch_history", "load_history", "rehearse", "replay_history", "save_history"]


def replay_history(
    history: Source,
    app: App | None = None,
    *,
    workflow: Callable[..., Any] | None = None,
) -> tuple[str, ...]:
    """Replay a history with workflow code, and raise if the code differs from the history.

    A changed input of an activity, step or child is a difference. A changed duration of a timer is only a warning.

    Args:
        history: The history, or a file or text to load it from.
        app: The app with the workflow of the history's type; by default the app of `assay.workflow`.
        workflow: A workflow function to use instead of the app's.

    Returns:
        A sentence for each changed timer.

    Raises:
        NonDeterminismError: The code differs; the message has the step, the history's event and the code's command.
        UnsupportedVersion: The code does not support the version of a change that the history has.
        NotFound: The app has no workflow of the type.
    """
    return _rehearsed(history, app, workflow)[1]


def rehearse(
    history: Source,
    app: App | None = None,
    *,
    workflow: Callable[..., Any] | None = None,
) -> cmd.AnyCommand | None:
    """Replay a history like `replay_history`, and return the last command of the code.

    Args:
        history: See `replay_history`.
        app: See `replay_history`.
        workflow: See `replay_history`.

    Returns:
        The command with which the code closes the run, or None if the run stays open.

    Raises:
        NonDeterminismError: The code differs from the history.
        UnsupportedVersion: The code does not support the version of a change that the history has.
        NotFound: The app has no workflow of the type.
    """
    return _rehearsed(history, app, workflow)[0]


def _rehearsed(
    history: Source, app: App | None, workflow: Callable[..., Any] | None
) -> tuple[cmd.AnyCommand | None, tuple[str, ...]]:
    loaded = load_history(history)
    own = DEFAULT_APP if app is None else app
    run = _Rehearsal(loaded, own, _definition(loaded.workflow_type, own, workflow))
    try:
        return run.held_against(loaded.recorded()), tuple(run.rehearsed.warnings)
    finally:
        run.drop()


class _RehearsedCommands(Commands):
    """Commands of replayed code, which is paused at the end of its history."""

    speculation: Speculation

    def __init__(self, key: RunKey) -> None:
        super().__init__(key)
        self.ahead: tuple[str, int | str, str] | None = None
        self.changed_input: Difference | None = None
        self.warnings: list[str] = []
        self.passed_until = 0
        """The last event that the code of the history has certainly passed."""

    def order(self, kind: str, ident: int | str, name: str, command: cmd.AnyCommand) -> ev.Event | None:
        """Return the recorded event of a command. Pause the code at the first command beyond the history."""
        if kind in LENIENT or not self.journal.empty:
            return super().order(kind, ident, name, command)
        if self.ahead is None:
            self.ahead = (kind, ident, name)
            self.speculation.pause()
        self.loop.pause()
        return None

    def has_been_here(self) -> bool:
        """Return True up to the last command of the history: the code of an open run may not have gone further."""
        return self.history_length <= self.passed_until or not self.journal.empty

    def warn(self, difference: Difference) -> None:
        """Keep a difference of inputs for the end: a divergence, which would make runs stuck, has precedence."""
        if difference.kind == "timer":
            self.warnings.append(difference.warning())
        elif self.changed_input is None:
            self.changed_input = difference


class _Rehearsal(Execution):
    """An execution that replays a history and stops at its end."""

    def __init__(self, history: History, app: App, definition: Definition) -> None:
        key = RunKey(history.namespace, history.workflow_id, history.run_id)
        self.rehearsed = _RehearsedCommands(key)
        super().__init__(key, definition, app, Converter(), main, commands=self.rehearsed)
        self.rehearsed.speculation = self.speculation
        self.speculation.active = True  # suppresses logs and side effects
        self.ended_by: Event | None = None

    def held_against(self, events: list[Recorded]) -> cmd.AnyCommand | None:
        """Apply all events, compare the commands, and return the closing command or None."""
        if events and events[-1].event.closes is not None:
            self.ended_by = events.pop().event
        if isinstance(self.ended_by, ev.WorkflowCancelled) and all(isinstance(one.event, OUTSIDE) for one in events):
            return None  # cancelled before the first workflow task: the code never ran
        is_open = self.ended_by is None
        self.rehearsed.passed_until = replay_until(events) if is_open else events[-1].seq if events else 0
        turn = self.activate(events, events[-1].seq if events else 0)
        if self.commands.divergence is not None:
            raise self.commands.divergence
        if turn.failure is not None:
            raise NonDeterminismError(f"the code cannot be replayed: {turn.failure[1]}")
        closing = turn.commands[-1] if turn.closes else None
        self._check_end(closing)
        if self.rehearsed.changed_input is not None:
            raise self.rehearsed.changed_input.error()
        return closing

    def _check_leftover(self, *, seen_only: bool = False) -> None:
        if isinstance(self.ended_by, ev.WorkflowCancelled):
            self._inputs.clear()  # a cancelled run may close before its code has processed the last events
        elif self.closed:
            unexplained = [recorded for recorded in self._inputs if not self._may_be_unprocessed(recorded.event)]
            self._inputs.clear()
            self._inputs.extend(unexplained)
        super()._check_leftover(seen_only=seen_only)

    def _may_be_unprocessed(self, event: Event) -> bool:
        """Return whether an event may be in the history although the code closed the run without processing it.

        Signals, cancel requests, and outcomes of the code's own commands can be recorded just before the end.
        """
        match event:
            case ev.SignalReceived() | ev.WorkflowCancelRequested() | ev.PeerExited():
                return True
            case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
                return event.activity_seq <= self.commands.counters["activity"]
            case ev.StepCompleted() | ev.StepFailed():
                return event.step_seq <= self.commands.counters["step"]
            case ev.TimerFired():
                return event.timer_seq <= self.commands.counters["timer"]
            case ev.ChildWorkflowCompleted() | ev.ChildWorkflowFailed():
                return event.child_seq <= self.commands.counters["child workflow"]
        return False

    def _check_end(self, closing: cmd.AnyCommand | None) -> None:
        expected = None if self.ended_by is None else CLOSINGS.get(type(self.ended_by))
        if expected is None or isinstance(closing, expected):
            return
        if isinstance(self.ended_by, ev.WorkflowCancelled) and closing is None:
            return  # cancelled before the code had processed the cancel request
        found = "nothing more: it waits" if closing is None else f"{type(closing).__name__}"
        if self.rehearsed.ahead is not None:
            kind, ident, name = self.rehearsed.ahead
            found = f"{kind} {ident} '{name}'"
        raise diverged("end", self.seen + 1, type(self.ended_by).__name__, found)


OUTSIDE = (ev.WorkflowStarted, ev.SignalReceived, ev.WorkflowCancelRequested)
"""Events that can be recorded before the code runs for the first time."""

CLOSINGS: dict[type[Event], type[cmd.AnyCommand]] = {
    ev.WorkflowCompleted: cmd.CompleteWorkflow,
    ev.WorkflowFailed: cmd.FailWorkflow,
    ev.WorkflowCancelled: cmd.CancelWorkflow,
    ev.WorkflowContinuedAsNew: cmd.ContinueAsNew,
}
"""The closing command for each closing event that code can cause."""


def _definition(workflow_type: str, app: App, workflow: Callable[..., Any] | None) -> Definition:
    if workflow is not None:
        return Definition(workflow_type, workflow, signature_of(workflow))
    definition = app.workflows.get(workflow_type)
    if definition is None:
        known = ", ".join(sorted(app.workflows)) or "none"
        raise NotFound(f"no workflow handler registered for type {workflow_type} (registered: {known})")
    return definition
