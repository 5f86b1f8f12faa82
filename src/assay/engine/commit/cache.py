"""The folded state of recently changed runs: the next request of a cached run costs no read."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from assay.core.model.errors import Invalid
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.limits import CACHE_BYTES
from assay.core.model.sizes import changing_bytes, constant_bytes
from assay.core.rules.fold import trim_tail
from assay.storage.ports import StoredRun

CACHE_BYTES_VARIABLE: Final = "ASSAY_CACHE_BYTES"

Id = tuple[Namespace, WorkflowId]


class RunCache:
    """Runs by run id, and the newest run by workflow id; bounded in number and bytes, the least recently used go first.

    With a single engine on a store the cache always equals the store. On a shared store an entry may be stale: the
    version check of the next UPDATE fails, and the entry is dropped.
    """

    def __init__(self, limit: int, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        """The size of all cached runs, each as of its last `put`."""
        self._constant_sizes: dict[RunId, int] = {}
        self._changing_sizes: dict[RunId, int] = {}
        self._runs: OrderedDict[RunId, StoredRun] = OrderedDict()
        self._newest: dict[Id, RunId] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: RunId) -> StoredRun | None:
        """Return a cached run, or None. A read does not count as a use: a batch that changes the run calls `put`."""
        return self._runs.get(run_id)

    def __contains__(self, run_id: RunId) -> bool:
        return run_id in self._runs

    def runs(self) -> tuple[StoredRun, ...]:
        """Return all cached runs, the least recently used first."""
        return tuple(self._runs.values())

    def newest(self, key: Id) -> StoredRun | None:
        """Return the newest run of a workflow id if cached, or None."""
        run_id = self._newest.get(key)
        return None if run_id is None else self.get(run_id)

    def put(self, run: StoredRun) -> None:
        """Cache a run, without an oversized tail of events; the newest of its id unless a newer run is cached."""
        run_id = run.run_id
        if run.tail:
            trim_tail(run)
        size = changing_bytes(run)
        if self._runs.get(run_id) is run:
            # Every commit puts the runs that it changed: most often the same object, of the same size.
            if size != self._changing_sizes[run_id]:
                self.held_bytes += size - self._changing_sizes[run_id]
                self._changing_sizes[run_id] = size
            self._runs.move_to_end(run_id)
            return
        if run_id in self._constant_sizes:
            self._forget_size(run_id)
        self._changing_sizes[run_id] = size
        self._constant_sizes[run_id] = constant = constant_bytes(run)
        self.held_bytes += size + constant
        self._runs[run_id] = run
        self._runs.move_to_end(run_id)
        key = (run.namespace, run.workflow_id)
        known = self._newest.get(key)
        if known is None or known not in self._runs or self._runs[known].number <= run.number:
            self._newest[key] = run_id

    def drop(self, run: StoredRun) -> None:
        """Remove a run."""
        self._runs.pop(run.run_id, None)
        self._forget_size(run.run_id)
        key = (run.namespace, run.workflow_id)
        if self._newest.get(key) == run.run_id:
            del self._newest[key]

    def _forget_size(self, run_id: RunId) -> None:
        self.held_bytes -= self._changing_sizes.pop(run_id, 0) + self._constant_sizes.pop(run_id, 0)

    def drop_all(self, runs: Iterable[StoredRun]) -> None:
        """Remove several runs."""
        for run in runs:
            self.drop(run)

    def clear(self) -> None:
        """Remove all runs."""
        self._runs.clear()
        self._changing_sizes.clear()
        self._constant_sizes.clear()
        self.held_bytes = 0
        self._newest.clear()

    def trim(self) -> None:
        """Remove the least recently used runs beyond the limits."""
        while self._runs and (len(self._runs) > self._limit or self.held_bytes > self._limit_bytes):
            self.drop(next(iter(self._runs.values())))


def cache_bytes(environment: Mapping[str, str]) -> int:
    """Return the size limit of the cache in bytes; raise `Invalid` if the environment variable is not a number."""
    text = environment.get(CACHE_BYTES_VARIABLE, "").strip()
    if not text:
        return CACHE_BYTES
    if not (text.isascii() and text.isdecimal()):
        raise Invalid(f"{CACHE_BYTES_VARIABLE} must be a number of bytes, not {text!r}", field="environment")
    return int(text)
