"""What the routes work with: the engine and what stands around it, put together once at the start."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from assay.api.admission import Admission
from assay.api.authentication import Authentication
from assay.api.exchange import Exchange
from assay.api.polls import Polls
from assay.api.shared_frames import SharedFrames
from assay.api.stream import StreamSlots
from assay.api.telemetry import Telemetry
from assay.core.model.ids import SECOND, Time
from assay.engine.engine import Engine
from assay.engine.stream import Stream
from assay.engine.worker_registry import WorkerRegistry
from assay.worker_protocol.tokens import Tokens

ALREADY_PAST: Final = 0.0
"""A time of the loop's clock that is over."""


@dataclass(frozen=True)
class ApiSettings:
    """What an operator decides about the interface."""

    task_lease: Time = 30 * SECOND
    """How long a worker of the original may hold a workflow task (D19)."""
    hosts: frozenset[str] = frozenset({"localhost", "127.0.0.1", "[::1]"})
    """Names under which the engine may be called: whatever else a browser was told is refused (5.2)."""
    any_address: bool = False
    """Is every address welcome as a name, because the engine listens on all of them?"""
    exposed: bool = False
    """Can others than this machine call it, without proving who they are?"""
    read_only: bool = False
    """Is the database only read here, beside the engine that uses it?"""


@dataclass
class Backend:
    """The engine as the routes see it."""

    engine: Engine
    worker_registry: WorkerRegistry
    stream: Stream
    tokens: Tokens
    polls: Polls
    exchange: Exchange
    telemetry: Telemetry
    auth: Authentication
    settings: ApiSettings = field(default_factory=ApiSettings)
    stream_slots: StreamSlots = field(default_factory=StreamSlots)
    """Those of event streams."""
    shared_frames: SharedFrames = field(default_factory=SharedFrames)
    admission: Admission = field(default_factory=Admission)
    """The callers' requests that wait, by namespace."""
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: set[asyncio.Timeout] = field(default_factory=set)

    @contextmanager
    def held(self, limit: asyncio.Timeout) -> Iterator[None]:
        """While somebody waits within this limit: it is over when the engine stops, so that the caller is answered."""
        if self.drained.is_set():
            limit.reschedule(ALREADY_PAST)
        self._waiting.add(limit)
        try:
            yield
        finally:
            self._waiting.discard(limit)

    def drain(self) -> None:
        """Let nobody wait here any longer."""
        self.drained.set()
        self.polls.drain()
        self.exchange.drain()
        for limit in tuple(self._waiting):
            limit.reschedule(ALREADY_PAST)
