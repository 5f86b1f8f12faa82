"""The folded state of runs that were touched lately, so that a hot run costs no read."""

from collections import OrderedDict
from collections.abc import Iterable

from assay.core.ids import Namespace, RunId, WorkflowId
from assay.core.run import Run

Id = tuple[Namespace, WorkflowId]


class RunCache:
    """Runs by run id and the newest run by workflow id, least recently used first out.

    On a store with one engine it is always right; on a shared one a stale entry loses its compare-and-set and is
    dropped (design section 2).
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._runs: OrderedDict[RunId, Run] = OrderedDict()
        self._newest: dict[Id, RunId] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: RunId) -> Run | None:
        """The run, if it is here; looking at it is not using it, for what a batch changes is put again."""
        return self._runs.get(run_id)

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._runs

    def newest(self, key: Id) -> Run | None:
        """The newest run of a workflow id, if it is here."""
        run_id = self._newest.get(key)
        return None if run_id is None else self.get(run_id)

    def put(self, run: Run) -> None:
        """Keep a run; as the newest of its id unless a newer one is here."""
        run_id = run.run_id
        if self._runs.get(run_id) is run:
            self._runs.move_to_end(run_id)
            return
        self._runs[run_id] = run
        self._runs.move_to_end(run_id)
        key = (run.namespace, run.workflow_id)
        known = self._newest.get(key)
        if known is None or known not in self._runs or self._runs[known].number <= run.number:
            self._newest[key] = run_id

    def drop(self, run: Run) -> None:
        """Forget a run."""
        self._runs.pop(run.run_id, None)
        key = (run.namespace, run.workflow_id)
        if self._newest.get(key) == run.run_id:
            del self._newest[key]

    def drop_all(self, runs: Iterable[Run]) -> None:
        """Forget several runs."""
        for run in runs:
            self.drop(run)

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()
        self._newest.clear()

    def trim(self) -> None:
        """Forget the least recently used runs beyond the limit."""
        while len(self._runs) > self._limit:
            self.drop(next(iter(self._runs.values())))
