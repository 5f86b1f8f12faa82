"""The objects that routes use: the engine and the services around it, created once at startup."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from assay.api.admission import Admission
from assay.api.auditing import Auditor
from assay.api.authentication import Authentication
from assay.api.dashboard.whitelabel import WhiteLabel
from assay.api.exchange import Exchange
from assay.api.exposure import Exposure
from assay.api.polls import Polls
from assay.api.request_rates import RequestRates
from assay.api.shared_answers import SharedAnswers, SharedValues
from assay.api.shared_frames import SharedFrames
from assay.api.stream import StreamSlots
from assay.api.telemetry import Telemetry
from assay.core.model.ids import SECOND, Time
from assay.engine.audit import Audit
from assay.engine.batches import Batches
from assay.engine.engine import Engine
from assay.engine.failures import Failures
from assay.engine.insight import Insight
from assay.engine.kept_answers import KeptAnswers
from assay.engine.service import Loop
from assay.engine.stream import Stream
from assay.engine.worker_registry import WorkerRegistry
from assay.worker_protocol.tokens import Tokens

ALREADY_PAST: Final = 0.0
"""A time on the loop's clock that is always over: a timeout set to it ends at once."""


@dataclass(frozen=True)
class ApiSettings:
    """The operator's settings of the API."""

    task_lease: Time = 30 * SECOND
    """The lease of a workflow task for a polling worker."""
    exposure: Exposure = field(default_factory=Exposure)
    """Names of the engine, allowed origins and trusted proxies."""
    metrics_public: bool = False
    """Serve metrics to callers without a credential."""
    exposed: bool = False
    """Other machines can call the engine without a credential."""
    read_only: bool = False
    """The database is only read here; another engine may be using it."""
    white_label: WhiteLabel = field(default_factory=WhiteLabel)
    """The look of the dashboard."""


@dataclass
class Backend:
    """The engine and its services, as routes use them."""

    engine: Engine
    worker_registry: WorkerRegistry
    insight: Insight
    failures: Failures
    batches: Batches
    batch_loop: Loop
    stream: Stream
    tokens: Tokens
    polls: Polls
    exchange: Exchange
    telemetry: Telemetry
    auth: Authentication
    kept_answers: KeptAnswers
    audit: Audit
    settings: ApiSettings = field(default_factory=ApiSettings)
    stream_slots: StreamSlots = field(default_factory=StreamSlots)
    """Limits the open event streams."""
    auditor: Auditor | None = None
    """Audits changes and refusals; None without an audit."""
    request_rates: RequestRates | None = None
    """Limits the requests a second of each caller; None without a limit."""
    shared_frames: SharedFrames = field(default_factory=SharedFrames)
    shared_answers: SharedAnswers = field(default_factory=SharedAnswers)
    shared_values: SharedValues = field(default_factory=SharedValues)
    admission: Admission = field(default_factory=Admission)
    """Limits the waiting requests per namespace."""
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: set[asyncio.Timeout] = field(default_factory=set)

    @contextmanager
    def held(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Let a timeout expire early when the engine stops, so that the caller that waits gets a response."""
        if self.drained.is_set():
            limit.reschedule(ALREADY_PAST)
        self._waiting.add(limit)
        try:
            yield
        finally:
            self._waiting.discard(limit)

    def drain(self) -> None:
        """End all waiting: answer held polls, disconnect workers, and expire the timeouts of waiting callers."""
        self.drained.set()
        self.polls.drain()
        self.exchange.drain()
        for limit in tuple(self._waiting):
            limit.reschedule(ALREADY_PAST)
