"""Matches ready work with workers that have free slots.

Work that becomes ready in a batch is leased in the same transaction if a fitting worker has a free slot. Other work is
queued here in the order of age and priority. A queued entry is only a hint: the lease itself is decided by `core`, and
an outdated entry costs a refused request. On a shared store, work without a fitting worker here is not queued: engines
with such workers find the work in the store.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from assay.core.model.grants import ConnectedWorker, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId
from assay.core.model.priority import activity_order, task_order
from assay.core.model.requests import LeaseActivity, LeaseTask
from assay.core.model.run import Activity, Run
from assay.engine.ready_queue import ReadyQueue
from assay.storage.ports import ReadyActivity, ReadyTask, StoredRun

Lease = LeaseTask | LeaseActivity


class _TaskQueue:
    """A task queue of a namespace: its connected workers, and the work that waits for a free slot."""

    def __init__(self) -> None:
        self.workers: deque[ConnectedWorker] = deque()
        self.tasks = ReadyQueue()
        self.activities = ReadyQueue()
        self.reading = False
        """True while older work is still being read from the store: newer work must not overtake it."""

    def serves(self, kind: str, *, tasks: bool) -> bool:
        """Return whether a connected worker serves a workflow type or an activity."""
        for worker in self.workers:
            kinds = worker.workflows if tasks else worker.activities
            if kinds is None or kind in kinds:
                return True
        return False


class Shortage(msgspec.Struct, frozen=True):
    """Free slots of a task queue without queued work for them: their number, and the kinds of work (None: all)."""

    namespace: Namespace
    queue: str
    workflows: frozenset[str] | None
    free_tasks: int
    activities: frozenset[str] | None
    free_activities: int


class Dispatcher:
    """The connected workers and the queued work of an engine. The store stays the source of truth."""

    def __init__(self, *, shared: bool = False) -> None:
        """Create a dispatcher without workers; `shared` if other engines work on the same store."""
        self._shared = shared
        self._task_queues: dict[tuple[Namespace, str], _TaskQueue] = {}
        self._waiting: dict[RunId, set[ReadyQueue]] = {}
        """The queues with work of a run; the work is dropped when the run ends."""
        self._on_shortage: Callable[[], None] | None = None
        self._on_join: Callable[[ConnectedWorker], bool] | None = None
        self._workers: dict[WorkerId, ConnectedWorker] = {}
        self._submit: Callable[[Lease, ConnectedWorker], None] | None = None
        self._idle: list[Callable[[Namespace, str, str], None]] = []

    def on_idle_activity(self, listener: Callable[[Namespace, str, str], None]) -> None:
        """Call `listener` with namespace, queue and name when a ready activity finds no free slot."""
        self._idle.append(listener)

    def connect(self, submit: Callable[[Lease, ConnectedWorker], None]) -> None:
        """Set the function that submits leases of queued work."""
        self._submit = submit

    def on_join(self, listener: Callable[[ConnectedWorker], bool]) -> None:
        """Call `listener` for each new worker; its result is True if older work for the worker must be read first."""
        self._on_join = listener

    def on_shortage(self, listener: Callable[[], None]) -> None:
        """Call `listener` when free slots remain and the store may have more work for them."""
        self._on_shortage = listener

    def add_worker(self, worker: ConnectedWorker) -> None:
        """Connect a worker, and lease it the oldest queued work."""
        self._workers[worker.worker] = worker
        task_queue = self._task_queue(worker.namespace, worker.queue)
        task_queue.workers.append(worker)
        if self._on_join is not None and self._on_join(worker) and not self._shared:
            task_queue.reading = True
        self.offer_work(worker)

    def remove_worker(self, worker: ConnectedWorker) -> None:
        """Lease no more work to this worker."""
        if self._workers.get(worker.worker) is worker:  # each poll of a polling worker is a connection of its own
            del self._workers[worker.worker]
        task_queue = self._task_queue(worker.namespace, worker.queue)
        if worker in task_queue.workers:
            task_queue.workers.remove(worker)
        if not task_queue.workers and self._shared:
            self._clear(task_queue)  # the store keeps the work, for the engine of the next worker
        if not (task_queue.workers or task_queue.tasks or task_queue.activities):
            del self._task_queues[worker.namespace, worker.queue]  # queues without work and workers must not pile up

    def find_worker(self, worker: WorkerId) -> ConnectedWorker | None:
        """Return the connection of a worker, or None if it is not connected to this engine."""
        return self._workers.get(worker)

    def _task_queue(self, namespace: Namespace, queue: str) -> _TaskQueue:
        task_queue = self._task_queues.get((namespace, queue))
        if task_queue is None:
            task_queue = self._task_queues[namespace, queue] = _TaskQueue()
        return task_queue

    def _task_queue_for(self, namespace: Namespace, queue: str, kind: str, *, tasks: bool) -> _TaskQueue | None:
        """Return the task queue for work of a kind; None on a shared store if no connected worker serves the kind."""
        if not self._shared:
            return self._task_queue(namespace, queue)
        task_queue = self._task_queues.get((namespace, queue))
        return task_queue if task_queue is not None and task_queue.serves(kind, tasks=tasks) else None

    def _add(self, ready: ReadyQueue, kind: str, since: Time, run_id: RunId, seq: int) -> None:
        if ready.add(kind, since, run_id, seq):
            self._waiting.setdefault(run_id, set()).add(ready)

    def _popped(self, ready: ReadyQueue, run_id: RunId) -> None:
        if not ready.holds(run_id):
            queues = self._waiting[run_id]
            queues.discard(ready)
            if not queues:
                del self._waiting[run_id]

    def drop(self, run_id: RunId) -> None:
        """Drop the queued work of a run that has ended."""
        for ready in self._waiting.pop(run_id, ()):
            ready.drop(run_id)

    def _clear(self, task_queue: _TaskQueue) -> None:
        for ready in (task_queue.tasks, task_queue.activities):
            for run_id in ready.runs():
                ready.drop(run_id)
                self._popped(ready, run_id)

    def assign_task(self, run: Run) -> tuple[LeaseTask, ConnectedWorker] | None:
        """Return a lease for a task that just became ready, with a slot reserved; or queue the task and return None."""
        kind = run.start.workflow_type
        task_queue = self._task_queue_for(run.namespace, run.start.task_queue, kind, tasks=True)
        if task_queue is None:
            return None
        # Queued tasks of the type are older: a new one must not overtake them, even if a slot is free.
        if not task_queue.reading and not task_queue.tasks.has(kind):
            worker = self._pick(task_queue, run.run_id, kind, tasks=True)
            if worker is not None:
                worker.slots.reserve()
                return LeaseTask(run.run_id, worker.worker, worker.lease, worker.local), worker
        self._add(task_queue.tasks, kind, task_order(run) or 0, run.run_id, 0)
        return None

    def assign_activity(self, run: Run, activity: Activity) -> tuple[LeaseActivity, ConnectedWorker] | None:
        """Return a lease for an activity that just became ready, with a slot reserved; or queue it and return None."""
        task_queue = self._task_queue_for(run.namespace, activity.queue, activity.name, tasks=False)
        if task_queue is not None and not task_queue.reading and not task_queue.activities.has(activity.name):
            worker = self._pick(task_queue, run.run_id, activity.name, tasks=False)
            if worker is not None:
                name = activity.name
                worker.slots.reserve(name)
                return LeaseActivity(run.run_id, activity.seq, worker.worker, worker.lease, worker.local, name), worker
        if task_queue is not None:
            self._add(task_queue.activities, activity.name, activity_order(run, activity), run.run_id, activity.seq)
        for listener in self._idle:
            listener(run.namespace, activity.queue, activity.name)
        return None

    def _pick(self, task_queue: _TaskQueue, run_id: RunId, kind: str, *, tasks: bool) -> ConnectedWorker | None:
        """Return a worker with a free slot for `kind`, or None.

        A worker with the live run is preferred: it needs no replay. Otherwise workers take turns, by rotation.
        """
        found: ConnectedWorker | None = None
        for worker in task_queue.workers:
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
        if found is not None and len(task_queue.workers) > 1:
            task_queue.workers.remove(found)
            task_queue.workers.append(found)
        return found

    def load(self, tasks: Iterable[ReadyTask], activities: Iterable[ReadyActivity]) -> None:
        """Queue work read from the store, and lease it to free slots."""
        keys: dict[tuple[Namespace, str], None] = {}
        for task in tasks:
            task_queue = self._task_queue_for(task.namespace, task.queue, task.workflow_type, tasks=True)
            if task_queue is not None:
                self._add(task_queue.tasks, task.workflow_type, task.order, task.run_id, 0)
                keys[task.namespace, task.queue] = None
        for activity in activities:
            task_queue = self._task_queue_for(activity.namespace, activity.queue, activity.name, tasks=False)
            if task_queue is not None:
                self._add(task_queue.activities, activity.name, activity.order, activity.run_id, activity.seq)
                keys[activity.namespace, activity.queue] = None
        for key in keys:
            self.offer_work_of(*key)

    def finish_reading(self, has_unread: Callable[[ConnectedWorker], bool]) -> None:
        """Lease queued work of task queues whose older work has now been read to the end."""
        for key, task_queue in tuple(self._task_queues.items()):
            if task_queue.reading and not any(has_unread(worker) for worker in task_queue.workers):
                task_queue.reading = False
                self.offer_work_of(*key)

    def offer_work_of(self, namespace: Namespace, queue: str) -> None:
        """Lease queued work to the free slots of all workers of a task queue."""
        task_queue = self._task_queues.get((namespace, queue))
        for worker in () if task_queue is None else tuple(task_queue.workers):
            self.offer_work(worker)

    def offer_work(self, worker: ConnectedWorker) -> None:
        """Submit leases of queued work for the free slots of a worker; no-op for a removed worker."""
        task_queue = self._task_queues.get((worker.namespace, worker.queue))
        if task_queue is None or task_queue.reading:
            return
        # By attribute and not by `len`: called for each slot that becomes free.
        if task_queue.tasks.count or task_queue.activities.count:
            if self._submit is None or worker not in task_queue.workers:
                return
            for lease in self._queued_for(worker, task_queue):
                self._submit(lease, worker)
        # Slots are still free and the last page from the store was full: have more read. Once per page, hence the flag.
        if task_queue.tasks.deep and worker.slots.tasks > 0:
            task_queue.tasks.deep = False
            self._short()
        elif task_queue.activities.deep and worker.slots.activities > 0:
            task_queue.activities.deep = False
            self._short()

    def _short(self) -> None:
        if self._on_shortage is not None:
            self._on_shortage()

    def _queued_for(self, worker: ConnectedWorker, task_queue: _TaskQueue) -> Iterator[Lease]:
        while worker.slots.tasks > 0 and task_queue.tasks:
            found = task_queue.tasks.pop(worker.workflows)
            if found is None:
                break
            self._popped(task_queue.tasks, found[0])
            worker.slots.reserve()
            yield LeaseTask(found[0], worker.worker, worker.lease, worker.local)
        while worker.slots.activities > 0 and task_queue.activities:
            found = task_queue.activities.pop(worker.activities, worker.slots.exhausted)
            if found is None:
                break
            run_id, seq, name = found
            self._popped(task_queue.activities, run_id)
            worker.slots.reserve(name)
            yield LeaseActivity(run_id, seq, worker.worker, worker.lease, worker.local, name)

    def shortages(self, only: tuple[Namespace, str] | None = None) -> list[Shortage]:
        """Return the free slots of all task queues, or of `only` one: no queued work fits them."""
        keys = self._task_queues if only is None else (only,)
        found = (_shortage(key, self._task_queues[key]) for key in keys if key in self._task_queues)
        return [shortage for shortage in found if shortage is not None]

    def note_depth(self, namespace: Namespace, queue: str, *, tasks: bool, deep: bool) -> None:
        """Note whether the last page from the store was full: the store may then have more work for a task queue."""
        task_queue = self._task_queues.get((namespace, queue))
        if task_queue is not None:
            (task_queue.tasks if tasks else task_queue.activities).deep = deep

    def workers(self) -> tuple[ConnectedWorker, ...]:
        """Return all connected workers; each poll of a polling worker counts."""
        return tuple(worker for task_queue in self._task_queues.values() for worker in task_queue.workers)

    def refused(self, lease: Lease, worker: ConnectedWorker) -> None:
        """Release the slot of a refused lease, and lease other queued work."""
        worker.slots.release(None if isinstance(lease, LeaseTask) else lease.name)
        self.offer_work(worker)

    def depth(self) -> dict[tuple[Namespace, str], tuple[int, int]]:
        """Return the numbers of workflow tasks and activities queued in memory, by task queue."""
        return {
            key: (len(task_queue.tasks), len(task_queue.activities)) for key, task_queue in self._task_queues.items()
        }

    def served(self, namespace: Namespace, queue: str) -> frozenset[str] | None:
        """Return the workflow types served on a queue; None without workers, or if a worker serves all types."""
        task_queue = self._task_queues.get((namespace, queue))
        served = [worker.workflows for worker in task_queue.workers] if task_queue is not None else []
        return _union(served) if served else None

    def served_queues(self, namespace: Namespace) -> dict[str, frozenset[str]]:
        """Return the workflow types of each queue of a namespace, except queues with a worker for all types."""
        found = {queue: self.served(space, queue) for space, queue in self._task_queues if space == namespace}
        return {queue: types for queue, types in found.items() if types is not None}


def _shortage(key: tuple[Namespace, str], task_queue: _TaskQueue) -> Shortage | None:
    tasks = [worker for worker in task_queue.workers if worker.slots.tasks > 0]
    activities = [worker for worker in task_queue.workers if worker.slots.activities > 0]
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
    """Return the task of a run's current lease."""
    tail = None if run.tail is None else tuple(run.tail)
    return TaskGrant(run.key, run.start, run.task.epoch, run.seen_seq, run.last_seq, run.history_bytes, tail)
