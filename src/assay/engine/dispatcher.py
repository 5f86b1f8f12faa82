"""Who gets which task: ready work on one side, workers with free slots on the other.

Work that becomes ready in a batch is leased in the same transaction when a fitting worker waits (design section 2);
other work queues here, oldest first (R13), until a worker has a free slot. What is queued is only a hint: the lease
itself is decided by `core`, so a stale entry costs one refused request.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from assay.core.grants import ConnectedWorker, TaskGrant
from assay.core.ids import Namespace, RunId, Time, WorkerId
from assay.core.requests import LeaseActivity, LeaseTask
from assay.core.run import Activity, Run
from assay.storage.ports import ReadyActivity, ReadyTask, StoredRun

Lease = LeaseTask | LeaseActivity


class _Line:
    """Ready work of one kind on one queue: a deque per type, so that types nobody serves hold nobody up."""

    def __init__(self) -> None:
        self._types: dict[str, deque[tuple[Time, RunId, int]]] = {}
        self._unordered: set[str] = set()
        """Types whose older work came after newer: as at a start, when leases are voided before the store is read."""
        self.queued: set[tuple[RunId, int]] = set()

    def __len__(self) -> int:
        return len(self.queued)

    def add(self, kind: str, since: Time, run_id: RunId, seq: int) -> None:
        if (run_id, seq) in self.queued:
            return
        self.queued.add((run_id, seq))
        line = self._types.get(kind)
        if line is None:
            line = self._types[kind] = deque()
        elif line and since < line[-1][0]:
            self._unordered.add(kind)
        line.append((since, run_id, seq))

    def _order(self) -> None:
        for kind in self._unordered:
            self._types[kind] = deque(sorted(self._types[kind]))
        self._unordered.clear()

    def pop(
        self, kinds: frozenset[str] | None, exhausted: frozenset[str] = frozenset()
    ) -> tuple[RunId, int, str] | None:
        """Remove and return the oldest work of these kinds, except the exhausted ones: run id, seq and kind."""
        if self._unordered:
            self._order()
        heads = [
            (line[0], kind)
            for kind, line in self._types.items()
            if line and (kinds is None or kind in kinds) and kind not in exhausted
        ]
        if not heads:
            return None
        kind = min(heads)[1]
        _, run_id, seq = self._types[kind].popleft()
        self.queued.discard((run_id, seq))
        return run_id, seq, kind

    def has(self, kind: str) -> bool:
        return bool(self._types.get(kind))

    def any(self, kinds: frozenset[str] | None) -> bool:
        return any(line and (kinds is None or kind in kinds) for kind, line in self._types.items())

    def oldest(self) -> Time | None:
        self._order()
        return min((line[0][0] for line in self._types.values() if line), default=None)


class _Room:
    """One queue of one namespace: its workers and its two lines."""

    def __init__(self) -> None:
        self.workers: deque[ConnectedWorker] = deque()
        self.tasks = _Line()
        self.activities = _Line()

    def oldest(self) -> Time | None:
        waiting = (self.tasks.oldest(), self.activities.oldest())
        return min((since for since in waiting if since is not None), default=None)


class Dispatcher:
    """Matches ready work with workers; keeps no truth of its own."""

    def __init__(self) -> None:
        self._rooms: dict[tuple[Namespace, str], _Room] = {}
        self._workers: dict[WorkerId, ConnectedWorker] = {}
        self._submit: Callable[[Lease, ConnectedWorker], None] | None = None
        self._idle: list[Callable[[Namespace, str, str], None]] = []

    def on_idle_activity(self, listener: Callable[[Namespace, str, str], None]) -> None:
        """Call `listener` with namespace, queue and name when an activity has to wait because nobody takes it."""
        self._idle.append(listener)

    def connect(self, submit: Callable[[Lease, ConnectedWorker], None]) -> None:
        """Say where leases of queued work are to be decided."""
        self._submit = submit

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Lease work to this worker from now on, queued work first."""
        self._workers[worker.worker] = worker
        self._room(worker.namespace, worker.queue).workers.append(worker)
        self.offer_work(worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to this worker."""
        if self._workers.get(worker.worker) is worker:  # each poll of a worker is added by itself
            del self._workers[worker.worker]
        room = self._room(worker.namespace, worker.queue)
        if worker in room.workers:
            room.workers.remove(worker)
        if not (room.workers or room.tasks or room.activities):
            del self._rooms[worker.namespace, worker.queue]  # queues that somebody once asked for must not pile up

    def find_worker(self, worker: WorkerId) -> ConnectedWorker | None:
        """Return the worker with this id, if it is connected."""
        return self._workers.get(worker)

    def _room(self, namespace: Namespace, queue: str) -> _Room:
        room = self._rooms.get((namespace, queue))
        if room is None:
            room = self._rooms[namespace, queue] = _Room()
        return room

    def assign_task(self, run: Run) -> tuple[LeaseTask, ConnectedWorker] | None:
        """A lease for a run whose task just became ready, or None after putting it into its line."""
        kind = run.start.workflow_type
        room = self._room(run.namespace, run.start.task_queue)
        if not room.tasks.has(kind):
            worker = self._pick(room, run.run_id, kind, tasks=True)
            if worker is not None:
                worker.slots.reserve()
                return LeaseTask(run.run_id, worker.worker, worker.lease, worker.local), worker
        room.tasks.add(kind, run.task.since or 0, run.run_id, 0)
        return None

    def assign_activity(self, run: Run, activity: Activity) -> tuple[LeaseActivity, ConnectedWorker] | None:
        """A lease for an activity that just became ready, or None after putting it into its line."""
        room = self._room(run.namespace, activity.queue)
        if not room.activities.has(activity.name):
            worker = self._pick(room, run.run_id, activity.name, tasks=False)
            if worker is not None:
                name = activity.name
                worker.slots.reserve(name)
                return LeaseActivity(run.run_id, activity.seq, worker.worker, worker.lease, worker.local, name), worker
        room.activities.add(activity.name, activity.queued_at, run.run_id, activity.seq)
        for listener in self._idle:
            listener(run.namespace, activity.queue, activity.name)
        return None

    def _pick(self, room: _Room, run_id: RunId, kind: str, *, tasks: bool) -> ConnectedWorker | None:
        """Return a worker with a free slot that serves `kind`; a worker that holds the run comes first."""
        found: ConnectedWorker | None = None
        for worker in room.workers:
            slots = worker.slots
            if (slots.tasks if tasks else slots.activities) <= 0:
                continue
            kinds = worker.workflows if tasks else worker.activities
            if kinds is not None and kind not in kinds:
                continue
            if not tasks and kind in slots.exhausted:
                continue
            if worker.holds(run_id):
                return worker
            found = found or worker
        if found is not None and len(room.workers) > 1:
            room.workers.remove(found)
            room.workers.append(found)
        return found

    def load(self, tasks: Iterable[ReadyTask], activities: Iterable[ReadyActivity]) -> None:
        """Put work that was found in the store into its lines."""
        rooms: set[tuple[Namespace, str]] = set()
        for task in tasks:
            self._room(task.namespace, task.queue).tasks.add(task.workflow_type, task.since, task.run_id, 0)
            rooms.add((task.namespace, task.queue))
        for activity in activities:
            room = self._room(activity.namespace, activity.queue)
            room.activities.add(activity.name, activity.since, activity.run_id, activity.seq)
            rooms.add((activity.namespace, activity.queue))
        for key in rooms:
            for worker in tuple(self._rooms[key].workers):
                self.offer_work(worker)

    def offer_work(self, worker: ConnectedWorker) -> None:
        """Lease queued work to a worker, up to its free slots; no-op for a removed worker."""
        room = self._rooms.get((worker.namespace, worker.queue))
        if room is None or not (room.tasks.queued or room.activities.queued):
            return
        if self._submit is None or worker not in room.workers:
            return
        for lease in self._queued_for(worker, room):
            self._submit(lease, worker)

    def _queued_for(self, worker: ConnectedWorker, room: _Room) -> Iterator[Lease]:
        slots = worker.slots
        while slots.tasks > 0 and room.tasks:
            found = room.tasks.pop(worker.workflows)
            if found is None:
                break
            slots.reserve()
            yield LeaseTask(found[0], worker.worker, worker.lease, worker.local)
        while slots.activities > 0 and room.activities:
            found = room.activities.pop(worker.activities, slots.exhausted)
            if found is None:
                break
            run_id, seq, name = found
            slots.reserve(name)
            yield LeaseActivity(run_id, seq, worker.worker, worker.lease, worker.local, name)

    def refused(self, lease: Lease, worker: ConnectedWorker) -> None:
        """Release the slot of a lease that was refused, and lease other queued work."""
        worker.slots.release(None if isinstance(lease, LeaseTask) else lease.name)
        self.offer_work(worker)

    @property
    def backlog(self) -> bool:
        """Return whether any work waits here for a slot."""
        return any(len(room.tasks) or len(room.activities) for room in self._rooms.values())

    def depth(self) -> dict[tuple[Namespace, str], tuple[int, int]]:
        """How many workflow tasks and activities wait, by queue."""
        return {key: (len(room.tasks), len(room.activities)) for key, room in self._rooms.items()}

    def oldest(self) -> dict[tuple[Namespace, str], Time]:
        """Since when the oldest work of each queue waits."""
        found = {key: room.oldest() for key, room in self._rooms.items()}
        return {key: since for key, since in found.items() if since is not None}

    def served(self, namespace: Namespace, queue: str) -> frozenset[str] | None:
        """The workflow types that workers of a queue serve; None if there are no workers, or one that serves all."""
        room = self._rooms.get((namespace, queue))
        kinds = [worker.workflows for worker in room.workers] if room is not None else []
        if not kinds or any(one is None for one in kinds):
            return None
        return frozenset[str]().union(*(one for one in kinds if one is not None))

    def served_queues(self, namespace: Namespace) -> dict[str, frozenset[str]]:
        """Return the workflow types of each queue of a namespace whose workers do not serve all types."""
        found = {queue: self.served(space, queue) for space, queue in self._rooms if space == namespace}
        return {queue: types for queue, types in found.items() if types is not None}

    def waits(self, namespace: Namespace, queue: str, names: frozenset[str] | None) -> bool:
        """Does an activity of these names wait on a queue?"""
        room = self._rooms.get((namespace, queue))
        return room is not None and room.activities.any(names)


def task_grant(run: StoredRun) -> TaskGrant:
    """The task that a run's current lease stands for."""
    tail = None if run.tail is None else tuple(run.tail)
    return TaskGrant(run.key, run.start, run.task.epoch, run.seen_seq, run.last_seq, run.history_bytes, tail)
