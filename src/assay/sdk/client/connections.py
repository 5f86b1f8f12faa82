"""Transports by URL scheme. Implementations register themselves, so that the SDK imports no engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from assay.core.model.errors import Invalid

if TYPE_CHECKING:
    from assay.core.model.ids import Time
    from assay.core.model.replies import Started
    from assay.core.model.requests import StartWorkflow
    from assay.sdk.ports import EngineConnection, WorkflowOutcome

    Factory = Callable[[str, str | None, float], EngineConnection]

DEFAULT_TIMEOUT_SECONDS: Final = 30.0
"""Seconds for which a call waits for an unreachable engine."""
_factories: dict[str, Factory] = {}


@runtime_checkable
class Hosting(Protocol):
    """A transport whose engine runs in this process: work of a queue without a local worker may never be done."""

    lease: Time | None
    """None if no other process can serve the engine's work."""

    def served(self, namespace: str, queue: str) -> bool:
        """Return True if a worker of this process serves the queue."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A transport that starts a workflow and waits for its end in one request, which saves a round trip."""

    async def run(self, start: StartWorkflow) -> tuple[Started, WorkflowOutcome]:
        """Start a workflow and wait for the end of its chain."""
        ...


def register(scheme: str, factory: Factory) -> None:
    """Use `factory(url, token, timeout_seconds)` for URLs of a scheme."""
    _factories[scheme] = factory


def transport_for(
    url: str, token: str | None = None, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> EngineConnection:
    """Return an unopened transport to the engine at `url`; a bare file name is a SQLite file."""
    if not url.strip():
        raise Invalid("an engine's URL is a text such as sqlite://app.db", code="invalid_url", field="url")
    scheme = url.partition("://")[0].lower() if "://" in url else "sqlite"
    factory = _factories.get(scheme)
    if factory is None:
        # The message contains only the scheme: the rest of a URL may hold a password.
        known = ", ".join(f"{name}://" for name in sorted(_factories))
        raise Invalid(f"there is no engine for {scheme}:// URLs; use {known}", code="invalid_url", field="url")
    return factory(url, token, timeout_seconds)
