"""The port of reads for people: what runs wait for, and numbers over many runs. No decision depends on them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from assay.core.model.explanation import ActivityCounts
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.model.payload import Payload
from assay.core.model.run import Activity
from assay.storage.changes import StoredRun
from assay.storage.ports import RunFilter, StoredActivity


class OpenChildren(msgspec.Struct, frozen=True):
    """The oldest open children of a run, with the numbers of its open and of all its children."""

    oldest: Sequence[StoredRun]
    open: int
    total: int


class OpenActivities(msgspec.Struct, frozen=True):
    """Open activities of a run without their documents, those that wait for a worker first; and their numbers."""

    activities: Sequence[Activity]
    counts: ActivityCounts


class EndedAttempt(msgspec.Struct, frozen=True):
    """An attempt that ended and was not the last of its activity."""

    activity_id: int
    id: int
    attempt: int
    outcome: str
    worker: str | None
    started_at: Time | None
    ended_at: Time
    failure: FailureInfo | None


class ReadyKind(msgspec.Struct, frozen=True):
    """Ready work of a task queue of one type: `kind` is workflow or activity."""

    kind: str
    queue: str
    name: str
    count: int
    oldest_at: Time


class Overview(Protocol):
    """Reads of callers beside those of `Store`; each takes a number of queries that does not grow with its runs."""

    async def open_children(self, parents: Sequence[RunId], limit: int) -> Mapping[RunId, OpenChildren]:
        """Return the oldest open children of runs, `limit` at most for each; runs without any are left out."""
        ...

    async def open_activities(self, run_ids: Sequence[RunId], limit: int) -> Mapping[RunId, OpenActivities]:
        """Return open activities of runs, `limit` at most for each; runs without any are left out."""
        ...

    async def open_timers(self, run_ids: Sequence[RunId], limit: int) -> Mapping[RunId, Mapping[int, int]]:
        """Return the next timers of runs, `limit` at most for each: due times by seq."""
        ...

    async def activities(
        self, run_id: RunId, state: str | None, after: int, limit: int
    ) -> Sequence[tuple[StoredActivity, Payload]]:
        """Return activities of a run by seq after a seq, of a status if given, each with its heartbeat details."""
        ...

    async def attempts(self, run_id: RunId, activity_ids: Sequence[int]) -> Sequence[EndedAttempt]:
        """Return the ended attempts of activities of a run, in order."""
        ...

    async def histogram(
        self, wanted: RunFilter, start: Time, step: Time, limit: int
    ) -> tuple[Sequence[tuple[int, str, int]], int]:
        """Return the numbers of runs by bucket of their creation and by status, and the number of runs looked at."""
        ...

    async def open_values(self, namespace: str, column: str, limit: int) -> Mapping[str, int]:
        """Return the workflow types or task queues of open and of the newest runs, with the numbers of open ones."""
        ...

    async def attribute_keys(self, namespace: str, prefix: str, limit: int) -> Sequence[str]:
        """Return the keys of search attributes that begin with a text, in order."""
        ...

    async def attribute_values(self, namespace: str, key: str, prefix: str, limit: int) -> Mapping[str, int]:
        """Return values of a search attribute in their typed form, with the numbers of open runs that have them."""
        ...

    async def ready_kinds(self, namespace: str) -> Sequence[ReadyKind]:
        """Return the ready work of a namespace by queue and type."""
        ...

    async def children_of(self, parents: Sequence[StoredRun], limit: int) -> Sequence[StoredRun]:
        """Return the children of runs, oldest first, at most `limit` together."""
        ...

    async def child_counts(self, parents: Sequence[StoredRun]) -> Mapping[RunId, Mapping[str, int]]:
        """Return the numbers of children of runs by status."""
        ...

    async def depths(self, namespace: str, queues: Sequence[str], limit: int) -> Mapping[str, tuple[int, int]]:
        """Return the numbers of ready workflow tasks and activities of task queues, each counted up to `limit`."""
        ...
