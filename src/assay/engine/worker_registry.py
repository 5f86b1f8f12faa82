"""Who uses the engine: namespaces, and workers with their registrations and signs of life.

Signs of life are kept in memory and written now and then: a heartbeat costs no disk. Silence hides a worker from lists
and takes nothing else from it; whatever it sends next brings it back (R36).
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from assay.core.model.errors import AlreadyExists, Invalid, NotFound, Refused
from assay.core.model.ids import SECOND, Namespace, Time, WorkerId
from assay.core.model.options import check_id
from assay.core.registrations import WorkerHealth
from assay.engine.clock import Clock
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
from assay.storage.ports import (
    Conflict,
    NamespaceCounts,
    NamespaceRow,
    QueueRow,
    Registry,
    RequestOutcome,
    Store,
    WaitingWork,
    WorkerRow,
)

MAIN: Final = "main"
LISTED_SILENCE: Final[Time] = 90 * SECOND
"""After so long a worker is no longer listed."""
SIGNS_WRITE_PAUSE: Final[Time] = 15 * SECOND
"""How often signs of life are written where other engines read them."""
NAMESPACE_CHECK_PAUSE: Final[Time] = SECOND
"""How long after its use it is checked that a namespace still exists, where other engines delete some."""
KNOWN: Final = 10_000
"""Registrations kept in memory."""

__all__ = [
    "NamespaceCounts",
    "QueueRow",
    "Registration",
    "WaitingWork",
    "WorkerRegistry",
    "WorkerRow",
    "check_namespace",
]

_NAMESPACE: Final = re.compile(r"[a-z0-9-]{1,63}\Z", re.ASCII)


class Registration(msgspec.Struct, frozen=True):
    """What the dispatcher must know of a worker; None stands for all types."""

    worker: WorkerId
    namespace: Namespace
    workflows: frozenset[str] | None = None
    activities: frozenset[str] | None = None


class WorkerRegistry:
    """Namespaces and workers; a service that writes signs of life."""

    def __init__(self, registry: Registry, store: Store, clock: Clock) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._namespaces: set[str] = set()
        self._used: set[str] = set()
        """Namespaces that were used from memory and may have been deleted by another engine before that."""
        self._known: OrderedDict[str, Registration] = OrderedDict()
        self._heard: dict[str, Time] = {}
        self._unwritten: set[str] = set()
        self._health: dict[str, WorkerHealth] = {}
        """Reported and not written yet."""
        self._write_signs_at: Time = 0

    # namespaces

    def knows(self, namespace: str) -> bool:
        """Is it certain that a namespace exists?"""
        if namespace not in self._namespaces:
            return False
        self._used.add(namespace)
        return True

    async def ensure(self, namespace: str) -> None:
        """Create a namespace that is used for the first time (R39)."""
        if self.knows(namespace):
            return
        await self._registry.create_namespace(NamespaceRow(check_namespace(namespace), self._clock.now()))
        self._namespaces.add(namespace)

    async def create(self, name: str, key: IdempotencyKey | None) -> Rendered | None:
        """Create a namespace by name; with a key the rendered answer, as the first time."""
        check_namespace(name)
        if (known := await self._recalled(key)) is not None:
            return known
        row = NamespaceRow(name, self._clock.now())
        try:
            created = await self._registry.create_namespace(row, self._outcome(key, None))
        except Conflict:  # the same key is used at the same moment, and was faster
            created = False
        if not created:
            if (known := await self._recalled(key)) is not None:
                return known
            raise AlreadyExists(f"namespace '{name}' exists already", existing={"namespace": name})
        self._namespaces.add(name)
        return _rendered(key, None)

    async def delete(self, name: str, key: IdempotencyKey | None) -> Rendered | None:
        """Forget a namespace that nobody uses any more."""
        if name == MAIN:
            raise NotFound("cannot delete the 'main' namespace", code="main_namespace")
        if (known := await self._recalled(key)) is not None:
            return known
        if not await self._exists(name):
            # The key's first request may have been faster than this one: its deletion and its answer came together.
            if (known := await self._recalled(key)) is not None:
                return known
            raise NotFound(f"namespace {name}")
        if await self._schedules(name):
            raise Refused(f"namespace '{name}' has schedules", code="namespace_in_use")
        self._namespaces.discard(name)
        try:
            deleted = await self._registry.delete_namespace(name, self._outcome(key, None))
        except Conflict:  # the same key is used at the same moment, and was faster
            deleted = False
        if deleted:
            return _rendered(key, None)
        if (known := await self._recalled(key)) is not None:
            return known
        raise Refused(f"namespace '{name}' has open runs", code="namespace_in_use")

    async def _exists(self, name: str) -> bool:
        return any(row.name == name for row in await self._registry.namespaces())

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """All namespaces, by name."""
        return await self._registry.namespaces()

    async def counts(self, namespace: str) -> tuple[NamespaceCounts, int]:
        """What a namespace holds, and how many schedules."""
        await self.write_signs()
        counted = await self._registry.counts(namespace, self._clock.now() - LISTED_SILENCE)
        return counted, await self._schedules(namespace)

    async def _schedules(self, namespace: str) -> int:
        return len(await self._store.list_schedules(namespace))

    async def queues(self, namespace: str) -> Sequence[QueueRow]:
        """The queues of a namespace."""
        await self.write_signs()
        return await self._registry.queues(namespace, self._clock.now() - LISTED_SILENCE)

    async def waiting(self) -> Sequence[WaitingWork]:
        """Return how much work waits for a worker, by namespace and task queue, as the store has it."""
        return await self._registry.waiting()

    async def has_waiting_activity(self, namespace: str, queue: str, names: frozenset[str] | None) -> bool:
        """Return whether the store has an activity of these names (None: of any name) that waits on a task queue."""
        return await self._registry.waits(namespace, queue, None if names is None else sorted(names))

    # workers

    async def register(self, row: WorkerRow, key: IdempotencyKey | None = None) -> Rendered | WorkerRow:
        """Give a worker its id; every call makes a new worker, unless its key was used before."""
        if (known := await self._recalled(key)) is not None:
            return known
        check_id(row.task_queue, "queue")
        await self.ensure(row.namespace)
        now = self._clock.now()
        fresh = msgspec.structs.replace(row, id=f"w-{secrets.token_hex(8)}", registered_at=now, last_heartbeat=now)
        await self._registry.register(fresh, self._outcome(key, fresh))
        self._remember(fresh)
        return _rendered(key, fresh) or fresh

    async def introduce(self, row: WorkerRow) -> None:
        """Keep the registration of a worker that chose its own id, the first time it says who it is."""
        check_id(row.task_queue, "queue")
        await self.ensure(row.namespace)
        if row.id not in self._known and await self._registry.worker(row.id) is None:
            now = self._clock.now()
            await self._registry.register(msgspec.structs.replace(row, registered_at=now, last_heartbeat=now))
        self._remember(row)
        self.heard(row.id)

    def heard(self, worker_id: str) -> None:
        """A worker has given a sign of life."""
        self._heard[worker_id] = self._clock.now()
        self._unwritten.add(worker_id)

    def note_health(self, worker_id: str, health: WorkerHealth) -> None:
        """Keep the health that a worker reports; written with the signs of life."""
        self._health[worker_id] = health
        self.heard(worker_id)

    async def worker(self, worker_id: str) -> Registration:
        """A worker by its id, which is a sign of life; one that never registered serves all of `main` (R36)."""
        known = self._known.get(worker_id)
        if known is None:
            row = await self._registry.worker(worker_id)
            if row is None:
                return Registration(WorkerId(worker_id), Namespace(MAIN))
            known = self._remember(row)
        self.heard(worker_id)
        return known

    def _remember(self, row: WorkerRow) -> Registration:
        registration = Registration(
            WorkerId(row.id),
            Namespace(row.namespace),
            None if row.workflows is None else frozenset(row.workflows),
            None if row.activities is None else frozenset(row.activities),
        )
        self._known[row.id] = registration
        if len(self._known) > KNOWN:
            forgotten, _ = self._known.popitem(last=False)
            self._heard.pop(forgotten, None)
        return registration

    async def workers(self, namespace: str) -> Sequence[tuple[WorkerRow, int]]:
        """The workers that were heard of lately, each with the number of tasks it holds."""
        await self.write_signs()
        rows = await self._registry.workers(namespace, self._clock.now() - LISTED_SILENCE)
        held = await self._registry.holdings([row.id for row in rows]) if rows else {}
        return [(row, held[row.id]) for row in rows]

    async def run_once(self) -> Time | None:
        """Write signs of life and check used namespaces, where other engines read both.

        An engine that has its store to itself writes signs only when they are asked for, and at the end: one whose
        workers have nothing to do leaves its disk alone.
        """
        now = self._clock.now()
        await self._keep_used_namespaces()
        if now >= self._write_signs_at or not self._store.shared:
            self._write_signs_at = now + SIGNS_WRITE_PAUSE
            await self.write_signs()
        return now + NAMESPACE_CHECK_PAUSE if self._store.shared else None

    async def write_signs(self) -> None:
        """Write the signs of life that came since the last time."""
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, set()
            health, self._health = self._health, {}
            seen = [(worker, self._heard[worker]) for worker in unwritten if worker in self._heard]
            await self._registry.seen(seen, health)

    async def _keep_used_namespaces(self) -> None:
        """Create used namespaces again that another engine has deleted: a run must not live where no list shows it."""
        used, self._used = self._used, set()
        for name in used if self._store.shared else ():
            await self._registry.create_namespace(NamespaceRow(name, self._clock.now()))

    # keys

    async def _recalled(self, key: IdempotencyKey | None) -> Rendered | None:
        if key is None:
            return None
        for outcome in await self._store.outcomes([(key.namespace, key.key)]):
            if outcome.fingerprint != key.fingerprint:
                raise Invalid("this idempotency key was used for another request", code="idempotency_key_reused")
            return Rendered(outcome.status, outcome.body, replayed=True)
        return None

    def _outcome(self, key: IdempotencyKey | None, reply: object) -> RequestOutcome | None:
        return None if key is None else key.outcome(reply, self._clock.now())


def _rendered(key: IdempotencyKey | None, reply: object) -> Rendered | None:
    return None if key is None else Rendered(*key.render(reply))


def check_namespace(name: str) -> str:
    """A name within the limits of 5.4, or `Invalid`."""
    if not _NAMESPACE.match(name):
        raise Invalid("a namespace is 1 to 63 lower-case letters, digits or dashes", field="namespace")
    return name
