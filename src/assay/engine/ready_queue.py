"""Ready work of one task queue in memory, oldest first, by workflow type or activity name.

Entries are hints: the store has the truth, so an outdated entry costs one refused lease. The cost of an operation
depends on the types that a worker serves and never on the number of types that wait.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from assay.core.model.ids import RunId, Time

SPARE_HEADS = 64
"""Outdated entries that the heap of heads may hold before it is built anew."""


class ReadyEntry(NamedTuple):
    """A workflow task (seq 0) or an activity that waits; ordered by age, then by the creation of its run."""

    since: Time
    run_id: RunId
    seq: int


class ReadyQueue:
    """The workflow tasks, or the activities, that wait on one task queue."""

    def __init__(self) -> None:
        self._lines: dict[str, list[ReadyEntry]] = {}
        """A heap of entries per type; a type without entries has none."""
        self._queued: dict[RunId, dict[int, tuple[str, Time]]] = {}
        """Type and age of each entry, by run and seq. Entries of a heap that are not here were dropped."""
        self._dropped: dict[str, int] = {}
        """Dropped entries that are still in the heap of a type."""
        self._heads: list[tuple[ReadyEntry, str]] | None = None
        """The first entry of every line, and outdated ones; kept from the first `pop` for a worker of all types."""
        self._count = 0
        self.deep = False
        """Whether the store may have more work than was read last: then free slots have it read again."""

    def __len__(self) -> int:
        return self._count

    def holds(self, run_id: RunId) -> bool:
        """Return whether work of a run waits here."""
        return run_id in self._queued

    def runs(self) -> tuple[RunId, ...]:
        """Return the runs whose work waits here."""
        return tuple(self._queued)

    def has(self, kind: str) -> bool:
        """Return whether work of a type waits here."""
        return self._head(kind) is not None

    def has_any(self, kinds: frozenset[str] | None) -> bool:
        """Return whether work of any of these types (None: of any type) waits here."""
        if kinds is None:
            return self._count > 0
        return any(self._head(kind) is not None for kind in self._among(kinds))

    def add(self, kind: str, since: Time, run_id: RunId, seq: int) -> bool:
        """Add work unless it is queued already; return whether it was added."""
        of_run = self._queued.setdefault(run_id, {})
        if seq in of_run:
            return False
        of_run[seq] = kind, since
        self._count += 1
        entry = ReadyEntry(since, run_id, seq)
        line = self._lines.setdefault(kind, [])
        heapq.heappush(line, entry)
        if line[0] is entry:
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
        heapq.heappop(self._lines[kind])
        self._forget(entry.run_id, entry.seq)
        self._next_head(kind)
        return entry.run_id, entry.seq, kind

    def drop(self, run_id: RunId, seq: int | None = None) -> None:
        """Drop one entry of a run, or all of them: its work no longer waits."""
        of_run = self._queued.get(run_id, {})
        for one in tuple(of_run) if seq is None else (seq,) if seq in of_run else ():
            kind, _ = of_run[one]
            self._forget(run_id, one)
            self._dropped[kind] = self._dropped.get(kind, 0) + 1
            # A line nobody pops from must not keep what has ended: it is rebuilt when most of it is.
            if 2 * self._dropped[kind] >= len(self._lines[kind]):
                del self._dropped[kind]
                self._lines[kind] = [entry for entry in self._lines[kind] if self._waits(entry, kind)]
                heapq.heapify(self._lines[kind])
            self._next_head(kind)

    def _oldest_of(self, kinds: frozenset[str], exhausted: frozenset[str]) -> tuple[ReadyEntry, str] | None:
        heads = [(head, kind) for kind in self._among(kinds) if (head := self._head(kind)) and kind not in exhausted]
        return min(heads, default=None)

    def _oldest_of_all(self, exhausted: frozenset[str]) -> tuple[ReadyEntry, str] | None:
        if self._heads is None or len(self._heads) > 2 * len(self._lines) + SPARE_HEADS:
            self._heads = [(head, kind) for kind in tuple(self._lines) if (head := self._head(kind))]
            heapq.heapify(self._heads)
        passed: list[tuple[ReadyEntry, str]] = []
        found: tuple[ReadyEntry, str] | None = None
        while self._heads and found is None:
            entry, kind = self._heads[0]
            if self._head(kind) != entry:
                heapq.heappop(self._heads)  # outdated: the line's present head is in the heap, too
            elif kind in exhausted:
                passed.append(heapq.heappop(self._heads))
            else:
                found = entry, kind
        for one in passed:
            heapq.heappush(self._heads, one)
        return found

    def _among(self, kinds: frozenset[str]) -> Iterable[str]:
        """Return the types that are both wanted and waiting, found from the smaller side."""
        if len(kinds) <= len(self._lines):
            return [kind for kind in kinds if kind in self._lines]
        return [kind for kind in self._lines if kind in kinds]

    def _head(self, kind: str) -> ReadyEntry | None:
        line = self._lines.get(kind)
        return line[0] if line else None

    def _next_head(self, kind: str) -> None:
        """Remove dropped entries from the front of a line, and the line if it is empty."""
        line = self._lines[kind]
        while line and not self._waits(line[0], kind):
            heapq.heappop(line)
            self._dropped[kind] = self._dropped.get(kind, 1) - 1
        if line:
            self._note_head(kind, line[0])
        else:
            del self._lines[kind]
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
        self._count -= 1
