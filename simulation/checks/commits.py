"""What must hold after every commit: seqs, times, leases, attempts, and that families hear of each other."""

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from assay.core.model.events import ActivityOptions, StartData
from assay.core.model.ids import SECOND, RunId, Time, WorkerId
from assay.core.model.policies import ParentClose
from assay.core.model.run import Activity, Run
from assay.storage.ports import ActivityChange, AttemptEnd, Changes, StoredEvent
from simulation.shown import shown
from simulation.tables import PLACE

if TYPE_CHECKING:
    from simulation.world import World

CLOSING = frozenset(
    f"Workflow{kind}" for kind in ("Completed", "Failed", "Cancelled", "Terminated", "TimedOut", "ContinuedAsNew")
)
UNORDERED = frozenset(("reject", "unknown", "unread", "crash_before", "crash_after", "clock"))
"""Faults after which an engine finds ready work again in the store, and some of it later than other."""
SLACK: Time = SECOND // 10
LEASE: Time = 10 * SECOND
STEADY = 0.98
"""Engine time is slewed by at most one per cent; a shared one, and that of an engine, by both."""
MARKS = {"activity": "activity_mark", "timer": "timer_mark", "side effect": "effect_mark"}
RUN, OUTBOX, ACTIVITY = PLACE["runs"], PLACE["outbox_messages"], PLACE["activities"]
_start = msgspec.json.Decoder(StartData).decode


class CommitChecks:
    """Looks at what is written, knowing only what was written before."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._last: dict[RunId, tuple[int, Time]] = {}
        self._closed: set[RunId] = set()
        self._holders: dict[RunId, tuple[WorkerId | None, int]] = {}
        self._effects: dict[RunId, dict[str, int]] = defaultdict(dict)
        self._steps: set[tuple[RunId, str]] = set()
        self._attempts: dict[int, tuple[int, Time]] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        self._leased: set[int] = set()
        self._ready: dict[RunId, Time] = {}
        self._timers: dict[tuple[RunId, int], tuple[Time, int]] = {}
        """When each timer may fire at the earliest, and how many engines had started when it was set."""
        self._ended: dict[int, tuple[Time, Time]] = {}
        self.states: dict[RunId, dict[tuple[int, int], None]] = defaultdict(dict)
        """Every (last seq, seen seq) that a run's row ever had: the prefixes that workers may be given (I19)."""

    def look(self, changes: Changes, now: Time, sent: Time) -> None:
        """Check one transaction, which its engine sent at `sent`."""
        if self._world.ledger.tracing:
            self._tell(changes, now)
        reopened = {run.run_id for run in changes.new_runs if run.start.reopening is not None}
        for event in changes.events:
            self._event(event)
            if event.run_id not in reopened:  # a copied timer was set when the first run set it
                self._timer(event, now, sent)
        if changes.fires:
            for sentence in self._world.keeper.look(changes):
                self._violate(sentence)
        self._order((*changes.new_runs, *changes.runs), now)
        for run in (*changes.new_runs, *changes.runs):
            self._lease(run)
            if run.closed_at is None:
                self.states[run.run_id][run.last_seq, run.seen_seq] = None
        for end in changes.attempts:
            self._attempt_ended(end, now)
        for change in changes.activities.values():
            self._given_back(change)
            if change.activity.worker is not None and change.status == "RUNNING":
                self._attempt(change)
        self._families(changes)

    def _tell(self, changes: Changes, now: Time) -> None:
        note = self._world.ledger.note
        for event in changes.events:
            note(now, f"  {event.run_id[-6:]} {event.seq} {event.kind} {event.payload[:80].decode()}")
        for run in (*changes.new_runs, *changes.runs):
            note(now, f"  {run.run_id[-6:]} {run.workflow_id} v{run.version} seen {run.seen_seq} {shown(run.task)}")
        for change in changes.activities.values():
            note(now, f"  {change.run.run_id[-6:]} {change.status} {shown(change.activity)}")

    def _violate(self, sentence: str) -> None:
        self._world.ledger.violate(sentence)

    def _event(self, event: StoredEvent) -> None:
        seq, time = self._last.get(event.run_id, (0, 0))
        if event.seq != seq + 1:
            self._violate(f"I4 {event.run_id} has event {event.seq} after {seq}")
        if event.time < time:
            self._violate(f"I13 {event.run_id} went back in time at event {event.seq}")
        if event.run_id in self._closed:
            self._violate(f"I5 {event.run_id} has {event.kind} after its end")
        self._last[event.run_id] = event.seq, event.time
        if event.kind in CLOSING:
            self._closed.add(event.run_id)
        elif event.kind == "SideEffectRecorded":
            self._effects[event.run_id][msgspec.json.decode(event.payload)["name"]] = event.seq
        elif event.kind == "StepCompleted":
            self._steps.add((event.run_id, msgspec.json.decode(event.payload)["name"]))

    def _timer(self, event: StoredEvent, now: Time, sent: Time) -> None:
        """I10 by a clock that no engine has: no step makes a timer shorter, unless an engine started meanwhile."""
        if event.kind == "TimerScheduled":
            timer = msgspec.json.decode(event.payload)
            due = sent + int(timer["duration_secs"] * SECOND * STEADY)
            self._timers[event.run_id, timer["timer_seq"]] = due, self._world.ledger.boots
        elif event.kind == "TimerFired":
            due, boots = self._timers.get((event.run_id, msgspec.json.decode(event.payload)["timer_seq"]), (0, 0))
            if now < due - 5 * SLACK and boots == self._world.ledger.boots:
                self._violate(f"I10 a timer of {event.run_id} fired {(due - now) / SECOND:.1f} s early")

    def step_is_over(self, run_id: RunId, name: str) -> bool:
        """Has a step its result, or its run an end? The latter a worker over the network hears of a little later."""
        closed = run_id in self._closed and not self._world.settings.remote_workers
        return closed or (run_id, name) in self._steps

    def effect_recorded(self, run_id: RunId, name: str, seen: int) -> bool:
        """Is the value of a side effect among the events that somebody has seen?"""
        seq = self._effects[run_id].get(name)
        return seq is not None and seq <= seen

    def not_durable(self, run_id: RunId, ordered: dict[str, int]) -> str | None:
        """The first kind of command of which less is recorded than was ordered."""
        row = self._world.database.tables.rows["runs"][(run_id,)]
        for kind, mark in MARKS.items():
            if kind in ordered and row[RUN[mark]] < ordered[kind]:
                return kind
        return None

    def held_by(self, workers: list[WorkerId]) -> list[str]:
        """What is leased to these workers."""
        rows = self._world.database.tables.rows
        runs = [row[2] for row in rows["runs"].values() if row[RUN["task_worker"]] in workers]
        taken = [row for row in rows["activities"].values() if row[ACTIVITY["worker"]] in workers]
        return runs + [row[ACTIVITY["name"]] for row in taken if row[ACTIVITY["completed_at"]] is None]

    def _order(self, runs: tuple[Run, ...], now: Time) -> None:
        """Check that tasks are leased oldest first, if one engine has all of them and had no fault."""
        settings = self._world.settings
        if settings.shared or settings.faults & UNORDERED:
            return
        given = [self._ready.pop(run.run_id, None) for run in runs if run.task.worker is not None]
        for run in runs:
            if run.task.ready and run.closed_at is None and run.start.workflow_type in self._world.app.workflows:
                self._ready.setdefault(run.run_id, now)
            else:
                self._ready.pop(run.run_id, None)
        latest = max((since for since in given if since is not None), default=0)
        for run_id, since in self._ready.items():
            if since < latest - SLACK:
                self._violate(f"order of work: the task of {run_id} was passed over for one that came later")

    def _lease(self, run: Run) -> None:
        """A new holder needs a new epoch (I7)."""
        holder, epoch = run.task.worker, run.task.epoch
        before, known = self._holders.get(run.run_id, (None, 0))
        if holder is not None and (holder, epoch) != (before, known):
            if epoch <= known:
                self._violate(f"I7 {run.run_id} was leased twice under epoch {epoch}")
            self._world.ledger.grants[run.run_id].append((epoch, run.last_seq))
        if epoch < known:
            self._violate(f"I7 the epoch of {run.run_id} went back from {known} to {epoch}")
        self._holders[run.run_id] = holder if holder is not None else before, max(epoch, known)

    def _attempt_ended(self, end: AttemptEnd, now: Time) -> None:
        """Also check that a remote worker has one full lease to reconnect after its only engine was started."""
        activity, settings = end.activity, self._world.settings
        only = not settings.shared and not activity.local and not settings.has("clock")
        # A wall clock that is ahead slews engine time, by which leases end, while real time is measured here.
        if only and end.outcome == "lease" and now < self._world.engines[0].booted + int(LEASE * STEADY):
            self._violate(f"leases: attempt {activity.attempt} of {activity.name} was given up right after a restart")
        if only and end.outcome == "lease" and now < self._world.engines[0].resumed + int(LEASE * STEADY):
            self._violate(f"I8 attempt {activity.attempt} of {activity.name} was given up after its engine stood still")
        self._ended[activity.id] = end.time, end.time + _back_off(activity)

    def _given_back(self, change: ActivityChange) -> None:
        """An attempt was taken back uncounted: its number is free again, perhaps taken again in the same commit."""
        activity = change.activity
        number, name = self._numbers.get(activity.id, (0, 0))
        if activity.attempt < number or (activity.attempt == number > 0 and activity.attempt_id != name):
            self._world.ledger.released[change.run.run_id, activity.seq] += 1
        self._numbers[activity.id] = activity.attempt, activity.attempt_id

    def _attempt(self, change: ActivityChange) -> None:
        """A new attempt has a new id, comes after its back-off, and is one of those that are allowed (I8, I12)."""
        activity = change.activity
        before = self._attempts.get(activity.id)
        lease = activity.attempt_id, activity.started_at or 0
        if before == lease:
            return
        self._attempts[activity.id] = lease
        if activity.attempt_id in self._leased:
            self._violate(f"I8 attempt {activity.attempt_id} of {activity.name} was given out twice")
        self._leased.add(activity.attempt_id)
        most = activity.options.retry.max_attempts
        if most and activity.attempt > most:
            self._violate(f"I8 {activity.name} began attempt {activity.attempt} of {most}")
        ended = self._ended.pop(activity.id, None)
        steady = not self._world.settings.has("clock")
        # A shared correction that is dropped, as no engine lives, has been slewed by less than this.
        slewed = SECOND if self._world.settings.has("step_clock") else 0
        if steady and ended is not None and (activity.started_at or 0) < ended[1] - slewed:
            self._violate(f"I12 attempt {activity.attempt} of {activity.name} did not wait for its back-off")

    def _families(self, changes: Changes) -> None:
        for event in changes.events:
            if event.kind == "WorkflowCancelRequested" or event.kind in CLOSING:
                self._children_told(event.run_id, event.kind)
                if event.kind == "WorkflowCancelRequested":
                    self._parent_first(event.run_id, event.payload)
            elif event.kind == "ChildWorkflowStarted" and self._cancelled(event.run_id):
                self._children_told(event.run_id, event.kind)

    def _parent_first(self, run_id: RunId, payload: bytes) -> None:
        """Check that a parent is marked as cancelled before its children."""
        rows = self._world.database.tables.rows
        parent = _start(rows["events"][run_id, 1][5]).parent
        above = None if parent is None else rows["runs"].get((parent.run_id,))
        if above is None or b'"from":' not in payload:
            return
        if above[RUN["closed_at"]] is None and not above[RUN["cancel_seq"]] and not self._gave_up(above[0]):
            self._violate(f"order of work: {run_id} is asked to cancel by its parent, which is not")

    def _gave_up(self, run_id: RunId) -> bool:
        """Has the code of a run given up waiting for a child, which is asked to cancel then?"""
        events = self._world.database.tables.rows["events"]
        return any(owner == run_id and row[3] == "ExternalCancelRequested" for (owner, _), row in events.items())

    def _cancelled(self, run_id: RunId) -> bool:
        return bool(self._world.database.tables.rows["runs"][(run_id,)][RUN["cancel_seq"]])

    def _children_told(self, run_id: RunId, kind: str) -> None:
        """A cancel or the end of a run must be on its way to every child that is open (I16)."""
        tables = self._world.database.tables.rows
        notified = {
            row[OUTBOX["workflow_id"]]
            for row in tables["outbox_messages"].values()
            if row[OUTBOX["kind"]] in ("cancel", "terminate")
        }
        for row in tables["runs"].values():
            if row[RUN["parent_run_id"]] != run_id or row[RUN["closed_at"]] is not None or row[RUN["cancel_seq"]]:
                continue
            parent = _start(tables["events"][row[0], 1][5]).parent
            if parent is not None and parent.close_policy is not ParentClose.ABANDON and row[2] not in notified:
                self._violate(f"I16 child {row[2]} does not hear of {kind} of its parent {run_id}")


def _back_off(activity: Activity) -> Time:
    """How long the policy says to wait, worked out here once more."""
    options: ActivityOptions = activity.options
    retry = options.retry
    wait = float(retry.initial_interval)
    for _ in range(activity.attempt - 1):
        wait = min(wait * retry.backoff, float(retry.maximum_interval))
    return int(min(wait, retry.maximum_interval))
