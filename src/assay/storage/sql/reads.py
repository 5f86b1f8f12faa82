"""The reads of a store for both databases: queries, and the conversion of their rows."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from assay.core.model.effects import OUTBOX_KINDS, OutboxMessage
from assay.core.model.events import Adopted, ChildWorkflowStarted, Recorded
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import Payload
from assay.core.model.peers import Peer, PeerKey
from assay.core.model.run import Run
from assay.core.model.update_states import UpdateState
from assay.core.rules.fold import add_peers, add_unseen, put_activity
from assay.core.rules.retry_cut import open_children
from assay.core.schedules.model import Fire, Schedule, schedule_key
from assay.storage.ports import (
    Deadline,
    Demand,
    HeldLease,
    ReadyActivity,
    ReadyTask,
    RequestOutcome,
    RunFilter,
    RunPage,
    RunRecord,
    Snapshot,
    StoredActivity,
    StoredRun,
)
from assay.storage.sql import activity_rows, queries, rows, schedule_rows
from assay.storage.sql.dialect import Dialect
from assay.storage.sql.mail import SqlMail

MAX_INT64 = 2**63 - 1

EVENTS_PER_READ = 500
"""Events per query; other tasks of the event loop may run between two queries."""
BEFORE_ALL_WORK: tuple[str, Time, RunId, int] = ("", -1, RunId(""), -1)


class SqlReads(SqlMail, ABC):
    """The reads of `Store`, built on a single primitive that returns the rows of a query."""

    dialect: ClassVar[Dialect]

    @abstractmethod
    async def _fetch(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a short query by key, as input of a write."""

    async def poll(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a short query of the engine's own loops: deadlines, ready work, the outbox."""
        return await self._fetch(text, *arguments)

    async def query(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a possibly long query of the engine itself."""
        return await self._fetch(text, *arguments)

    async def look_up(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a caller's short read by key."""
        return await self._fetch(text, *arguments)

    async def browse(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a caller's read along an index; the read may be long."""
        return await self.query(text, *arguments)

    async def search(self, text: str, *arguments: object) -> Sequence[Sequence[Any]]:
        """Return the rows of a caller's list or count; the query may read a whole namespace."""
        return await self.query(text, *arguments)

    @property
    def wal_bytes(self) -> int | None:
        """See `Store`: None, because the database bounds its own log."""
        return None

    async def stream_horizon(self) -> int:
        """Return a transaction id below which no further event can appear: all committed ones are readable."""
        return MAX_INT64

    async def load(
        self, run_ids: Sequence[RunId], workflow_ids: Sequence[tuple[Namespace, WorkflowId]]
    ) -> Sequence[StoredRun]:
        """See `Store`."""
        found: dict[RunId, StoredRun] = {}
        if run_ids:
            for row in await self._fetch(queries.RUNS_BY_ID, self.dialect.texts(run_ids)):
                found[row[0]] = rows.run_of(row)
        if workflow_ids:
            for row in await self._fetch(queries.NEWEST_RUNS, *self.dialect.pairs(workflow_ids)):
                found.setdefault(row[0], rows.run_of(row))
        unfinished = {run_id: run for run_id, run in found.items() if run.closed_at is None}
        if unfinished:
            await self._complete(unfinished)
            found |= await self._with_inputs(unfinished)
        return tuple(found.values())

    async def _complete(self, runs: dict[RunId, StoredRun]) -> None:
        """Add the contents of other tables: activities, timers and children."""
        wanted = self.dialect.texts(tuple(runs))
        for row in await self._fetch(queries.OPEN_ACTIVITIES, wanted):
            run_id, activity = activity_rows.activity_of(row)
            put_activity(runs[run_id], activity)
        watched: list[RunId] = []
        for run_id, kind, ref, due in await self._fetch(queries.RUN_DEADLINES, wanted):
            if due is None:
                runs[run_id].versions[kind] = ref
            elif due < 0:
                watched.append(run_id)
            elif kind == "timer":
                runs[run_id].timers[ref] = due
            else:
                runs[run_id].armed = due
        if watched:
            await self._add_peers(runs, watched)
        for parent, *row in await self._fetch(queries.OPEN_CHILDREN, wanted):
            # A reopened run may have messages about children of its predecessor.
            if runs[parent].start.reopening is None or rows.parent_of(row) == parent:
                child = rows.child_of(row)
                runs[parent].children[child.key] = child
        await self._add_unseen([run for run in runs.values() if run.seen_seq < run.last_seq])
        for run in runs.values():
            if run.start.reopening is not None and run.start.reopening.adopted:
                await self._adopt(run, run.start.reopening.adopted)

    async def _add_unseen(self, runs: Sequence[StoredRun]) -> None:
        """Add the places of events that no accepted task has seen."""
        if not runs:
            return
        by_id = {run.run_id: run for run in runs}
        for run_id, seq, kind in await self._fetch(queries.UNSEEN_INPUTS, self.dialect.texts(tuple(by_id))):
            add_unseen(by_id[run_id], seq, kind)

    async def _add_peers(self, runs: dict[RunId, StoredRun], watched: list[RunId]) -> None:
        """Add the watchers, watches and options of runs."""
        found: dict[RunId, dict[PeerKey, Peer]] = {}
        for run_id, *row in await self._fetch(queries.PEERS, self.dialect.texts(watched)):
            peer = Peer(*row)
            found.setdefault(run_id, {})[peer.key] = peer
        for run_id, peers in found.items():
            add_peers(runs[run_id], peers)

    async def _with_inputs(self, runs: dict[RunId, StoredRun]) -> dict[RunId, StoredRun]:
        """Return the runs with a retry policy or a cron schedule, with the inputs that their next runs need."""
        repeated = [run.run_id for run in runs.values() if run.start.retry_policy or run.start.cron_schedule]
        if not repeated:
            return {}
        found = await self._fetch(queries.INPUTS, self.dialect.texts(repeated))
        return {run_id: replace(runs[run_id], input=Payload(payload)) for run_id, payload in found}

    async def _adopt(self, run: Run, adopted: Sequence[Adopted]) -> None:
        """Add the children that a reopened run has adopted from earlier runs, as its history records."""
        started = await self._started(run)
        waiting = {event.child_workflow_id for event in started}
        names = {(child.run_id, child.workflow_id) for child in adopted if child.workflow_id in waiting}
        if not names:
            return
        parents = self.dialect.texts(tuple({run_id for run_id, _ in names}))
        for parent, *row in await self._fetch(queries.ADOPTED_CHILDREN, parents):
            child = rows.child_of(row)
            if (parent, child.workflow_id) not in names:
                continue
            free = (event for event in started if event.child_workflow_id == child.workflow_id)
            for event in sorted(free, key=lambda event: event.run_id != child.run_id):
                taken = replace(child, seq=event.child_seq, adopted_seq=child.seq)
                if taken.key not in run.children:
                    run.children[taken.key] = taken
                    break

    async def _started(self, run: Run) -> list[ChildWorkflowStarted]:
        """Return the events of children that a run's history has started and not ended."""
        kinds = ("ChildWorkflowStarted", "ChildWorkflowCompleted", "ChildWorkflowFailed")
        found = [recorded for kind in kinds for recorded in await self.events(run.run_id, kind=kind)]
        started = open_children(sorted(found, key=lambda recorded: recorded.seq))
        events = (recorded.event for recorded in started.values())
        return [event for event in events if isinstance(event, ChildWorkflowStarted)]

    async def updates(self, run_id: RunId, update_ids: Sequence[str]) -> Sequence[UpdateState]:
        """See `Store`."""
        found = await self._fetch(queries.UPDATES_OF_RUN, run_id, self.dialect.texts(update_ids))
        return [rows.update_of(row) for row in found]

    async def find_update(self, namespace: str, workflow_id: str, update_id: str) -> tuple[UpdateState, bool] | None:
        """See `Store`."""
        found = await self.look_up(queries.UPDATE_OF_WORKFLOW, namespace, workflow_id, update_id)
        return (rows.update_of(found[0][:-1]), found[0][-1] is not None) if found else None

    async def outcomes(self, keys: Sequence[tuple[str, str]]) -> Sequence[RequestOutcome]:
        """See `Store`."""
        if not keys:
            return ()
        found = await self._fetch(queries.OUTCOMES_BY_KEY, *self.dialect.pairs(keys))
        return [RequestOutcome(*row) for row in found]

    async def events(
        self, run_id: RunId, after: int = 0, limit: int = 10_000, kind: str | None = None
    ) -> Sequence[Recorded]:
        """See `Store`."""
        text, more = (queries.EVENTS_AFTER, ()) if kind is None else (queries.EVENTS_AFTER_OF_KIND, (kind,))
        found: list[Recorded] = []
        while len(found) < limit:
            size = min(EVENTS_PER_READ, limit - len(found))
            page = await self.look_up(text, run_id, after, size, *more)
            found.extend(map(rows.recorded, page))
            if len(page) < size:
                break
            after = found[-1].seq
            await asyncio.sleep(0)  # let other tasks run: reads on SQLite do not suspend
        return found

    async def due(self, now: Time, wall: Time, limit: int) -> Sequence[Deadline]:
        """See `Store`."""
        return [Deadline(*row) for row in await self.poll(queries.DUE, now, wall, limit)]

    async def next_due(self) -> tuple[Time | None, Time | None]:
        """See `Store`."""
        ((due, scheduled),) = await self.poll(queries.NEXT_DUE)
        return due, scheduled

    async def ready_tasks(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyTask]:
        """See `Store`."""
        found: list[ReadyTask] = []
        for demand in demands:
            kind, since, run_id, _ = demand.after or BEFORE_ALL_WORK
            text, kind = (
                (queries.READY_TASKS_OF_ALL_TYPES, kind) if demand.kind is None else (queries.READY_TASKS, demand.kind)
            )
            page = await self.poll(text, demand.namespace, demand.queue, kind, since, run_id, demand.limit)
            found.extend(ReadyTask(*row) for row in page)
        return found

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyActivity]:
        """See `Store`."""
        found: list[ReadyActivity] = []
        for demand in demands:
            name, since, run_id, seq = demand.after or BEFORE_ALL_WORK
            text, name = (
                (queries.READY_ACTIVITIES_OF_ALL_NAMES, name)
                if demand.kind is None
                else (queries.READY_ACTIVITIES, demand.kind)
            )
            page = await self.poll(text, demand.namespace, demand.queue, name, since, run_id, seq, demand.limit)
            found.extend(ReadyActivity(*row) for row in page)
        return found

    async def local_leases(self) -> Sequence[HeldLease]:
        """See `Store`."""
        tasks = await self.query(queries.LOCAL_TASKS)
        activities = await self.query(queries.LOCAL_ACTIVITIES)
        return [HeldLease(*row) for row in (*tasks, *activities)]

    async def leases(self, worker: WorkerId | None = None) -> Sequence[HeldLease]:
        """See `Store`."""
        tasks = await self.query(queries.LEASED_TASKS, worker or "")
        activities = await self.query(queries.LEASED_ACTIVITIES, worker or "")
        return [HeldLease(*row) for row in (*tasks, *activities)]

    async def messages(self, before: Time, limit: int) -> Sequence[OutboxMessage]:
        """See `Store`."""
        kinds = self.dialect.texts(OUTBOX_KINDS)
        return [rows.message_of(row) for row in await self.poll(queries.MESSAGES, before, limit, kinds)]

    async def load_schedules(self, keys: Sequence[tuple[Namespace, str]]) -> Sequence[Schedule]:
        """See `Store`."""
        wanted = self.dialect.texts([schedule_key(*key) for key in keys])
        found = await self._fetch(queries.SCHEDULES_BY_KEY, wanted) if keys else ()
        return [schedule_rows.schedule_of(document) for (document,) in found]

    async def list_schedules(self, namespace: str | None, *, waiting: bool = False) -> Sequence[Schedule]:
        """See `Store`."""
        if waiting:
            found = await self.query(queries.WAITING_SCHEDULES)
        elif namespace is None:
            found = await self.query(queries.ALL_SCHEDULES)
        else:
            found = await self.browse(queries.SCHEDULES, namespace)
        schedules = [schedule_rows.schedule_of(document) for (document,) in found]
        return [schedule for schedule in schedules if namespace in (None, schedule.namespace)]

    async def fires(self, namespace: str, name: str, limit: int) -> Sequence[Fire]:
        """See `Store`."""
        return [
            schedule_rows.fire_of(row) for row in await self.browse(queries.FIRES_OF_SCHEDULE, namespace, name, limit)
        ]

    async def count_fires(self, namespace: str, name: str) -> int:
        """See `Store`."""
        count: int = (await self.browse(queries.COUNT_FIRES, namespace, name))[0][0]
        return count

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None) -> RunRecord | None:
        """See `Store`."""
        if run_id is None:
            found = await self.look_up(queries.DESCRIBE_NEWEST, namespace, workflow_id)
        else:
            found = await self.look_up(queries.DESCRIBE_RUN, namespace, workflow_id, run_id)
        return rows.run_record(found[0]) if found else None

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        """See `Store`."""
        text, arguments = queries.list_runs(wanted)
        found = await self.search(text, *arguments)
        return RunPage(map(rows.run_record, found), more=bool(found) and found[0][-1] > len(found))

    async def count_runs(self, wanted: RunFilter) -> int:
        """See `Store`."""
        text, arguments = queries.count_runs(wanted)
        count: int = (await self.search(text, *arguments))[0][0]
        return count

    async def activity(self, number: int) -> StoredActivity | None:
        """See `Store`."""
        found = await self.look_up(queries.ACTIVITY, number)
        return activity_rows.activity_record(found[0]) if found else None

    async def snapshot(self, run_id: RunId) -> Snapshot | None:
        """See `Store`."""
        found = await self.look_up(queries.SNAPSHOT, run_id)
        return rows.snapshot_of(found[0]) if found else None
