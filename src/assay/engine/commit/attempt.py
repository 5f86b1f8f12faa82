"""One attempt to commit one batch, step by step: load, decide, lease, write, answer.

`Committer._flush` calls the steps in this order. Only `load` and `write` wait, and what they wait for is the store;
between them nothing else of the engine runs, so a batch is decided on one state of its runs.
"""

from time import perf_counter

from assay.core.model.effects import Decision
from assay.core.model.errors import AssayError, Unavailable
from assay.core.model.grants import ActivityGrant, ConnectedWorker, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.requests import (
    Advance,
    Deliver,
    Elapse,
    LeaseActivity,
    LeaseTask,
    Request,
    RestartAsNew,
    RetryFailed,
    StartWorkflow,
    ToWorkflow,
)
from assay.core.model.run import Activity
from assay.core.rules.decide import decide
from assay.core.rules.leases import lease_ready_activity, lease_ready_task
from assay.core.rules.moment import Moment
from assay.core.rules.retry import Unprepared
from assay.core.schedules.requests import ScheduleRequest
from assay.engine.clock import Clock
from assay.engine.commit.batch import Batch
from assay.engine.commit.batch_schedules import Schedules, gather
from assay.engine.commit.cache import RunCache
from assay.engine.commit.idempotency import IdempotencyKey, Memory, Rendered
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.prefetch import PREFETCHING, named, prefetch
from assay.engine.dispatch import Dispatcher, task_grant
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.ports import Store, StoredRun

Id = tuple[Namespace, WorkflowId]
Grant = tuple[ConnectedWorker, TaskGrant | ActivityGrant, PendingRequest | None]
"""Work for a worker, and its lease request; None if the batch leased it on its own account."""


class Tools:
    """The parts of the engine that every batch uses."""

    __slots__ = ("cache", "clock", "dispatcher", "ids", "presence", "store")

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: BlockIds,
        dispatcher: Dispatcher,
        cache: RunCache,
        presence: Presence,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.dispatcher = dispatcher
        self.cache = cache
        self.presence = presence


class BatchAttempt:
    """One attempt to commit one batch; its requests get at most one outcome each."""

    def __init__(self, tools: Tools, requests: list[PendingRequest]) -> None:
        self._tools = tools
        self._requests = requests
        self._runs: dict[RunId, StoredRun] = {}
        self._newest: dict[Id, StoredRun] = {}
        self._answers: list[tuple[PendingRequest, object, RunId | None]] = []
        self._grants: list[Grant] = []
        self._news: list[tuple[ConnectedWorker, RunId]] = []
        """Workers that hold the task of a run with new events."""
        self._again: list[PendingRequest] = []
        """Requests to decide again, in another attempt."""
        self._outdated: list[StoredRun] = []
        """Cached runs that another engine may have changed since."""
        self._at: Moment
        self._memory = Memory()
        self._schedules = Schedules()
        self._numbers = 0
        """How many ids for activities the decisions may need at most."""
        self.batch = Batch()
        self.next_due: Time | None = None
        self.culprit: PendingRequest | None = None
        """The request whose decision raised an error that is no refusal."""

    # load

    async def load(self) -> None:
        """Load what the decisions need: the runs, the rest that `prefetch` names, and ids for what they create.

        Most batches find all of their runs in the cache and ids in memory. Then nothing here waits.
        """
        store, cache = self._tools.store, self._tools.cache
        run_ids: set[RunId] = set()
        ids: set[Id] = set()
        more: list[PendingRequest] = []
        scheduled: list[ScheduleRequest] = []
        keys: list[IdempotencyKey] = []
        commands = 0
        for pending in self._requests:
            request = pending.request
            if type(request) is Advance:  # the most frequent request first, without isinstance
                if request.run_id not in cache:
                    run_ids.add(request.run_id)
                if request.commands:
                    commands += len(request.commands)
                    # a seen_seq below zero is that of a polling worker, whose commands may repeat recorded ones
                    polling = request.seen_seq < 0
                    pending.needs_prefetch = polling or not PREFETCHING.isdisjoint(map(type, request.commands))
            elif isinstance(request, ScheduleRequest):
                scheduled.append(request)
            else:
                self._miss(request, run_ids, ids)
                pending.needs_prefetch = isinstance(request, RestartAsNew | RetryFailed)
            if pending.needs_prefetch:
                more.append(pending)
            if pending.key is not None:
                keys.append(pending.key)
        # Schedules name runs, and those runs are loaded with the others, in one query.
        if scheduled:
            await self._load_schedules(scheduled, ids)
        if run_ids or ids:
            await self._load_runs(run_ids, ids)
        if keys:
            await self._memory.recall(store, keys)
        self._numbers = commands + 4 * len(self._requests)
        await self._tools.ids.ensure(store, self._numbers)
        if more:
            await self._prefetch(more)

    async def _load_schedules(self, scheduled: list[ScheduleRequest], ids: set[Id]) -> None:
        names = await self._schedules.read(self._tools.store, scheduled, self._tools.clock.wall())
        shared = self._tools.store.shared  # a run that is open in the cache may have been closed elsewhere
        ids.update(key for key in names if shared or self._tools.cache.newest(key) is None)

    async def _load_runs(self, run_ids: set[RunId], ids: set[Id]) -> None:
        for run in await self._tools.store.load(tuple(run_ids), tuple(ids)):
            self._keep(run)

    def _miss(self, request: Request, run_ids: set[RunId], ids: set[Id]) -> None:
        """Note which run of a request is not in the cache."""
        run_id = getattr(request, "run_id", None)
        if run_id is not None:
            if run_id not in self._tools.cache:
                run_ids.add(run_id)
        elif isinstance(request, ToWorkflow | StartWorkflow):
            key = (request.namespace, request.workflow_id)
            if self._tools.cache.newest(key) is None:
                ids.add(key)

    def _keep(self, run: StoredRun) -> None:
        self._runs[run.run_id] = run
        known = self._newest.get((run.namespace, run.workflow_id))
        # Equal numbers are one run that was read twice: a second object of it would miss what the first one is told.
        if known is None or known.number <= run.number:
            self._newest[run.namespace, run.workflow_id] = run

    async def _prefetch(self, more: list[PendingRequest]) -> None:
        """Load what requests need beside their own runs, and pass it along in the requests."""
        found = [(pending, self._find(pending.request)) for pending in more]
        known = [(pending, run) for pending, run in found if run is not None]
        names = {key for pending, run in known for key in named(pending.request, run)}
        unknown = {key for key in names if self._tools.cache.newest(key) is None}
        if unknown:
            await self._load_runs(set(), unknown)
        for pending, run in known:
            pending.request, others = await prefetch(pending.request, run, self._tools.store)
            for other in others:
                self._keep(other)
            if isinstance(pending.request, RetryFailed):  # it copies histories, and each activity there gets new ids
                self._numbers += sum(map(len, pending.request.histories.values()))
                await self._tools.ids.ensure(self._tools.store, self._numbers)

    def _find(self, request: Request) -> StoredRun | None:
        run_id = getattr(request, "run_id", None)
        if run_id is not None:
            return self.batch.touched.get(run_id) or self._runs.get(run_id) or self._tools.cache.get(run_id)
        if isinstance(request, ToWorkflow | StartWorkflow):
            return self._current((request.namespace, request.workflow_id))
        return None

    def _current(self, key: Id) -> StoredRun | None:
        born = self.batch.newest.get(key)
        if born is not None:
            return born
        loaded, cached = self._newest.get(key), self._tools.cache.newest(key)
        if loaded is None or (cached is not None and cached.number > loaded.number):
            return cached  # what was loaded for a late request to an older run says nothing about the newest
        return loaded

    # decide

    def decide(self) -> None:
        """Decide every request in order; each sees what the requests before it did."""
        self._at = at = Moment(self._tools.clock.now(), self._tools.ids)
        for pending in self._requests:
            try:
                self._decide_one(pending, at)
            except Exception:
                self.culprit = pending
                raise

    def _decide_one(self, pending: PendingRequest, at: Moment) -> None:
        request = pending.request
        # A repeated request gets the outcome of the first, also if both are in this batch (I3).
        if pending.key is not None and (known := self._memory.answer(pending.key)) is not None:
            self._answers.append((pending, known, self._memory.rests_on(pending.key)))
            return
        if isinstance(request, ScheduleRequest):
            self._decide_schedule(pending, request, at)
            return
        if type(request) is Elapse:
            if self._tools.presence.lapsed:
                # The engine was suspended since the timekeeper read the deadlines: leases are extended before any ends.
                self._answers.append((pending, Unavailable("the engine stood still"), None))
                return
            self._fires_at(at.now, 0)
        run = self._find(request)
        if run is None and isinstance(request, Deliver):  # its run is gone, so the message has no recipient
            self.batch.changes.acknowledged.append((request.run_id, request.message.key))
            return
        try:
            full = run is not None and run.history_bytes > LIMITS.history_bytes
            decision = decide(run, request, self._moment(request, run, at) if pending.needs_prefetch or full else at)
        except Unprepared:
            # Another request of this batch changed what was prefetched: load anew and decide again, but only once.
            if pending.again:
                self._answers.append((pending, Unavailable("the history changes while it is read; try again"), None))
            else:
                self._again.append(pending)
            return
        except AssayError as error:
            # One request fails alone: the decision raised before anything was folded, and the batch goes on.
            if not self._must_reload(pending, run):
                self._answers.append((pending, self._keep_outcome(pending, error, None, at), None))
            return
        changed = self.batch.take(decision)
        if type(request) is Elapse and request.kind == "run" and run is not None:
            self._elapse_activities(run, at)
        elif not changed and self._must_reload(pending, run):
            return
        run_id = decision.run.run_id
        reply = decision.reply if pending.key is None else self._keep_outcome(pending, decision.reply, run_id, at)
        self._answers.append((pending, reply, run_id))
        if pending.worker is not None:
            self._grant(pending.worker, decision, pending)

    def _elapse_activities(self, run: StoredRun, at: Moment) -> None:
        """The deadline of a run stands for those of its activities, too, and has to be set anew."""
        if run.closed_at is not None:
            return
        self.batch.touch(run)
        for activity in tuple(run.activities.values()):
            due = activity.deadline()
            if due is not None and due <= at.now:
                self.batch.take(decide(run, Elapse(run.run_id, "activity", activity.seq), at))

    def _fires_at(self, now: Time, wall: Time) -> None:
        """Note what the store's clock must have reached when this batch is written."""
        changes = self.batch.changes
        known = changes.not_before or (0, 0)
        changes.not_before = max(known[0], now), max(known[1], wall)

    def _decide_schedule(self, pending: PendingRequest, request: ScheduleRequest, at: Moment) -> None:
        wall = self._tools.clock.wall()
        try:
            decision = self._schedules.decide(request, at, wall, self._current)
        except AssayError as error:
            self._answers.append((pending, self._keep_outcome(pending, error, None, at), None))
            return
        gather(self.batch, decision)
        if decision.fires:
            self._fires_at(0, wall)
        key = decision.schedule.key
        self._answers.append((pending, self._keep_outcome(pending, decision.reply, key, at), key))

    def _keep_outcome(self, pending: PendingRequest, reply: object, run_id: RunId | None, at: Moment) -> object:
        """Store the answer with the effect, refusals included, so that a repeated request gets the same one (4.4)."""
        if pending.key is None:
            return reply
        outcome = pending.key.outcome(reply, at.now)
        self._memory.keep(outcome, run_id)
        self.batch.changes.outcomes.append((run_id, outcome))
        return Rendered(outcome.status, outcome.body)

    def _must_reload(self, pending: PendingRequest, run: StoredRun | None) -> bool:
        """Return whether a request that writes nothing was decided on a cached run of a shared store.

        A decision that writes is validated by the version check of its UPDATE. One that writes nothing is not: another
        engine may have changed the run since it was cached, so the run is loaded again and the request decided again.
        """
        if not self._tools.store.shared or pending.again or run is None or run.run_id in self._runs:
            return False
        self._again.append(pending)
        self._outdated.append(run)
        return True

    def _moment(self, request: Request, run: StoredRun | None, at: Moment) -> Moment:
        if run is None:
            return at
        runs = {key[1]: self._current(key) for key in named(request, run)}
        known = {child: one for child, one in runs.items() if one is not None}
        return Moment(at.now, at.ids, known, history_full=run.history_bytes > LIMITS.history_bytes)

    # lease

    def lease(self) -> None:
        """Lease what became ready to workers with free slots, in the same transaction; queue the rest."""
        at, dispatcher = self._at, self._tools.dispatcher
        for run, activity in self.batch.waiting:
            if run.activities.get(activity.seq) is activity:
                assigned = dispatcher.assign_activity(run, activity)
                if assigned is not None:
                    self._begin_attempt(run, *assigned, at)
        for run in tuple(self.batch.touched.values()):
            task = run.task
            if task.since is None or run.closed_at is not None:
                continue
            if task.ready:
                free = dispatcher.assign_task(run)
                if free is not None:
                    lease_ready_task(run, free[0], at)
                    self.batch.task_changed(run, task, at.now)
                    self._grants.append((free[1], task_grant(run), None))
            elif task.worker is not None:
                self._notify(run, task.worker)
        for run, worker in self.batch.left:
            self._notify(run, worker)

    def _begin_attempt(self, run: StoredRun, lease: LeaseActivity, worker: ConnectedWorker, at: Moment) -> None:
        try:
            leased = lease_ready_activity(run, lease, at)
        except AssayError:
            self._tools.dispatcher.refused(lease, worker)
            return
        self.batch.attempt_begun(run, leased, at.now)
        self._grants.append((worker, ActivityGrant(run.key, run.start, leased), None))

    def _grant(self, worker: ConnectedWorker, decision: Decision, pending: PendingRequest) -> None:
        run = decision.run
        if isinstance(decision.reply, Activity):
            self._grants.append((worker, ActivityGrant(run.key, run.start, decision.reply), pending))
        else:
            self._grants.append((worker, task_grant(self.batch.touched[run.run_id]), pending))

    def _notify(self, run: StoredRun, worker: WorkerId) -> None:
        holder = self._tools.dispatcher.find_worker(worker)
        if holder is not None:
            self._news.append((holder, run.run_id))

    # write

    async def write(self) -> frozenset[RunId]:
        """Write the batch in one transaction; return the runs that another engine changed first: they are left out."""
        changes = self.batch.changes
        if not (self.batch.touched or changes.acknowledged or changes.outcomes or changes.schedules):
            return frozenset()  # nothing to write: all requests were refused, or changed nothing
        self.next_due = self.batch.seal(self._at.now)
        began = perf_counter()
        lost = await self._tools.store.write(changes)
        self.batch.tally.seconds = perf_counter() - began
        self.batch.tally.requests = len(self._requests)
        return lost

    # answer

    def answer(self, lost: frozenset[RunId]) -> list[PendingRequest]:
        """Give callers their outcomes and workers their leases; return the requests that must be decided again."""
        again = self._again
        for pending, reply, run_id in self._answers:
            if run_id in lost:
                again.append(pending)
            elif isinstance(reply, AssayError):
                self.refuse(pending, reply)
            else:
                pending.answer(reply)
        for pending in again:
            pending.again = True
        # Not while deciding: other requests of this batch may be about the same run, and would not find it.
        self._tools.cache.drop_all(self._outdated)
        self._hand_out(lost)
        return again

    def _hand_out(self, lost: frozenset[RunId]) -> None:
        for worker, grant, pending in self._grants:
            if grant.key.run_id not in lost:
                worker.take(grant)
            elif pending is None:
                _release_slot(worker, grant)
        for worker, run_id in self._news:
            if run_id not in lost:
                worker.news(run_id)
        for run_id, activity, over in self.batch.unwanted:
            if run_id in lost:
                continue  # not written: the attempt is still current
            holder = None if activity.worker is None else self._tools.dispatcher.find_worker(activity.worker)
            if holder is not None:
                holder.cancel(activity.attempt_id, over=over)

    def release_slots(self) -> None:
        """Release the worker slots that this batch had reserved on its own account: nothing was written."""
        for worker, grant, pending in self._grants:
            if pending is None:
                _release_slot(worker, grant)

    def fail(self, error: AssayError) -> None:
        """Refuse all requests of the batch: nothing was written, or nobody knows."""
        self.release_slots()
        for pending in self._requests:
            self.refuse(pending, error)

    def refuse(self, pending: PendingRequest, error: AssayError) -> None:
        """Refuse one request; the slot that a lease had reserved is free again."""
        if pending.worker is not None and isinstance(pending.request, LeaseTask | LeaseActivity):
            self._tools.dispatcher.refused(pending.request, pending.worker)
        pending.fail(error)


def _release_slot(worker: ConnectedWorker, grant: TaskGrant | ActivityGrant) -> None:
    """Release the slot that was reserved for a grant."""
    worker.slots.release(None if isinstance(grant, TaskGrant) else grant.activity.name)
