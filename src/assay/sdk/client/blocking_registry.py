"""`workflow.namespaces`, `workflow.workers` and `workflow.queues`: blocking calls for programs without asyncio."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.sdk.client.audit_entries import AuditEntryRecord
    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.records import (
        NamespaceRecord,
        NamespaceStatsRecord,
        QueueRecord,
        WorkerRecord,
    )


class _BlockingGroup:
    """Blocking calls of one kind."""

    name: str

    def __init__(self, blocking_client: Callable[[], BlockingClient]) -> None:
        self._blocking_client = blocking_client

    def _call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        return self._blocking_client().call(
            f"{self.name}.{verb}", lambda client: getattr(getattr(client, self.name), verb)(*arguments, **options)
        )


class BlockingNamespaces(_BlockingGroup):
    """The namespaces of an engine, as `workflow.namespaces`: separate spaces of ids and queues."""

    name = "namespaces"

    def create(self, name: str) -> None:
        """Create a namespace; a start in a missing namespace creates the namespace too.

        Args:
            name: The namespace's name.

        Raises:
            AlreadyExists: The namespace exists.
            Invalid: The name is malformed.
        """
        self._call("create", name)

    def list(self) -> list[NamespaceRecord]:
        """Return all namespaces.

        Returns:
            Records, by name.
        """
        found: list[NamespaceRecord] = self._call("list")
        return found

    def describe(self, name: str) -> NamespaceStatsRecord:
        """Count the runs by status, the schedules and the workers of a namespace.

        Args:
            name: The namespace's name.

        Returns:
            The counts; zeros if the namespace does not exist.
        """
        found: NamespaceStatsRecord = self._call("describe", name)
        return found

    def stats(self, name: str) -> NamespaceStatsRecord:
        """Return the same counts as `describe`.

        Args:
            name: The namespace's name.

        Returns:
            The counts.
        """
        found: NamespaceStatsRecord = self._call("stats", name)
        return found

    def delete(self, name: str) -> None:
        """Delete a namespace that has neither open runs nor schedules.

        Args:
            name: The namespace's name.

        Raises:
            NotFound: The namespace does not exist, or is `main`.
        """
        self._call("delete", name)

    def audit(
        self,
        name: str | None = None,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        outcome: str | None = None,
        after: float | None = None,
        before: float | None = None,
        limit: int | None = None,
        cursor: int | None = None,
    ) -> builtins.list[AuditEntryRecord]:
        """Return a page of the audit: changes and refusals, newest first. An embedded engine has no audit.

        Args:
            name: Only rows of this namespace; by default all namespaces of which the caller is an admin.
            actor: Only rows of this caller.
            action: Only rows of this operation, such as `cancelWorkflow`.
            target: Only rows about this id, name, prefix or fingerprint.
            outcome: `ok` or `refused`.
            after: Only rows at or after this time, in seconds since the epoch.
            before: Only rows before this time, in seconds since the epoch.
            limit: Most rows; by default 50.
            cursor: The id of the last row of the page before.

        Returns:
            Records, newest first; an empty list after the last page.
        """
        filters = {"actor": actor, "action": action, "target": target, "outcome": outcome}
        times = {"after": after, "before": before, "limit": limit, "cursor": cursor}
        found: list[AuditEntryRecord] = self._call("audit", name, **filters, **times)
        return found


class BlockingWorkers(_BlockingGroup):
    """The workers of an engine, as `workflow.workers`."""

    name = "workers"

    def list(self, *, namespace: str | None = None) -> list[WorkerRecord]:
        """Return the workers with a heartbeat in the last 90 seconds.

        Args:
            namespace: The namespace, unless the connection's.

        Returns:
            Records, in order of registration.
        """
        found: list[WorkerRecord] = self._call("list", namespace=namespace)
        return found


class BlockingQueues(_BlockingGroup):
    """The task queues of an engine, as `workflow.queues`."""

    name = "queues"

    def stats(self, *, namespace: str | None = None) -> list[QueueRecord]:
        """Count pending work, running work and workers of each queue that has any.

        Args:
            namespace: The namespace, unless the connection's.

        Returns:
            Records, by name of the queue.
        """
        found: list[QueueRecord] = self._call("stats", namespace=namespace)
        return found
