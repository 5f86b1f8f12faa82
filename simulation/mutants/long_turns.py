"""Planted bugs in turns that are sent in parts, in worlds whose messages have one command each."""

import functools

from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.events import Recorded
from assay.core.rules import workflow_tasks as rules
from assay.sdk.worker.live_run import LiveRun, Outcome
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from assay.sdk.workflow.replay.runtime import Execution
from simulation.mutants.planting import Mutant, Patch


def _seen() -> list[Patch]:
    """A part of a turn counts as the whole: its inputs are seen, and a replay expects no more commands."""
    original = rules._settle

    @functools.wraps(original)
    def settle(decision: Decision, request: rq.Advance, seen: int) -> int:
        known_seq = original(decision, request, seen)
        decision.seen_seq = known_seq
        return known_seq

    return [(rules, "_settle", settle)]


def _rest_lost() -> list[Patch]:
    """The commands after the first part are never sent."""
    original = WorkflowTasks._send_part

    @functools.wraps(original)
    def send_part(self: WorkflowTasks, run: LiveRun, seen: int, outcomes: tuple[Outcome, ...] = ()) -> None:
        run.unsent = run.unsent[:1]
        original(self, run, seen, outcomes)

    return [(WorkflowTasks, "_send_part", send_part)]


def _sent_twice() -> list[Patch]:
    """A worker that takes over sends the whole turn, also the commands that the history has."""
    original = Execution._read

    @functools.wraps(original)
    def read(self: Execution, recorded: Recorded) -> None:
        if recorded.event.is_input or recorded.seq <= self.commands.replay_until:
            original(self, recorded)

    return [(Execution, "_read", read)]


PARTS = {"part_commands": 1, "kinds": ("all", "act", "effect", "group"), "cached_runs": 1}
LONG_TURNS = (
    Mutant("a part of a turn counts as the whole", "I19", _seen, world=PARTS),
    Mutant("the rest of a long turn is lost", "L1", _rest_lost, faults=(), world=PARTS),
    Mutant("the successor sends recorded parts again", "I6", _sent_twice, world=PARTS),
)
