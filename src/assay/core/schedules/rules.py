"""Rules of schedules: create, change, pause, trigger, backfill. Due times up to now are always handled first."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay.core.model.errors import AlreadyExists, Invalid, NotFound
from assay.core.model.ids import Time
from assay.core.model.limits import LIMITS
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import NULL
from assay.core.model.replies import SchedulePut
from assay.core.rules.attributes import check_search, merge
from assay.core.rules.moment import Moment
from assay.core.schedules import requests as rq
from assay.core.schedules.fires import ScheduleDecision, catch_up, depends_on_runs, due_times, fire, record_not_fired
from assay.core.schedules.model import FireOutcome, Overlap, Schedule, Trigger

MAX_NAME_BYTES = LIMITS.id_bytes - 28
"""The limit of a schedule's name: a run's workflow id is the name followed by the due time."""
MAX_BACKFILL_FIRES = 1_000
TIMING = ("cron_expr", "timezone", "dst", "end_at", "remaining")
"""Fields of the timetable: after a change the next due time is computed again."""
DEFINITION = (
    *TIMING,
    *("workflow_type", "task_queue", "input", "overlap_policy", "missed", "window", "jitter"),
    *("search_attributes", "memo"),
)
"""Fields that a put replaces; the other fields are the schedule's past and its pause."""
ENGINE = "engine"


def decide_schedule(schedule: Schedule | None, request: rq.ScheduleRequest, at: Moment, wall: Time) -> ScheduleDecision:
    """Return the decision about a request at the wall time `wall`; `at` has the newest runs of all `run_names`."""
    if isinstance(request, rq.CreateSchedule):
        return _create(schedule, request, at, wall)
    if isinstance(request, rq.PutSchedule) and schedule is None:
        created = _create(None, request, at, wall)
        created.answer = SchedulePut(created.schedule, created=True)
        return created
    if schedule is None:
        raise NotFound(f"schedule {request.name}")
    decision = ScheduleDecision(schedule, at, wall)
    if isinstance(request, rq.DeleteSchedule):
        decision.deleted = True
        return decision
    try:
        catch_up(decision)
    except Invalid as error:
        decision = _broken(ScheduleDecision(schedule, at, wall), error)
    overlap = _overlap(request)
    if overlap is not None:
        decision.follow(overlap, unlimited=_one_by_one(request))
    RULES[type(request)](decision, request)
    return decision


def run_names(schedule: Schedule, request: rq.ScheduleRequest, now: Time) -> tuple[str, ...]:
    """Return the workflow ids whose newest runs a decision needs: possibly open runs, and runs it may start."""
    names = [fire.workflow_id for fire in schedule.waiting]
    if depends_on_runs(schedule, schedule.overlap_policy) or _overlap(request) is not None:
        names += schedule.running
    try:
        names += [schedule.run_name(due) for due in due_times(schedule, now)]
        if isinstance(request, rq.BackfillSchedule):
            names += [schedule.run_name(due) for due in _past(schedule, request, now)]
    except Invalid:  # the decision raises the same error
        pass
    return tuple(names)


def _overlap(request: rq.ScheduleRequest) -> Overlap | None:
    if _one_by_one(request):
        return Overlap.QUEUE
    return request.overlap if isinstance(request, rq.TriggerSchedule | rq.BackfillSchedule) else None


def _one_by_one(request: rq.ScheduleRequest) -> bool:
    """Return True for a backfill without a policy: its due times are queued, and no due time is left out."""
    return isinstance(request, rq.BackfillSchedule) and request.overlap is None


def _broken(decision: ScheduleDecision, error: Invalid) -> ScheduleDecision:
    """Pause a schedule whose due times cannot be computed any more, for example because a time zone was removed."""
    due = decision.schedule.next_run_at
    if due is not None:
        decision.note(due, FireOutcome.FAILED, str(error))
    state = {"paused": True, "pause_reason": str(error), "paused_by": ENGINE, "paused_at": decision.now}
    decision.change(**state, next_run_at=None)
    return decision


def _create(
    schedule: Schedule | None, request: rq.CreateSchedule | rq.PutSchedule, at: Moment, wall: Time
) -> ScheduleDecision:
    if schedule is not None:
        raise AlreadyExists(f"schedule '{schedule.name}' already exists", existing={"name": schedule.name})
    created = replace(request.schedule, created_at=wall, paused_at=wall if request.schedule.paused else None)
    check_schedule(created)
    if created.remaining is not None:
        _check_remaining(created.remaining)
    due = created.after(wall)
    if due is None:
        raise _never_fires(created)
    decision = ScheduleDecision(created, at, wall)
    decision.change(next_run_at=due)
    return decision


def check_schedule(schedule: Schedule) -> None:
    """Raise `Invalid` for a bad field of a schedule."""
    check_id(schedule.namespace, "namespace")
    check_id(schedule.name, "name")
    if len(schedule.name.encode()) > MAX_NAME_BYTES:
        raise Invalid(f"name is longer than {MAX_NAME_BYTES} bytes", field="name")
    check_id(schedule.workflow_type, "workflow_type")
    check_id(schedule.task_queue, "task_queue")
    check_text(schedule.pause_reason, "pause_reason")
    check_text(schedule.paused_by, "paused_by")
    check_search(schedule.search_attributes)
    merge(NULL, schedule.memo, "memo")
    schedule.timetable()


def _check_remaining(remaining: int) -> None:
    if remaining < 1:
        raise Invalid("remaining must be 1 or more", field="remaining")


def _never_fires(schedule: Schedule) -> Invalid:
    if schedule.end_at is not None:
        return Invalid("nothing is due before end_at", code="never_fires", field="end_at")
    return Invalid("this expression never fires again", code="never_fires", field="cron_expr")


def _put(decision: ScheduleDecision, request: rq.PutSchedule) -> None:
    """Replace the definition of a schedule; its past, its open and waiting runs, and a pause stay."""
    _redefine(decision, {name: getattr(request.schedule, name) for name in DEFINITION})
    decision.answer = SchedulePut(decision.schedule, created=False)


def _patch(decision: ScheduleDecision, request: rq.PatchSchedule) -> None:
    """Change fields of a schedule."""
    _redefine(decision, request.changes)


def _redefine(decision: ScheduleDecision, fields: dict[str, Any]) -> None:
    """Change fields of a schedule; due times of the old timetable have fired, or are recorded as not fired."""
    before = decision.schedule
    changes = {name: value for name, value in fields.items() if getattr(before, name) != value}
    if not changes:
        return
    check_schedule(replace(before, **changes))
    if changes.get("remaining") is not None:
        _check_remaining(changes["remaining"])
    if changes.keys() & set(TIMING):
        outcome, reason = FireOutcome.SKIPPED, "the schedule was changed before its jitter had passed"
        if before.paused:
            outcome, reason = FireOutcome.PAUSED, before.pause_reason or "the schedule is paused"
        record_not_fired(decision, decision.now, outcome, reason)
        decision.change(**changes)
        _arm(decision)
    else:
        decision.change(**changes)


def _arm(decision: ScheduleDecision) -> None:
    schedule = decision.schedule
    due = schedule.after(decision.now)
    if due is None and schedule.end_at is None and schedule.remaining != 0:
        raise _never_fires(schedule)
    decision.change(next_run_at=due)


def _pause(decision: ScheduleDecision, request: rq.PauseSchedule) -> None:
    check_text(request.reason, "reason")
    check_text(request.by, "by")
    schedule = decision.schedule
    if not schedule.paused:
        decision.change(paused=True, pause_reason=request.reason, paused_by=request.by, paused_at=decision.now)
    elif request.reason is not None and request.reason != schedule.pause_reason:
        decision.change(pause_reason=request.reason, paused_by=request.by)


def _resume(decision: ScheduleDecision, _: rq.ResumeSchedule) -> None:
    """Resume a schedule: due times of the pause are recorded and never fire; fires that waited before may start."""
    schedule = decision.schedule
    if not schedule.paused:
        return
    record_not_fired(decision, decision.now, FireOutcome.PAUSED, schedule.pause_reason)
    decision.change(paused=False, pause_reason=None, paused_by=None, paused_at=None)
    _arm(decision)
    catch_up(decision)


def _trigger(decision: ScheduleDecision, _: rq.TriggerSchedule) -> None:
    """Fire now, also while the schedule is paused; the overlap policy applies."""
    number = decision.at.ids.number()
    decision.answer = fire(decision, decision.now, Trigger.MANUAL, f"{decision.schedule.name}-manual-{number}")


def _backfill(decision: ScheduleDecision, request: rq.BackfillSchedule) -> None:
    """Fire each due time of a past range without a run."""
    due = _past(decision.schedule, request, decision.now)
    fires = [fire(decision, time, Trigger.BACKFILL, decision.schedule.run_name(time)) for time in due]
    decision.answer = tuple(fires)


def _past(schedule: Schedule, request: rq.BackfillSchedule, now: Time) -> list[Time]:
    if request.end < request.start:
        raise Invalid("end is before start", field="end")
    until = min(request.end, now)
    due = schedule.timetable().fires_between(request.start - 1, until, MAX_BACKFILL_FIRES + 1, schedule.created_at)
    if len(due) > MAX_BACKFILL_FIRES:
        raise Invalid(
            f"the range has more than {MAX_BACKFILL_FIRES} due times: take a shorter one",
            code="limit_exceeded",
            field="end",
        )
    return due


def _nothing_more(_decision: ScheduleDecision, _request: rq.ScheduleRequest) -> None:
    """Do nothing more: `catch_up` has handled all due times."""


RULES: dict[type[rq.ScheduleRequest], Callable[[ScheduleDecision, Any], None]] = {
    rq.PutSchedule: _put,
    rq.PatchSchedule: _patch,
    rq.PauseSchedule: _pause,
    rq.ResumeSchedule: _resume,
    rq.TriggerSchedule: _trigger,
    rq.BackfillSchedule: _backfill,
    rq.ElapseSchedule: _nothing_more,
    rq.ScheduledRunClosed: _nothing_more,
}
