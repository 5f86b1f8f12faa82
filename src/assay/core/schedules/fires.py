"""Rules of due times: each due time fires once, or is recorded with the reason for not firing (I11).

A fire is one transaction: the record of the due time, the schedule's next due time, and the new run. A crash leaves
all three or nothing, and two engines cannot fire the same due time.
"""

from typing import Any, assert_never

from msgspec.structs import replace

from assay.core.model.effects import CANCEL, Decision, OutboxMessage
from assay.core.model.errors import AssayError
from assay.core.model.events import WorkflowTerminated
from assay.core.model.ids import SECOND, Time, WorkflowId
from assay.core.model.requests import StartWorkflow
from assay.core.model.run import Run
from assay.core.rules import lifecycle, new_runs
from assay.core.rules.moment import Moment
from assay.core.schedules.model import RECHECK_INTERVAL, Fire, FireOutcome, Missed, Overlap, Schedule, Trigger, Waiting

LATE_FIRE_GRACE: Time = 5 * SECOND
"""A fire up to this late is on time; an older due time means that no engine was running."""
FIRES_PER_DECISION = 100
"""Due times fired by one decision; the rest stays due for the next decision."""
MAX_WAITING_FIRES = 100
MAX_WATCHED_RUNS = 100
"""Open runs that a schedule records; only with `allow_all` a schedule can have more."""
MAX_MISSED_RECORDS = 1_000
"""Due times of an outage or pause with a record each; all further due times share one record."""


MAX_GIVEN_UP_RANGES = 20
"""Ranges of missed due times that a schedule keeps, for a wall clock that is set back; the oldest are dropped."""


class ScheduleDecision:
    """The result of one request to one schedule: its new state, fires, runs, and messages to other runs."""

    def __init__(self, schedule: Schedule, at: Moment, wall: Time) -> None:
        self.schedule = schedule
        self.at = at
        """The context of decisions about runs, in engine time."""
        self.now = wall
        """The wall time, which due times are compared with."""
        self.changed = False
        self.deleted = False
        self.fires: list[Fire] = []
        self.retaken: list[Fire] = []
        """Due times recorded as missed that fire now; the records are replaced."""
        self.runs: list[Decision] = []
        """Decisions about runs that begin, and about runs that end because of the overlap policy."""
        self.messages: list[OutboxMessage] = []
        self.answer: object = None
        self.overlap = schedule.overlap_policy
        self.waiting_limit: int | None = MAX_WAITING_FIRES
        self.open = self._open_runs() if depends_on_runs(schedule, self.overlap) else None
        """The schedule's open runs, oldest first; None if the policy does not depend on open runs."""

    @property
    def reply(self) -> object:
        """Return the reply to the caller: `answer` if a rule has set it, otherwise the schedule as it is now."""
        return self.schedule if self.answer is None else self.answer

    def follow(self, overlap: Overlap, *, unlimited: bool = False) -> None:
        """Apply another overlap policy from here on; with `unlimited` any number of fires may wait."""
        self.overlap = overlap
        self.waiting_limit = None if unlimited else MAX_WAITING_FIRES
        if self.open is None and depends_on_runs(self.schedule, overlap):
            self.open = self._open_runs()

    def _open_runs(self) -> list[Run]:
        found = [self.newest(name) for name in self.schedule.running]
        return [run for run in found if run is not None and not run.closed]

    def change(self, **fields: Any) -> None:
        """Set fields of the schedule."""
        self.schedule = replace(self.schedule, **fields, updated_at=self.now)
        self.changed = True

    def fire(self, due: Time, outcome: FireOutcome, reason: str | None = None, **fields: Any) -> Fire:
        """Return the record of a due time."""
        schedule = self.schedule
        return Fire(schedule.namespace, schedule.name, due, self.now, outcome, reason, **fields)

    def started_run(self, workflow_id: str) -> Decision | None:
        """Return the decision about the run of this id that this decision starts, if any."""
        found = (run for run in self.runs if run.run.workflow_id == workflow_id and not run.run.last_seq)
        return next(found, None)

    def newest(self, workflow_id: str) -> Run | None:
        """Return the newest run of an id after this decision."""
        started = self.started_run(workflow_id)
        if started is not None:
            return started.run
        return self.at.current.get((self.schedule.namespace, WorkflowId(workflow_id)))

    def note(self, due: Time, outcome: FireOutcome, reason: str | None = None, **fields: Any) -> Fire:
        """Add the record of a due time; return the record."""
        fire = self.fire(due, outcome, reason, **fields)
        self.fires.append(fire)
        self.change()
        return fire


def depends_on_runs(schedule: Schedule, overlap: Overlap) -> bool:
    """Return whether decisions depend on the schedule's open runs."""
    return bool(schedule.waiting) or overlap is not Overlap.ALLOW_ALL


def due_times(schedule: Schedule, now: Time) -> list[Time]:
    """Return the due times that a decision at `now` may fire."""
    found: list[Time] = []
    due = None if schedule.paused else _first_due(schedule, now)
    while due is not None and due <= now and len(found) < FIRES_PER_DECISION:
        found.append(due)
        due = schedule.after(due)
    return found


def catch_up(decision: ScheduleDecision) -> None:
    """Fire or record all due times up to now, in order, before the request itself is applied."""
    schedule, now = decision.schedule, decision.now
    if schedule.paused:
        _start_waiting(decision, by_hand=True)
        return
    _start_waiting(decision)
    _return_to_missed(decision)
    schedule = decision.schedule
    first = _first_due(schedule, now)
    if first != schedule.next_run_at:
        record_not_fired(decision, now if first is None else first - 1, FireOutcome.MISSED, "no engine was running")
    for _ in range(FIRES_PER_DECISION):
        schedule, due = decision.schedule, decision.schedule.next_run_at
        if due is None or due + schedule.delay(due) > now:
            break
        _mark_decided(decision, due)
        fire(decision, due, Trigger.TIME, schedule.run_name(due))
    if decision.schedule.waiting and not decision.changed and schedule.updated_at + RECHECK_INTERVAL <= now:
        decision.change()


def _return_to_missed(decision: ScheduleDecision) -> None:
    """Return to due times recorded as missed that are in the future again, because the wall clock was set back."""
    schedule, now = decision.schedule, decision.now
    if any(last > now for _, last in schedule.given_up):
        first = schedule.after(now)
        if first is not None and (schedule.next_run_at is None or first < schedule.next_run_at):
            decision.change(next_run_at=first)


def _mark_decided(decision: ScheduleDecision, due: Time) -> None:
    """Mark a due time as decided, and set the next due time."""
    schedule = decision.schedule
    if schedule.was_missed(due):
        decision.retaken.append(decision.fire(due, FireOutcome.MISSED))
        schedule = replace(schedule, given_up=_cut(schedule.given_up, due, due))
    schedule = replace(schedule, decided_until=max(schedule.decided_until, due))
    decision.change(decided_until=schedule.decided_until, given_up=schedule.given_up, next_run_at=schedule.after(due))


def _cut(ranges: tuple[tuple[Time, Time], ...], start: Time, end: Time) -> tuple[tuple[Time, Time], ...]:
    """Return the ranges without the times from `start` to `end`."""
    parts = [part for first, last in ranges for part in ((first, min(last, start - 1)), (max(first, end + 1), last))]
    return tuple((first, last) for first, last in parts if first <= last)


def _first_due(schedule: Schedule, now: Time) -> Time | None:
    """Return the first due time that is not recorded as missed; possibly in the future."""
    due = schedule.next_run_at
    over = now - schedule.jitter
    if due is None or due > over - LATE_FIRE_GRACE:
        return due
    match schedule.missed:
        case Missed.SKIP:
            return schedule.after(over - 1)
        case Missed.LAST:
            last = schedule.latest(due, over)
            return last if last >= now - schedule.window else schedule.after(over - 1)
        case Missed.ALL:
            oldest = min(over - LATE_FIRE_GRACE, now - schedule.window - 1)
            return due if due > oldest else schedule.after(oldest)
        case _:
            assert_never(schedule.missed)


def record_not_fired(decision: ScheduleDecision, until: Time, outcome: FireOutcome, reason: str | None) -> None:
    """Record the due times up to `until` as not fired, and set the next due time."""
    schedule = decision.schedule
    first = due = schedule.next_run_at
    last: Time | None = None
    for _ in range(MAX_MISSED_RECORDS):
        if due is None or due > until:
            break
        if not schedule.was_missed(due):  # a missed due time has a record already
            decision.note(due, outcome, reason)
        last, due = due, schedule.after(due)
    if due is not None and due <= until:
        last = schedule.latest(due, until)
        if not schedule.was_missed(due):
            decision.note(due, outcome, reason, until=last)
        due = schedule.after(last)
    if first is None or last is None:
        return
    given_up = schedule.given_up
    if outcome is not FireOutcome.MISSED:
        # Due times of a pause never fire later, even if the clock is set back.
        given_up = _cut(given_up, first, last)
    elif last > schedule.decided_until:
        given_up = (*given_up, (max(first, schedule.decided_until + 1), last))[-MAX_GIVEN_UP_RANGES:]
    decision.change(decided_until=max(schedule.decided_until, last), given_up=given_up, next_run_at=due)


def fire(decision: ScheduleDecision, due: Time, trigger: Trigger, workflow_id: str) -> Fire:
    """Fire a due time: start a run, queue the fire, or record the reason for not firing."""
    before = decision.newest(workflow_id)
    if before is not None and _was_started_for(before, decision.schedule, due):
        facts = {"workflow_id": workflow_id, "run_id": before.run_id, "trigger": trigger}
        return decision.note(due, FireOutcome.SKIPPED, "a run was started for it before", **facts)
    if any(other.workflow_id == workflow_id for other in decision.schedule.waiting):
        return decision.note(due, FireOutcome.SKIPPED, "it waits already", trigger=trigger)
    if not decision.open and not decision.schedule.waiting:
        return _start(decision, Waiting(due, workflow_id, trigger))
    match decision.overlap:
        case Overlap.SKIP:
            reason = f"run {_first_name(decision)} is still open"
            return decision.note(due, FireOutcome.SKIPPED, reason, trigger=trigger)
        case Overlap.QUEUE:
            return _wait(decision, Waiting(due, workflow_id, trigger))
        case Overlap.CANCEL_OLD:
            decision.messages.extend(_cancels(decision))
        case Overlap.TERMINATE_OLD:
            _terminate(decision)
        case Overlap.ALLOW_ALL:
            pass
        case _:
            assert_never(decision.overlap)
    return _start(decision, Waiting(due, workflow_id, trigger))


def _first_name(decision: ScheduleDecision) -> str:
    return decision.open[0].workflow_id if decision.open else decision.schedule.waiting[0].workflow_id


def _wait(decision: ScheduleDecision, fire: Waiting) -> Fire:
    """Queue a fire in the schedule until no run is open; its record is added when the run starts."""
    waiting = decision.schedule.waiting
    if decision.waiting_limit is not None and len(waiting) >= decision.waiting_limit:
        reason = f"{decision.waiting_limit} fires are waiting already"
        return decision.note(fire.due_at, FireOutcome.DROPPED, reason, trigger=fire.trigger)
    decision.change(waiting=(*waiting, fire))
    _count(decision, fire.trigger)
    return decision.fire(fire.due_at, FireOutcome.QUEUED, workflow_id=fire.workflow_id, trigger=fire.trigger)


def _count(decision: ScheduleDecision, trigger: Trigger) -> None:
    """Decrement the schedule's remaining runs for a run that its timetable starts."""
    left = decision.schedule.remaining
    if left is not None and trigger is Trigger.TIME:
        decision.change(remaining=left - 1)
        if left == 1:
            decision.change(next_run_at=None)


def _cancels(decision: ScheduleDecision) -> list[OutboxMessage]:
    cancelled = {message.run_id for message in decision.messages}
    return [
        OutboxMessage(
            key=f"{run.run_id}/replaced",
            namespace=run.namespace,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            kind=CANCEL,
            reason=_replaced(decision.schedule),
        )
        for run in decision.open or ()
        if not run.cancel_seq and run.run_id not in cancelled
    ]


def _replaced(schedule: Schedule) -> str:
    return f"replaced by a later run of schedule {schedule.name}"


def _terminate(decision: ScheduleDecision) -> None:
    """Terminate the open runs in the same transaction, also runs that this decision itself starts."""
    reason = _replaced(decision.schedule)
    for run in decision.open or ():
        started = decision.started_run(run.workflow_id)
        if started is None:
            decision.runs.append(lifecycle.terminate_decision(run, reason, None, decision.at))
        else:
            lifecycle.close(started, WorkflowTerminated(reason, None), decision.at)
    decision.open = []


def _start(decision: ScheduleDecision, fire: Waiting, *, counted: bool = False) -> Fire:
    schedule, at = decision.schedule, decision.at
    existing = decision.newest(fire.workflow_id)
    try:
        new_runs.check_free(existing)
        started = new_runs.new_run(_request(schedule, fire), existing, at)
    except AssayError as error:
        return decision.note(fire.due_at, FireOutcome.FAILED, str(error), trigger=fire.trigger)
    decision.runs.append(started)
    _note_started(decision, started.run)
    if not counted:
        _count(decision, fire.trigger)
    facts = {"workflow_id": fire.workflow_id, "run_id": started.run.run_id, "trigger": fire.trigger}
    return decision.note(fire.due_at, FireOutcome.STARTED, **facts)


def _was_started_for(run: Run, schedule: Schedule, due: Time) -> bool:
    """Return whether a run was started for this due time, or follows a run that was."""
    return run.start.schedule == schedule.name and run.start.scheduled_for == due


def _note_started(decision: ScheduleDecision, run: Run) -> None:
    if decision.open is None:
        running = decision.schedule.running
    else:
        running = tuple(other.workflow_id for other in decision.open)
        decision.open.append(run)
    running = (*running, run.workflow_id)[-MAX_WATCHED_RUNS:]
    decision.change(running=running, last_run_at=decision.now, last_workflow_id=run.workflow_id)


def _request(schedule: Schedule, fire: Waiting) -> StartWorkflow:
    return StartWorkflow(
        namespace=schedule.namespace,
        workflow_id=WorkflowId(fire.workflow_id),
        workflow_type=schedule.workflow_type,
        task_queue=schedule.task_queue,
        input=schedule.input,
        search_attributes=schedule.search_attributes,
        memo=schedule.memo,
        schedule=schedule.name,
        scheduled_for=fire.due_at,
    )


def _start_waiting(decision: ScheduleDecision, *, by_hand: bool = False) -> None:
    """Start the oldest waiting fire if no run of the schedule is open; if its start fails, try the next fire.

    With `by_hand`, while the schedule is paused, only triggers and backfills may start.
    """
    while not decision.open:
        allowed = (fire for fire in decision.schedule.waiting if not by_hand or fire.trigger is not Trigger.TIME)
        first = next(allowed, None)
        if first is None:
            return
        decision.change(waiting=tuple(fire for fire in decision.schedule.waiting if fire is not first))
        _start(decision, first, counted=True)
