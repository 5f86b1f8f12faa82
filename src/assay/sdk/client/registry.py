"""Who uses an engine, as a program sees it: namespaces made, counted and deleted, workers and queues looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from assay.core.model.errors import Invalid
from assay.core.model.options import check_id
from assay.sdk.client.records import NamespaceRecord, NamespaceStatsRecord, QueueRecord, WorkerRecord

if TYPE_CHECKING:
    from assay.sdk.client.client import Client


class RegistryPort(Protocol):
    """The part of a transport that knows who uses the engine; what it answers are records."""

    async def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        ...

    async def namespaces(self) -> Sequence[dict[str, Any]]:
        """All namespaces, by name."""
        ...

    async def count(self, name: str) -> dict[str, Any]:
        """What a namespace holds."""
        ...

    async def delete_namespace(self, name: str) -> None:
        """Forget a namespace."""
        ...

    async def workers(self, namespace: str) -> Sequence[dict[str, Any]]:
        """The workers that were heard of lately."""
        ...

    async def queues(self, namespace: str) -> Sequence[dict[str, Any]]:
        """The queues that have open work or workers."""
        ...


@runtime_checkable
class Registering(Protocol):
    """A transport whose engine knows who uses it."""

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
    """`client.namespaces`: spaces of ids and queues that know nothing of each other (R39)."""

    async def create(self, name: str) -> None:
        """Make a namespace; what is started in one that is not there makes it, too. `AlreadyExists`, `Invalid`."""
        await self._port().create_namespace(check_id(name, "name"))

    async def list(self) -> list[NamespaceRecord]:
        """All namespaces, by name."""
        return [NamespaceRecord(found) for found in await self._port().namespaces()]

    async def describe(self, name: str) -> NamespaceStatsRecord:
        """How many runs of each status, schedules and workers a namespace has; zeros if there is none (R31)."""
        return NamespaceStatsRecord(await self._port().count(check_id(name, "name")))

    async def stats(self, name: str) -> NamespaceStatsRecord:
        """The same as `describe`."""
        return await self.describe(name)

    async def delete(self, name: str) -> None:
        """Forget a namespace that has neither open runs nor schedules; `NotFound` for `main` and for none."""
        await self._port().delete_namespace(check_id(name, "name"))


class Workers(_Group):
    """`client.workers`."""

    async def list(self, *, namespace: str | None = None) -> list[WorkerRecord]:
        """The workers that were heard of in the last 90 seconds, in order of registration (R36)."""
        return [WorkerRecord(found) for found in await self._port().workers(self._space(namespace))]


class Queues(_Group):
    """`client.queues`."""

    async def stats(self, *, namespace: str | None = None) -> list[QueueRecord]:
        """What waits, what is being done and who serves, for each queue with open work or workers, by name."""
        return [QueueRecord(found) for found in await self._port().queues(self._space(namespace))]
