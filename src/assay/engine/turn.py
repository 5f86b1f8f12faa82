"""One attempt at one batch: load, decide, lease, write, answer."""

import asyncio

from assay.core.commands import ContinueAsNew, StartChildWorkflow
from assay.core.decide import decide
from assay.core.effects import Decision
from assay.core.errors import AssayError
from assay.core.grants import ActivityGrant, Seat, TaskGrant
from assay.core.ids import Namespace, RunId, Time, WorkflowId
from assay.core.moment import NOBODY, Moment
from assay.core.requests import (
    Advance,
    Deliver,
    LeaseActivity,
    LeaseTask,
    Request,
    RestartAsNew,
    StartWorkflow,
    ToRun,
    ToWorkflow,
)
from assay.core.run import Activity, Run
from assay.engine.batch import Batch
from assay.engine.cache import RunCache
from assay.engine.clock import Clock
from assay.engine.dispatcher import Dispatcher, Lease, task_grant
from assay.engine.ids import BlockIds
from assay.engine.unread import with_unread
from assay.storage.store import Store

Id = tuple[Namespace, WorkflowId]


class Asked:
    """A request on its way, with the one who waits for its answer, or the worker that a lease is for."""

    __slots__ = ("future", "request", "seat")

    def __init__(self, request: Request, future: asyncio.Future[object] | None, seat: Seat | None = None) -> None:
        self.request = request
        self.future = future
        self.seat = seat

    def answer(self, reply: object) -> None:
        """Give the caller its reply, if it still waits."""
        if self.future is not None and not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: AssayError) -> None:
        """Give the caller its refusal, if it still waits."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class Tools:
    """What every batch works with."""

    __slots__ = ("cache", "clock", "dispatcher", "ids", "store")

    def __init__(self, store: Store, clock: Clock, ids: BlockIds, dispatcher: Dispatcher, cache: RunCache) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.dispatcher = dispatcher
        self.cache = cache


class Turn:
    """One attempt at one batch."""

    def __init__(self, tools: Tools, asked: list[Asked]) -> None:
        self._tools = tools
        self._asked = asked
        self._runs: dict[RunId, Run] = {}
        self._newest: dict[Id, Run] = {}
        self._answers: list[tuple[Asked, object]] = []
        self._grants: list[tuple[Seat, TaskGrant | ActivityGrant]] = []
        self._leases: list[tuple[Lease, Seat]] = []
        self._told: list[tuple[Seat, RunId]] = []
        self.batch = Batch()
        self.next_due: Time | None = None

    async def prepare(self) -> None:
        """Have at hand what decisions need: the runs, those their commands name, and numbers for what they create."""
        run_ids: set[RunId] = set()
        ids: set[Id] = set()
        for asked in self._asked:
            self._miss(asked.request, run_ids, ids)
        await self._load(run_ids, ids)
        busy = [asked for asked in self._asked if isinstance(asked.request, Advance | RestartAsNew)]
        commands = sum(len(asked.request.commands) for asked in busy if isinstance(asked.request, Advance))
        await self._tools.ids.ensure(self._tools.store, commands + 4 * len(self._asked))
        if commands:
            await self._load(set(), self._missing_children(busy))
        for asked in busy:
            await self._add_unread(asked)

    async def _load(self, run_ids: set[RunId], ids: set[Id]) -> None:
        if run_ids or ids:
            for run in await self._tools.store.load(tuple(run_ids), tuple(ids)):
                self._keep(run)

    def _miss(self, request: Request, run_ids: set[RunId], ids: set[Id]) -> None:
        """Note which run of a request is not in the cache."""
        cache = self._tools.cache
        if isinstance(request, ToRun) or (isinstance(request, ToWorkflow) and request.run_id is not None):
            run_id = request.run_id
            if run_id is not None and cache.get(run_id) is None:
                run_ids.add(run_id)
        elif isinstance(request, ToWorkflow | StartWorkflow):
            key = (request.namespace, request.workflow_id)
            if cache.newest(key) is None:
                ids.add(key)

    def _missing_children(self, busy: list[Asked]) -> set[Id]:
        ids: set[Id] = set()
        for asked in busy:
            run = self._find(asked.request)
            if run is not None:
                ids.update(key for key in _children(asked.request, run) if self._tools.cache.newest(key) is None)
        return ids

    def _keep(self, run: Run) -> None:
        run.armed = run.deadline()
        run.tail = [] if run.last_seq == run.seen_seq else None
        self._runs[run.run_id] = run
        known = self._newest.get((run.namespace, run.workflow_id))
        if known is None or known.number < run.number:
            self._newest[run.namespace, run.workflow_id] = run

    async def _add_unread(self, asked: Asked) -> None:
        request = asked.request
        if isinstance(request, RestartAsNew) or (
            isinstance(request, Advance) and any(isinstance(c, ContinueAsNew) for c in request.commands)
        ):
            run = self._find(request)
            if run is not None:
                asked.request = await with_unread(request, run, self._tools.store)

    def _find(self, request: Request) -> Run | None:
        run_id = request.run_id if isinstance(request, ToRun | ToWorkflow) else None
        if run_id is not None:
            return self.batch.touched.get(run_id) or self._runs.get(run_id) or self._tools.cache.get(run_id)
        if isinstance(request, ToWorkflow | StartWorkflow):
            return self._current((request.namespace, request.workflow_id))
        return None

    def _current(self, key: Id) -> Run | None:
        return self.batch.newest.get(key) or self._newest.get(key) or self._tools.cache.newest(key)

    def decide(self) -> None:
        """Decide every request in order, then lease what became ready to workers that wait."""
        now = self._tools.clock.now()
        for asked in self._asked:
            self._decide_one(asked, now)
        self._lease_ready(now)
        self.next_due = self.batch.seal()

    def _decide_one(self, asked: Asked, now: Time) -> None:
        request = asked.request
        run = self._find(request)
        if run is None and isinstance(request, Deliver):
            self.batch.changes.acknowledged.append((request.run_id, request.message.key))
            return
        try:
            decision = decide(run, request, self._moment(request, run, now))
        except AssayError as error:
            self._answers.append((asked, error))
            return
        self.batch.take(decision)
        self._answers.append((asked, decision.reply))
        if asked.seat is not None:
            self._grant(asked.seat, decision)

    def _moment(self, request: Request, run: Run | None, now: Time) -> Moment:
        named = {} if run is None else {key[1]: self._current(key) for key in _children(request, run)}
        current = {child: found for child, found in named.items() if found is not None}
        return Moment(now, self._tools.ids, current or NOBODY)

    def _lease_ready(self, now: Time) -> None:
        dispatcher = self._tools.dispatcher
        for run, activity in self.batch.waiting:
            if run.activities.get(activity.seq) is activity:
                self._lease_now(dispatcher.assign_activity(run, activity), now)
        for run in tuple(self.batch.touched.values()):
            if run.task.ready and not run.closed:
                self._lease_now(dispatcher.assign_task(run), now)
            elif run.task.since is not None and run.task.worker is not None:
                self._news(run)

    def _lease_now(self, assigned: tuple[Lease, Seat] | None, now: Time) -> None:
        if assigned is None:
            return
        lease, seat = assigned
        run = self.batch.touched[lease.run_id]
        decision = decide(run, lease, Moment(now, self._tools.ids))
        self.batch.take(decision)
        self._leases.append(assigned)
        self._grant(seat, decision)

    def _grant(self, seat: Seat, decision: Decision) -> None:
        run = decision.run
        if isinstance(decision.reply, Activity):
            self._grants.append((seat, ActivityGrant(run.key, run.start, decision.reply)))
        else:
            self._grants.append((seat, task_grant(run)))

    def _news(self, run: Run) -> None:
        worker = run.task.worker
        seat = None if worker is None else self._tools.dispatcher.seat(worker)
        if seat is not None:
            self._told.append((seat, run.run_id))

    async def write(self) -> frozenset[RunId]:
        """Make it durable."""
        if not self.batch.touched and not self.batch.changes.acknowledged:
            return frozenset()
        return await self._tools.store.write(self.batch.changes)

    def undo_leases(self) -> None:
        """The batch was not written: hands that were promised work are free again."""
        for lease, seat in self._leases:
            if isinstance(lease, LeaseTask):
                seat.free_tasks += 1
            else:
                seat.free_activities += 1

    def answer(self) -> None:
        """Tell callers their outcome and workers their tasks."""
        for asked, reply in self._answers:
            if isinstance(reply, AssayError):
                self._release(asked)
                asked.fail(reply)
            else:
                asked.answer(reply)
        for seat, grant in self._grants:
            seat.take(grant)
        for seat, run_id in self._told:
            seat.news(run_id)
        for activity in self.batch.unwanted:
            holder = None if activity.worker is None else self._tools.dispatcher.seat(activity.worker)
            if holder is not None:
                holder.cancel(activity.attempt_id)

    def fail(self, error: AssayError) -> None:
        """Nobody got anything: say so to everyone."""
        self.undo_leases()
        for asked in self._asked:
            self._release(asked)
            asked.fail(error)

    def _release(self, asked: Asked) -> None:
        if asked.seat is not None and isinstance(asked.request, LeaseTask | LeaseActivity):
            self._tools.dispatcher.refused(asked.request, asked.seat)


def _children(request: Request, run: Run) -> list[Id]:
    """The workflow ids that a request's commands want to start as children."""
    if not isinstance(request, Advance):
        return []
    return [
        (run.namespace, WorkflowId(command.workflow_id))
        for command in request.commands
        if isinstance(command, StartChildWorkflow)
    ]
