"""Leased work, and the interface of a connected worker."""

from typing import Protocol

import msgspec

from assay.core.model.events import Recorded, StartData
from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkerId
from assay.core.model.run import Activity
from assay.core.model.slots import Slots


class TaskGrant(msgspec.Struct, frozen=True, gc=False):
    """A workflow task leased to a worker. `tail` has the events after `seen_seq`, if they are in memory."""

    key: RunKey
    start: StartData
    epoch: int
    seen_seq: int
    last_seq: int
    history_bytes: int
    tail: tuple[Recorded, ...] | None


class ActivityGrant(msgspec.Struct, frozen=True, gc=False):
    """An attempt of an activity leased to a worker."""

    key: RunKey
    start: StartData
    activity: Activity


class ConnectedWorker(Protocol):
    """A connected worker: its workflow types and activities, its free slots, and the receiver of its leases."""

    worker: WorkerId
    namespace: Namespace
    queue: str
    identity: str
    """The worker's name for people, for example host and process; empty if unknown."""
    slots: Slots
    lease: Time | None
    local: bool

    @property
    def workflows(self) -> frozenset[str] | None:
        """Return the workflow types of the worker; None for all."""
        ...

    @property
    def activities(self) -> frozenset[str] | None:
        """Return the names of the worker's activities; None for all."""
        ...

    def holds(self, run_id: RunId) -> bool:
        """Return whether the worker keeps the run's live coroutine: the dispatcher prefers this worker for the run."""
        ...

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """Accept leased work; called after the lease is durable."""
        ...

    def news(self, run_id: RunId) -> None:
        """Notify the worker of new events of a run whose task the worker holds."""
        ...

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """Cancel an attempt of this worker; `over` if the attempt timed out or lost its lease."""
        ...
