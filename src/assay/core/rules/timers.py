"""Rules of durable timers: a timer fires once, and never early (I10)."""

from assay.core.model import commands as cmd
from assay.core.model.effects import ArmTimer, Decision, DropTimer
from assay.core.model.errors import Invalid
from assay.core.model.events import TimerCancelled, TimerFired, TimerScheduled
from assay.core.model.ids import SECOND, seconds
from assay.core.model.run import Run
from assay.core.rules.moment import Moment


def schedule(decision: Decision, command: cmd.ScheduleTimer, at: Moment) -> None:
    """Record and arm a timer, once per `seq`; due at max(event time, engine time) + duration."""
    if not decision.claim_seq(TimerScheduled, command.seq, decision.timer_mark):
        return
    if command.duration_secs > 3_200_000_000 or command.duration_secs != command.duration_secs:
        raise Invalid("a timer may last 100 years at most", field="duration_secs")
    decision.timer_mark = max(decision.timer_mark, command.seq)
    due = max(decision.time, decision.now) + round(max(command.duration_secs, 0) * SECOND)
    decision.record(
        TimerScheduled(
            timer_id=at.ids.number(),
            timer_seq=command.seq,
            fire_at=seconds(due),
            duration_secs=command.duration_secs,
        )
    )
    decision.add(ArmTimer(command.seq, due))


def cancel(decision: Decision, command: cmd.CancelTimer, _: Moment) -> None:
    """Cancel a timer that has not fired."""
    if decision.has_timer(command.seq):
        decision.record(TimerCancelled(command.seq))
        decision.add(DropTimer(command.seq))


def elapse(run: Run, seq: int, at: Moment) -> Decision:
    """Fire a timer if it is due."""
    decision = Decision.of(run, at.now)
    due = run.timers.get(seq)
    if due is not None and due <= at.now:
        decision.record(TimerFired(seq, seconds(due)))
        decision.add(DropTimer(seq))
        decision.wake()
    return decision
