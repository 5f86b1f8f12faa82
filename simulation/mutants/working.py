"""Planted bugs in workers: replay, side effects, steps, leases, and lost responses."""

from typing import Any

from msgspec.structs import replace

from assay.core.model.events import SideEffectRecorded
from assay.core.model.payload import NULL
from assay.sdk.worker import activity_tasks, reports, workflow_tasks
from assay.sdk.worker.activity_tasks import ActivityTasks, Attempt
from assay.sdk.worker.live_run import ACCEPT, RESTING
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from assay.sdk.workflow.replay.closing import Closing
from assay.sdk.workflow.replay.commands import Commands
from assay.sdk.workflow.replay.inputs import RecordedInputs
from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.mailbox import Mailbox
from assay.sdk.workflow.replay.speculation import Speculation
from simulation.mutants.families import CARRIED
from simulation.mutants.planting import Mutant, Patch, does_nothing, waits_for_nothing
from simulation.mutants.turns import FAR, REMOTE


def _runs_again(only_none: bool) -> list[Patch]:
    """A side effect that is recorded (or recorded as None) is run again on replay."""
    order = Commands.order

    def order_again(self: Commands, kind: str, ident: int | str, name: str, command: Any) -> Any:
        if kind != "side effect" or not self.replaying:
            return order(self, kind, ident, name, command)
        echo = self.journal.match(kind, ident, name)
        known = isinstance(echo, SideEffectRecorded) and only_none and echo.value != NULL
        return echo if known else None

    return [(Commands, "order", order_again)]


def _too_soon() -> list[Patch]:
    """Steps begin when their turn is sent, not when it is durable."""
    send = WorkflowTasks._send

    def send_and_begin(self: WorkflowTasks, run: Any, turn: Any, seen: int, outcomes: Any = ()) -> None:
        for step in turn.steps:
            self._steps.start(run, step)
        send(self, run, replace(turn, steps=()), seen, outcomes)

    return [(WorkflowTasks, "_send", send_and_begin)]


def _sure(module: Any) -> list[Patch]:
    """No answer is taken for a refusal."""
    return [(module, "unsure", lambda error: False)]


def _unrepeated() -> list[Patch]:
    """Whatever is answered to a report, it is done with."""
    return [(reports, "over", lambda error: True)]


def _eager_cancel() -> list[Patch]:
    def interrupt(self: Attempt) -> None:
        if self.task is not None:
            self.task.cancel()

    return [(Attempt, "interrupt", interrupt)]


def _refused_kept() -> list[Patch]:
    """A refused turn keeps its coroutine."""

    def forget(self: WorkflowTasks, run: Any) -> None:
        run.execution.speculation.active = False
        if run.state != RESTING:
            run.turn_event(ACCEPT)

    def lose(self: WorkflowTasks, run: Any) -> None:
        self._unlease(run)
        if run.state != RESTING:
            run.turn_event(ACCEPT)

    return [(WorkflowTasks, "_forget", forget), (WorkflowTasks, "_lost", lose)]


def _newest_letter() -> list[Patch]:
    def take(self: Mailbox, name: str) -> Any:
        channel = self._topics.get(name)
        return channel._buffer.pop() if channel is not None and channel.unread else None

    return [(Mailbox, "unread", lambda self: ()), (Mailbox, "take", take)]


def _clock_timers() -> list[Patch]:
    """A timer of the loop counts as fired when another one has."""

    def fire(self: WorkflowLoop, seq: int) -> bool:
        for timer in tuple(self._waiting.values()):
            self._ready.append(timer)
        self._waiting.clear()
        return True

    return [(WorkflowLoop, "fire_timer", fire)]


def _no_drain() -> list[Patch]:
    return [(ActivityTasks, "release", does_nothing), (WorkflowTasks, "release", does_nothing)]


def _uncompared() -> list[Patch]:
    return [(Commands, "differ", does_nothing)]


def _unknown_inputs() -> list[Patch]:
    return [(RecordedInputs, "holder", does_nothing)]


CHANGING = {"kinds": ("swapped", "act"), "cached_runs": 1}
BEATING = {**FAR, "kinds": ("beat", "long", "all")}
TOLD = {"kinds": ("signal", "act", "all")}
STEPS = {"kinds": ("inline", "act")}
FLASHES = {"kinds": ("flash", "act"), "activity_hands": 1, "inline": False, "programs": 6, "cancels": 0.5}
FAILING = {"kinds": ("act", "limited", "final"), "cached_runs": 1}
WORKING = (
    Mutant(
        "a side effect runs in doubt",
        "side effects",
        lambda: [(Speculation, "durable_point", waits_for_nothing)],
        faults=(),
    ),
    Mutant("a side effect runs again on replay", "side effects, I6", lambda: _runs_again(False)),
    Mutant("a side effect of None runs again on replay", "side effects, I6", lambda: _runs_again(True)),
    Mutant("a step begins before its turn is durable", "inline steps", _too_soon, faults=()),
    Mutant(
        "task leases are not extended",
        "inline steps",
        lambda: [(WorkflowTasks, "extend", does_nothing)],
        True,
        (),
        50,
        STEPS,
    ),
    Mutant("attempt leases are not extended", "leases", lambda: [(ActivityTasks, "extend", does_nothing)], True, ()),
    Mutant("a lost turn is not sent again", "I3, liveness", lambda: _sure(workflow_tasks), False, ("reject",)),
    Mutant("a lost report is not sent again", "I3, liveness", _unrepeated, False, ("reject",), 50, FAILING),
    Mutant("a lost heartbeat ends the attempt", "leases", lambda: _sure(activity_tasks), None, REMOTE, 100, BEATING),
    Mutant("an attempt is cancelled before it began", "liveness", _eager_cancel, False, ("slow_store",), 100, FLASHES),
    Mutant("a refused turn keeps its coroutine", "fused completion", _refused_kept, world=TOLD),
    Mutant("unread signals are not named", "unread signals", _newest_letter, world=CARRIED),
    Mutant("inputs are not compared on replay", "I19", _uncompared, world=CHANGING),
    Mutant("an exchanged input is only warned of", "I19", _unknown_inputs, world=CHANGING),
    Mutant("one timer fires all", "loop timers, I10", _clock_timers, faults=()),
    Mutant(
        "a bug fails the run that waits",
        "I19",
        lambda: [(Closing, "_wait_for_fix", does_nothing)],
        faults=(),
        world={"kinds": ("bug", "act", "inline")},
    ),
    Mutant("a stopping worker gives nothing back", "stopping", _no_drain, False, ("stop_engine",)),
)
