"""Planted bugs of retried runs: children that stay behind, lost signals, and work that is undone (I1, I14, I16)."""

from collections.abc import Iterator, Sequence
from typing import Any

from assay.core.model.events import ActivityFailed, Recorded
from assay.core.model.run import Run
from assay.core.rules import retry
from assay.core.rules.retry_cut import cut_of
from assay.engine.commit import prefetch
from simulation.mutants.planting import Mutant, Patch


def _children_left() -> list[Patch]:
    """Children that ended with their parent are recorded with that end."""
    original = retry._Copy._cut_of_child

    def cut_of_child(self: Any, child: Run) -> int | None:
        return None if child.closed else original(self, child)

    return [(retry._Copy, "_cut_of_child", cut_of_child)]


def _signals_lost() -> list[Patch]:
    def nothing(_history: Sequence[Recorded], _cut: int) -> Iterator[Recorded]:
        return iter(())

    return [(retry, "carried_signals", nothing)]


def _work_undone() -> list[Patch]:
    """The last failed activity counts, however long ago it was caught."""

    def cut(status: str, history: Sequence[Recorded], from_seq: int | None = None) -> int:
        failed = [place for place, recorded in enumerate(history) if isinstance(recorded.event, ActivityFailed)]
        return failed[-1] if failed and from_seq is None else cut_of(status, history, from_seq)

    return [(retry, "cut_of", cut), (prefetch, "cut_of", cut)]


FAMILIES = {"retries": 1.0, "terminations": 1.0, "again": 0.0, "programs": 6, "kinds": ("child", "all", "act", "sleep")}
CANCELLED = {"retries": 1.0, "cancels": 1.0, "again": 0.0, "programs": 6, "kinds": ("act", "long", "sleep")}
CAUGHT = {"retries": 1.0, "terminations": 1.0, "again": 0.0, "programs": 6, "kinds": ("final", "sleep", "act")}
RETRIES = (
    Mutant("children stay behind when their parent is retried", "I16", _children_left, faults=(), world=FAMILIES),
    Mutant("a retry loses signals", "I14", _signals_lost, faults=(), world=CANCELLED),
    Mutant("a retry undoes work after a failure", "I1", _work_undone, faults=(), world=CAUGHT),
)
