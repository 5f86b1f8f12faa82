"""Explains what runs wait for: loads the facts that `waiting_on` needs, for a whole page of runs at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from assay.core.model.explanation import NO_QUEUE, ActivityCounts, ChildFact, Explanation, Facts, QueueFacts
from assay.core.model.ids import SECOND, Namespace, RunId, Time
from assay.core.model.payload import Payload
from assay.core.model.run import Activity
from assay.core.rules.waiting import MOST_OF_A_KIND, waiting_on
from assay.engine.engine import Engine
from assay.engine.worker_registry import LISTED_SILENCE, WorkerRegistry
from assay.storage.overview import EndedAttempt, OpenChildren, Overview, ReadyKind
from assay.storage.ports import QueueService, RunFilter, StoredActivity, StoredRun, WorkerRow

__all__ = ["EndedAttempt", "Insight", "RunActivities"]

READ_ACTIVITIES: Final = 50
"""Open activities of a run that are read from the store to explain it; the others are counted."""
READ_TIMERS: Final = 50
MOST_COUNTED: Final = 10_000
"""The largest shown number of tasks in a queue."""
DEPTH_AGE: Final[Time] = SECOND
CACHED_DEPTHS: Final = 1_000


class RunActivities(msgspec.Struct, frozen=True):
    """Activities of a run with their heartbeat details, their ended attempts by id, and names of workers."""

    activities: Sequence[tuple[StoredActivity, Payload]]
    attempts: Mapping[int, Sequence[EndedAttempt]]
    identities: Mapping[str, str]


class Insight:
    """The explanations of an engine's runs. Nothing is written, and no event is read."""

    def __init__(self, engine: Engine, worker_registry: WorkerRegistry, overview: Overview) -> None:
        self._engine = engine
        self._worker_registry = worker_registry
        self.overview = overview
        self._depths: dict[tuple[str, str], tuple[Time, tuple[int, int]]] = {}

    async def waiting(self, runs: Sequence[StoredRun]) -> list[Explanation | None]:
        """Return what each run waits for; None for a closed run. Three queries at most for all runs together."""
        unclosed = [run for run in runs if not run.closed]
        if not unclosed:
            return [None] * len(runs)
        families = await self._families(unclosed)
        every_run = [*unclosed, *(child for family in families.values() for child in family.oldest)]
        loaded, counts = await self._loaded(every_run)
        queues: dict[str, Mapping[str, QueueFacts]] = {}
        identities: dict[str, Mapping[str, str]] = {}
        for namespace in {run.namespace for run in every_run}:
            members = await self._members(namespace)
            identities[namespace] = {row.id: row.identity for row in members}
            queues[namespace] = await self._queues(namespace, members, loaded.values())
        now = self._engine.now()

        def explained(run: StoredRun, family: OpenChildren | None) -> Explanation | None:
            children = () if family is None else [_child(child, explained(child, None)) for child in family.oldest]
            facts = Facts(
                queues[run.namespace],
                identities[run.namespace],
                children,
                0 if family is None else family.open,
                0 if family is None else family.total,
                activities=counts.get(run.run_id),
            )
            return waiting_on(loaded[run.run_id], facts, now)

        return [None if run.closed else explained(run, families.get(run.run_id)) for run in runs]

    async def activities(self, run: StoredRun, state: str | None, after: int, limit: int) -> RunActivities:
        """Return activities of a run by seq with their attempts: two queries, and the names of their workers."""
        found = await self.overview.activities(run.run_id, state, after, limit)
        attempts: dict[int, list[EndedAttempt]] = {}
        for attempt in await self.overview.attempts(run.run_id, [activity.id for activity, _ in found]):
            attempts.setdefault(attempt.activity_id, []).append(attempt)
        identities = {row.id: row.identity for row in await self._members(run.namespace)}
        return RunActivities(found, attempts, identities)

    async def with_services(self, wanted: RunFilter) -> RunFilter:
        """Return a filter with the queues that have workers, if it asks for runs that need attention or wait."""
        if not (wanted.attention or wanted.waiting):
            return wanted
        return replace(wanted, served_queues=await self.services(Namespace(wanted.namespace)))

    async def services(self, namespace: Namespace) -> tuple[QueueService, ...]:
        """Return the task queues of a namespace with workers, and the types that the workers serve."""
        members = await self._members(namespace)
        queues = await self._queues(namespace, members, ())
        return tuple(
            QueueService(name, _sorted(facts.workflows), _sorted(facts.activities))
            for name, facts in sorted(queues.items())
            if facts.workers
        )

    async def unserved(self, namespace: Namespace) -> Sequence[ReadyKind]:
        """Return the ready work of a namespace that none of its workers serves."""
        services = {service.queue: service for service in await self.services(namespace)}
        return [work for work in await self.overview.ready_kinds(namespace) if not _serves(services, work)]

    async def _families(self, runs: Sequence[StoredRun]) -> Mapping[RunId, OpenChildren]:
        """Return the open children of runs by parent; a child that a reopened run has adopted counts as its own."""
        parents: dict[RunId, RunId] = {}
        for run in runs:
            cached = self._engine.reads.current_state(run.run_id)
            if cached is None or cached.children:
                parents[run.run_id] = run.run_id
                for adopted in () if run.start.reopening is None else run.start.reopening.adopted:
                    parents.setdefault(adopted.run_id, run.run_id)
        if not parents:
            return {}
        found: dict[RunId, OpenChildren] = {}
        for parent, family in (await self.overview.open_children([*parents], MOST_OF_A_KIND)).items():
            known = found.get(parents[parent])
            family = replace(family, oldest=[self._engine.reads.with_reason(child) for child in family.oldest])
            found[parents[parent]] = family if known is None else _joined(known, family)
        return found

    async def _loaded(
        self, runs: Sequence[StoredRun]
    ) -> tuple[Mapping[RunId, StoredRun], Mapping[RunId, ActivityCounts]]:
        """Return runs with their open activities and timers, from memory where that is not older than the store."""
        loaded: dict[RunId, StoredRun] = {}
        unknown: dict[RunId, StoredRun] = {}
        for run in runs:
            cached = self._engine.reads.current_state(run.run_id)
            if cached is None:
                unknown[run.run_id] = run
            else:
                activities, timers = dict(cached.activities), dict(cached.timers)
                loaded[run.run_id] = replace(run, activities=activities, timers=timers)
        counts: dict[RunId, ActivityCounts] = {}
        if unknown:
            work = await self.overview.open_activities([*unknown], READ_ACTIVITIES)
            timers_of = await self.overview.open_timers([*unknown], READ_TIMERS)
            for run_id, run in unknown.items():
                found = work.get(run_id)
                by_seq: dict[int, Activity] = {}
                if found is not None:
                    by_seq = {activity.seq: activity for activity in found.activities}
                    counts[run_id] = found.counts
                loaded[run_id] = replace(run, activities=by_seq, timers=dict(timers_of.get(run_id, {})))
        return loaded, counts

    async def _members(self, namespace: Namespace) -> Sequence[WorkerRow]:
        """Return the workers of a namespace, the latest heard first; a connected worker is heard now."""
        now = self._engine.now()
        rows = {row.id: row for row in await self._worker_registry.roster(namespace)}
        for worker in self._engine.reads.connected_workers():
            if worker.namespace != namespace:
                continue
            known = rows.pop(worker.worker, None)
            rows[worker.worker] = WorkerRow(
                id=worker.worker,
                namespace=namespace,
                identity=worker.identity or (known.identity if known is not None else ""),
                task_queue=worker.queue,
                workflows=None if worker.workflows is None else tuple(worker.workflows),
                activities=None if worker.activities is None else tuple(worker.activities),
                max_concurrent_workflows=0,
                max_concurrent_activities=0,
                registered_at=now,
                last_heartbeat=now,
            )
        return list(rows.values())

    async def _queues(
        self, namespace: Namespace, members: Sequence[WorkerRow], runs: Iterable[StoredRun]
    ) -> Mapping[str, QueueFacts]:
        alive_after = self._engine.now() - LISTED_SILENCE
        by_queue: dict[str, list[WorkerRow]] = {}
        for row in members:
            by_queue.setdefault(row.task_queue, []).append(row)
        depths = await self._depths_of(namespace, _waiting_queues(namespace, runs))
        names = by_queue.keys() | depths.keys()
        return {name: _queue_facts(by_queue.get(name, ()), depths.get(name, (0, 0)), alive_after) for name in names}

    async def _depths_of(self, namespace: Namespace, queues: set[str]) -> Mapping[str, tuple[int, int]]:
        """Return the numbers of ready tasks and activities of queues; counted once a second for all callers."""
        now = self._engine.now()
        stale = [
            queue
            for queue in queues
            if (known := self._depths.get((namespace, queue))) is None or not 0 <= now - known[0] < DEPTH_AGE
        ]
        if stale:
            if len(self._depths) >= CACHED_DEPTHS:
                self._depths.clear()
            for queue, depth in (await self.overview.depths(namespace, stale, MOST_COUNTED)).items():
                self._depths[namespace, queue] = now, depth
        found = {queue: self._depths.get((namespace, queue)) for queue in queues}
        return {queue: known[1] for queue, known in found.items() if known is not None}


def _sorted(names: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))


def _serves(services: Mapping[str, QueueService], work: ReadyKind) -> bool:
    service = services.get(work.queue)
    if service is None:
        return False
    kinds = service.workflow_types if work.kind == "workflow" else service.activities
    return kinds is None or work.name in kinds


def _waiting_queues(namespace: Namespace, runs: Iterable[StoredRun]) -> set[str]:
    """Return the task queues on which these runs have ready work."""
    queues: set[str] = set()
    for run in runs:
        if run.namespace == namespace:
            if run.task.ready:
                queues.add(run.start.task_queue)
            queues.update(activity.queue for activity in run.activities.values() if activity.ready)
    return queues


def _queue_facts(rows: Sequence[WorkerRow], depth: tuple[int, int], alive_after: Time) -> QueueFacts:
    alive = [row for row in rows if row.last_heartbeat > alive_after]
    if not alive:
        last = max(rows, key=lambda row: row.last_heartbeat, default=None)
        if last is None:
            return replace(NO_QUEUE, queued_tasks=depth[0], queued_activities=depth[1])
        return QueueFacts(
            last_identity=last.identity or last.id,
            last_seen=last.last_heartbeat,
            queued_tasks=depth[0],
            queued_activities=depth[1],
        )
    return QueueFacts(
        len(alive),
        _served(row.workflows for row in alive),
        _served(row.activities for row in alive),
        queued_tasks=depth[0],
        queued_activities=depth[1],
    )


def _served(kinds: Iterable[tuple[str, ...] | None]) -> frozenset[str] | None:
    found: set[str] = set()
    for names in kinds:
        if names is None:
            return None
        found.update(names)
    return frozenset(found)


def _joined(one: OpenChildren, other: OpenChildren) -> OpenChildren:
    oldest = sorted([*one.oldest, *other.oldest], key=lambda child: child.created_at)[:MOST_OF_A_KIND]
    return OpenChildren(oldest, one.open + other.open, one.total + other.total)


def _child(run: StoredRun, waits: Explanation | None) -> ChildFact:
    return ChildFact(
        run.workflow_id,
        run.run_id,
        run.start.workflow_type,
        run.status,
        run.created_at,
        None if run.start.parent is None else run.start.parent.child_seq,
        None if waits is None else waits.headline.sentence,
        "none" if waits is None else waits.attention,
    )
