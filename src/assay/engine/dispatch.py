"""Matches ready work with workers that have free slots.

Work that becomes ready in a batch is leased in the same transaction when a fitting worker waits; other work is queued
here, oldest first, until a worker has a free slot. A queued entry is only a hint: the lease itself is decided by
`core`, and an outdated entry costs one refused request. Where engines share a store, work that no worker here serves
is not queued: it is for the engines whose workers serve it, which find it in the store.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay.core.model.grants import ConnectedWorker, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId
from assay.core.model.requests import LeaseActivity, LeaseTask
from assay.core.model.run import Activity, Run
from assay.engine.ready_queue import ReadyQueue
from assay.storage.ports import ReadyActivity, ReadyTask, StoredRun

Lease = LeaseTask | LeaseActivity


class _Room:
    """One task queue of one namespace: its workers, and the work that waits for one of them."""

    def __init__(self) -> None:
        self.workers: deque[ConnectedWorker] = deque()
        self.tasks = ReadyQueue()
        self.activities = ReadyQueue()
        self.reading = False
        """Whether older work for a worker here has yet to be read: until then nothing newer may overtake it."""

    def serves(self, kind: str, *, tasks: bool) -> bool:
        """Return whether a worker here serves a workflow type or an activity."""
        for worker in self.workers:
            kinds = worker.workflows if tasks else worker.activities
            if kinds is None or kind in kinds:
                return True
        return False


class Shortage(msgspec.Struct, frozen=True):
    """Free slots of one task queue that no work in memory is for: the kinds of work (None: all) and their number."""

    namespace: Namespace
    queue: str
    workflows: frozenset[str] | None
    free_tasks: int
    activities: frozenset[str] | None
    free_activities: int


class Dispatcher:
    """Matches ready work with workers; keeps no truth of its own."""

    def __init__(self, *, shared: bool = False) -> None:
        """Create a dispatcher without workers; `shared` if other engines work on the same store."""
        self._shared = shared
        self._rooms: dict[tuple[Namespace, str], _Room] = {}
        self._waiting: dict[RunId, set[ReadyQueue]] = {}
        """The queues that hold work of a run, to drop it from when the run ends."""
        self._on_shortage: Callable[[], None] | None = None
        self._on_join: Callable[[ConnectedWorker], bool] | None = None
        self._workers: dict[WorkerId, ConnectedWorker] = {}
        self._submit: Callable[[Lease, ConnectedWorker], None] | None = None
        self._idle: list[Callable[[Namespace, str, str], None]] = []

    def on_idle_activity(self, listener: Callable[[Namespace, str, str], None]) -> None:
        """Call `listener` with namespace, queue and name when an activity has to wait because nobody takes it."""
        self._idle.append(listener)

    def connect(self, submit: Callable[[Lease, ConnectedWorker], None]) -> None:
        """Say where leases of queued work are to be decided."""
        self._submit = submit

    def on_join(self, listener: Callable[[ConnectedWorker], bool]) -> None:
        """Call `listener` for each new worker; it returns whether older work for it has yet to be read."""
        self._on_join = listener

    def on_shortage(self, listener: Callable[[], None]) -> None:
        """Call `listener` when slots become free that only the store has work for."""
        self._on_shortage = listener

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Lease work to this worker from now on, the oldest first."""
        self._workers[worker.worker] = worker
        room = self._room(worker.namespace, worker.queue)
        room.workers.append(worker)
        if self._on_join is not None and self._on_join(worker) and not self._shared:
            room.reading = True
        self.offer_work(worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to this worker."""
        if self._workers.get(worker.worker) is worker:  # polls of one worker are seats of their own
            del self._workers[worker.worker]
        room = self._room(worker.namespace, worker.queue)
        if worker in room.workers:
            room.workers.remove(worker)
        if not room.workers and self._shared:
            self._clear(room)  # it is in the store, for the engine that the next worker connects to
        if not (room.workers or room.tasks or room.activities):
            del self._rooms[worker.namespace, worker.queue]  # queues without work and workers must not pile up

    def find_worker(self, worker: WorkerId) -> ConnectedWorker | None:
        """The worker's worker, if it is there."""
        return self._workers.get(worker)

    def _room(self, namespace: Namespace, queue: str) -> _Room:
        room = self._rooms.get((namespace, queue))
        if room is None:
            room = self._rooms[namespace, queue] = _Room()
        return room

    def _room_for(self, namespace: Namespace, queue: str, kind: str, *, tasks: bool) -> _Room | None:
        """Return where work of a kind waits; None for work of a shared store that no worker here serves."""
        if not self._shared:
            return self._room(namespace, queue)
        room = self._rooms.get((namespace, queue))
        return room if room is not None and room.serves(kind, tasks=tasks) else None

    def _add(self, line: ReadyQueue, kind: str, since: Time, run_id: RunId, seq: int) -> None:
        if line.add(kind, since, run_id, seq):
            self._waiting.setdefault(run_id, set()).add(line)

    def _popped(self, line: ReadyQueue, run_id: RunId) -> None:
        if not line.holds(run_id):
            lines = self._waiting[run_id]
            lines.discard(line)
            if not lines:
                del self._waiting[run_id]

    def drop(self, run_id: RunId) -> None:
        """Drop the queued work of a run that has ended."""
        for line in self._waiting.pop(run_id, ()):
            line.drop(run_id)

    def _clear(self, room: _Room) -> None:
        for line in (room.tasks, room.activities):
            for run_id in line.runs():
                line.drop(run_id)
                self._popped(line, run_id)

    def assign_task(self, run: Run) -> tuple[LeaseTask, ConnectedWorker] | None:
        """A lease for a run whose task just became ready, or None after putting it into its line."""
        kind = run.start.workflow_type
        room = self._room_for(run.namespace, run.start.task_queue, kind, tasks=True)
        if room is None:
            return None
        if not room.reading and not room.tasks.has(kind):
            worker = self._pick(room, run.run_id, kind, tasks=True)
            if worker is not None:
                worker.slots.reserve()
                return LeaseTask(run.run_id, worker.worker, worker.lease, worker.local), worker
        self._add(room.tasks, kind, run.task.since or 0, run.run_id, 0)
        return None

    def assign_activity(self, run: Run, activity: Activity) -> tuple[LeaseActivity, ConnectedWorker] | None:
        """A lease for an activity that just became ready, or None after putting it into its line."""
        room = self._room_for(run.namespace, activity.queue, activity.name, tasks=False)
        if room is not None and not room.reading and not room.activities.has(activity.name):
            worker = self._pick(room, run.run_id, activity.name, tasks=False)
            if worker is not None:
                name = activity.name
                worker.slots.reserve(name)
                return LeaseActivity(run.run_id, activity.seq, worker.worker, worker.lease, worker.local, name), worker
        if room is not None:
            self._add(room.activities, activity.name, activity.queued_at, run.run_id, activity.seq)
        for listener in self._idle:
            listener(run.namespace, activity.queue, activity.name)
        return None

    def _pick(self, room: _Room, run_id: RunId, kind: str, *, tasks: bool) -> ConnectedWorker | None:
        """A worker with a free hand that serves `kind`; the one that holds the run first."""
        found: ConnectedWorker | None = None
        for worker in room.workers:
            if (worker.slots.tasks if tasks else worker.slots.activities) <= 0:
                continue
            kinds = worker.workflows if tasks else worker.activities
            if kinds is not None and kind not in kinds:
                continue
            if not tasks and kind in worker.slots.exhausted:
                continue
            if worker.holds(run_id):
                return worker
            found = found or worker
        if found is not None and len(room.workers) > 1:
            room.workers.remove(found)
            room.workers.append(found)
        return found

    def load(self, tasks: Iterable[ReadyTask], activities: Iterable[ReadyActivity]) -> None:
        """Queue work that was read from the store, and lease it as far as there are free slots."""
        keys: dict[tuple[Namespace, str], None] = {}
        for task in tasks:
            room = self._room_for(task.namespace, task.queue, task.workflow_type, tasks=True)
            if room is not None:
                self._add(room.tasks, task.workflow_type, task.since, task.run_id, 0)
                keys[task.namespace, task.queue] = None
        for activity in activities:
            room = self._room_for(activity.namespace, activity.queue, activity.name, tasks=False)
            if room is not None:
                self._add(room.activities, activity.name, activity.since, activity.run_id, activity.seq)
                keys[activity.namespace, activity.queue] = None
        for key in keys:
            self.offer_work_of(*key)

    def finish_reading(self, has_unread: Callable[[ConnectedWorker], bool]) -> None:
        """Lease queued work of the task queues whose older work was waited for, as far as all of it is read by now."""
        for key, room in tuple(self._rooms.items()):
            if room.reading and not any(has_unread(worker) for worker in room.workers):
                room.reading = False
                self.offer_work_of(*key)

    def offer_work_of(self, namespace: Namespace, queue: str) -> None:
        """Lease queued work to all workers of a task queue, as far as they have free slots."""
        room = self._rooms.get((namespace, queue))
        for worker in () if room is None else tuple(room.workers):
            self.offer_work(worker)

    def offer_work(self, worker: ConnectedWorker) -> None:
        """Ask for leases of queued work for as many slots as the worker has free, if it has not left."""
        room = self._rooms.get((worker.namespace, worker.queue))
        if room is None or room.reading:
            return
        if room.tasks or room.activities:
            if self._submit is None or worker not in room.workers:
                return
            for lease in self._queued_for(worker, room):
                self._submit(lease, worker)
        if room.tasks.deep and worker.slots.tasks > 0:
            room.tasks.deep = False
            self._short()
        elif room.activities.deep and worker.slots.activities > 0:
            room.activities.deep = False
            self._short()

    def _short(self) -> None:
        if self._on_shortage is not None:
            self._on_shortage()

    def _queued_for(self, worker: ConnectedWorker, room: _Room) -> Iterator[Lease]:
        while worker.slots.tasks > 0 and room.tasks:
            found = room.tasks.pop(worker.workflows)
            if found is None:
                break
            self._popped(room.tasks, found[0])
            worker.slots.reserve()
            yield LeaseTask(found[0], worker.worker, worker.lease, worker.local)
        while worker.slots.activities > 0 and room.activities:
            found = room.activities.pop(worker.activities, worker.slots.exhausted)
            if found is None:
                break
            run_id, seq, name = found
            self._popped(room.activities, run_id)
            worker.slots.reserve(name)
            yield LeaseActivity(run_id, seq, worker.worker, worker.lease, worker.local, name)

    def shortages(self, only: tuple[Namespace, str] | None = None) -> list[Shortage]:
        """Return the free slots of all workers, or of one task queue: no work in memory is for them."""
        keys = self._rooms if only is None else (only,)
        found = (_shortage(key, self._rooms[key]) for key in keys if key in self._rooms)
        return [shortage for shortage in found if shortage is not None]

    def note_depth(self, namespace: Namespace, queue: str, *, tasks: bool, deep: bool) -> None:
        """Note whether the store may have more work for a task queue than was read last."""
        room = self._rooms.get((namespace, queue))
        if room is not None:
            (room.tasks if tasks else room.activities).deep = deep

    def workers(self) -> tuple[ConnectedWorker, ...]:
        """Return all workers that are connected, polls included."""
        return tuple(worker for room in self._rooms.values() for worker in room.workers)

    def refused(self, lease: Lease, worker: ConnectedWorker) -> None:
        """Release the slot of a lease that was refused, and lease other queued work."""
        worker.slots.release(None if isinstance(lease, LeaseTask) else lease.name)
        self.offer_work(worker)

    def depth(self) -> dict[tuple[Namespace, str], tuple[int, int]]:
        """Return how many workflow tasks and activities are queued in memory, by task queue."""
        return {key: (len(room.tasks), len(room.activities)) for key, room in self._rooms.items()}

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


def _shortage(key: tuple[Namespace, str], room: _Room) -> Shortage | None:
    tasks = [worker for worker in room.workers if worker.slots.tasks > 0]
    activities = [worker for worker in room.workers if worker.slots.activities > 0]
    if not (tasks or activities):
        return None
    return Shortage(
        *key,
        _union(worker.workflows for worker in tasks),
        sum(worker.slots.tasks for worker in tasks),
        _union(_idle_names(worker) for worker in activities),
        sum(worker.slots.activities for worker in activities),
    )


def _idle_names(worker: ConnectedWorker) -> frozenset[str] | None:
    exhausted = worker.slots.exhausted
    return worker.activities if worker.activities is None or not exhausted else worker.activities - exhausted


def _union(served: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    found: set[str] = set()
    for kinds in served:
        if kinds is None:
            return None
        found |= kinds
    return frozenset(found)


def task_grant(run: StoredRun) -> TaskGrant:
    """The task that a run's current lease stands for."""
    tail = None if run.tail is None else tuple(run.tail)
    return TaskGrant(run.key, run.start, run.task.epoch, run.seen_seq, run.last_seq, run.history_bytes, tail)
