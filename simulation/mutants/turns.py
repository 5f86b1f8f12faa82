"""Planted bugs in the rules of workflow tasks: leases, epochs, fused completion."""

from typing import Any

from msgspec.structs import replace

from assay.core.model import commands as cmd
from assay.core.model import requests as rq
from assay.core.model.effects import Decision
from assay.core.model.run import Run
from assay.core.rules import leases, lifecycle, workflow_tasks
from assay.core.rules.moment import Moment
from assay.sdk.worker.workflow_tasks import WorkflowTasks
from simulation.mutants.planting import Mutant, Patch

REMOTE = ("lose", "delay", "repeat", "cut", "pause_worker", "kill_worker")


def _unfenced() -> list[Patch]:
    return [(workflow_tasks, "_holds", lambda run, request: True)]


def _same_epoch() -> list[Patch]:
    original = leases.lease_task

    def lease(run: Run, request: rq.LeaseTask, at: Moment) -> Decision:
        decision = original(run, request, at)
        if run.task.epoch:
            decision.task = replace(decision.task, epoch=run.task.epoch)
        return decision

    return [_rule(rq.LeaseTask, lease)]


def _rule(kind: type[rq.Request], rule: Any) -> Patch:
    from assay.core.rules.decide import RULES

    return (RULES, kind, rule)  # type: ignore[return-value]  # a rule is found by the type of its request


def _blind_close() -> list[Patch]:
    original = workflow_tasks._refusal

    def refusal(decision: Decision, request: rq.Advance, *rest: Any) -> str | None:
        return original(decision, request, *rest) if request.outcomes else None

    return [(workflow_tasks, "_refusal", refusal)]


def _without(condition: str) -> Any:
    """Return the conditions of fused completion without the named ones."""

    def refusal(
        decision: Decision, request: rq.Advance, seen: int, holds: bool, recorded: tuple[bool, ...]
    ) -> str | None:
        run = decision.run
        if not request.outcomes:
            newer = run.last_seq > seen
            closes = any(isinstance(command, cmd.CLOSING) for command in request.commands)
            return "unhandled_events" if newer and closes else None
        broken = {
            "last_seq": run.last_seq != seen,
            "epoch": run.task.epoch != request.epoch,
            "lease": not holds and run.task.worker is not None,
            "due": not holds and run.task.since is not None,
            "recorded": not all(recorded),
            "time": not workflow_tasks._plausible(decision, request),
        }
        dropped = condition.split("+")
        return next((name for name, holding in broken.items() if holding and name not in dropped), None)

    return lambda: [(workflow_tasks, "_refusal", refusal)]


def _no_sweeper() -> list[Patch]:
    def elapse(run: Run, at: Moment) -> Decision:
        decision = lifecycle.elapse(run, at)
        task = run.task
        if not decision.closes and task.worker is None and task.not_before is not None and task.not_before <= at.now:
            decision.task = replace(task, not_before=None)
        return decision

    return [(workflow_tasks, "elapse", elapse)]


def _repeatable() -> list[Patch]:
    """A lease that is kept keeps its epoch, and what was seen does not matter."""
    original = workflow_tasks._settle

    def settle(decision: Decision, request: rq.Advance, seen: int) -> None:
        epoch = decision.task.epoch
        held = workflow_tasks._holds(decision.run, request)
        original(decision, request, seen)
        if held and decision.task.worker is not None:
            decision.task = replace(decision.task, epoch=epoch)
            decision.seen_seq = min(decision.seen_seq, seen)

    return [(workflow_tasks, "_settle", settle)]


def _seen_early() -> list[Patch]:
    """What is ahead of the code counts as seen by it."""
    original = workflow_tasks._settle

    def settle(decision: Decision, request: rq.Advance, seen: int) -> None:
        original(decision, replace(request, early=False, pending=request.pending or request.early), seen)

    return [(workflow_tasks, "_settle", settle)]


def _told_to_nobody() -> list[Patch]:
    """A turn that asks for nothing but steps is never sent."""
    original = WorkflowTasks._activate

    def activate(self: WorkflowTasks, *rest: Any, fresh: bool = False) -> None:
        original(self, *rest, fresh=True)

    return [(WorkflowTasks, "_activate", activate)]


FAR = {"remote_workers": 2, "local_workers": 0}
WAITING = {"kinds": ("inline", "signal", "attributes", "all", "act")}
TURNS = (
    Mutant("no fence on commands", "I7, epochs", _unfenced, faults=REMOTE, world={**FAR, **WAITING}),
    Mutant("a lease without a new epoch", "epochs", _same_epoch),
    Mutant("complete while a signal is unseen", "epochs, I14", _blind_close),
    Mutant(
        "fused: last seq not compared", "fused completion", _without("last_seq"),
        faults=("hiccup", "slow_store"), world=WAITING,
    ),
    Mutant(
        "fused: not every result recorded", "fused completion", _without("recorded"), faults=("pause_engine", *REMOTE)
    ),
    Mutant(
        "fused: any time is good", "event times", _without("time"), faults=("clock",),
        world={**FAR, "kinds": ("stamp", "sleep", "act")},
    ),
    Mutant("fused: neither lease nor epoch nor due task", "fused completion", _without("lease+epoch+due+last_seq")),
    Mutant("no lease sweeper", "liveness, leases", _no_sweeper, faults=(*REMOTE, "kill_engine"), world=FAR),
    Mutant(
        "a kept lease takes its turn twice", "I7", _repeatable, faults=("repeat",), seeds=200,
        world={**FAR, **WAITING},
    ),
    Mutant(
        "outcomes ahead of the code are seen", "fused completion", _seen_early, faults=("kill_worker", "cut"),
        world={**FAR, "kinds": ("walk", "act")},
    ),
    Mutant(
        "a step begins in a run that has ended", "inline steps", _told_to_nobody, faults=("slow_store", "hiccup"),
        seeds=200,
        world={"remote_workers": 0, "local_workers": 1, "kinds": ("inline", "signal"), "cancels": 0.5},
    ),
)  # fmt: skip

SINGLE_CONDITIONS = tuple(
    Mutant(f"fused: {condition} not asked", "fused completion", _without(condition))
    for condition in ("lease", "due", "epoch")
)
"""Conditions of fused completion that the others imply: removing one of them alone makes no difference."""
