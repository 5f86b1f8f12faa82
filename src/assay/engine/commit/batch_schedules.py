"""Schedules in a batch: read together with the runs of their decisions, decided in order, written with these runs."""

from collections.abc import Callable, Iterable

from assay.core.model.ids import Namespace, Time, WorkflowId
from assay.core.model.run import Run
from assay.core.rules.moment import Moment
from assay.core.schedules.fires import ScheduleDecision
from assay.core.schedules.model import FireOutcome, Schedule
from assay.core.schedules.requests import ScheduleRequest
from assay.core.schedules.rules import decide_schedule, run_names
from assay.engine.commit.batch import Batch
from assay.storage.ports import Store, Unfired

Id = tuple[Namespace, WorkflowId]
Key = tuple[Namespace, str]


class BatchSchedules:
    """The schedules of a batch, each as its latest decision left it."""

    def __init__(self) -> None:
        self._known: dict[Key, Schedule | None] = {}

    async def read(self, store: Store, requests: Iterable[ScheduleRequest], wall: Time) -> set[Id]:
        """Read the schedules of requests; return the workflow ids of the runs for their decisions."""
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
            for name in run_names(schedule, request, wall)
        }

    def known(self, request: ScheduleRequest) -> Schedule | None:
        """Return the schedule of a request, as earlier decisions of the batch left it."""
        return self._known.get((request.namespace, request.name))

    def decide(
        self, request: ScheduleRequest, at: Moment, wall: Time, newest: Callable[[Id], Run | None]
    ) -> ScheduleDecision:
        """Decide a request at a wall time, with the newest runs of the schedule's workflow ids."""
        key = (request.namespace, request.name)
        schedule = self._known.get(key)
        names = () if schedule is None else run_names(schedule, request, wall)
        found = {key: newest(key) for key in ((request.namespace, WorkflowId(name)) for name in names)}
        runs = {named: run for named, run in found.items() if run is not None}
        decision = decide_schedule(schedule, request, Moment(at.now, at.ids, runs), wall)
        self._known[key] = None if decision.deleted else decision.schedule
        return decision


def gather(batch: Batch, decision: ScheduleDecision) -> None:
    """Add a schedule's decision to a batch, tied to the runs to start and end: the store writes all or nothing."""
    if not decision.changed and not decision.deleted:
        return
    schedule = decision.schedule
    batch.put_schedule(schedule, deleted=decision.deleted)
    batch.changes.fires.extend(decision.fires)
    batch.changes.retaken.extend(decision.retaken)
    unfired = [fire for fire in decision.fires if fire.outcome is not FireOutcome.STARTED]
    if unfired:
        batch.changes.unfired.append(Unfired(schedule.key, decision.at.ids.run_id(), unfired))
    batch.changes.messages.extend((schedule.key, message, decision.at.now) for message in decision.messages)
    for run in decision.runs:
        batch.take(run)
        batch.changes.ties.append((schedule.key, run.run.run_id))
