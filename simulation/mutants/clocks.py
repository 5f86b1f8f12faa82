"""Planted bugs in how engines keep time: wall clocks that step, engines that stand still, schedules set back."""

from typing import Any

from msgspec.structs import replace

from assay.core.engine_time import SharedTime
from assay.core.model.ids import Time
from assay.core.schedules import fires
from assay.core.schedules.fires import ScheduleDecision
from assay.core.schedules.requests import ElapseSchedule
from assay.engine.clock import SharedClock, SystemClock
from assay.engine.presence import Presence
from assay.engine.scheduler import Scheduler
from simulation.mutants.planting import Mutant, Patch, waits_for_nothing
from simulation.store import SimStore

STEPS = ("step_clock",)


def _follows_the_wall() -> list[Patch]:
    return [(SystemClock, "now", lambda self: self._wall())]


def _stands_still() -> list[Patch]:
    """The clock that gave the last time until the wall clock had come to it again."""

    def now(self: SystemClock) -> Time:
        self._last = max(self._last, self._wall())
        return self._last

    return [(SystemClock, "now", now)]


def _ends_at_once() -> list[Patch]:
    return [(Presence, "lapsed", property(lambda self: False))]


def _fires_again() -> list[Patch]:
    """The next due time is computed from the wall clock, whatever was decided before."""

    def look_back(decision: ScheduleDecision) -> None:
        schedule = decision.schedule
        due = schedule._due_after(decision.now)
        if due is not None and schedule.next_run_at is not None and due < schedule.next_run_at:
            decision.change(next_run_at=due, decided_until=0, given_up=())

    async def look_at_all(self: Scheduler) -> None:
        for schedule in await self._store.list_schedules(None):
            self._committer.post(ElapseSchedule(schedule.namespace, schedule.name))

    return [(fires, "_return_to_missed", look_back), (Scheduler, "look_back", look_at_all)]


def _loses_what_was_missed() -> list[Patch]:
    return [(Scheduler, "look_back", waits_for_nothing)]


def _trusts_its_own_clock() -> list[Patch]:
    """An engine on a shared store that follows the wall clock of its machine after the start."""
    original = SharedClock.__init__

    def init(self: Any, boot_ns: Any, wall: Any) -> None:
        original(self, boot_ns, wall)
        self.own = wall

    async def reached(self: SimStore, now: Time, wall: Time) -> None:
        """No check in the transaction either."""

    return [
        (SharedClock, "__init__", init),
        (SharedClock, "now", lambda self: self.own()),
        (SimStore, "_wait_for_clocks", reached),
    ]


def _follows_the_database() -> list[Patch]:
    """A step of the database's clock is followed, not taken out."""
    original = SharedTime.learn

    def learn(self: SharedTime, *reading: Any) -> None:
        self.known = False
        original(self, *reading)

    return [(SharedTime, "learn", learn)]


def _forgets_what_it_gave_up() -> list[Patch]:
    """Due times that were missed count as decided for good."""
    original = fires.record_not_fired

    def leave(decision: ScheduleDecision, *rest: Any) -> None:
        original(decision, *rest)
        decision.schedule = replace(decision.schedule, given_up=())

    return [(fires, "record_not_fired", leave)]


def _schedules_by_engine_time() -> list[Patch]:
    return [(SystemClock, "wall", SystemClock.now)]


WAITING: dict[str, Any] = {"kinds": ("sleep", "act", "limited"), "again": 0.0}
FAR: dict[str, Any] = {"remote_workers": 2, "local_workers": 0, "kinds": ("long",), "programs": 5}
CLOCKS = (
    Mutant("an engine follows the wall clock", "I10", _follows_the_wall, False, STEPS, world=WAITING),
    Mutant("the clock stands still after a step back", "liveness, I13", _stands_still, False, STEPS, world=WAITING),
    Mutant("an engine that stood still ends leases", "I8", _ends_at_once, False, ("pause_engine",), world=FAR),
    Mutant("a schedule fires again after a step back", "I11", _fires_again, False, STEPS),
    Mutant("a schedule is not looked at after a step back", "I11", _loses_what_was_missed, False, STEPS),
    Mutant("a schedule forgets what was missed", "I11", _forgets_what_it_gave_up, False, STEPS),
    Mutant("a schedule follows engine time", "I11", _schedules_by_engine_time, False, STEPS),
    Mutant("an engine trusts its own wall clock", "I10", _trusts_its_own_clock, True, STEPS, world=WAITING),
    Mutant("a step of the database's clock is followed", "I10", _follows_the_database, True, STEPS, world=WAITING),
)
"""Each breaks a rule that holds whatever the wall clocks do."""
