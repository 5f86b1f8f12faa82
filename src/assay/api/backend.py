"""What the routes work with: the engine and what stands around it, put together once at the start."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from assay.api.exchange import Exchange
from assay.api.polls import Polls
from assay.api.telemetry import Telemetry
from assay.core.errors import NotFound
from assay.core.ids import SECOND, Namespace, RunKey, Time, WorkflowId
from assay.engine.engine import Engine
from assay.engine.reads import Reads
from assay.engine.roster import Roster
from assay.engine.stream import Stream
from assay.engine.tokens import Tokens

STREAMS: Final = 500
"""Event streams that are open at a time (5.4)."""


@dataclass(frozen=True)
class Settings:
    """What an operator decides about the interface."""

    task_lease: Time = 30 * SECOND
    """How long a worker of the original may hold a workflow task (D19)."""
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    """Names under which the engine may be called: whatever else a browser was told is refused (5.2)."""
    any_address: bool = False
    """Is every address welcome as a name, because the engine listens on all of them?"""
    exposed: bool = False
    """Can others than this machine call it, without proving who they are?"""
    streams: int = STREAMS


@dataclass
class Backend:
    """The engine as the routes see it."""

    engine: Engine
    roster: Roster
    stream: Stream
    tokens: Tokens
    polls: Polls
    exchange: Exchange
    telemetry: Telemetry
    reads: Reads
    settings: Settings = field(default_factory=Settings)
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: set["asyncio.Future[Any]"] = field(default_factory=set)

    @contextmanager
    def held(self, waiting: "asyncio.Future[Any]") -> Iterator[None]:
        """While somebody waits for this: it is cancelled when the engine stops, so that the caller gets an answer."""
        if self.drained.is_set():
            waiting.cancel()
        self._waiting.add(waiting)
        try:
            yield
        finally:
            self._waiting.discard(waiting)

    async def current(self, namespace: Namespace, workflow_id: WorkflowId) -> RunKey:
        """The newest run of an id."""
        try:
            return await self.engine.current(namespace, workflow_id)
        except NotFound:
            raise NotFound(f"workflow {workflow_id}") from None

    def drain(self) -> None:
        """Let nobody wait here any longer."""
        self.drained.set()
        self.polls.drain()
        self.exchange.drain()
        for waiting in tuple(self._waiting):
            waiting.cancel()
