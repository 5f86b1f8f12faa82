"""Planted bugs of watches: monitors, links, spawned children and requests to other workflows (I16, I17)."""

from typing import Any

from assay.core.model import effects as fx
from assay.core.model.effects import Decision, OutboxMessage, Send
from assay.core.model.events import next_run_of
from assay.core.rules import lifecycle, messages, watches
from assay.core.rules.fold import EFFECTS
from assay.core.rules.moment import Moment
from assay.engine.commit.batch import GATHER
from assay.sdk.workflow.replay.peers import Peers
from simulation.mutants.planting import Mutant, Patch, does_nothing

WATCHED: dict[str, Any] = {"programs": 6, "kinds": ("watched", "act", "sleep"), "cancels": 0.0, "terminations": 0.0}
AGAIN: dict[str, Any] = {**WATCHED, "again": 1.0}
SPAWNED: dict[str, Any] = {**WATCHED, "kinds": ("spawn", "act")}
LINKED: dict[str, Any] = {**WATCHED, "kinds": ("linked", "act")}


def _never_fires() -> list[Patch]:
    return [(watches, "fire", does_nothing)]


def _misses_a_close() -> list[Patch]:
    """A watch of a run that has closed is put on the closed run, where nothing fires any more."""
    original = watches.add_watcher

    def add(run: Any, message: OutboxMessage, at: Moment) -> Decision:
        return Decision.of(run, at.now) if run.closed else original(run, message, at)

    return [(watches, "add_watcher", add)]


def _fires_twice() -> list[Patch]:
    original = watches.fire

    def fire(decision: Decision) -> None:
        before = len(decision.effects)
        original(decision)
        for effect in decision.effects[before:]:
            if isinstance(effect, Send):
                message = effect.message
                decision.add(Send(watches._replaced(message, key=f"{message.key}/2", run_id=message.run_id)))  # type: ignore[arg-type]

    return [
        (watches, "fire", fire),
        (EFFECTS, fx.DropPeer, does_nothing),  # type: ignore[list-item]  # found by the type of its effect
    ]


def _fires_at_each_run() -> list[Patch]:
    """A watch fires at the end of a run that continues as new."""
    original = lifecycle.close

    def close(decision: Decision, event: Any, at: Moment) -> None:
        if next_run_of(event) is not None and lifecycle.has_peers(decision):
            watches.fire(decision)
        original(decision, event, at)

    return [(lifecycle, "close", close)]


def _watch_not_stored() -> list[Patch]:
    return [(GATHER, fx.PutPeer, does_nothing)]  # type: ignore[list-item]  # found by the type of its effect


def _watchers_left_behind() -> list[Patch]:
    return [(watches, "move", does_nothing)]


def _link_does_not_reach() -> list[Patch]:
    return [(Peers, "_link_down", does_nothing)]


def _exit_of_child_lost() -> list[Patch]:
    return [(Peers, "child_ended", does_nothing)]


def _exit_of_child_twice() -> list[Patch]:
    original = Peers.child_ended

    def twice(self: Peers, *arguments: Any) -> None:
        original(self, *arguments)
        original(self, *arguments)

    return [(Peers, "child_ended", twice)]


def _outcome_forgotten() -> list[Patch]:
    return [(messages, "_outcome", lambda *_: [])]


WATCHING_BUGS = (
    Mutant("a watch never fires", "watches fire", _never_fires, faults=(), world=WATCHED),
    Mutant("a watch of a closed run does not fire", "watches fire", _misses_a_close, world=WATCHED),
    Mutant("a watch fires twice", "watches fire once", _fires_twice, faults=(), world=WATCHED),
    Mutant("a watch fires before the chain ends", "watches fire once", _fires_at_each_run, world=AGAIN),
    Mutant(
        "a watch is not stored", "watches fire", _watch_not_stored, faults=("kill_engine", "crash_after"), world=WATCHED
    ),
    Mutant("watchers do not move to the next run", "watches fire", _watchers_left_behind, world=AGAIN),
    Mutant("a link does not reach its workflow", "links", _link_does_not_reach, faults=(), world=LINKED),
    Mutant("the end of a spawned child is no event", "watches fire", _exit_of_child_lost, faults=(), world=SPAWNED),
    Mutant("the end of a spawned child is two events", "fire once", _exit_of_child_twice, faults=(), world=SPAWNED),
    Mutant("the outcome of a termination is forgotten", "outcomes", _outcome_forgotten, faults=(), world=LINKED),
)
