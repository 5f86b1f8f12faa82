"""What a schedule waits for: its next due time, the end of a run, or somebody who resumes it."""

from zoneinfo import ZoneInfo

from assay.core.model.explanation import NONE, WATCH, Explanation, Wait
from assay.core.model.ids import Time
from assay.core.model.spans import ago, ahead, clock_time
from assay.core.rules.waiting import shown
from assay.core.schedules.model import Schedule


def schedule_waiting_on(schedule: Schedule, now: Time) -> Explanation:
    """Return what a schedule waits for; `now` is the wall clock, which schedules follow."""
    wait = _wait(schedule, now)
    return Explanation([wait], 0, wait.attention, now)


def _wait(schedule: Schedule, now: Time) -> Wait:
    if schedule.paused:
        since, by = schedule.paused_at or schedule.updated_at, schedule.paused_by
        reason = f": {shown(schedule.pause_reason)}" if schedule.pause_reason else ""
        sentence = f"Paused by {by} {ago(since, now)}{reason}." if by else f"Paused {ago(since, now)}{reason}."
        fields = {"by": by, "reason": schedule.pause_reason}
        return Wait("schedule_paused", sentence, NONE, since, fields=fields)
    if schedule.waiting:
        oldest, fires = schedule.waiting[0].due_at, len(schedule.waiting)
        run = schedule.running[0] if schedule.running else schedule.last_workflow_id
        sentence = f"{fires} fires wait until run '{run}' closes; the oldest was due {ago(oldest, now)}."
        return Wait("schedule_queue", sentence, WATCH, oldest, fields={"fires": fires, "workflow_id": run})
    if schedule.next_run_at is None:
        since = max(filter(None, (schedule.last_run_at, schedule.end_at)), default=schedule.updated_at)
        return Wait("schedule_ended", f"Ended {ago(min(since, now), now)}.", NONE, min(since, now))
    until = schedule.next_run_at
    at = clock_time(until, now, ZoneInfo(schedule.timezone))
    sentence = f"Fires {ahead(until, now)} ({at} {schedule.timezone})."
    since = schedule.last_run_at or schedule.created_at
    return Wait("schedule_next", sentence, NONE, since, until, fields={"timezone": schedule.timezone})
