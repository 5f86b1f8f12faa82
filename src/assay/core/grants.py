"""What an engine hands to a worker, and what it must know of one."""

from typing import Protocol

import msgspec

from assay.core.events import Recorded, StartData
from assay.core.ids import Namespace, RunId, RunKey, Time, WorkerId
from assay.core.run import Activity
from assay.core.slots import Slots


class TaskGrant(msgspec.Struct, frozen=True, gc=False):
    """A workflow task in the hands of a worker. `tail` are the events after `seen_seq`, if they are in memory."""

    key: RunKey
    start: StartData
    epoch: int
    seen_seq: int
    last_seq: int
    history_bytes: int
    tail: tuple[Recorded, ...] | None


class ActivityGrant(msgspec.Struct, frozen=True, gc=False):
    """An attempt of an activity in the hands of a worker."""

    key: RunKey
    start: StartData
    activity: Activity


class Seat(Protocol):
    """A worker as the dispatcher sees it: what it serves, how many hands it has free, and where to put the work."""

    worker: WorkerId
    namespace: Namespace
    queue: str
    free_tasks: int
    free_activities: int
    processes: Slots
    """Idle processes, for the activities that run in one; such an activity takes a general slot as well."""
    lease: Time | None
    local: bool

    @property
    def workflows(self) -> frozenset[str] | None:
        """The workflow types it serves; None for all."""
        ...

    @property
    def activities(self) -> frozenset[str] | None:
        """The activities it serves; None for all."""
        ...

    def holds(self, run_id: RunId) -> bool:
        """Does it keep the run's live coroutine? Then the run's work is best done there."""
        ...

    def take(self, grant: TaskGrant | ActivityGrant) -> None:
        """Accept leased work; called after the lease is durable."""
        ...

    def news(self, run_id: RunId) -> None:
        """A run whose task this worker holds has new events (R3)."""
        ...

    def cancel(self, attempt_id: int, *, over: bool = False) -> None:
        """An attempt that this worker runs is no longer wanted; `over` if it has timed out or its lease was lost."""
        ...


class Colleague(Seat, Protocol):
    """A worker as it introduces itself."""

    identity: str
