"""One attempt to commit one batch, step by step: load, decide, lease, write, answer.

`Committer._flush` calls the steps in this order. Only `load` and `write` await, and only the store. `decide` and
`lease` run between them in one piece: no other code of the engine runs meanwhile, and all requests of a batch are
decided on one state of their runs, without locks. Another engine of a shared store may still change these runs: the
version check of each UPDATE detects the change, and `write` returns these runs as lost.

Decisions are folded into the runs at once, before the write: the second request of a run must see the effect of the
first. The alternative, one transaction per request, costs an fsync each; deciding on copies costs a copy per request.
The price of folding early is paid only when a write fails: the runs are dropped from the cache and loaded again.
"""

import contextlib
import functools
from time import perf_counter

from assay.core.model.effects import Decision
from assay.core.model.errors import AssayError, Invalid, Unavailable
from assay.core.model.grants import ActivityGrant, ConnectedWorker, TaskGrant
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.limits import LIMITS
from assay.core.model.requests import (
    AddWatcher,
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
    Update,
)
from assay.core.model.run import Activity
from assay.core.rules.decide import decide
from assay.core.rules.leases import lease_ready_activity, lease_ready_task
from assay.core.rules.moment import Moment, Unprepared
from assay.core.schedules.requests import ScheduleRequest
from assay.engine.commit import deliveries
from assay.engine.commit.batch import Batch
from assay.engine.commit.batch_schedules import BatchSchedules, gather
from assay.engine.commit.idempotency import IdempotencyKey, Memory, Rendered
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.prefetch import PREFETCHING, child_namespaces, named, prefetch
from assay.engine.commit.ready_order import first_activities, first_tasks
from assay.engine.commit.tools import Tools
from assay.engine.dispatch import task_grant
from assay.storage.ports import StoredRun

Id = tuple[Namespace, WorkflowId]
Grant = tuple[ConnectedWorker, TaskGrant | ActivityGrant, PendingRequest | None]
"""A lease for a worker, and the request for it; None if the batch leased the work itself, without a request."""


class BatchAttempt:
    """An attempt to commit a batch. Each request gets at most one outcome; some are returned for another attempt."""

    def __init__(self, tools: Tools, requests: list[PendingRequest]) -> None:
        self._tools = tools
        self._requests = requests
        self._runs: dict[RunId, StoredRun] = {}
        """Runs that this attempt has read from the store, by run id."""
        self._newest: dict[Id, StoredRun] = {}
        """The newest of these runs, by workflow id."""
        self._answers: list[tuple[PendingRequest, object, RunId | None]] = []
        """Outcomes, and the run or schedule to be written for the outcome to hold; None if it always holds."""
        self._grants: list[Grant] = []
        self._news: list[tuple[ConnectedWorker, RunId]] = []
        """Workers that hold the task of a run with new events."""
        self._again: list[PendingRequest] = []
        """Requests to decide again, in another attempt."""
        self._outdated: list[StoredRun] = []
        """Cached runs that another engine may have changed in the meantime."""
        self._mailboxes: set[str] = set()
        """The addresses of mailboxes that messages of this batch go to."""
        self._at: Moment
        self._numbers = 0
        """Upper bound of the activity ids that the decisions take."""
        self.batch = Batch()
        self.next_due: Time | None = None
        self.culprit: PendingRequest | None = None
        """The request whose decision raised an unexpected error, in other words a bug and not a refusal."""

    # Few batches have requests with idempotency keys or about schedules: only these batches pay for the two tables.

    @functools.cached_property
    def _memory(self) -> Memory:
        return Memory()

    @functools.cached_property
    def _schedules(self) -> BatchSchedules:
        return BatchSchedules()

    # load

    async def load(self) -> None:
        """Load the runs of all requests and the further rows of `prefetch`, and reserve ids.

        `decide` is pure and cannot read: all rows for its decisions are read here. Most batches find all runs in the
        cache and ids in memory; for them this coroutine never suspends.
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
            if type(request) is Advance:  # the most frequent request is tested first, without isinstance
                if request.run_id not in cache:
                    run_ids.add(request.run_id)
                if request.commands:
                    commands += len(request.commands)
                    # A negative seen_seq marks a polling worker, whose commands may repeat recorded ones.
                    polling = request.seen_seq < 0
                    pending.needs_prefetch = polling or not PREFETCHING.isdisjoint(map(type, request.commands))
            elif isinstance(request, ScheduleRequest):
                scheduled.append(request)
            elif deliveries.is_mail(request):
                self._mailboxes |= await deliveries.mailboxes_of(request, store, self._tools.clock.now())
            else:
                self._miss(request, run_ids, ids)
                pending.needs_prefetch = isinstance(request, RestartAsNew | RetryFailed | Update) or deliveries.is_exit(
                    request
                )
            if pending.needs_prefetch:
                more.append(pending)
            if pending.key is not None:
                keys.append(pending.key)
        # BatchSchedules first: they name runs, which are then loaded together with the other runs, in one query.
        if scheduled:
            await self._load_schedules(scheduled, ids)
        if run_ids or ids:
            await self._load_runs(run_ids, ids)
        if keys:
            await self._memory.recall(store, keys)
        # An upper bound, without looking at each command: unused ids stay reserved for the next batch.
        self._numbers = commands + 4 * len(self._requests)
        await self._tools.ids.ensure(store, self._numbers)
        if more:
            await self._prefetch(more)

    async def _load_schedules(self, scheduled: list[ScheduleRequest], ids: set[Id]) -> None:
        names = await self._schedules.read(self._tools.store, scheduled, self._tools.clock.wall())
        # On a shared store the cache does not count: another engine may have closed a run that is open in the cache.
        shared = self._tools.store.shared
        ids.update(key for key in names if shared or self._tools.cache.newest(key) is None)

    async def _load_runs(self, run_ids: set[RunId], ids: set[Id]) -> None:
        for run in await self._tools.store.load(tuple(run_ids), tuple(ids)):
            self._keep(run)

    def _miss(self, request: Request, run_ids: set[RunId], ids: set[Id]) -> None:
        """Add the run of a request to the runs to load, unless the run is in the cache."""
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
        # A run read twice replaces its first object in both dicts: decisions must fold into a single object.
        if known is None or known.number <= run.number:
            self._newest[run.namespace, run.workflow_id] = run

    async def _prefetch(self, more: list[PendingRequest]) -> None:
        """Read rows beside the requests' own runs, and replace each request by a copy with these rows."""
        found = [(pending, self._find(pending.request)) for pending in more]
        known = [(pending, run) for pending, run in found if run is not None]
        names = {key for pending, run in known for key in named(pending.request, run)}
        unknown = {key for key in names if self._tools.cache.newest(key) is None}
        if unknown:
            await self._load_runs(set(), unknown)
        for space in child_namespaces((pending.request, run) for pending, run in known):
            if self._tools.create_namespace is not None:
                with contextlib.suppress(Invalid):  # not a name of a namespace: the decision refuses the child
                    await self._tools.create_namespace(space)
        for pending, run in known:
            pending.request, others = await prefetch(pending.request, run, self._tools.store)
            for other in others:
                self._keep(other)
            if isinstance(pending.request, RetryFailed):  # a retry copies histories: each activity gets a new id
                self._numbers += sum(map(len, pending.request.histories.values()))
                await self._tools.ids.ensure(self._tools.store, self._numbers)

    def _find(self, request: Request) -> StoredRun | None:
        """Return the run of a request, as earlier requests of this batch left the run.

        The order matters: a run changed by this batch, then a run read by this batch, then the cached run.
        """
        run_id = getattr(request, "run_id", None)
        if run_id is not None:
            return self.batch.touched.get(run_id) or self._runs.get(run_id) or self._tools.cache.get(run_id)
        if isinstance(request, ToWorkflow | StartWorkflow):
            return self._current((request.namespace, request.workflow_id))
        return None

    def _current(self, key: Id) -> StoredRun | None:
        """Return the newest run of a workflow id, including runs created by this batch."""
        created = self.batch.newest.get(key)
        if created is not None:
            return created
        loaded, cached = self._newest.get(key), self._tools.cache.newest(key)
        if loaded is None or (cached is not None and cached.number > loaded.number):
            return cached  # the loaded run is older: read for a late request with its run id
        return loaded

    # decide

    def decide(self) -> None:
        """Decide the requests in order of arrival; each decision sees the effects of the earlier ones."""
        self._at = at = Moment(self._tools.clock.now(), self._tools.ids)
        for pending in self._requests:
            try:
                self._decide_one(pending, at)
            except Exception:
                self.culprit = pending
                raise

    def _decide_one(self, pending: PendingRequest, at: Moment) -> None:
        request = pending.request
        # A repeated request gets the outcome of the first, also if both are in this batch (I3). Its outcome holds only
        # if the run of the first is written: if the run is lost, both are decided again.
        if pending.key is not None and (known := self._memory.answer(pending.key)) is not None:
            self._answers.append((pending, known, self._memory.rests_on(pending.key)))
            return
        if isinstance(request, ScheduleRequest):
            self._decide_schedule(pending, request, at)
            return
        if type(request) is Elapse:
            if self._tools.presence.lapsed:
                # The engine was suspended after the timekeeper read the deadlines. Workers could not extend their
                # leases meanwhile: extend all leases once before the first may end.
                self._answers.append((pending, Unavailable("the engine was suspended"), None))
                return
            self._fires_at(at.now, 0)
        if type(request) is Deliver:
            rest, owner = deliveries.begin(request, self._mailboxes, self.batch, at.now)
            if rest is None:
                self._answers.append((pending, None, owner))
                return
            pending.request = request = rest
        run = self._find(request)
        if run is None and isinstance(request, Deliver | AddWatcher):
            deliveries.gather_undeliverable(request, self.batch, at.now)
            self._answers.append((pending, None, None))
            return
        if type(request) is Update and run is not None:
            request = deliveries.with_state(request, run.run_id, self.batch)
        try:
            full = run is not None and run.history_bytes > LIMITS.history_bytes
            # Nearly all requests share the moment `at`; only requests with prefetched runs pay for their own.
            decision = decide(run, request, self._moment(request, run, at) if pending.needs_prefetch or full else at)
        except Unprepared:
            # An earlier request of this batch changed the prefetched rows: load and decide again, but only once.
            if pending.again:
                self._answers.append((pending, Unavailable("the history changes while it is read; try again"), None))
            else:
                self._again.append(pending)
            return
        except AssayError as error:
            # A refusal. Decisions raise before they are folded: the run is unchanged, and the batch continues.
            if not self._must_reload(pending, run):
                self._answers.append((pending, self._keep_outcome(pending, error, None, at), None))
            return
        changed = self.batch.take(decision)
        if type(request) is Elapse and request.kind == "run" and run is not None:
            # A run's deadline stands for all its clocks (`Batch._arm`): decide the due ones of its activities as well.
            self._elapse_activities(run, at)
        elif not changed and self._must_reload(pending, run):
            return
        run_id = decision.run.run_id
        reply = decision.reply if pending.key is None else self._keep_outcome(pending, decision.reply, run_id, at)
        self._answers.append((pending, reply, run_id))
        if pending.audit is not None:
            self.batch.changes.audits.append((run_id, pending.audit.completed()))
        if pending.worker is not None:
            self._grant(pending.worker, decision, pending)

    def _elapse_activities(self, run: StoredRun, at: Moment) -> None:
        """Decide the due time-outs of a run's activities, and have the run's deadline set anew."""
        if run.closed_at is not None:
            return
        self.batch.touch(run)  # also if no time-out is due: the passed deadline must be replaced
        for activity in tuple(run.activities.values()):
            due = activity.deadline()
            if due is not None and due <= at.now:
                self.batch.take(decide(run, Elapse(run.run_id, "activity", activity.seq), at))

    def _fires_at(self, now: Time, wall: Time) -> None:
        """Require a store clock of at least these times at the write: no timer fires early (I10)."""
        changes = self.batch.changes
        known = changes.not_before or (0, 0)
        changes.not_before = max(known[0], now), max(known[1], wall)

    def _decide_schedule(self, pending: PendingRequest, request: ScheduleRequest, at: Moment) -> None:
        wall = self._tools.clock.wall()
        before = None if pending.audit is None else self._schedules.known(request)
        try:
            decision = self._schedules.decide(request, at, wall, self._current)
        except AssayError as error:
            self._answers.append((pending, self._keep_outcome(pending, error, None, at), None))
            return
        gather(self.batch, decision)
        if decision.fires:
            self._fires_at(0, wall)
        key = decision.schedule.key
        if pending.audit is not None:
            after = None if decision.deleted else decision.schedule
            self.batch.changes.audits.append((key, pending.audit.completed(before, after)))
        self._answers.append((pending, self._keep_outcome(pending, decision.reply, key, at), key))

    def _keep_outcome(self, pending: PendingRequest, reply: object, run_id: RunId | None, at: Moment) -> object:
        """Render and store the outcome of a request with an idempotency key, in the transaction of its effect.

        Refusals are stored as well: a repetition must not succeed where the first request was refused.
        """
        if pending.key is None:
            return reply
        outcome = pending.key.outcome(reply, at.now)
        self._memory.keep(outcome, run_id)
        self.batch.changes.outcomes.append((run_id, outcome))
        return Rendered(outcome.status, outcome.body)

    def _must_reload(self, pending: PendingRequest, run: StoredRun | None) -> bool:
        """Return True, and schedule another attempt, for a decision on a cached run that writes nothing.

        A decision that writes is validated by the version check of its UPDATE. A refusal, or a decision without effect,
        writes nothing and is validated by nothing. On a shared store another engine may have changed the cached run:
        load the run and decide again. Reloading before each decision instead would cost a read per request; this costs
        a read only for the few requests without a write.
        """
        if not self._tools.store.shared or pending.again or run is None or run.run_id in self._runs:
            return False
        self._again.append(pending)
        self._outdated.append(run)
        return True

    def _moment(self, request: Request, run: StoredRun | None, at: Moment) -> Moment:
        if run is None:
            return at
        runs = {key: self._current(key) for key in named(request, run)}
        found = {key: newest for key, newest in runs.items() if newest is not None}
        return Moment(at.now, at.ids, found, history_full=run.history_bytes > LIMITS.history_bytes)

    # lease

    def lease(self) -> None:
        """Lease the work made ready by this batch to workers with free slots; queue the rest in memory.

        The lease is part of the same transaction. Leasing after the commit, by a request of its own, would cost a
        second transaction and fsync for each task; queued work pays this price because it has to wait anyhow.

        Invariant: a lease is sent to its worker only after COMMIT (`_send_to_workers`), and its slot is released if the
        write fails (`release_slots`): a lease made here has no `PendingRequest` to release the slot.
        """
        at, dispatcher = self._at, self._tools.dispatcher
        for run, activity in first_activities(self.batch.waiting):
            # A later request of this batch may have cancelled or replaced the activity: compare the object.
            if run.activities.get(activity.seq) is activity:
                assigned = dispatcher.assign_activity(run, activity)
                if assigned is not None:
                    self._begin_attempt(run, *assigned, at)
        for run in first_tasks(tuple(self.batch.touched.values())):
            task = run.task
            if task.since is None or run.closed_at is not None:
                continue
            if task.ready:
                free = dispatcher.assign_task(run)
                if free is not None:
                    # Not through `decide`: the task is ready and the worker free, so a refusal is impossible, and a
                    # `Decision` per lease costs objects in the hottest loop of the engine. A test compares both ways
                    # (`lease_ready_task`, `lease_task`).
                    lease_ready_task(run, free[0], at)
                    self.batch.task_changed(run, task, at.now)
                    self._grants.append((free[1], task_grant(run), None))
            elif task.worker is not None:  # new events arrived while a worker holds the task
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
        """Write the batch in a single transaction (I2); return the runs that another engine changed first.

        The store leaves lost runs out of the transaction, with all rows tied to them, and commits the rest.
        """
        changes = self.batch.changes
        rows = (changes.messages, changes.acknowledged, changes.outcomes, changes.schedules, changes.audits)
        if not self.batch.touched and not any(rows):
            return frozenset()  # no transaction: all requests were refused, or changed nothing
        self.next_due = self.batch.seal(self._at.now)
        began = perf_counter()
        lost = await self._tools.store.write(changes)
        self.batch.tally.seconds = perf_counter() - began
        self.batch.tally.requests = len(self._requests)
        return lost

    # answer

    def answer(self, lost: frozenset[RunId]) -> list[PendingRequest]:
        """Send outcomes to callers and leases to workers; return the requests to decide again. Called after COMMIT."""
        again = self._again
        for pending, reply, run_id in self._answers:
            if run_id in lost:
                self._repeat(pending, lost)
            elif isinstance(reply, AssayError):
                self.refuse(pending, reply)
            else:
                pending.answer(reply)
        for pending in again:
            pending.again = True
        # Dropped here and not in `decide`, where later requests about the same run still have to find the run.
        self._tools.cache.drop_all(self._outdated)
        self._send_to_workers(lost)
        return again

    def _repeat(self, pending: PendingRequest, lost: frozenset[RunId]) -> None:
        """Have a request decided again; a delivery without the messages that another engine has delivered."""
        if type(pending.request) is Deliver:
            rest = deliveries.not_gone(pending.request, lost)
            if rest is None:
                pending.answer(None)
                return
            pending.request = rest
        self._again.append(pending)

    def _send_to_workers(self, lost: frozenset[RunId]) -> None:
        """Send leases, news of new events and cancellations to workers, for all written runs."""
        for worker, grant, pending in self._grants:
            if grant.key.run_id not in lost:
                worker.take(grant)
            elif pending is None:  # a lease with a request keeps its slot: the request is decided again
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
        """Release the worker slots reserved by `lease`, after a failed write; requests release theirs in `refuse`."""
        for worker, grant, pending in self._grants:
            if pending is None:
                _release_slot(worker, grant)

    def fail(self, error: AssayError) -> None:
        """Refuse all requests of the batch, because the write failed or its outcome is unknown."""
        self.release_slots()
        for pending in self._requests:
            self.refuse(pending, error)

    def refuse(self, pending: PendingRequest, error: AssayError) -> None:
        """Refuse a request; release the slot reserved for a lease request."""
        if pending.worker is not None and isinstance(pending.request, LeaseTask | LeaseActivity):
            self._tools.dispatcher.refused(pending.request, pending.worker)
        pending.fail(error)


def _release_slot(worker: ConnectedWorker, grant: TaskGrant | ActivityGrant) -> None:
    """Release the slot reserved for a grant."""
    worker.slots.release(None if isinstance(grant, TaskGrant) else grant.activity.name)
