"""Namespaces, workers and queues of an engine, as calls of a client."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id
from assay.sdk.client.audit_entries import AuditEntryRecord
from assay.sdk.client.records import NamespaceRecord, NamespaceStatsRecord, QueueRecord, WorkerRecord

if TYPE_CHECKING:
    from assay.sdk.client.client import Client


class RegistryPort(Protocol):
    """The part of a transport that reads namespaces, workers and queues; results are JSON objects."""

    async def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        ...

    async def namespaces(self) -> Sequence[dict[str, Any]]:
        """Return all namespaces, by name."""
        ...

    async def count(self, name: str) -> dict[str, Any]:
        """Return the numbers of runs, schedules and workers of a namespace."""
        ...

    async def delete_namespace(self, name: str) -> None:
        """Delete a namespace."""
        ...

    async def audit(self, filters: Mapping[str, str | float | None]) -> Sequence[dict[str, Any]]:
        """Return rows of the audit, newest first; None is no filter."""
        ...

    async def workers(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the workers with a recent heartbeat."""
        ...

    async def queues(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the queues that have open work or workers."""
        ...


@runtime_checkable
class Registering(Protocol):
    """A transport whose engine has a registry of namespaces and workers."""

    registry: RegistryPort


class _Group:
    """Calls of one kind, made through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _port(self) -> RegistryPort:
        transport = self._client.transport
        if not isinstance(transport, Registering):
            raise Invalid(f"{type(transport).__name__} has no registry", code="no_registry")
        return transport.registry

    def _space(self, namespace: str | None) -> str:
        return self._client.namespace if namespace is None else check_id(namespace, "namespace")


class Namespaces(_Group):
    """The namespaces of an engine, as `client.namespaces`: separate spaces of ids and queues."""

    async def create(self, name: str) -> None:
        """Create a namespace; a start in a missing namespace creates the namespace too.

        Args:
            name: The namespace's name.

        Raises:
            AlreadyExists: The namespace exists.
            Invalid: The name is malformed.
        """
        await self._port().create_namespace(check_id(name, "name"))

    async def list(self) -> list[NamespaceRecord]:
        """Return all namespaces.

        Returns:
            Records, by name.
        """
        return [NamespaceRecord(found) for found in await self._port().namespaces()]

    async def describe(self, name: str) -> NamespaceStatsRecord:
        """Count the runs by status, the schedules and the workers of a namespace.

        Args:
            name: The namespace's name.

        Returns:
            The counts; zeros if the namespace does not exist.
        """
        return NamespaceStatsRecord(await self._port().count(check_id(name, "name")))

    async def stats(self, name: str) -> NamespaceStatsRecord:
        """Return the same counts as `describe`.

        Args:
            name: The namespace's name.

        Returns:
            The counts.
        """
        return await self.describe(name)

    async def delete(self, name: str) -> None:
        """Delete a namespace that has neither open runs nor schedules.

        Args:
            name: The namespace's name.

        Raises:
            NotFound: The namespace does not exist, or is `main`.
        """
        await self._port().delete_namespace(check_id(name, "name"))

    async def audit(
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
        filters = {"namespace": name, "actor": actor, "action": action, "target": target, "outcome": outcome}
        times = {"after": after, "before": before, "limit": limit, "cursor": cursor}
        return [AuditEntryRecord(found) for found in await self._port().audit({**filters, **times})]


class Workers(_Group):
    """The workers of an engine, as `client.workers`."""

    async def list(self, *, namespace: str | None = None) -> list[WorkerRecord]:
        """Return the workers with a heartbeat in the last 90 seconds.

        Args:
            namespace: The namespace, unless the client's.

        Returns:
            Records, in order of registration.
        """
        return [WorkerRecord(found) for found in await self._port().workers(self._space(namespace))]


class Queues(_Group):
    """The task queues of an engine, as `client.queues`."""

    async def stats(self, *, namespace: str | None = None) -> list[QueueRecord]:
        """Count pending work, running work and workers of each queue that has any.

        Args:
            namespace: The namespace, unless the client's.

        Returns:
            Records, by name of the queue.
        """
        return [QueueRecord(found) for found in await self._port().queues(self._space(namespace))]
