"""The sticky cache of a worker: runs whose coroutines are in memory."""

import itertools
from collections import OrderedDict
from collections.abc import Iterator

from assay.core.model.ids import RunId
from assay.sdk.worker.live_run import DROP, LiveRun


class LiveRuns:
    """The live runs of a worker, evicted least recently used first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._runs: OrderedDict[RunId, LiveRun] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._runs

    def __iter__(self) -> Iterator[LiveRun]:
        return iter(tuple(self._runs.values()))

    def get(self, run_id: RunId) -> LiveRun | None:
        """Return a live run, or None; mark it as recently used."""
        run = self._runs.get(run_id)
        if run is not None:
            self._runs.move_to_end(run_id)
        return run

    def put(self, run: LiveRun) -> None:
        """Add a run, and evict idle runs beyond the limit, least recently used first."""
        self._runs[run.key.run_id] = run
        surplus = len(self._runs) - self._limit
        if surplus > 0:
            idle = (old for old in self._runs.values() if old.idle and old is not run)
            for old in tuple(itertools.islice(idle, surplus)):
                self.drop(old)

    def drop(self, run: LiveRun) -> None:
        """Evict a run from this worker; the next worker replays its history."""
        if self._runs.get(run.key.run_id) is run:
            del self._runs[run.key.run_id]
        for task in tuple(run.tasks.values()):
            task.cancel()
        run.turn_event(DROP)
        run.execution.drop()
