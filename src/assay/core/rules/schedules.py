"""Rules of schedules: created, changed, paused, and fired once for each due time (I11).

A fire is one transaction: the record of the due time, the schedule's next due time, and the run it starts. So a crash
leaves either all of it or none, and two engines cannot fire the same due time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.core import schedule_requests as rq
from assay.core.effects import Decision, Message
from assay.core.errors import AlreadyExists, AssayError, Invalid, NotFound
from assay.core.ids import SECOND, Namespace, RunId, Time, WorkflowId
from assay.core.moment import Moment
from assay.core.options import check_id
from assay.core.requests import StartWorkflow
from assay.core.rules import births, lifecycle
from assay.core.rules.attributes import check_search
from assay.core.run import Run
from assay.core.schedule import Fire, Missed, Overlap, Schedule

GRACE: Time = 5 * SECOND
"""A fire this late is merely late; an older one was missed."""
WAITING_LIMIT = 100
RECORDED_MISSES = 1_000
"""Due times of one outage that are recorded one by one; what is beyond is one record with their number."""


class ScheduleDecision:
    """What one request does to one schedule: its new state, fires, runs, and messages to other runs."""

    def __init__(self, schedule: Schedule | None, now: Time) -> None:
        self.schedule = schedule
        self.deleted = False
        self.now = now
        self.fires: list[Fire] = []
        self.runs: list[Decision] = []
        self.messages: list[Message] = []
        self.reply: object = schedule

    def become(self, schedule: Schedule) -> None:
        """The schedule is now as given."""
        self.schedule = self.reply = replace(schedule, updated_at=self.now)


def decide_schedule(
    schedule: Schedule | None, request: rq.ScheduleRequest, at: Moment, last_run: Run | None
) -> ScheduleDecision:
    """What `request` does to `schedule`; `last_run` is the newest run of its last workflow id."""
    if isinstance(request, rq.CreateSchedule):
        return _create(schedule, request, at)
    if schedule is None:
        raise NotFound(f"schedule {request.name} not found")
    decision = ScheduleDecision(schedule, at.now)
    RULES[type(request)](decision, schedule, request, at, last_run)
    return decision


def run_names(schedule: Schedule, request: rq.ScheduleRequest, now: Time) -> tuple[str, ...]:
    """The workflow ids whose newest runs a decision may look at: the last one, and those it may start."""
    names = [] if schedule.last_workflow_id is None else [schedule.last_workflow_id]
    if isinstance(request, rq.ElapseSchedule):
        names += [schedule.run_name(due) for due in _due(schedule, now)[-WAITING_LIMIT:]]
    elif isinstance(request, rq.BackfillSchedule):
        due = schedule.timetable().fires_between(request.start - 1, min(request.end, now), 1_000, schedule.created_at)
        names += [schedule.run_name(time) for time in due]
    names += [schedule.run_name(due) for due in schedule.waiting[:1]]
    return tuple(names)


def _create(schedule: Schedule | None, request: rq.CreateSchedule, at: Moment) -> ScheduleDecision:
    if schedule is not None:
        raise AlreadyExists(
            f"schedule '{schedule.name}' already exists", existing={"name": schedule.name}, code="already_exists"
        )
    wanted = checked(replace(request.schedule, created_at=at.now))
    decision = ScheduleDecision(None, at.now)
    decision.become(_armed(wanted, at.now))
    return decision


def checked(schedule: Schedule) -> Schedule:
    """The schedule, or `Invalid` with what is wrong about it."""
    check_id(schedule.name, "name")
    check_id(schedule.workflow_type, "workflow_type")
    check_id(schedule.task_queue, "task_queue")
    check_search(schedule.search_attributes)
    schedule.timetable()
    if schedule.remaining is not None and schedule.remaining < 1:
        raise Invalid("remaining must be 1 or more", field="remaining")
    return schedule


def _armed(schedule: Schedule, after: Time) -> Schedule:
    due = schedule.after(after)
    if due is None and schedule.end_at is None and schedule.remaining != 0:
        raise Invalid("this expression never fires again", code="never_fires", field="cron_expr")
    return replace(schedule, next_run_at=due)


def _patch(
    decision: ScheduleDecision, schedule: Schedule, request: rq.PatchSchedule, at: Moment, _: Run | None
) -> None:
    changed = checked(msgspec.structs.replace(schedule, **request.changes))
    timing = ("cron_expr", "timezone", "dst", "end_at", "remaining")
    if any(getattr(changed, name) != getattr(schedule, name) for name in timing):
        changed = _armed(changed, at.now)
    decision.become(changed)


def _pause(
    decision: ScheduleDecision, schedule: Schedule, request: rq.PauseSchedule, at: Moment, _: Run | None
) -> None:
    if schedule.paused:
        return
    paused = replace(schedule, paused=True, pause_reason=request.reason, paused_by=request.by, paused_at=at.now)
    decision.become(paused)


def _resume(
    decision: ScheduleDecision, schedule: Schedule, request: rq.ResumeSchedule, at: Moment, last_run: Run | None
) -> None:
    """Fires due while it was paused are recorded and never made up for (R44)."""
    if schedule.paused:
        due = _due(schedule, at.now)
        _note_all(decision, schedule, due, "paused", schedule.pause_reason)
    resumed = replace(schedule, paused=False, pause_reason=None, paused_by=None, paused_at=None)
    decision.become(replace(resumed, next_run_at=resumed.after(at.now)))
    _start_waiting(decision, at, last_run)


def _delete(decision: ScheduleDecision, _s: Schedule, _r: rq.DeleteSchedule, _at: Moment, _run: Run | None) -> None:
    decision.deleted = True


def _trigger(
    decision: ScheduleDecision, schedule: Schedule, request: rq.TriggerSchedule, at: Moment, last_run: Run | None
) -> None:
    """Start a run now, whatever the clock says; overlap applies as ever."""
    name = f"{schedule.name}-manual-{at.now}"
    _fire(decision, at.now, at, last_run, trigger="manual", overlap=request.overlap, run_name=name)


def _backfill(
    decision: ScheduleDecision, schedule: Schedule, request: rq.BackfillSchedule, at: Moment, last_run: Run | None
) -> None:
    """Start a run for each due time of a past range."""
    due = schedule.timetable().fires_between(request.start - 1, min(request.end, at.now), 1_000, schedule.created_at)
    current = last_run
    for time in due:
        current = _fire(decision, time, at, current, trigger="backfill", overlap=request.overlap) or current


def _elapse(
    decision: ScheduleDecision, schedule: Schedule, _: rq.ElapseSchedule, at: Moment, last_run: Run | None
) -> None:
    """Fire what is due, make up for what was missed as far as the schedule asks for it."""
    wakes = schedule.wakes_at()
    if wakes is None or wakes > at.now:
        return
    due = _due(schedule, at.now)
    late = [time for time in due if time < at.now - GRACE - schedule.delay(time)]
    fires = [time for time in due if time not in set(late)]
    fires = _made_up(schedule, late, at.now) + fires if late else fires
    kept = set(fires)
    decision.become(replace(schedule, next_run_at=schedule.after(due[-1]) if due else schedule.after(at.now)))
    _note_all(decision, schedule, [time for time in due if time not in kept], "missed", "no engine was running")
    current = last_run
    for time in fires:
        current = _fire(decision, time, at, current) or current


def _due(schedule: Schedule, now: Time) -> list[Time]:
    """The due times from the next one up to now; each waits for its own jitter."""
    if schedule.next_run_at is None or schedule.next_run_at > now:
        return []
    first = schedule.next_run_at
    times = [first, *schedule.timetable().fires_between(first, now, 200_000, schedule.created_at)]
    return [time for time in times if time + schedule.delay(time) <= now] or [first]


def _made_up(schedule: Schedule, late: Sequence[Time], now: Time) -> list[Time]:
    recent = [time for time in late if time >= now - schedule.window]
    match schedule.missed:
        case Missed.SKIP:
            return []
        case Missed.LAST:
            return recent[-1:]
        case Missed.ALL:
            return recent


def _note_all(
    decision: ScheduleDecision, schedule: Schedule, due: Sequence[Time], outcome: str, reason: str | None
) -> None:
    surplus = len(due) - RECORDED_MISSES
    if surplus > 0:
        text = f"{reason or outcome} (and {surplus} due times before this one)"
        decision.fires.append(_record(schedule, due[surplus - 1], decision.now, outcome, text))
        due = due[surplus:]
    decision.fires.extend(_record(schedule, time, decision.now, outcome, reason) for time in due)


def _record(schedule: Schedule, due: Time, now: Time, outcome: str, reason: str | None, trigger: str = "time") -> Fire:
    return Fire(schedule.namespace, schedule.name, due, now, outcome, reason, trigger=trigger)


def _fire(
    decision: ScheduleDecision,
    due: Time,
    at: Moment,
    last_run: Run | None,
    *,
    trigger: str = "time",
    overlap: Overlap | None = None,
    run_name: str | None = None,
) -> Run | None:
    """One due time: start a run, or say why not. Returns the run that was started."""
    schedule = _state(decision)
    policy = overlap or schedule.overlap_policy
    if last_run is not None and not last_run.closed and not _make_room(decision, due, at, last_run, policy, trigger):
        return None
    return _start(decision, due, at, trigger, run_name or schedule.run_name(due))


def _state(decision: ScheduleDecision) -> Schedule:
    if decision.schedule is None:
        raise NotFound("the schedule is gone")
    return decision.schedule


def _make_room(decision: ScheduleDecision, due: Time, at: Moment, open_run: Run, policy: Overlap, trigger: str) -> bool:
    """Deal with the open run as the policy says; False when the fire has to stand back."""
    schedule = _state(decision)
    match policy:
        case Overlap.ALLOW_ALL:
            return True
        case Overlap.SKIP:
            reason = f"run {open_run.workflow_id} is still open"
            decision.fires.append(_record(schedule, due, at.now, "skipped", reason, trigger))
            return False
        case Overlap.QUEUE:
            _wait(decision, due, at, trigger)
            return False
        case Overlap.CANCEL_OLD:
            decision.messages.append(_cancel(schedule, open_run, due))
            return True
        case Overlap.TERMINATE_OLD:
            ended = lifecycle.terminate_decision(open_run, f"replaced by schedule {schedule.name}", None, at)
            decision.runs.append(ended)
            return True


def _wait(decision: ScheduleDecision, due: Time, at: Moment, trigger: str) -> None:
    schedule = _state(decision)
    if len(schedule.waiting) >= WAITING_LIMIT:
        reason = f"{WAITING_LIMIT} fires are waiting already"
        decision.fires.append(_record(schedule, due, at.now, "dropped", reason, trigger))
        return
    decision.become(replace(schedule, waiting=(*schedule.waiting, due)))


def _cancel(schedule: Schedule, run: Run, due: Time) -> Message:
    return Message(
        key=f"schedule/{schedule.namespace}/{schedule.name}/{due}/cancel/{run.run_id}",
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        kind="cancel",
        reason=f"replaced by schedule {schedule.name}",
    )


def _start(decision: ScheduleDecision, due: Time, at: Moment, trigger: str, run_name: str) -> Run | None:
    schedule = _state(decision)
    try:
        existing = at.current.get(WorkflowId(run_name))
        births.check_free(existing)
        born = births.born(_request(schedule, due, run_name), existing, at)
    except AssayError as error:
        decision.fires.append(_record(schedule, due, at.now, "failed", str(error), trigger))
        return None
    decision.runs.append(born)
    fire = _record(schedule, due, at.now, "started", None, trigger)
    run_id: RunId = born.run.run_id
    decision.fires.append(replace(fire, workflow_id=run_name, run_id=run_id))
    left = None if schedule.remaining is None else schedule.remaining - 1
    started = replace(schedule, last_run_at=at.now, last_workflow_id=run_name, remaining=left)
    decision.become(replace(started, next_run_at=None) if left == 0 else started)
    return born.run


def _request(schedule: Schedule, due: Time, run_name: str) -> StartWorkflow:
    return StartWorkflow(
        namespace=Namespace(schedule.namespace),
        workflow_id=WorkflowId(run_name),
        workflow_type=schedule.workflow_type,
        task_queue=schedule.task_queue,
        input=schedule.input,
        search_attributes=schedule.search_attributes,
        memo=schedule.memo,
        schedule=schedule.name,
        scheduled_for=due,
    )


def _run_closed(
    decision: ScheduleDecision, schedule: Schedule, _: rq.ScheduledRunClosed, at: Moment, last_run: Run | None
) -> None:
    """A run of the schedule is over: the next fire that waits may start."""
    if not schedule.paused:
        _start_waiting(decision, at, last_run)


def _start_waiting(decision: ScheduleDecision, at: Moment, last_run: Run | None) -> None:
    schedule = _state(decision)
    if schedule.waiting and (last_run is None or last_run.closed):
        due, *rest = schedule.waiting
        decision.become(replace(schedule, waiting=tuple(rest)))
        _start(decision, due, at, "time", schedule.run_name(due))


RULES: dict[type[rq.ScheduleRequest], Callable[[ScheduleDecision, Schedule, Any, Moment, Run | None], None]] = {
    rq.PatchSchedule: _patch,
    rq.PauseSchedule: _pause,
    rq.ResumeSchedule: _resume,
    rq.DeleteSchedule: _delete,
    rq.TriggerSchedule: _trigger,
    rq.BackfillSchedule: _backfill,
    rq.ElapseSchedule: _elapse,
    rq.ScheduledRunClosed: _run_closed,
}
