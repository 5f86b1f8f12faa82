"""The requests to schedules."""

from typing import Any

import msgspec

from assay.core.model.ids import Namespace, Time
from assay.core.model.requests import Request
from assay.core.schedules.model import Overlap, Schedule


class ScheduleRequest(Request, frozen=True, gc=False):
    """The base class of requests to a schedule."""

    namespace: Namespace
    name: str


class CreateSchedule(ScheduleRequest, frozen=True, gc=False):
    """Create a schedule; the decision sets its times and state."""

    schedule: Schedule


class PutSchedule(ScheduleRequest, frozen=True, gc=False):
    """Create a schedule, or replace the definition of the schedule with this name."""

    schedule: Schedule


class PatchSchedule(ScheduleRequest, frozen=True, gc=False):
    """Change fields of a schedule; the next due time is computed again if the timetable changes."""

    changes: dict[str, Any] = msgspec.field(default_factory=dict)


class PauseSchedule(ScheduleRequest, frozen=True, gc=False):
    """Pause a schedule: nothing fires until it is resumed."""

    reason: str | None = None
    by: str | None = None


class ResumeSchedule(ScheduleRequest, frozen=True, gc=False):
    """Resume a paused schedule from now on."""


class DeleteSchedule(ScheduleRequest, frozen=True, gc=False):
    """Delete a schedule; its runs continue."""


class TriggerSchedule(ScheduleRequest, frozen=True, gc=False):
    """Fire a schedule once, now."""

    overlap: Overlap | None = None


class BackfillSchedule(ScheduleRequest, frozen=True, gc=False):
    """Fire a schedule for each due time of a past range."""

    start: Time = 0
    end: Time = 0
    overlap: Overlap | None = None


class ElapseSchedule(ScheduleRequest, frozen=True, gc=False):
    """Handle the deadline of a schedule."""


class ScheduledRunClosed(ScheduleRequest, frozen=True, gc=False):
    """Handle the end of a run that the schedule started."""
