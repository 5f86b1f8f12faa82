"""Namespaces, and workers with their registrations and heartbeats.

Heartbeats are kept in memory and written at intervals: a heartbeat costs no disk write. A worker without heartbeats is
hidden from lists and loses nothing else; its next message brings it back.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from assay.core.model.attached_rows import AttachedRows, AuditRow
from assay.core.model.errors import AlreadyExists, NotFound, Refused
from assay.core.model.ids import SECOND, Namespace, Time, WorkerId
from assay.core.model.options import check_id, check_namespace
from assay.core.registrations import WorkerHealth
from assay.engine.clock import Clock
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.engine.kept_answers import KeptAnswers
from assay.storage.ports import (
    Conflict,
    NamespaceCounts,
    NamespaceRow,
    QueueRow,
    Registry,
    Store,
    WaitingWork,
    WorkerRow,
)

MAIN: Final = "main"
LISTED_SILENCE: Final[Time] = 90 * SECOND
"""Time without a heartbeat after which a worker is not listed."""
HEARTBEAT_WRITE_PAUSE: Final[Time] = 15 * SECOND
"""Time between two writes of heartbeats on a shared store, where other engines read them."""
NAMESPACE_CHECK_PAUSE: Final[Time] = SECOND
"""Time until a used namespace is checked on a shared store, where another engine may have deleted it."""
ROSTER_AGE: Final[Time] = 5 * SECOND
"""Time for which the workers of a namespace are not read again to explain its runs."""
ROSTER_WORKERS: Final = 2_000
CACHED_ROSTERS: Final = 1_000
CACHED_REGISTRATIONS: Final = 10_000
"""Registrations kept in memory."""

__all__ = [
    "NamespaceCounts",
    "QueueRow",
    "Registration",
    "WaitingWork",
    "WorkerRegistry",
    "WorkerRow",
]


class Registration(msgspec.Struct, frozen=True):
    """The part of a worker's registration that the dispatcher uses; None stands for all types."""

    worker: WorkerId
    namespace: Namespace
    workflows: frozenset[str] | None = None
    activities: frozenset[str] | None = None


class WorkerRegistry:
    """The namespaces and workers of an engine; a service that writes heartbeats."""

    def __init__(self, registry: Registry, store: Store, clock: Clock) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._answers = KeptAnswers(store, clock)
        self._namespaces: set[str] = set()
        self._used: set[str] = set()
        """Namespaces used since the last check; another engine may have deleted them."""
        self._registrations: OrderedDict[str, Registration] = OrderedDict()
        self._last_heartbeats: dict[str, Time] = {}
        self._unwritten: set[str] = set()
        self._health: dict[str, WorkerHealth] = {}
        """Health reports that are not written yet."""
        self._write_heartbeats_at: Time = 0
        self._rosters: dict[str, tuple[Time, Sequence[WorkerRow]]] = {}
        """Workers by namespace, with the time at which they were read."""

    # namespaces

    def has_namespace(self, namespace: str) -> bool:
        """Return whether a namespace exists as far as this engine's memory shows, and note its use."""
        if namespace not in self._namespaces:
            return False
        self._used.add(namespace)
        return True

    async def ensure(self, namespace: str) -> None:
        """Create a namespace on its first use."""
        if self.has_namespace(namespace):
            return
        await self._registry.create_namespace(NamespaceRow(check_namespace(namespace), self._clock.now()))
        self._namespaces.add(namespace)

    async def create(self, name: str, key: IdempotencyKey | None, audit: AuditRow | None = None) -> Rendered | None:
        """Create a namespace; return the rendered answer if a key is given, the first one for a repeated key.

        Raises:
            AlreadyExists: the namespace exists.
        """
        check_namespace(name)
        if (known := await self._answers.recall(key)) is not None:
            return known
        row = NamespaceRow(name, self._clock.now())
        try:
            created = await self._registry.create_namespace(row, AttachedRows(self._answers.outcome(key, None), audit))
        except Conflict:  # the same key is used at the same moment, and was faster
            created = False
        if not created:
            if (known := await self._answers.recall(key)) is not None:
                return known
            raise AlreadyExists(f"namespace '{name}' exists already", existing={"namespace": name})
        self._namespaces.add(name)
        return _rendered(key, None)

    async def delete(self, name: str, key: IdempotencyKey | None, audit: AuditRow | None = None) -> Rendered | None:
        """Delete a namespace; return the rendered answer if a key is given, the first one for a repeated key.

        Raises:
            NotFound: the namespace is unknown, or is `main`.
            Refused: the namespace has open runs or schedules.
        """
        if name == MAIN:
            raise NotFound("cannot delete the 'main' namespace", code="main_namespace")
        if (known := await self._answers.recall(key)) is not None:
            return known
        if not await self._exists(name):
            # The first request with this key may just have deleted it; deletion and answer are one transaction.
            if (known := await self._answers.recall(key)) is not None:
                return known
            raise NotFound(f"namespace {name}")
        if await self._schedules(name):
            raise Refused(f"namespace '{name}' has schedules", code="namespace_in_use")
        self._namespaces.discard(name)
        try:
            deleted = await self._registry.delete_namespace(name, AttachedRows(self._answers.outcome(key, None), audit))
        except Conflict:  # the same key is used at the same moment, and was faster
            deleted = False
        if deleted:
            return _rendered(key, None)
        if (known := await self._answers.recall(key)) is not None:
            return known
        raise Refused(f"namespace '{name}' has open runs", code="namespace_in_use")

    async def _exists(self, name: str) -> bool:
        return any(row.name == name for row in await self._registry.namespaces())

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """Return all namespaces, by name."""
        return await self._registry.namespaces()

    async def counts(self, namespace: str) -> tuple[NamespaceCounts, int]:
        """Return the numbers of a namespace's runs and workers, and the number of its schedules."""
        await self.write_heartbeats()
        counted = await self._registry.counts(namespace, self._clock.now() - LISTED_SILENCE)
        return counted, await self._schedules(namespace)

    async def _schedules(self, namespace: str) -> int:
        return len(await self._store.list_schedules(namespace))

    async def queues(self, namespace: str) -> Sequence[QueueRow]:
        """Return the task queues of a namespace."""
        await self.write_heartbeats()
        return await self._registry.queues(namespace, self._clock.now() - LISTED_SILENCE)

    async def waiting(self) -> Sequence[WaitingWork]:
        """Return the amount of ready work in the store, by namespace and task queue."""
        return await self._registry.waiting()

    async def has_waiting_activity(self, namespace: str, queue: str, names: frozenset[str] | None) -> bool:
        """Return whether the store has a ready activity of these names (None: of any name) on a task queue."""
        return await self._registry.waits(namespace, queue, None if names is None else sorted(names))

    # workers

    async def register(self, row: WorkerRow, key: IdempotencyKey | None = None) -> Rendered | WorkerRow:
        """Register a worker under a new id; a repeated key returns its first answer and registers nothing."""
        if (known := await self._answers.recall(key)) is not None:
            return known
        check_id(row.task_queue, "queue")
        await self.ensure(row.namespace)
        now = self._clock.now()
        fresh = msgspec.structs.replace(row, id=f"w-{secrets.token_hex(8)}", registered_at=now, last_heartbeat=now)
        await self._registry.register(fresh, self._answers.outcome(key, fresh))
        self._remember(fresh)
        return _rendered(key, fresh) or fresh

    async def introduce(self, row: WorkerRow) -> None:
        """Register a worker that chose its own id, unless the id is registered; note a heartbeat."""
        check_id(row.task_queue, "queue")
        await self.ensure(row.namespace)
        if row.id not in self._registrations and await self._registry.worker(row.id) is None:
            now = self._clock.now()
            await self._registry.register(msgspec.structs.replace(row, registered_at=now, last_heartbeat=now))
        self._remember(row)
        self.note_heartbeat(row.id)

    def note_heartbeat(self, worker_id: str) -> None:
        """Note a heartbeat of a worker; every message of a worker counts as one."""
        self._last_heartbeats[worker_id] = self._clock.now()
        self._unwritten.add(worker_id)

    def note_health(self, worker_id: str, health: WorkerHealth) -> None:
        """Note the health that a worker reports; written with its heartbeat."""
        self._health[worker_id] = health
        self.note_heartbeat(worker_id)

    async def worker(self, worker_id: str, is_visible: Callable[[str], bool] | None = None) -> Registration:
        """Return a worker's registration and note a heartbeat; an unregistered worker serves all types of `main`.

        Args:
            worker_id: The worker's id.
            is_visible: Whether the caller may know of a namespace; a worker of a hidden one counts as unregistered.
        """
        known = self._registrations.get(worker_id)
        if known is None:
            row = await self._registry.worker(worker_id)
            if row is None:
                return Registration(WorkerId(worker_id), Namespace(MAIN))
            known = self._remember(row)
        if is_visible is not None and not is_visible(known.namespace):
            return Registration(WorkerId(worker_id), Namespace(MAIN))
        self.note_heartbeat(worker_id)
        return known

    def _remember(self, row: WorkerRow) -> Registration:
        registration = Registration(
            WorkerId(row.id),
            Namespace(row.namespace),
            None if row.workflows is None else frozenset(row.workflows),
            None if row.activities is None else frozenset(row.activities),
        )
        self._registrations[row.id] = registration
        self._rosters.pop(row.namespace, None)
        if len(self._registrations) > CACHED_REGISTRATIONS:
            forgotten, _ = self._registrations.popitem(last=False)
            self._last_heartbeats.pop(forgotten, None)
        return registration

    async def workers(self, namespace: str) -> Sequence[tuple[WorkerRow, int]]:
        """Return the workers with a recent heartbeat, each with the number of its leases."""
        await self.write_heartbeats()
        rows = await self._registry.workers(namespace, self._clock.now() - LISTED_SILENCE)
        held = await self._registry.holdings([row.id for row in rows]) if rows else {}
        return [(row, held[row.id]) for row in rows]

    async def roster(self, namespace: str) -> Sequence[WorkerRow]:
        """Return the workers of a namespace that were heard last, the silent ones too; nothing is written.

        Workers that only another engine hears are some seconds old; a registration at this engine shows at once.
        """
        now = self._clock.now()
        read_at, rows = self._rosters.get(namespace, (None, ()))
        if read_at is None or not 0 <= now - read_at < ROSTER_AGE:
            if len(self._rosters) >= CACHED_ROSTERS:
                self._rosters.clear()
            rows = await self._registry.latest_workers(namespace, ROSTER_WORKERS)
            self._rosters[namespace] = (now, rows)
        return [
            msgspec.structs.replace(row, last_heartbeat=heard)
            if (heard := self._last_heartbeats.get(row.id, 0)) > row.last_heartbeat
            else row
            for row in rows
        ]

    async def run_once(self) -> Time | None:
        """Write heartbeats and check used namespaces on a shared store, where other engines read both.

        A single engine writes heartbeats only before they are read and when it stops: with idle workers it writes
        nothing to the disk.
        """
        now = self._clock.now()
        await self._keep_used_namespaces()
        if now >= self._write_heartbeats_at or not self._store.shared:
            self._write_heartbeats_at = now + HEARTBEAT_WRITE_PAUSE
            await self.write_heartbeats()
        return now + NAMESPACE_CHECK_PAUSE if self._store.shared else None

    async def write_heartbeats(self) -> None:
        """Write the heartbeats since the last write."""
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, set()
            health, self._health = self._health, {}
            seen = [(worker, self._last_heartbeats[worker]) for worker in unwritten if worker in self._last_heartbeats]
            await self._registry.seen(seen, health)

    async def _keep_used_namespaces(self) -> None:
        """Create used namespaces again if another engine has deleted them: each run must be in a listed namespace."""
        used, self._used = self._used, set()
        for name in used if self._store.shared else ():
            await self._registry.create_namespace(NamespaceRow(name, self._clock.now()))

    # keys


def _rendered(key: IdempotencyKey | None, reply: object) -> Rendered | None:
    return None if key is None else Rendered(*key.render(reply))
