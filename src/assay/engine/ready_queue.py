"""Ready work of one task queue in memory, oldest first, by workflow type or activity name.

Entries are hints: the store has the truth, and an outdated entry costs a refused lease. Each type has its own heap, so
the cost of an operation depends on the types of a worker and never on the number of queued types. One heap for all
types would make a worker of one type skip the entries of all others.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from assay.core.model.ids import RunId, Time

OUTDATED_HEADS = 64
"""Outdated entries in the heap of heads before it is built anew, beside one for each type."""


class ReadyEntry(NamedTuple):
    """A ready workflow task (seq 0) or activity; ordered by age, then by the creation of its run."""

    since: Time
    run_id: RunId
    seq: int


class ReadyQueue:
    """The ready workflow tasks, or the ready activities, of a task queue."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[ReadyEntry]] = {}
        """A heap of entries for each queued type."""
        self._queued: dict[RunId, dict[int, tuple[str, Time]]] = {}
        """Type and age of each entry, by run and seq. Heap entries without a match here are dropped ones."""
        self._dropped: dict[str, int] = {}
        """The number of dropped entries still in the heap of a type."""
        self._heads: list[tuple[ReadyEntry, str]] | None = None
        """A heap of the first entry of every type, and of outdated ones. None until a worker serves all types."""
        self.count = 0
        """How many entries wait; the same as `len`, without a call."""
        self.deep = False
        """True if the last page from the store was full: free slots then have the next page read."""

    def __len__(self) -> int:
        return self.count

    def holds(self, run_id: RunId) -> bool:
        """Return whether work of a run is queued."""
        return run_id in self._queued

    def runs(self) -> tuple[RunId, ...]:
        """Return the runs with queued work."""
        return tuple(self._queued)

    def has(self, kind: str) -> bool:
        """Return whether work of a type is queued."""
        return self._head(kind) is not None

    def has_any(self, kinds: frozenset[str] | None) -> bool:
        """Return whether work of any of these types (None: of any type) is queued."""
        if kinds is None:
            return self.count > 0
        return any(self._head(kind) is not None for kind in self._among(kinds))

    def add(self, kind: str, since: Time, run_id: RunId, seq: int) -> bool:
        """Add work; return False if it is queued already."""
        of_run = self._queued.setdefault(run_id, {})
        if seq in of_run:
            return False
        of_run[seq] = kind, since
        self.count += 1
        entry = ReadyEntry(since, run_id, seq)
        heap = self._heaps.setdefault(kind, [])
        heapq.heappush(heap, entry)
        if heap[0] is entry:
            self._note_head(kind, entry)
        return True

    def pop(
        self, kinds: frozenset[str] | None, exhausted: frozenset[str] = frozenset()
    ) -> tuple[RunId, int, str] | None:
        """Remove and return the oldest work of these types, except the exhausted ones: run id, seq and type."""
        found = self._oldest_of_all(exhausted) if kinds is None else self._oldest_of(kinds, exhausted)
        if found is None:
            return None
        entry, kind = found
        heapq.heappop(self._heaps[kind])
        self._forget(entry.run_id, entry.seq)
        self._next_head(kind)
        return entry.run_id, entry.seq, kind

    def drop(self, run_id: RunId, seq: int | None = None) -> None:
        """Drop the entry of a run with this seq, or all entries of the run."""
        of_run = self._queued.get(run_id, {})
        for dropped in tuple(of_run) if seq is None else (seq,) if seq in of_run else ():
            kind, _ = of_run[dropped]
            self._forget(run_id, dropped)
            self._dropped[kind] = self._dropped.get(kind, 0) + 1
            # Removal from the middle of a heap is linear, so entries are dropped lazily. A heap without a worker would
            # keep them for ever: it is rebuilt when half of it is dropped, which costs O(1) per drop on average.
            if 2 * self._dropped[kind] >= len(self._heaps[kind]):
                del self._dropped[kind]
                self._heaps[kind] = [entry for entry in self._heaps[kind] if self._waits(entry, kind)]
                heapq.heapify(self._heaps[kind])
            self._next_head(kind)

    def _oldest_of(self, kinds: frozenset[str], exhausted: frozenset[str]) -> tuple[ReadyEntry, str] | None:
        heads = [(head, kind) for kind in self._among(kinds) if (head := self._head(kind)) and kind not in exhausted]
        return min(heads, default=None)

    def _oldest_of_all(self, exhausted: frozenset[str]) -> tuple[ReadyEntry, str] | None:
        if self._heads is None or len(self._heads) > 2 * len(self._heaps) + OUTDATED_HEADS:
            self._heads = [(head, kind) for kind in tuple(self._heaps) if (head := self._head(kind))]
            heapq.heapify(self._heads)
        passed: list[tuple[ReadyEntry, str]] = []
        found: tuple[ReadyEntry, str] | None = None
        while self._heads and found is None:
            entry, kind = self._heads[0]
            if self._head(kind) != entry:
                heapq.heappop(self._heads)  # outdated: the present head of the type is in the heap, too
            elif kind in exhausted:
                passed.append(heapq.heappop(self._heads))
            else:
                found = entry, kind
        for exhausted_head in passed:
            heapq.heappush(self._heads, exhausted_head)
        return found

    def _among(self, kinds: frozenset[str]) -> Iterable[str]:
        """Return the queued types among `kinds`, by a loop over the smaller set."""
        if len(kinds) <= len(self._heaps):
            return [kind for kind in kinds if kind in self._heaps]
        return [kind for kind in self._heaps if kind in kinds]

    def _head(self, kind: str) -> ReadyEntry | None:
        heap = self._heaps.get(kind)
        return heap[0] if heap else None

    def _next_head(self, kind: str) -> None:
        """Remove dropped entries from the front of a type's heap, and the heap if it is empty."""
        heap = self._heaps[kind]
        while heap and not self._waits(heap[0], kind):
            heapq.heappop(heap)
            self._dropped[kind] = self._dropped.get(kind, 1) - 1
        if heap:
            self._note_head(kind, heap[0])
        else:
            del self._heaps[kind]
            self._dropped.pop(kind, None)

    def _note_head(self, kind: str, entry: ReadyEntry) -> None:
        if self._heads is not None:
            heapq.heappush(self._heads, (entry, kind))

    def _waits(self, entry: ReadyEntry, kind: str) -> bool:
        return self._queued.get(entry.run_id, {}).get(entry.seq) == (kind, entry.since)

    def _forget(self, run_id: RunId, seq: int) -> None:
        of_run = self._queued[run_id]
        del of_run[seq]
        if not of_run:
            del self._queued[run_id]
        self.count -= 1
