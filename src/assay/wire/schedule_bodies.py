"""Schedules and their fires on the wire: request bodies and responses.

Times are seconds since the epoch, durations seconds or texts such as "1h30m".
"""

import math
from typing import Any, Final

import msgspec

from assay.core.model.duration import LONGEST_DURATION
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time, seconds
from assay.core.model.options import choice, duration
from assay.core.model.payload import NULL, Payload, value_of
from assay.core.model.replies import SchedulePut
from assay.core.schedules.model import Fire, Missed, Overlap, Schedule
from assay.core.schedules.schedule_waits import schedule_waiting_on
from assay.core.schedules.timetable import Dst
from assay.wire import responses
from assay.wire.request_bodies import Seconds
from assay.wire.waits import waiting_record

LATEST_TIME: Final[Time] = 2 * LONGEST_DURATION
"""The latest accepted time."""


class ScheduleFields(msgspec.Struct, kw_only=True):
    """The fields of a schedule that can be set at its creation and later."""

    timezone: str | None = None
    input: Payload = NULL
    task_queue: str | None = None
    overlap_policy: str | None = None
    dst: str | None = None
    missed: str | None = None
    window_secs: Seconds | None = None
    jitter_secs: Seconds | None = None
    end_at: float | None = None
    remaining: int | None = None
    search_attributes: Payload = NULL
    memo: Payload = NULL


class ScheduleBody(ScheduleFields, kw_only=True):
    """A new schedule."""

    name: str
    workflow_type: str
    cron_expr: str
    namespace: str | None = None
    paused: bool | None = None
    pause_reason: str | None = None
    paused_by: str | None = None


class SchedulePutBody(ScheduleFields, kw_only=True):
    """The whole definition of a schedule; a name must match the path. `paused` only applies to a new schedule."""

    workflow_type: str
    cron_expr: str
    name: str | None = None
    namespace: str | None = None
    paused: bool | None = None
    pause_reason: str | None = None
    paused_by: str | None = None


class SchedulePatchBody(ScheduleFields, kw_only=True):
    """Fields to change: absent and null fields stay unchanged; `clear` names the fields to reset to no value."""

    cron_expr: str | None = None
    clear: list[str] | None = None


class PauseBody(msgspec.Struct, kw_only=True):
    """The reason of a pause, and its author."""

    reason: str | None = None
    by: str | None = None


class ResumeBody(msgspec.Struct):
    """An empty body."""


class TriggerBody(msgspec.Struct, kw_only=True):
    """An overlap policy for this fire, instead of the schedule's own."""

    overlap_policy: str | None = None


class BackfillBody(msgspec.Struct, kw_only=True):
    """The range of due times, both ends included, and an overlap policy for these fires."""

    start: float
    end: float
    overlap_policy: str | None = None


def overlap_of(value: object) -> Overlap | None:
    """Return an overlap policy from its text."""
    return None if value is None else choice(Overlap, value, "overlap_policy", Overlap.SKIP)


def moment(value: object, name: str) -> Time:
    """Return a time from seconds since the epoch; raise `Invalid` for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{name} must be seconds since the epoch", field=name)
    if not 0 <= value * SECOND <= LATEST_TIME:  # checked before rounding: the product may be infinite
        raise Invalid(f"{name} must be a time of this or the next century", field=name)
    return round(value * SECOND)


CLEARABLE: Final[dict[str, Any]] = {
    "input": NULL,
    "end_at": None,
    "remaining": None,
    "search_attributes": NULL,
    "memo": NULL,
}


def core_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `Schedule` from the fields of a body; documents are JSON bytes in both."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "clear":
            found |= {cleared: CLEARABLE[_clearable(cleared)] for cleared in value or ()}
        elif value is not None and value is not NULL and value != NULL:
            found |= _core_field(name, value)
    return found


def _clearable(name: str) -> str:
    if name not in CLEARABLE:
        raise Invalid(f"clear names '{name}'; it can be {', '.join(CLEARABLE)}", field="clear")
    return name


def _core_field(name: str, value: Any) -> dict[str, Any]:
    match name:
        case "overlap_policy":
            return {name: choice(Overlap, value, name, Overlap.SKIP)}
        case "missed":
            return {name: choice(Missed, value, name, Missed.LAST)}
        case "dst":
            return {name: choice(Dst, value, name, Dst.SKIP).value}
        case "window_secs" | "jitter_secs":
            return {name.removesuffix("_secs"): duration(value, name)}
        case "end_at":
            return {name: moment(value, name)}
        case _:
            return {name: value}


def wire_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the body for fields of a `Schedule`: the inverse of `core_fields`."""
    body: dict[str, Any] = {}
    for name, value in fields.items():
        if name in CLEARABLE and (value is None or value == NULL):
            body.setdefault("clear", []).append(name)
        elif name in ("window", "jitter"):
            body[f"{name}_secs"] = seconds(value)
        elif name == "end_at":
            body[name] = seconds(value)
        else:
            body[name] = value
    return body


def schedule_record(schedule: Schedule, now: Time | None = None) -> responses.ScheduleRecord:
    """Return the record of a schedule; `now` is the wall clock, for the reply to a change the time of the change."""
    waiting = schedule_waiting_on(schedule, schedule.updated_at if now is None else now)
    return responses.ScheduleRecord(
        name=schedule.name,
        namespace=schedule.namespace,
        workflow_type=schedule.workflow_type,
        cron_expr=schedule.cron_expr,
        timezone=schedule.timezone,
        input=value_of(schedule.input),
        task_queue=schedule.task_queue,
        overlap_policy=schedule.overlap_policy.value,
        paused=schedule.paused,
        last_run_at=_seconds(schedule.last_run_at),
        next_run_at=_seconds(schedule.next_run_at),
        last_workflow_id=schedule.last_workflow_id,
        created_at=seconds(schedule.created_at),
        dst=schedule.dst,
        missed=schedule.missed.value,
        window_secs=seconds(schedule.window),
        jitter_secs=seconds(schedule.jitter),
        end_at=_seconds(schedule.end_at),
        remaining=schedule.remaining,
        search_attributes=value_of(schedule.search_attributes),
        memo=value_of(schedule.memo),
        pause_reason=schedule.pause_reason,
        paused_by=schedule.paused_by,
        paused_at=_seconds(schedule.paused_at),
        waiting=[seconds(waiting.due_at) for waiting in schedule.waiting],
        updated_at=seconds(schedule.updated_at),
        waiting_on=waiting_record(waiting),
    )


def fire_record(fire: Fire) -> responses.FireRecord:
    """Return the record of a fire; `until` is set if the record covers all due times up to `until`."""
    return responses.FireRecord(
        schedule=fire.schedule,
        namespace=fire.namespace,
        due_at=seconds(fire.due_at),
        fired_at=seconds(fire.fired_at),
        outcome=fire.outcome.value,
        reason=fire.reason,
        workflow_id=fire.workflow_id,
        run_id=fire.run_id,
        trigger=fire.trigger.value,
        until=_seconds(fire.until),
    )


def reply_record(reply: object) -> responses.ScheduleRecord | responses.FireRecord | list[responses.FireRecord]:
    """Return the response to a request about a schedule."""
    match reply:
        case Schedule():
            return schedule_record(reply)
        case SchedulePut():
            return schedule_record(reply.schedule)
        case Fire():
            return fire_record(reply)
        case tuple():
            return [fire_record(fire) for fire in reply]
    raise TypeError(reply)


def _seconds(time: Time | None) -> float | None:
    return None if time is None else seconds(time)
