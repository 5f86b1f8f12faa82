"""Namespaces, workers and queues of an engine in this process, with the same answers as over HTTP."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.embedded.local_workers import LocalWorkers
from assay.embedded.records import user_record
from assay.engine.engine import Engine
from assay.engine.worker_registry import WorkerRegistry
from assay.wire.registrations import namespace_record, namespace_stats, queue_record, worker_record


class EmbeddedRegistry:
    """See `RegistryPort`."""

    def __init__(
        self, engine: Callable[[], Engine], worker_registry: WorkerRegistry, local_workers: LocalWorkers
    ) -> None:
        self._engine = engine
        self._worker_registry = worker_registry
        self._local_workers = local_workers

    async def _called(self) -> WorkerRegistry:
        """Return the registry after the workers of this process are registered, which creates their namespaces."""
        self._engine()
        await self._local_workers.show()
        return self._worker_registry

    async def create_namespace(self, name: str) -> None:
        """See `RegistryPort`."""
        await (await self._called()).create(name, None)

    async def namespaces(self) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return [user_record(namespace_record(row)) for row in await (await self._called()).namespaces()]

    async def count(self, name: str) -> dict[str, Any]:
        """See `RegistryPort`."""
        return user_record(namespace_stats(name, *await (await self._called()).counts(name)))

    async def delete_namespace(self, name: str) -> None:
        """See `RegistryPort`."""
        await (await self._called()).delete(name, None)

    async def audit(self, filters: Mapping[str, str | float | None]) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`; an embedded engine has no callers to audit."""
        return []

    async def workers(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return [user_record(worker_record(*found)) for found in await (await self._called()).workers(namespace)]

    async def queues(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return [user_record(queue_record(row)) for row in await (await self._called()).queues(namespace)]
