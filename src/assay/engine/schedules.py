"""Schedules within a batch: read with the runs they depend on, decided one after the other, written with them."""

from collections.abc import Callable, Iterable

from assay.core.ids import Namespace, RunId, Time, WorkflowId
from assay.core.moment import Moment
from assay.core.rules.schedules import ScheduleDecision, decide_schedule, run_names
from assay.core.run import Run
from assay.core.schedule import Schedule
from assay.core.schedule_requests import ScheduleRequest
from assay.engine.batch import Batch
from assay.storage.store import Store

Id = tuple[Namespace, WorkflowId]
Key = tuple[Namespace, str]


class Schedules:
    """The schedules that a batch touches, as they are after each decision."""

    def __init__(self) -> None:
        self._known: dict[Key, Schedule | None] = {}

    async def read(self, store: Store, requests: Iterable[ScheduleRequest], now: Time) -> set[Id]:
        """Read the schedules; the workflow ids whose newest runs their decisions need."""
        wanted = {(request.namespace, request.name) for request in requests}
        if not wanted:
            return set()
        self._known = dict.fromkeys(wanted)
        for schedule in await store.load_schedules(tuple(wanted)):
            self._known[schedule.namespace, schedule.name] = schedule
        found = [(request, self._known[request.namespace, request.name]) for request in requests]
        return {
            (request.namespace, WorkflowId(name))
            for request, schedule in found
            if schedule is not None
            for name in run_names(schedule, request, now)
        }

    def decide(
        self, request: ScheduleRequest, at: Moment, newest: Callable[[Id], Run | None]
    ) -> tuple[ScheduleDecision, Schedule | None]:
        """Decide a request, and the schedule as it was before."""
        schedule = self._known.get((request.namespace, request.name))
        names = () if schedule is None else run_names(schedule, request, at.now)
        current = {name: newest((request.namespace, WorkflowId(name))) for name in names}
        runs = {WorkflowId(name): run for name, run in current.items() if run is not None}
        last = None if schedule is None or schedule.last_workflow_id is None else current[schedule.last_workflow_id]
        decision = decide_schedule(schedule, request, Moment(at.now, at.ids, runs), last)
        self._known[request.namespace, request.name] = None if decision.deleted else decision.schedule
        return decision, schedule


def gather(batch: Batch, decision: ScheduleDecision, before: Schedule | None) -> None:
    """Take a schedule's decision, with the runs it starts and ends, into a batch."""
    schedule = before if decision.deleted else decision.schedule
    if schedule is None or (decision.schedule is before and not decision.deleted):
        return
    batch.put_schedule(schedule, deleted=decision.deleted)
    batch.changes.fires.extend(decision.fires)
    for run in decision.runs:
        batch.take(run)
    owner = RunId(f"{schedule.namespace}/{schedule.name}")
    batch.changes.messages.extend((owner, message, decision.now) for message in decision.messages)
