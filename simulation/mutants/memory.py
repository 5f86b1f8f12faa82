"""Planted bugs of the bounds in bytes: sizes that are not added up, and payloads that are kept too long."""

from typing import Any

from assay.core.model import effects as fx
from assay.core.model.run import Run
from assay.core.rules import fold
from assay.engine.commit import cache as cache_module
from assay.engine.commit.cache import RunCache
from assay.storage.ports import StoredRun
from simulation.mutants.planting import Mutant, Patch, does_nothing

LARGE: dict[str, Any] = {"payload_bytes": 70_000, "engine_cache": 10_000, "engine_cache_bytes": 150_000}
SMALL: dict[str, Any] = {**LARGE, "payload_bytes": 25_000}


def _evicted_bytes_stay() -> list[Patch]:
    drop = RunCache.drop

    def drop_and_keep_bytes(self: RunCache, run: StoredRun) -> None:
        held = self.held_bytes
        drop(self, run)
        self.held_bytes = held

    return [(RunCache, "drop", drop_and_keep_bytes)]


def _tail_is_kept() -> list[Patch]:
    return [(cache_module, "trim_tail", does_nothing)]


def _bytes_are_not_counted() -> list[Patch]:
    def trim(self: RunCache) -> None:
        while len(self._runs) > self._limit:
            self.drop(next(iter(self._runs.values())))

    return [(RunCache, "trim", trim)]


def _size_of_first_put() -> list[Patch]:
    """A run that grows in the cache keeps the size that it had when it came."""
    put = RunCache.put

    def put_once(self: RunCache, run: StoredRun) -> None:
        known, held = self._changing_sizes.get(run.run_id), self.held_bytes
        put(self, run)
        if known is not None:
            self._changing_sizes[run.run_id], self.held_bytes = known, held

    return [(RunCache, "put", put_once)]


def _closed_activity_counts() -> list[Patch]:
    def close_activity(run: Run, effect: fx.CloseActivity) -> None:
        run.activities.pop(effect.activity.seq, None)

    return [(fold.EFFECTS, fx.CloseActivity, close_activity)]  # type: ignore[list-item]  # keys of this table are types


MEMORY: tuple[Mutant, ...] = (
    Mutant("bytes of evicted runs are not subtracted", "memory", _evicted_bytes_stay, world=LARGE),
    Mutant("a tail is kept beyond its bound", "memory", _tail_is_kept, world=LARGE),
    Mutant("the cache is bounded in runs alone", "memory", _bytes_are_not_counted, world=SMALL),
    Mutant("a run that grows in the cache is not measured again", "memory", _size_of_first_put, world=SMALL),
    Mutant("a closed activity counts on", "memory", _closed_activity_counts, world=SMALL),
)
