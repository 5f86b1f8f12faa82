"""Drive the engine's end of the worker protocol for a worker: read the store, wait, and measure silence."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from assay.core.model.errors import AssayError, Invalid
from assay.core.model.grants import ActivityGrant, TaskGrant
from assay.core.model.ids import RunId
from assay.core.model.requests import Elapse
from assay.core.rules.activities import HIGHEST_SEQ
from assay.engine.dispatch import task_grant
from assay.engine.engine import Engine
from assay.engine.reads import StoredRun
from assay.worker_protocol import messages as wire
from assay.worker_protocol.engine_side import MAX_TASK_EVENTS, TASK_SEQ, EngineEndpoint, LeaseKey
from assay.worker_protocol.tokens import LeaseTokens

EVENTS_PER_HISTORY_READ: Final = 500
"""Events per read of the store for a page of a history."""


class WorkerSession:
    """The session of an SDK worker, from its first hello until the session is dropped; see `EngineDriver`."""

    def __init__(self, engine: Engine, tokens: LeaseTokens, namespace: str, worker: str) -> None:
        self.endpoint = EngineEndpoint(engine, self, tokens, namespace, worker)
        self.hello_lock = asyncio.Lock()
        self.received_at = self.shown_at = asyncio.get_running_loop().time()
        """When the worker last sent a message, and when the registry last received its heartbeat."""
        self.forgotten = False
        self._engine = engine
        self._reading: set[asyncio.Task[None]] = set()

    async def greet(self, hello: wire.Hello) -> None:
        """Begin a connection; resend stored leases of the worker that its hello does not list."""
        endpoint = self.endpoint
        endpoint.begin_hello(hello)
        if hello.again:
            await self._settle()
            leased = [(held.run_id, held.seq, held.fence) for held in await self._engine.reads.leases(endpoint.worker)]
            await self._resend(endpoint.reconcile(hello, leased))
        endpoint.end_hello()

    async def _settle(self) -> None:
        """Wait until every lease for the lost connection is either released or durable in the store."""
        # Requests are decided in order: when this request without effect is decided, all earlier requests are. Leases
        # of its own batch are released when the batch is published, hence the second wait.
        await asyncio.gather(self._engine.submit(Elapse(RunId(""))), return_exceptions=True)
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.endpoint.released.resolve(released)
        await released

    async def _resend(self, lost: set[LeaseKey]) -> None:
        runs = await self._engine.reads.live_all({run_id for run_id, _, _ in lost})
        for run in runs:
            for run_id, seq, fence in lost:
                if run_id == run.run_id and run.namespace == self.endpoint.namespace:
                    self._resend_lease(run, seq, fence)

    def _resend_lease(self, run: StoredRun, seq: int, fence: int) -> None:
        worker = self.endpoint.worker
        if seq != TASK_SEQ:
            activity = run.activities.get(seq)
            if activity is not None and activity.attempt_id == fence and activity.worker == worker:
                self.endpoint.resend(ActivityGrant(run.key, run.start, activity))
        elif run.task.worker == worker and run.task.epoch == fence:
            self.endpoint.resend(task_grant(run))

    def receive(self, message: wire.WorkerMessage) -> None:
        """Process a message that the endpoint has accepted."""
        self.received_at = asyncio.get_running_loop().time()
        self.endpoint.receive(message)

    # reads for the endpoint

    def leased_task(self, run_id: RunId) -> TaskGrant | None:
        """See `EngineDriver`."""
        run = self._engine.reads.live(run_id)
        return task_grant(run) if run is not None and run.task.worker == self.endpoint.worker else None

    def load_task(self, grant: TaskGrant, after: int) -> None:
        """See `EngineDriver`."""
        self._read(self._load_task(grant, after, self.endpoint.hellos))

    def load_history(self, report: wire.ReadHistory, run_id: RunId) -> None:
        """See `EngineDriver`."""
        self._read(self._load_history(report, run_id))

    def _read(self, reading: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _load_task(self, grant: TaskGrant, after: int, hello: int) -> None:
        try:
            events = await self._engine.reads.events_after(grant.key.run_id, after, MAX_TASK_EVENTS + 1)
        except AssayError:
            events = None
        self.endpoint.task_loaded(grant, after, events, hello)

    async def _load_history(self, report: wire.ReadHistory, run_id: RunId) -> None:
        try:
            answer = await self._history(report.n, run_id, report.after)
        except Exception as error:  # noqa: BLE001  # without an answer, the worker would repeat the report for ever
            answer = self.endpoint.failed(report.n, error)
        self.endpoint.history_loaded(answer)

    async def _history(self, n: int, run_id: RunId, after: int) -> wire.ReportAnswer:
        if not 0 <= after <= HIGHEST_SEQ:
            raise Invalid(f"after must be from 0 to {HIGHEST_SEQ}", field="after")
        found: list[wire.SentEvent] = []
        size, more = 0, True
        while more and size < wire.MAX_HISTORY_BYTES:
            page = wire.sent(await self._engine.reads.events_after(run_id, after, EVENTS_PER_HISTORY_READ))
            found.extend(page)
            size += wire.size_of(page)
            more = len(page) == EVENTS_PER_HISTORY_READ
            after = page[-1].seq if page else after
        return wire.ReportAnswer(n, events=tuple(found), more=more)
