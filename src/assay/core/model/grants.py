"""Work that is leased to a worker, and the worker as the engine sees it."""

from typing import Protocol

import msgspec

from assay.core.model.events import Recorded, StartData
from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkerId
from assay.core.model.run import Activity
from assay.core.model.slots import Slots


class TaskGrant(msgspec.Struct, frozen=True, gc=False):
    """A workflow task that is leased to a worker. `tail` are the events after `seen_seq`, if they are in memory."""

    key: RunKey
    start: StartData
    epoch: int
    seen_seq: int
    last_seq: int
    history_bytes: int
    tail: tuple[Recorded, ...] | None


class ActivityGrant(msgspec.Struct, frozen=True, gc=False):
    """An attempt of an activity that is leased to a worker."""

    key: RunKey
    start: StartData
    activity: Activity


class ConnectedWorker(Protocol):
    """A worker as the dispatcher sees it: the types that it serves, its free slots, and where its leases go."""

    worker: WorkerId
    namespace: Namespace
    queue: str
    identity: str
    """Its name for people, for example host and process; empty if unknown."""
    slots: Slots
    lease: Time | None
    local: bool

    @property
    def workflows(self) -> frozenset[str] | None:
        """Return the workflow types that it serves; None for all."""
        ...

    @property
    def activities(self) -> frozenset[str] | None:
        """Return the names of the activities that it serves; None for all."""
        ...

    def holds(self, run_id: RunId) -> bool:
        """Return whether it keeps the run's live coroutine: work of the run is then best leased to it."""
        ...

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """Accept leased work; called after the lease is durable."""
        ...

    def news(self, run_id: RunId) -> None:
        """Notify the worker that a run whose task it holds has new events."""
        ...

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Cancel an attempt that this worker runs; `over` if it has timed out or its lease was lost."""
        ...
