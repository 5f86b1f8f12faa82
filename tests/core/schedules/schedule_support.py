"""A schedule in a world of its own: requests are decided, what they decide happens, time is moved by hand."""

from collections import Counter
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model.ids import SECOND, Time, WorkflowId
from assay.core.model.run import Run
from assay.core.rules.moment import Moment
from assay.core.schedules import requests as rq
from assay.core.schedules.fires import ScheduleDecision
from assay.core.schedules.model import Fire, Schedule
from assay.core.schedules.rules import decide_schedule, run_names
from tests.core.support import MAIN, NOW, ONE, World, turned

MINUTE: Time = 60 * SECOND
HOUR: Time = 60 * MINUTE
DAY: Time = 24 * HOUR
MIDNIGHT: Time = NOW - NOW % DAY
"""The world begins here, so that due times are easy to read."""
NAME = "report"


class Timed(World):
    """A world with one schedule; each request sees the runs that it said it needs, and no others."""

    def __init__(self, cron_expr: str = "0 * * * * *", **options: Any) -> None:
        super().__init__()
        self.now = options.pop("now", MIDNIGHT)
        self.fires: list[Fire] = []
        self.schedule: Schedule | None = None
        namespace = options.pop("namespace", MAIN)
        self.ask(rq.CreateSchedule(namespace, NAME, Schedule(namespace, NAME, "Report", cron_expr, **options)))

    @property
    def state(self) -> Schedule:
        assert self.schedule is not None
        return self.schedule

    def ask(self, request: rq.ScheduleRequest) -> ScheduleDecision:
        """Decide a request and let it happen."""
        decision = self.decide(request)
        self.schedule = None if decision.deleted else decision.schedule
        self.fires += decision.fires
        for run in decision.runs:
            self.keep(run)
        for message in decision.messages:
            self.outbox[message.key] = message
        return decision

    def decide(self, request: rq.ScheduleRequest) -> ScheduleDecision:
        names = () if self.schedule is None else run_names(self.schedule, request, self.now)
        runs = {key: run for key, run in self.current().items() if key[1] in names}
        return decide_schedule(self.schedule, request, Moment(self.now, self.ids, runs), self.now)

    def elapse(self) -> ScheduleDecision:
        """The engine looks at the schedule, whether or not it is time."""
        return self.ask(rq.ElapseSchedule(self.state.namespace, NAME))

    def pass_time(self, duration: Time) -> "Timed":
        """An engine runs all the while: whatever wakes the schedule does so at its time."""
        until = self.now + duration
        while (wakes := self.state.wakes_at()) is not None and wakes <= until:
            self.now = max(self.now, wakes)
            self.elapse()
        self.now = until
        return self

    def sleep(self, duration: Time) -> "Timed":
        """No engine runs; when one starts again it does all there is to do."""
        self.now += duration
        return self.pass_time(0)

    def patch(self, **changes: Any) -> ScheduleDecision:
        return self.ask(rq.PatchSchedule(MAIN, NAME, changes))

    def pause(self, reason: str | None = None, by: str | None = None) -> ScheduleDecision:
        return self.ask(rq.PauseSchedule(MAIN, NAME, reason, by))

    def resume(self) -> ScheduleDecision:
        return self.ask(rq.ResumeSchedule(MAIN, NAME))

    def trigger(self, **fields: Any) -> Fire:
        answer = self.ask(rq.TriggerSchedule(MAIN, NAME, **fields)).reply
        assert isinstance(answer, Fire)
        return answer

    def backfill(self, start: Time, end: Time, **fields: Any) -> tuple[Fire, ...]:
        answer = self.ask(rq.BackfillSchedule(MAIN, NAME, start, end, **fields)).reply
        assert isinstance(answer, tuple)
        return answer

    def close(self, workflow_id: str, *, notify: bool = True) -> None:
        """A run completes; usually somebody tells the schedule."""
        self.take(turned(cmd.CompleteWorkflow(ONE), of=WorkflowId(workflow_id)))
        if notify:
            self.ask(rq.ScheduledRunClosed(MAIN, NAME))

    # what is there to look at

    def open_runs(self) -> list[str]:
        return [run.workflow_id for run in self.runs.values() if not run.closed]

    def started(self) -> list[Time]:
        """When runs were due, in order of their starts, counted from midnight."""
        return [run.start.scheduled_for - MIDNIGHT for run in self.runs.values() if run.start.scheduled_for]

    def last_run(self) -> Run:
        return list(self.runs.values())[-1]

    def outcomes(self) -> Counter[str]:
        return Counter(fire.outcome.value for fire in self.fires)

    def recorded(self) -> list[tuple[Time, str]]:
        """What became of due times, counted from midnight."""
        return [(fire.due_at - MIDNIGHT, fire.outcome.value) for fire in self.fires]


def times(*minutes: float) -> list[Time]:
    return [int(minute * MINUTE) for minute in minutes]
