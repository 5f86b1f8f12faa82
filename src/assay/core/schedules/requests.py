"""All that may be asked of a schedule."""

from typing import Any

import msgspec

from assay.core.model.ids import Namespace, Time
from assay.core.model.requests import Request
from assay.core.schedules.model import Overlap, Schedule


class ScheduleRequest(Request, frozen=True, gc=False):
    """The common face of requests to a schedule."""

    namespace: Namespace
    name: str


class CreateSchedule(ScheduleRequest, frozen=True, gc=False):
    """Make a schedule; its times and state are set by the decision."""

    schedule: Schedule


class PutSchedule(ScheduleRequest, frozen=True, gc=False):
    """Make a schedule, or replace the definition of the one that has the name."""

    schedule: Schedule


class PatchSchedule(ScheduleRequest, frozen=True, gc=False):
    """Change fields of a schedule; the next fire is computed anew when its times change."""

    changes: dict[str, Any] = msgspec.field(default_factory=dict)


class PauseSchedule(ScheduleRequest, frozen=True, gc=False):
    """Stop firing until it is resumed."""

    reason: str | None = None
    by: str | None = None


class ResumeSchedule(ScheduleRequest, frozen=True, gc=False):
    """Fire again, from now on."""


class DeleteSchedule(ScheduleRequest, frozen=True, gc=False):
    """Forget the schedule; its runs go on."""


class TriggerSchedule(ScheduleRequest, frozen=True, gc=False):
    """Fire once, now."""

    overlap: Overlap | None = None


class BackfillSchedule(ScheduleRequest, frozen=True, gc=False):
    """Fire for each due time of a past range."""

    start: Time = 0
    end: Time = 0
    overlap: Overlap | None = None


class ElapseSchedule(ScheduleRequest, frozen=True, gc=False):
    """A due time has come."""


class ScheduledRunClosed(ScheduleRequest, frozen=True, gc=False):
    """A run that the schedule started has ended."""
