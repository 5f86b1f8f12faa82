"""I19: every prefix of every history that a worker may be given replays to the commands that are in the history."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.events import Recorded
from assay.core.model.ids import RunId, RunKey
from assay.sdk.values.converter import Converter
from assay.sdk.worker.main import main
from assay.sdk.workflow.replay.completion import Completion
from assay.sdk.workflow.replay.journal import ECHOES, child_name
from assay.sdk.workflow.replay.runtime import Execution
from simulation.checks.histories import Archive, Life
from simulation.programs import PlannedBug
from simulation.settings import chance_of
from simulation.shown import shown

if TYPE_CHECKING:
    from simulation.world import World

Name = tuple[str, object, str]
PREFIXES = 5
"""Prefixes tried of each run, the whole history among them; the seed says which."""

ORDERS: dict[type[Any], Callable[[Any], Name]] = {
    cmd.ScheduleActivity: lambda command: ("activity", command.seq, command.name),
    cmd.ScheduleTimer: lambda command: ("timer", command.seq, ""),
    cmd.RecordSideEffect: lambda command: ("side effect", command.seq, command.name),
    cmd.StartChildWorkflow: lambda command: (
        "child workflow",
        command.seq,
        child_name(command.workflow_type, command.workflow_id),
    ),
}
"""Commands that every accepted turn leaves in the history under an id of their own."""


def check_replays(world: "World", archive: Archive, states: dict[RunId, dict[tuple[int, int], None]]) -> None:
    """Replay what was recorded, with the code that recorded it."""
    chance = chance_of(world.settings.seed, "replays")
    for life in archive.lives.values():
        if life.start.workflow_type not in world.app.workflows:
            continue  # no worker serves it, so no code has recorded anything
        wanted = list(states[life.run_id])
        if len(wanted) > PREFIXES:
            wanted = chance.sample(wanted, PREFIXES)
        for last, seen in wanted:
            for problem in _prefix(world, life, last, seen):
                world.ledger.violate(f"I19 {problem} ({life.workflow_id} {life.run_id} to {last}, seen {seen})")
                return


def _prefix(world: "World", life: Life, last: int, seen: int) -> Iterator[str]:
    history = [recorded for recorded in life.history[:last] if recorded.event.closes is None]
    turn = replay(world, life, history, seen)
    if turn.failure is not None:
        if PlannedBug.__name__ not in turn.failure[1]:  # the run was closed from outside before its code was fixed
            yield f"replay fails: {turn.failure}"
        return
    if isinstance(life.end, ev.WorkflowCompleted | ev.WorkflowContinuedAsNew):
        yield from _missing(life, turn)
    if turn.closes:
        yield from _other_end(life, turn.commands[-1])


def replay(world: "World", life: Life, history: list[Recorded], seen: int) -> Completion:
    """What the code does when it is given a history up to some event."""
    key = RunKey(life.row["namespace"], life.workflow_id, life.run_id)
    definition = world.app.workflows[life.start.workflow_type]
    execution = Execution(key, definition, world.app, Converter(), main)
    try:
        return execution.activate(history, seen)
    finally:
        execution.drop()


def _missing(life: Life, turn: Completion) -> Iterator[str]:
    """Commands that the code gives now and that were never recorded; inputs count unless chance is behind them."""
    recorded: dict[Name, ev.Event] = {}
    for one in life.history:
        rule = ECHOES.get(type(one.event))
        if rule is not None:
            recorded[rule(one.event)] = one.event
    fresh_value = False
    for command in turn.commands:
        order = ORDERS.get(type(command))
        if order is None:
            continue
        echo = recorded.get(order(command))
        fresh_value = fresh_value or isinstance(command, cmd.RecordSideEffect)
        if echo is None and not _unstarted(life, command):
            yield f"the code does {order(command)}, which was never recorded"
        elif isinstance(echo, ev.ActivityScheduled) and not fresh_value and echo.input != command.input:  # type: ignore[union-attr]
            now = shown(command.input)  # type: ignore[union-attr]
            yield f"activity {echo.activity_seq} was recorded with {shown(echo.input)}, now it is {now}"


def _unstarted(life: Life, command: cmd.AnyCommand) -> bool:
    if not isinstance(command, cmd.StartChildWorkflow):
        return False
    failed = (recorded.event for recorded in life.of(ev.ChildWorkflowFailed))
    return any(getattr(event, "child_seq", None) == command.seq for event in failed)


def _other_end(life: Life, closing: cmd.AnyCommand) -> Iterator[str]:
    match life.end, closing:
        case ev.WorkflowCompleted(result=recorded), cmd.CompleteWorkflow(result=now) if recorded != now:
            yield f"the run returned {shown(recorded)}, its replay {shown(now)}"
        case ev.WorkflowCompleted(), cmd.FailWorkflow(error=error):
            yield f"the run completed, its replay fails: {error}"
        case ev.WorkflowContinuedAsNew(), cmd.CompleteWorkflow():
            yield "the run continued as new, its replay completes"
