"""`workflow.namespaces`, `workflow.workers` and `workflow.queues`: those of the client for programs without asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.records import NamespaceRecord, NamespaceStatsRecord, QueueRecord, WorkerRecord


class _BlockingGroup:
    """Calls of one kind; each of them blocks."""

    name: str

    def __init__(self, blocking_client: Callable[[], BlockingClient]) -> None:
        self._blocking_client = blocking_client

    def _call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return self._blocking_client().call(
            f"{self.name}.{verb}", lambda client: getattr(getattr(client, self.name), verb)(*arguments, **options)
        )


class BlockingNamespaces(_BlockingGroup):
    """Namespaces: made, counted, deleted; see `assay.Client.namespaces`."""

    name = "namespaces"

    def create(self, name: str) -> None:
        """Make a namespace; what is started in one that is not there makes it, too. `AlreadyExists`, `Invalid`."""
        self._call("create", name)

    def list(self) -> list[NamespaceRecord]:
        """All namespaces, by name."""
        found: list[NamespaceRecord] = self._call("list")
        return found

    def describe(self, name: str) -> NamespaceStatsRecord:
        """How many runs of each status, schedules and workers a namespace has; zeros if there is none."""
        found: NamespaceStatsRecord = self._call("describe", name)
        return found

    def stats(self, name: str) -> NamespaceStatsRecord:
        """The same as `describe`."""
        found: NamespaceStatsRecord = self._call("stats", name)
        return found

    def delete(self, name: str) -> None:
        """Forget a namespace that has neither open runs nor schedules; `NotFound` for `main` and for none."""
        self._call("delete", name)


class BlockingWorkers(_BlockingGroup):
    """Who does the work; see `assay.Client.workers`."""

    name = "workers"

    def list(self, *, namespace: str | None = None) -> list[WorkerRecord]:
        """The workers that were heard of in the last 90 seconds, in order of registration."""
        found: list[WorkerRecord] = self._call("list", namespace=namespace)
        return found


class BlockingQueues(_BlockingGroup):
    """What waits to be done; see `assay.Client.queues`."""

    name = "queues"

    def stats(self, *, namespace: str | None = None) -> list[QueueRecord]:
        """What waits, what is being done and who serves, for each queue with open work or workers, by name."""
        found: list[QueueRecord] = self._call("stats", namespace=namespace)
        return found
