"""Convert schedules and fires to rows and back; the columns have the order of `tables`."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from assay.core.schedules.model import Fire, FireOutcome, Schedule, Trigger
from assay.storage.ports import Changes, ScheduleChange
from assay.storage.sql.rows import Cells

_encode = msgspec.json.Encoder().encode
_schedule = msgspec.json.Decoder(Schedule).decode


def schedule_of(document: bytes) -> Schedule:
    """Return a schedule from its stored document."""
    return _schedule(document)


def new_schedule_rows(changes: Changes) -> list[Cells]:
    """Return the rows of SCHEDULES of new schedules."""
    return [
        (change.key, *_state(change), change.namespace, change.name)
        for change in changes.schedules.values()
        if change.is_new and change.schedule is not None
    ]


def changed_schedules(changes: Changes) -> list[ScheduleChange]:
    """Return the changes to compare and set: changed schedules, and deleted schedules before their deletion."""
    return [change for change in changes.schedules.values() if not change.is_new]


def schedule_update_row(change: ScheduleChange) -> Cells:
    """Return a row of SCHEDULE_UPDATES."""
    return (change.key, *_state(change))


def _state(change: ScheduleChange) -> Cells:
    schedule = change.schedule
    if schedule is None:
        return (change.version, None, 0, b"{}")
    return (change.version, schedule.wakes_at(), len(schedule.waiting), _encode(schedule))


def gone_schedule_rows(changes: Changes) -> list[Cells]:
    """Return the rows of GONE_SCHEDULES."""
    return [(change.key,) for change in _gone(changes)]


def gone_fire_rows(changes: Changes) -> list[Cells]:
    """Return the rows of GONE_FIRES."""
    return [(change.namespace, change.name) for change in _gone(changes)]


def _gone(changes: Changes) -> Iterator[ScheduleChange]:
    return (change for change in changes.schedules.values() if change.schedule is None)


def fire_row(fire: Fire) -> Cells:
    """Return a row of FIRES."""
    return (
        fire.namespace,
        fire.schedule,
        fire.due_at,
        fire.fired_at,
        fire.outcome.value,
        fire.reason,
        fire.workflow_id,
        fire.run_id,
        fire.trigger.value,
        fire.until,
    )


def missed_fire_row(fire: Fire) -> Cells:
    """Return the row of MISSED_FIRES for the due time of a fire."""
    return (fire.namespace, fire.schedule, fire.due_at, FireOutcome.MISSED.value, Trigger.TIME.value)


def fire_of(row: Sequence[Any]) -> Fire:
    """Return the fire of a row of FIRES."""
    namespace, schedule, due_at, fired_at, outcome, reason, workflow_id, run_id, cause, until = row
    facts = (FireOutcome(outcome), reason, workflow_id, run_id, Trigger(cause), until)
    return Fire(namespace, schedule, due_at, fired_at, *facts)
