"""The transport to an engine in this process: no socket, no copy, the same answers as over HTTP."""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assay.core.model.errors import Invalid, NotFound, Unavailable
from assay.core.model.events import Event, Recorded
from assay.core.model.grants import ConnectedWorker
from assay.core.model.ids import RunId, RunKey, Time
from assay.core.model.limits import WORKER_LEASE
from assay.core.model.options import check_id, check_namespace, checked_start
from assay.core.model.payload import Payload
from assay.core.model.replies import Reopened, ReplyCallback, Started
from assay.core.model.requests import Request, RetryFailed, StartWorkflow, Update
from assay.core.model.update_states import UpdateState
from assay.core.registrations import WorkerHealth
from assay.embedded.filters import run_filter
from assay.embedded.hosted_engine import HostedEngine, hosted_engine
from assay.embedded.local_mail import EmbeddedMail
from assay.embedded.local_registry import EmbeddedRegistry
from assay.embedded.local_schedules import EmbeddedSchedules
from assay.embedded.records import user_record
from assay.engine.engine import Engine
from assay.sdk.client.loop_thread import refuse_in_workflow
from assay.sdk.client.transport import OnRefusal, Transport
from assay.sdk.ports import ListedRuns, Target
from assay.storage.ports import Broken, Rejected, RunRecord
from assay.storage.urls import SqliteUrl, parse_url
from assay.wire.activities import retry_record
from assay.wire.overviews import waiting_answer
from assay.wire.render import cursor_of, event_record, run_record, state_record

_RECORDS_PER_TURN: Final = 500
"""Records of a history that are made in one iteration of the event loop."""


_OPEN: "weakref.WeakSet[EmbeddedTransport]" = weakref.WeakSet()


def _mark_forked() -> None:
    """Mark all open transports in a forked child: their engine, file and loop belong to the parent."""
    for transport in _OPEN:
        transport.forked = True


os.register_at_fork(after_in_child=_mark_forked)


class EmbeddedTransport(EmbeddedMail, Transport):
    """See `Transport` and `Hosting`."""

    registry: EmbeddedRegistry
    schedules: EmbeddedSchedules

    def __init__(self, url: str, *, is_guest: bool = False) -> None:
        self._url = url
        # On a file no other process can take over a worker's work, and leases need no end.
        self.lease: Time | None = None if isinstance(parse_url(url), SqliteUrl) else WORKER_LEASE
        self._is_guest = is_guest
        """True for a client on another loop: the engine may stop while the client is open."""
        self._workers: list[ConnectedWorker] = []
        self.forked = False
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def open(self) -> None:
        """Start the engine, or use the engine of this process on the same file."""
        if self._owner is not None:
            raise Invalid("this transport is open already", code="already_open")
        hosted = hosted_engine(self._url)
        while not (self._is_guest or await hosted.enter()):  # stopped by its last user just now
            hosted = hosted_engine(self._url)
        self._use(hosted)
        self._owner = hosted.owner
        _OPEN.add(self)

    def _use(self, hosted: HostedEngine) -> None:
        self._hosted = hosted
        self._engine = hosted.engine
        self._worker_registry = hosted.worker_registry
        self._insight = hosted.insight
        self._local_workers = hosted.local_workers
        self._heartbeats = hosted.heartbeats
        self._workers = hosted.workers
        self.registry = EmbeddedRegistry(self._running, hosted.worker_registry, hosted.local_workers)
        self.schedules = EmbeddedSchedules(self._running, hosted.worker_registry)

    async def close(self) -> None:
        """Release the engine, which stops with its last client; no-op for a second call or in a forked child."""
        owner, self._owner = self._owner, None
        if owner is not None and owner[0] == os.getpid() and not self._is_guest:
            await self._hosted.leave()

    def _running(self) -> Engine:
        """Return the engine; raise an error if it cannot be used by this caller.

        Raises:
            Unavailable: the client is closed, or this process was forked after it connected.
            Invalid: the client belongs to another event loop.
        """
        refuse_in_workflow()
        if self._owner is None or self._hosted.stopped:
            raise Unavailable("this client is closed: connect again", code="client_closed")
        process, loop = self._owner
        if process != os.getpid():
            raise Unavailable("this process was forked from the one that connected: connect here", code="forked")
        if loop is not asyncio.get_running_loop():
            raise Invalid("this client belongs to another event loop: connect in this one", code="wrong_loop")
        return self._engine

    @contextlib.contextmanager
    def _open_engine(self) -> Iterator[Engine]:
        """Give the engine; raise `Unavailable` if the client is closed before the block has read from the store."""
        engine = self._running()
        try:
            yield engine
        except (Broken, Rejected):
            self._running()  # the store is closed with the client, and not broken
            raise

    def now(self) -> Time:
        """Return engine time."""
        return self._engine.now()

    async def ask(self, request: Request) -> Any:
        """See `Transport`; the first start in a namespace creates the namespace."""
        engine = self._running()
        if isinstance(request, StartWorkflow) and not self._worker_registry.has_namespace(request.namespace):
            await self._worker_registry.ensure(checked_start(request).namespace)
        reply = await engine.submit(request)
        if isinstance(reply, Started) and reply.repeated and isinstance(request, StartWorkflow):
            await engine.check_repeated(request, reply)
        return reply

    async def ask_retry(self, request: RetryFailed) -> dict[str, Any]:
        """See `Transport`."""
        reply: Reopened = await self.ask(request)
        return user_record(retry_record(reply))

    def send(self, request: Request, callback: ReplyCallback) -> None:
        """See `Transport`; the hot path of a worker, which is on the right loop and in the right process."""
        if self._owner is None or self.forked:
            self._running()
        self._engine.post(request, callback)

    async def closed(self, key: RunKey, *, follow: bool = True) -> tuple[RunKey, Event]:
        """See `Transport`."""
        with self._open_engine() as engine:
            return await engine.wait_closed(key, follow=follow)

    async def update(
        self, target: Target, name: str, args: tuple[Payload, ...], update_id: str, seconds: float
    ) -> UpdateState:
        """See `Transport`."""
        request = Update(*target, name=name, args=args, update_id=update_id)
        return await self._running().mail.send(request, accepted=False, seconds=seconds)

    async def history(self, run_id: RunId, after: int = 0) -> Sequence[Recorded]:
        """See `Transport`."""
        return await self._running().reads.history(run_id, after)

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        with self._open_engine() as engine:
            found = await engine.reads.find(namespace, workflow_id, run_id)
            return None if found is None else (await self._shown([found]))[0]

    async def explain(self, namespace: str, workflow_id: str, run_id: str | None = None) -> dict[str, Any]:
        """See `Transport`."""
        run = await self._running().reads.state(namespace, workflow_id, run_id)
        return user_record(waiting_answer(run, (await self._insight.waiting([run]))[0]))

    async def list(self, namespace: str, filters: Mapping[str, Any]) -> ListedRuns:
        """See `Transport`."""
        found = await self._running().reads.listed(run_filter(namespace, filters))
        last = found[-1].run if found.more else None
        return ListedRuns(await self._shown(found), None if last is None else cursor_of(last.created_at, last.run_id))

    async def events(self, namespace: str, workflow_id: str, run_id: str | None = None) -> Sequence[dict[str, Any]]:
        """See `Transport`."""
        key = (await self._found(namespace, workflow_id, run_id)).run.key
        records = []
        for recorded in await self._running().reads.history(key.run_id):
            records.append(user_record(event_record(key, recorded)))
            if len(records) % _RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)  # a long history must not block the event loop
        return records

    async def state(self, namespace: str, workflow_id: str, name: str | None = None) -> dict[str, Any] | None:
        """See `Transport`."""
        reads = self._running().reads
        found = await reads.find(namespace, workflow_id)
        snapshot = None if found is None else await reads.snapshot(found.run.run_id)
        if snapshot is None:
            return None
        answer = state_record(snapshot.state, snapshot.event_seq, snapshot.created_at, name)
        return None if answer is None else user_record(answer)

    async def _shown(self, found: Sequence[RunRecord]) -> Sequence[dict[str, Any]]:
        """Return the records of runs, with what each open run waits for."""
        waiting = await self._insight.waiting([one.run for one in found])
        return [
            user_record(run_record(one.run, one.run.history_bytes, one.input, one.result, one.closing, waits))
            for one, waits in zip(found, waiting, strict=True)
        ]

    async def _found(self, namespace: str, workflow_id: str, run_id: str | None) -> RunRecord:
        found = await self._running().reads.find(namespace, workflow_id, run_id)
        if found is None:
            raise NotFound(f"workflow {workflow_id} not found")
        return found

    def report_health(self, worker: str, *, healthy: bool, abandoned_threads: int) -> None:
        """See `Transport`; kept in memory, and written with the next heartbeats."""
        self._worker_registry.note_health(worker, WorkerHealth(healthy, abandoned_threads))

    def add_worker(self, worker: ConnectedWorker, refused: OnRefusal | None = None) -> None:
        """See `Transport`."""
        engine = self._running()
        self._local_workers.add_worker(worker)
        engine.add_worker(worker)
        self._workers.append(worker)
        self._heartbeats.wake()

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._local_workers.remove_worker(worker)
            self._engine.remove_worker(worker)

    def offer_slots(self, worker: ConnectedWorker) -> None:
        """See `Transport`."""
        if worker in self._workers:  # a worker that stops gets no more work
            self._engine.offer_work(worker)

    def served(self, namespace: str, queue: str) -> bool:
        """See `Hosting`; bad names are refused here, before a worker is started for them."""
        check_namespace(namespace)
        check_id(queue, "task_queue")
        return any(worker.namespace == namespace and worker.queue == queue for worker in self._workers)
