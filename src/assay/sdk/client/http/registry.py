"""Namespaces, workers and queues of an engine behind HTTP."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from assay.sdk.client.http.http1 import path_of, query_of
from assay.sdk.client.http.schedules import Caller

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class HttpRegistry:
    """See `RegistryPort`."""

    def __init__(self, caller: Callable[[], Caller]) -> None:
        self._caller = caller

    async def create_namespace(self, name: str) -> None:
        """See `RegistryPort`."""
        await self._caller()("POST", "/namespaces", _encode({"name": name}), key=uuid4().hex)

    async def namespaces(self) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return await self._list("/namespaces")

    async def count(self, name: str) -> dict[str, Any]:
        """See `RegistryPort`."""
        found: dict[str, Any] = _decode(await self._caller()("GET", path_of("namespaces", name)))
        return found

    async def delete_namespace(self, name: str) -> None:
        """See `RegistryPort`."""
        await self._caller()("DELETE", path_of("namespaces", name), key=uuid4().hex)

    async def audit(self, filters: Mapping[str, str | float | None]) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return await self._list(f"/audit{query_of(filters)}")

    async def workers(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return await self._list(f"/workers{query_of({'namespace': namespace})}")

    async def queues(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `RegistryPort`."""
        return await self._list(f"/queues{query_of({'namespace': namespace})}")

    async def _list(self, path: str) -> Sequence[dict[str, Any]]:
        found: list[dict[str, Any]] = _decode(await self._caller()("GET", path))
        return found
