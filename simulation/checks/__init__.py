"""Checks of the invariants: the cheap ones after every commit, all of them at the end."""

from typing import TYPE_CHECKING

from assay.core.model.ids import Time, WorkerId
from assay.core.model.requests import StartWorkflow
from assay.engine.engine import Engine
from assay.sdk.workflow.replay.runtime import Execution
from assay.storage.ports import Changes
from simulation.checks.commits import CommitChecks
from simulation.checks.histories import Archive, check_histories
from simulation.checks.memory import memory_violations
from simulation.checks.promises import check_promises, run_named
from simulation.checks.replays import check_replays

if TYPE_CHECKING:
    from simulation.world import World


SLOW = frozenset(("reject", "unknown", "unread", "slow_store", "pause_engine", "hiccup", "crash_before", "crash_after"))
"""Faults under which a worker may not have the time to give back what it holds."""
HARMLESS = frozenset(("slow_store", "hiccup", "mute"))
"""Faults under which nobody loses a lease without knowing."""


class Checks:
    """All checks of one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._commits = CommitChecks(world)
        self._at_end = False

    def committed(self, changes: Changes, now: Time, sent: Time) -> None:
        """See `Witness`."""
        self._commits.look(changes, now, sent)

    def published(self, engine: Engine) -> None:
        """Check the memory of an engine after each of its commits, when the cache holds what it keeps."""
        if self._world.settings.payload_bytes:
            for violation in memory_violations(*engine.reads.cached(), self._world.settings.engine_cache_bytes):
                self._world.ledger.violate(violation)

    def started(self, request: StartWorkflow, reply: object) -> None:
        """A client was told that its run is there; the same request must always name the same run (I3, I15)."""
        run_id = run_named(reply)
        if run_id is None:
            return
        known = self._world.ledger.started[request.request_id or ""]
        known.add(run_id)
        if len(known) > 1:
            self._world.ledger.violate(f"I3 start {request.request_id} was answered with {len(known)} runs")

    def effect_runs(self, run: Execution, name: str) -> None:
        """Check a side effect: it must not run in a turn that may be refused, nor after its value was recorded (I6)."""
        if self._at_end:
            return
        if run.speculation.active:
            self._world.ledger.violate(f"side effects: side effect {name} ran in a turn that may be refused")
        if self._commits.effect_recorded(run.key.run_id, name, run.seen):
            self._world.ledger.violate(f"I6 side effect {name} ran again although its value is recorded")

    def step_runs(self, run: Execution, ordered: dict[str, int], name: str) -> None:
        """Check a step: all commands before it must be durable, and it must have no outcome yet."""
        if not self._at_end:
            if self._world.settings.faults <= HARMLESS and self._commits.step_is_over(run.key.run_id, name):
                self._world.ledger.violate(
                    f"inline steps: step {name} ran although it has its result, or its run an end"
                )
            missing = self._commits.not_durable(run.key.run_id, ordered)
            if missing:
                self._world.ledger.violate(f"inline steps: step {name} ran before its {missing} was durable")

    def stopped(self, workers: list[WorkerId]) -> None:
        """Check that stopped workers hold no leases."""
        if not self._world.settings.faults & SLOW:
            for held in self._commits.held_by(workers):
                self._world.ledger.violate(f"stopping: {held} is still leased to a worker that was asked to stop")

    def final(self) -> None:
        """Everything that can be said when all is over."""
        self._at_end = True
        world, ledger = self._world, self._world.ledger
        for error in (*world.loop.errors, *world.loop.unheard()):
            ledger.violate(f"bug: {type(error).__name__}: {error}")
        if ledger.violations:
            return
        archive = Archive(world.database.tables)
        check_promises(world, archive)
        check_histories(archive, ledger)
        if not ledger.violations:
            check_replays(world, archive, self._commits.states)
