"""One attempt at one batch: load, decide, lease, write, answer."""

from time import perf_counter

from assay.core.decide import decide
from assay.core.effects import Decision
from assay.core.errors import AssayError, Unavailable
from assay.core.grants import ActivityGrant, Seat, TaskGrant
from assay.core.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.moment import Moment
from assay.core.requests import (
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
from assay.core.rules.leases import lease_ready_activity, lease_ready_task
from assay.core.rules.retry import Unprepared
from assay.core.run import Activity, Run
from assay.core.schedule_requests import ScheduleRequest
from assay.engine.clock import Clock
from assay.engine.commit.batch import Batch
from assay.engine.commit.batch_schedules import Schedules, gather
from assay.engine.commit.cache import RunCache
from assay.engine.commit.idempotency import IdempotencyKey, Memory, Rendered
from assay.engine.commit.pending import PendingRequest
from assay.engine.commit.prefetch import (
    PREFETCHING,
    continues,
    may_repeat,
    named,
    with_histories,
    with_unread,
    with_unused,
)
from assay.engine.dispatcher import Dispatcher, task_grant
from assay.engine.ids import BlockIds
from assay.engine.presence import Presence
from assay.storage.store import Store

Id = tuple[Namespace, WorkflowId]
Grant = tuple[Seat, TaskGrant | ActivityGrant, "PendingRequest | None"]
"""Work for a worker, and the request that asked for it if there was one."""


class Tools:
    """What every batch works with."""

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
    """One attempt at one batch."""

    def __init__(self, tools: Tools, asked: list[PendingRequest]) -> None:
        self._tools = tools
        self._asked = asked
        self._runs: dict[RunId, Run] = {}
        self._newest: dict[Id, Run] = {}
        self._answers: list[tuple[PendingRequest, object, RunId | None]] = []
        self._grants: list[Grant] = []
        self._told: list[tuple[Seat, RunId]] = []
        self._unsure: list[PendingRequest] = []
        self._doubtful: list[Run] = []
        self._memory = Memory()
        self._schedules = Schedules()
        self._numbers = 0
        """How many ids for activities the decisions may need."""
        self.batch = Batch()
        self.next_due: Time | None = None
        self.culprit: PendingRequest | None = None
        """The request whose decision failed for a reason nobody thought of."""

    # load

    async def prepare(self) -> None:
        """Have at hand what decisions need: the runs, those their commands name, and numbers for what they create."""
        store, cache = self._tools.store, self._tools.cache
        run_ids: set[RunId] = set()
        ids: set[Id] = set()
        busy: list[PendingRequest] = []
        scheduled: list[ScheduleRequest] = []
        keys: list[IdempotencyKey] = []
        commands = 0
        for asked in self._asked:
            request = asked.request
            if type(request) is Advance:
                if request.run_id not in cache:
                    run_ids.add(request.run_id)
                if request.commands:
                    commands += len(request.commands)
                    # below zero: a worker that replays elsewhere, whose commands may be old ones
                    asked.special = request.seen_seq < 0 or not PREFETCHING.isdisjoint(map(type, request.commands))
            elif isinstance(request, ScheduleRequest):
                scheduled.append(request)
            else:
                self._miss(request, run_ids, ids)
                asked.special = isinstance(request, RestartAsNew | RetryFailed)
            if asked.special:
                busy.append(asked)
            if asked.key is not None:
                keys.append(asked.key)
        if scheduled:
            await self._prepare_schedules(scheduled, ids)
        if run_ids or ids:
            await self._load(run_ids, ids)
        if keys:
            await self._memory.recall(store, keys)
        self._numbers = commands + 4 * len(self._asked)
        await self._tools.ids.ensure(store, self._numbers)
        if busy:
            await self._prepare_others(busy)

    async def _prepare_schedules(self, scheduled: list[ScheduleRequest], ids: set[Id]) -> None:
        named = await self._schedules.read(self._tools.store, scheduled, self._tools.clock.wall())
        shared = self._tools.store.shared  # a run that is open in the cache may have been closed elsewhere
        ids.update(key for key in named if shared or self._tools.cache.newest(key) is None)

    async def _load(self, run_ids: set[RunId], ids: set[Id]) -> None:
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

    def _keep(self, run: Run) -> None:
        run.tail = [] if run.last_seq == run.seen_seq else None
        self._runs[run.run_id] = run
        known = self._newest.get((run.namespace, run.workflow_id))
        # Equal numbers are one run that was read twice: a second object of it would miss what the first one is told.
        if known is None or known.number <= run.number:
            self._newest[run.namespace, run.workflow_id] = run

    async def _prepare_others(self, busy: list[PendingRequest]) -> None:
        """The runs that requests name beside their own, and what goes along when a run continues in another."""
        found = [(asked, self._find(asked.request)) for asked in busy]
        known = [(asked, run) for asked, run in found if run is not None]
        names = {key for asked, run in known for key in named(asked.request, run)}
        unknown = {key for key in names if self._tools.cache.newest(key) is None}
        if unknown:
            await self._load(set(), unknown)
        for asked, run in known:
            if may_repeat(asked.request):
                asked.request = await with_unused(asked.request, run, self._tools.store)
            if continues(asked.request):
                asked.request = await with_unread(asked.request, run, self._tools.store)
            elif isinstance(asked.request, RetryFailed):
                await self._prepare_retry(asked, asked.request, run)

    async def _prepare_retry(self, asked: PendingRequest, request: RetryFailed, run: Run) -> None:
        asked.request, children = await with_histories(request, run, self._tools.store)
        for child in children:
            self._keep(child)
        self._numbers += sum(map(len, asked.request.histories.values()))
        await self._tools.ids.ensure(self._tools.store, self._numbers)

    def _find(self, request: Request) -> Run | None:
        run_id = getattr(request, "run_id", None)
        if run_id is not None:
            return self.batch.touched.get(run_id) or self._runs.get(run_id) or self._tools.cache.get(run_id)
        if isinstance(request, ToWorkflow | StartWorkflow):
            return self._current((request.namespace, request.workflow_id))
        return None

    def _current(self, key: Id) -> Run | None:
        born = self.batch.newest.get(key)
        if born is not None:
            return born
        loaded, cached = self._newest.get(key), self._tools.cache.newest(key)
        if loaded is None or (cached is not None and cached.number > loaded.number):
            return cached  # what was loaded for a late request to an older run says nothing about the newest
        return loaded

    # decide

    def decide(self) -> None:
        """Decide every request in order, then lease what became ready to workers that wait."""
        at = Moment(self._tools.clock.now(), self._tools.ids)
        for asked in self._asked:
            try:
                self._decide_one(asked, at)
            except Exception:
                self.culprit = asked
                raise
        self._lease_ready(at)
        self.next_due = self.batch.seal(at.now)

    def _decide_one(self, asked: PendingRequest, at: Moment) -> None:
        request = asked.request
        if asked.key is not None and (known := self._memory.answer(asked.key)) is not None:
            self._answers.append((asked, known, self._memory.rests_on(asked.key)))
            return
        if isinstance(request, ScheduleRequest):
            self._decide_schedule(asked, request, at)
            return
        if type(request) is Elapse:
            if self._tools.presence.lapsed:
                # It stood still between the look at the deadlines and now: leases are spared before any is ended.
                self._answers.append((asked, Unavailable("the engine stood still"), None))
                return
            self._fires_at(at.now, 0)
        run = self._find(request)
        if run is None and isinstance(request, Deliver):
            self.batch.changes.acknowledged.append((request.run_id, request.message.key))
            return
        try:
            decision = decide(run, request, self._moment(request, run, at) if asked.special else at)
        except Unprepared:
            # another request of this batch was faster: read what it left and decide again, but not for ever
            if asked.again:
                self._answers.append((asked, Unavailable("the history changes while it is read; try again"), None))
            else:
                self._unsure.append(asked)
            return
        except AssayError as error:
            if not self._doubt(asked, run):
                self._answers.append((asked, self._keep_outcome(asked, error, None, at), None))
            return
        changed = self.batch.take(decision)
        if type(request) is Elapse and request.kind == "run":
            self._elapse_activities(decision.run, at)
        elif not changed and self._doubt(asked, run):
            return
        run_id = decision.run.run_id
        reply = decision.reply if asked.key is None else self._keep_outcome(asked, decision.reply, run_id, at)
        self._answers.append((asked, reply, run_id))
        if asked.seat is not None:
            self._grant(asked.seat, decision, asked)

    def _elapse_activities(self, run: Run, at: Moment) -> None:
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

    def _decide_schedule(self, asked: PendingRequest, request: ScheduleRequest, at: Moment) -> None:
        wall = self._tools.clock.wall()
        try:
            decision = self._schedules.decide(request, at, wall, self._current)
        except AssayError as error:
            self._answers.append((asked, self._keep_outcome(asked, error, None, at), None))
            return
        gather(self.batch, decision)
        if decision.fires:
            self._fires_at(0, wall)
        key = decision.schedule.key
        self._answers.append((asked, self._keep_outcome(asked, decision.reply, key, at), key))

    def _keep_outcome(self, asked: PendingRequest, reply: object, run_id: RunId | None, at: Moment) -> object:
        """Store the answer with the effect, refusals included, so that a repeated request gets the same one (4.4)."""
        if asked.key is None:
            return reply
        outcome = asked.key.outcome(reply, at.now)
        self._memory.keep(outcome, run_id)
        self.batch.changes.outcomes.append((run_id, outcome))
        return Rendered(outcome.status, outcome.body)

    def _doubt(self, asked: PendingRequest, run: Run | None) -> bool:
        """Where other engines write too, a decision that writes nothing may rest on an old state: decide it again.

        One that writes is checked by its compare-and-set; this one would be by nobody.
        """
        if not self._tools.store.shared or asked.again or run is None or run.run_id in self._runs:
            return False
        self._unsure.append(asked)
        self._doubtful.append(run)
        return True

    def _moment(self, request: Request, run: Run | None, at: Moment) -> Moment:
        if run is None:
            return at
        runs = {key[1]: self._current(key) for key in named(request, run)}
        return Moment(at.now, at.ids, {child: one for child, one in runs.items() if one is not None}) if runs else at

    def _lease_ready(self, at: Moment) -> None:
        dispatcher = self._tools.dispatcher
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
                self._news(run, task.worker)
        for run, worker in self.batch.left:
            self._news(run, worker)

    def _begin_attempt(self, run: Run, lease: LeaseActivity, seat: Seat, at: Moment) -> None:
        """The short way of the most frequent decision of all: nothing but the attempt changes."""
        try:
            leased = lease_ready_activity(run, lease, at)
        except AssayError:
            self._tools.dispatcher.refused(lease, seat)
            return
        self.batch.attempt_begun(run, leased, at.now)
        self._grants.append((seat, ActivityGrant(run.key, run.start, leased), None))

    def _grant(self, seat: Seat, decision: Decision, asked: PendingRequest) -> None:
        run = decision.run
        if isinstance(decision.reply, Activity):
            self._grants.append((seat, ActivityGrant(run.key, run.start, decision.reply), asked))
        else:
            self._grants.append((seat, task_grant(run), asked))

    def _news(self, run: Run, worker: WorkerId) -> None:
        seat = self._tools.dispatcher.seat(worker)
        if seat is not None:
            self._told.append((seat, run.run_id))

    # write and answer

    async def write(self) -> frozenset[RunId]:
        """Make it durable; the runs that another engine was faster with are not written."""
        changes = self.batch.changes
        if not (self.batch.touched or changes.acknowledged or changes.outcomes or changes.schedules):
            return frozenset()
        began = perf_counter()
        lost = await self._tools.store.write(changes)
        self.batch.tally.seconds = perf_counter() - began
        self.batch.tally.requests = len(self._asked)
        return lost

    def answer(self, lost: frozenset[RunId]) -> list[PendingRequest]:
        """Tell callers their outcome and workers their tasks; those who must be decided again come back."""
        again = self._unsure
        for asked, reply, run_id in self._answers:
            if run_id in lost:
                again.append(asked)
            elif isinstance(reply, AssayError):
                self.refuse(asked, reply)
            else:
                asked.answer(reply)
        for asked in again:
            asked.again = True
        # not before: other requests of this batch may be about the same run, and would not find it
        self._tools.cache.drop_all(self._doubtful)
        self._hand_out(lost)
        return again

    def _hand_out(self, lost: frozenset[RunId]) -> None:
        for seat, grant, asked in self._grants:
            if grant.key.run_id not in lost:
                seat.take(grant)
            elif asked is None:
                _free(seat, grant)
        for seat, run_id in self._told:
            if run_id not in lost:
                seat.news(run_id)
        for run_id, activity, over in self.batch.unwanted:
            if run_id in lost:
                continue  # not written: whoever works on it may go on
            holder = None if activity.worker is None else self._tools.dispatcher.seat(activity.worker)
            if holder is not None:
                holder.cancel(activity.attempt_id, over=over)

    def undo(self) -> None:
        """Nothing was written: what the batch had promised to workers on its own account is theirs to give again."""
        for seat, grant, asked in self._grants:
            if asked is None:
                _free(seat, grant)

    def fail(self, error: AssayError) -> None:
        """Nobody got anything: say so to everyone."""
        self.undo()
        for asked in self._asked:
            self.refuse(asked, error)

    def refuse(self, asked: PendingRequest, error: AssayError) -> None:
        """One got nothing."""
        self._release(asked)
        asked.fail(error)

    def _release(self, asked: PendingRequest) -> None:
        if asked.seat is not None and isinstance(asked.request, LeaseTask | LeaseActivity):
            self._tools.dispatcher.refused(asked.request, asked.seat)


def _free(seat: Seat, grant: TaskGrant | ActivityGrant) -> None:
    """A hand that was promised work is free again."""
    if isinstance(grant, TaskGrant):
        seat.free_tasks += 1
    else:
        seat.free_activities += 1
        seat.processes.release(grant.activity.name)
