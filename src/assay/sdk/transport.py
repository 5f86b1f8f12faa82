"""THE PORT between the SDK and an engine: the same calls whether the engine is in this process or behind HTTP.

A request that returns is durable; one that was refused raises what the engine said; `Unavailable` means that the
outcome is not known and the same request may be sent again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from assay.core.events import Event, Recorded
from assay.core.grants import ConnectedWorker
from assay.core.ids import RunId, RunKey, Time
from assay.core.replies import Told
from assay.core.requests import Request, RetryFailed


class ListedRuns(list[dict[str, Any]]):
    """One page of records of runs; `next_cursor` is None after the last page."""

    def __init__(self, records: Iterable[dict[str, Any]], next_cursor: str | None) -> None:
        super().__init__(records)
        self.next_cursor = next_cursor


class Transport(Protocol):
    """An engine, wherever it is."""

    lease: Time | None
    """How long a worker may be silent before its work is given to others; None if it dies with the engine."""

    async def open(self) -> None:
        """Connect, or start the engine."""
        ...

    async def close(self) -> None:
        """Disconnect, or stop the engine."""
        ...

    def now(self) -> Time:
        """The engine's time, as well as it is known here (R12)."""
        ...

    async def ask(self, request: Request) -> Any:
        """Have a request decided; its reply when the outcome is durable."""
        ...

    async def retry(self, request: RetryFailed) -> dict[str, Any]:
        """Let a closed run go on; the answer as a record."""
        ...

    def send(self, request: Request, told: Told) -> None:
        """Like `ask`, without a task of its own: the way of a worker, which sends many."""
        ...

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """Wait for the end of a run, or of its chain: the run that ended and its closing event."""
        ...

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """A run's events after a seq."""
        ...

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """A run's record, or None."""
        ...

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> "ListedRuns":
        """Return a page of records of runs, newest first, with the cursor of the next page if more runs follow."""
        ...

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """A history as records; `NotFound` for an unknown id."""
        ...

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """What the run's queries answer, or None."""
        ...

    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """Report the health of a worker; may block, from any thread, and needs no event loop."""
        ...

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Connect a worker: work of its queue is leased to it, up to its free slots, until `remove_worker`."""
        ...

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to a worker; its reports are sent on."""
        ...

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """Announce that a worker has more free slots than before."""
        ...
