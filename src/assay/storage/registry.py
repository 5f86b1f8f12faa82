"""The port for what stands beside the histories: namespaces, workers, queues, and the engine's own secrets.

Nothing here is part of a decision. A change that carries an `Outcome` writes it in the same transaction, so that a
repeated request has its effect once (4.4).
"""

from collections.abc import Sequence
from typing import Protocol

from assay.core.ids import Time
from assay.core.registrations import NamespaceCounts, NamespaceRow, QueueRow, WorkerRow
from assay.storage.store import Outcome

__all__ = ["NamespaceCounts", "NamespaceRow", "QueueRow", "Registry", "WorkerRow"]


class Registry(Protocol):
    """What the engine keeps about those who use it."""

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """All namespaces, by name."""
        ...

    async def create_namespace(self, row: NamespaceRow, outcome: Outcome | None = None) -> bool:
        """Create a namespace; False if it was there already."""
        ...

    async def delete_namespace(self, name: str, outcome: Outcome | None = None) -> bool:
        """Forget a namespace that has no open run; False if it has one or was not there."""
        ...

    async def counts(self, namespace: str, seen_after: Time) -> NamespaceCounts:
        """What a namespace holds."""
        ...

    async def register(self, row: WorkerRow, outcome: Outcome | None = None) -> None:
        """Keep a worker's registration."""
        ...

    async def seen(self, workers: Sequence[tuple[str, Time]]) -> None:
        """Note when workers were last heard of."""
        ...

    async def worker(self, worker_id: str) -> WorkerRow | None:
        """A registration by its id."""
        ...

    async def workers(self, namespace: str, seen_after: Time) -> Sequence[WorkerRow]:
        """Workers that were heard of after a time, in order of registration."""
        ...

    async def holdings(self, workers: Sequence[str]) -> dict[str, int]:
        """How many tasks each of these workers holds."""
        ...

    async def queues(self, namespace: str, seen_after: Time) -> Sequence[QueueRow]:
        """The queues that have open work or workers, by name."""
        ...

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """A secret of this database; `fresh` becomes it if there is none yet."""
        ...
