"""Would today's code still follow the histories of yesterday? Ask before it is deployed, with histories saved to files.

    history = await fetch_history(client, "order-1")      # and save it: Path("order.json").write_bytes(history.dump())
    replay_history(Path("order.json"), app)               # in a test: raises NonDeterminismError if the code differs

Files that `assay workflow events` has written will do as well, and `assay replay` asks the same on the command line.
No engine is needed and nothing is done: no activity, step or side effect runs, no line is logged. The history may be of
a run that is still open; then the code is held against it as far as it goes.
"""

from collections.abc import Callable
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.errors import NonDeterminismError, NotFound
from assay.core.model.events import Event, Recorded
from assay.core.model.ids import RunKey
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
    """Hold code against a history; `NonDeterminismError` names the step, what the history says and what the code did.

    The code is the app's workflow of the history's type, or the function given as `workflow`. Another input of an
    activity, step or child is an error, too. Another duration of a timer is none; a sentence about each is returned.
    """
    return _rehearsed(history, app, workflow)[1]


def rehearse(
    history: Source,
    app: App | None = None,
    *,
    workflow: Callable[..., Any] | None = None,
) -> cmd.AnyCommand | None:
    """Like `replay_history`; returns the command by which the code closes the run, or None while it goes on."""
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
    """The commands of code that goes no further than its history."""

    speculation: Speculation

    def __init__(self, key: RunKey) -> None:
        super().__init__(key)
        self.ahead: tuple[str, int | str, str] | None = None
        self.changed_input: Difference | None = None
        self.warnings: list[str] = []

    def order(self, kind: str, ident: int | str, name: str, command: cmd.AnyCommand) -> ev.Event | None:
        """Find a command recorded; the first that is not, after all that are, is where the code is ahead of history."""
        if kind in LENIENT or not self.journal.empty:
            return super().order(kind, ident, name, command)
        if self.ahead is None:
            self.ahead = (kind, ident, name)
            self.speculation.pause()
        self.loop.pause()
        return None

    def warn(self, difference: Difference) -> None:
        """Keep a difference for the end: one at which runs would be stuck counts before it."""
        if difference.kind == "timer":
            self.warnings.append(difference.warning())
        elif self.changed_input is None:
            self.changed_input = difference


class _Rehearsal(Execution):
    """Code that is told a history and stops where that ends."""

    def __init__(self, history: History, app: App, definition: Definition) -> None:
        key = RunKey(history.namespace, history.workflow_id, history.run_id)
        self.rehearsed = _RehearsedCommands(key)
        super().__init__(key, definition, app, Converter(), main, commands=self.rehearsed)
        self.rehearsed.speculation = self.speculation
        self.speculation.active = True  # so that nothing is logged and no side effect runs
        self.ended_by: Event | None = None

    def held_against(self, events: list[Recorded]) -> cmd.AnyCommand | None:
        """Apply all events, and see where that leads."""
        if events and events[-1].event.closes is not None:
            self.ended_by = events.pop().event
        if isinstance(self.ended_by, ev.WorkflowCancelled) and all(isinstance(one.event, OUTSIDE) for one in events):
            return None  # it was cancelled before any worker had looked at it (R18)
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

    def _check_leftover(self) -> None:
        if isinstance(self.ended_by, ev.WorkflowCancelled):
            self._inputs.clear()  # a cancelled run may close without having looked at what came last (R7)
        elif self.closed:
            told = [recorded for recorded in self._inputs if not self._untold(recorded.event)]
            self._inputs.clear()
            self._inputs.extend(told)
        super()._check_leftover()

    def _untold(self, event: Event) -> bool:
        """May it stand in the history after code has ended? It came before the end was recorded, too late to be told.

        So may everything from outside, and the outcome of whatever the code had ordered.
        """
        match event:
            case ev.SignalReceived() | ev.WorkflowCancelRequested():
                return True
            case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
                return event.activity_seq <= self.commands.counters["activity"]
            case ev.StepCompleted() | ev.StepFailed():
                return event.step_seq <= self.commands.counters["step"]
            case ev.TimerFired():
                return event.timer_seq <= self.commands.counters["timer"]
            case ev.ChildWorkflowCompleted() | ev.ChildWorkflowFailed():
                return event.child_workflow_id in self.futures.children
        return False

    def _check_end(self, closing: cmd.AnyCommand | None) -> None:
        expected = None if self.ended_by is None else CLOSINGS.get(type(self.ended_by))
        if expected is None or isinstance(closing, expected):
            return
        if isinstance(self.ended_by, ev.WorkflowCancelled) and closing is None:
            return  # nobody had looked at it yet
        found = "nothing more: it waits" if closing is None else f"{type(closing).__name__}"
        if self.rehearsed.ahead is not None:
            kind, ident, name = self.rehearsed.ahead
            found = f"{kind} {ident} '{name}'"
        raise diverged("end", self.seen + 1, type(self.ended_by).__name__, found)


OUTSIDE = (ev.WorkflowStarted, ev.SignalReceived, ev.WorkflowCancelRequested)
"""What can be in a history although its code has never run."""

CLOSINGS: dict[type[Event], type[cmd.AnyCommand]] = {
    ev.WorkflowCompleted: cmd.CompleteWorkflow,
    ev.WorkflowFailed: cmd.FailWorkflow,
    ev.WorkflowCancelled: cmd.CancelWorkflow,
    ev.WorkflowContinuedAsNew: cmd.ContinueAsNew,
}
"""How code closes a run so that it ends like this; other ends are none of its doing."""


def _definition(workflow_type: str, app: App, workflow: Callable[..., Any] | None) -> Definition:
    if workflow is not None:
        return Definition(workflow_type, workflow, signature_of(workflow))
    definition = app.workflows.get(workflow_type)
    if definition is None:
        known = ", ".join(sorted(app.workflows)) or "none"
        raise NotFound(f"no workflow handler registered for type {workflow_type} (registered: {known})")
    return definition
