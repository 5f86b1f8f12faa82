"""Planted bugs in the rules of activities and timers: attempts, back-off, time-outs."""

from typing import Any

from msgspec.structs import replace

from assay.core.model import requests as rq
from assay.core.model.effects import ArmTimer, CloseActivity, Decision, DropTimer, PutActivity
from assay.core.model.errors import Refused
from assay.core.model.events import TimerFired
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import SECOND, Time, seconds
from assay.core.model.policies import RetryPolicy
from assay.core.model.run import Activity, Run
from assay.core.rules import activities, timers, workflow_tasks
from assay.core.rules.moment import Moment
from assay.engine.commit.batch import Batch
from assay.engine.timekeeper import Timekeeper
from assay.storage.ports import StoredRun
from simulation.mutants.planting import Mutant, Patch
from simulation.mutants.turns import REMOTE


def _unfenced() -> list[Patch]:
    def held(run: Run, seq: int, attempt_id: int) -> Activity:
        if seq not in run.activities:
            raise Refused("the activity already has its outcome", code="already_reported")
        return run.activities[seq]

    def record(decision: Decision, outcome: rq.StepOutcome | rq.ActivityOutcome) -> bool:
        activity = decision.activity(outcome.seq) if isinstance(outcome, rq.ActivityOutcome) else None
        if activity is None:
            return original(decision, outcome)
        activities.succeed(decision, activity, outcome.result, outcome.time)
        return True

    original = workflow_tasks._record_outcome
    return [(activities, "held", held), (workflow_tasks, "_record_outcome", record)]


def _one_more() -> list[Patch]:
    original = RetryPolicy.delay_after

    def delay_after(self: RetryPolicy, attempt: int, failure: FailureInfo) -> Time | None:
        return original(self, attempt - 1, failure) if attempt > 1 else SECOND

    return [(RetryPolicy, "delay_after", delay_after)]


def _changed(name: str, change: Any) -> list[Patch]:
    """`_attempt_failed` followed by a change of what it decided about the activity."""
    original = activities._attempt_failed

    def attempt_failed(decision: Decision, activity: Activity, failure: FailureInfo, outcome: str) -> None:
        original(decision, activity, failure, outcome)
        last = decision.effects[-1]
        if isinstance(last, PutActivity):
            decision.effects[-1] = PutActivity(change(last.activity, outcome))

    return [(activities, name, attempt_failed)]


def _no_back_off() -> list[Patch]:
    return _changed("_attempt_failed", lambda activity, _: replace(activity, not_before=None))


def _lost_uncounted() -> list[Patch]:
    def change(activity: Activity, outcome: str) -> Activity:
        return replace(activity, attempt=activity.attempt - 1) if outcome == "lease" else activity

    return _changed("_attempt_failed", change)


def _id_kept() -> list[Patch]:
    original = activities.release

    def release(run: Run, request: rq.ReleaseActivity, at: Moment) -> Decision:
        decision = original(run, request, at)
        last = decision.effects[-1]
        if not request.lost and isinstance(last, PutActivity):
            decision.effects[-1] = PutActivity(replace(last.activity, attempt_id=request.attempt_id))
        return decision

    return [_rule(rq.ReleaseActivity, release)]


def _rule(kind: type[rq.Request], rule: Any) -> Patch:
    from assay.core.rules.decide import RULES

    return (RULES, kind, rule)  # type: ignore[return-value]  # a rule is found by the type of its request


def _early() -> list[Patch]:
    original = timers.schedule

    def schedule(decision: Decision, command: Any, at: Moment) -> None:
        original(decision, command, at)
        for place, effect in enumerate(decision.effects):
            if isinstance(effect, ArmTimer) and effect.seq == command.seq:
                decision.effects[place] = ArmTimer(effect.seq, max(decision.now, effect.due - SECOND // 5))

    return [(workflow_tasks.COMMANDS, _timer_command(), schedule)]


def _timer_command() -> Any:
    from assay.core.model.commands import ScheduleTimer

    return ScheduleTimer


def _half_fired() -> list[Patch]:
    """The timer is marked as fired, its event comes in a second transaction."""
    fire = Timekeeper._fire

    def elapse(run: Run, seq: int, at: Moment) -> Decision:
        decision = Decision.of(run, at.now)
        begun = vars(at.ids).setdefault("half_fired", {})
        if (run.run_id, seq) in begun:
            decision.record(TimerFired(seq, begun.pop((run.run_id, seq))))
            decision.wake()
        elif run.timers.get(seq, at.now + 1) <= at.now:
            begun[run.run_id, seq] = seconds(run.timers[seq])
            decision.add(DropTimer(seq))
        return decision

    async def fire_twice(self: Timekeeper, page: Any) -> bool:
        done = await fire(self, page)
        return done and await fire(self, [due for due in page if due.kind == "timer"])

    return [(timers, "elapse", elapse), (Timekeeper, "_fire", fire_twice)]


def _back_in_time() -> list[Patch]:
    original = Decision.of

    def create(run: Run, now: Time) -> Decision:
        decision = original(run, now)
        decision.time = now
        return decision

    return [(Decision, "of", staticmethod(create))]


def _from_now() -> list[Patch]:
    """Due from the engine's time on, though the run's own time is ahead of it."""
    original = timers.schedule

    def schedule(decision: Decision, command: Any, at: Moment) -> None:
        ahead = decision.time - decision.now
        original(decision, command, at)
        last = decision.effects[-1] if decision.effects else None
        if isinstance(last, ArmTimer) and ahead > 0:
            decision.effects[-1] = ArmTimer(last.seq, last.due - ahead)

    return [(workflow_tasks.COMMANDS, _timer_command(), schedule)]


def _silent_end() -> list[Patch]:
    """A worker is not told that the attempt it hangs on is over."""
    original = Batch._note_attempt

    def note(self: Batch, run: StoredRun, effect: Any, now: Time) -> None:
        before = list(self.unwanted)
        original(self, run, effect, now)
        self.unwanted[:] = before

    from assay.core.model.effects import NoteAttempt
    from assay.engine.commit.batch import GATHER

    return [(GATHER, NoteAttempt, note)]  # type: ignore[list-item]  # found by the type of its effect


def _forgotten() -> list[Patch]:
    """A closed run's open activities stay open."""
    return [(_effects(), CloseActivity, lambda run, effect: None)]  # type: ignore[list-item]


def _effects() -> Any:
    from assay.core.rules.fold import EFFECTS

    return EFFECTS


AHEAD = {"remote_workers": 2, "local_workers": 0, "kinds": ("act", "sleep", "stamp")}
ACTIVITIES = (
    Mutant("no fence on results", "I8", _unfenced, faults=(*REMOTE, "pause_engine")),
    Mutant("one attempt more than allowed", "I8", _one_more),
    Mutant("retry without back-off", "I12, 4.9 row 5", _no_back_off, faults=()),
    Mutant("a lost attempt does not count", "leases", _lost_uncounted, faults=("kill_engine", "kill_worker")),
    Mutant("start-to-close is final", "time-outs", lambda: [_final("start_to_close")], faults=()),
    Mutant(
        "schedule-to-start is tried again",
        "time-outs",
        lambda: [_not_final()],
        faults=(),
        world={"activity_hands": 1, "kinds": ("late", "long", "all")},
    ),
    Mutant("a released attempt keeps its id", "lost responses", _id_kept, faults=("stop_engine", "stop_worker")),
    Mutant("timers are early", "I10", _early, faults=()),
    Mutant("timer fired in two transactions", "I2, 4.9 row 3", _half_fired, faults=("crash_after",), seeds=200),
    Mutant("time goes back", "I13, event times", _back_in_time, shared=False, faults=("clock", "kill_engine")),
    Mutant("a timer counts from the engine's time", "event times", _from_now, faults=("clock",), world=AHEAD),
    Mutant("a hanging attempt is not told that it is over", "liveness", _silent_end, shared=False, faults=()),
    Mutant("an ended activity stays in the run", "I6", _forgotten, faults=("repeat", *REMOTE)),
)


def _final(limit: str) -> Patch:
    return (activities, "FINAL_LIMITS", (*activities.FINAL_LIMITS, limit))


def _not_final() -> Patch:
    return (activities, "FINAL_LIMITS", ("schedule_to_close",))
