"""Turns decisions and leases into the rows of one transaction.

A `Batch` folds each decision into its run and collects the rows to write: a run changed by ten requests of a batch is
written once. `seal` adds versions and deadlines when all decisions are taken.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from assay.core.codec import check_failure, encode, encode_uncertain
from assay.core.model import effects as fx
from assay.core.model import events as ev
from assay.core.model.effects import Decision
from assay.core.model.events import ActivityScheduled, Event, Recorded
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL
from assay.core.model.run import CANCELLED, PENDING, RUNNING, Activity, Run, Task
from assay.core.model.update_states import RECEIVED
from assay.core.rules import fold
from assay.core.rules.failure_groups import failure_of_close, failure_of_stuck
from assay.core.schedules.model import Schedule
from assay.storage.ports import (
    ActivityChange,
    AttemptEnd,
    Changes,
    Extent,
    ScheduleChange,
    Snapshot,
    StoredEvent,
    StoredRun,
)

UNCLAIMED, REOPENED = 0, 1
"""Epoch of a task before its first lease. A reopened run starts with a higher one: its task was leased before."""
UNCERTAIN: Final = frozenset(
    (
        *(ev.WorkflowFailed, ev.WorkflowCancelled, ev.WorkflowTerminated, ev.WorkflowCancelRequested),
        *(ev.ActivityFailed, ev.StepFailed),
    )
)
"""Events with texts and failures from user programs, which an embedded program passes in unchecked: they may not be
valid Unicode, and are encoded with a check. None of them is frequent."""


class Tally:
    """Counts and durations of a batch, for metrics and logs only."""

    __slots__ = ("activity_waits", "expired", "requests", "seconds", "task_waits")

    def __init__(self) -> None:
        self.requests = 0
        self.seconds = 0.0
        self.task_waits: list[Time] = []
        """How long each leased workflow task was ready before its lease."""
        self.activity_waits: list[Time] = []
        """How long each attempt's activity was ready before its lease."""
        self.expired: list[tuple[Run, str]] = []
        """Runs whose workflow task lease has expired, with the worker that held it."""


class Batch:
    """The changes of one transaction: decisions folded into their runs in order, and the rows that result."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.touched: dict[RunId, StoredRun] = {}
        """Runs to write, by run id."""
        self.newest: dict[tuple[Namespace, WorkflowId], StoredRun] = {}
        """Runs that this batch creates, the newest of each workflow id."""
        self.published: list[tuple[StoredRun, Sequence[Recorded]]] = []
        """The events of each decision; an event that closes its run comes last."""
        self.waiting: list[tuple[StoredRun, Activity]] = []
        """Activities that became ready and are not leased yet."""
        self.unwanted: list[tuple[RunId, Activity, bool]] = []
        """Attempts that their workers must stop, and whether the attempt is over because a time-out has passed."""
        self.ended: list[tuple[StoredRun, Event]] = []
        """Runs that were closed, with the closing event."""
        self.left: list[tuple[StoredRun, WorkerId]] = []
        """Runs that were closed while a worker held their task: the worker is notified and can stop working on them."""
        self.taken: set[str] = set()
        """The keys of outbox messages that this batch delivers."""
        self.tally = Tally()
        self.next_schedule: Time | None = None
        """The earliest new deadline of a schedule, in wall time; all other deadlines are in engine time."""
        self._created: set[RunId] = set()
        self._scheduled: set[int] = set()
        """Activities that this batch schedules: their rows are inserted whole."""
        self._recorded: dict[RunId, int] = {}
        """Index of each run's last event in `changes.events`."""
        self._soonest: dict[RunId, Time] = {}
        """The earliest deadline that this batch has set for an activity of a run."""

    def take(self, decision: Decision) -> bool:
        """Fold a decision and its tied decisions into their runs; return False if nothing changes."""
        run = decision.run
        changed = bool(decision.events or decision.effects)
        changed = changed or decision.task is not run.task or decision.seen_seq != run.seen_seq
        if decision.others:
            self._take_all(decision, changed)
            return True
        if changed:
            self._take_one(decision)
        return changed

    def _take_all(self, decision: Decision, changed: bool) -> None:
        """Fold tied decisions: closing runs first, because a workflow id has one open run at most (I15)."""
        # With ties the store writes all of these runs or no run, also if another engine changed one first (I2, I18).
        self.changes.ties.extend((decision.run.run_id, other.run.run_id) for other in decision.others)
        parts = (decision, *decision.others) if changed else decision.others
        for part in sorted(parts, key=lambda part: not part.closes):
            self._take_one(part)

    def put_schedule(self, schedule: Schedule, *, deleted: bool) -> None:
        """Add a schedule's row and its next deadline; several changes in one batch raise its version by one."""
        key = (schedule.namespace, schedule.name)
        known = self.changes.schedules.get(key)
        version = schedule.version + 1 if known is None or known.schedule is None else known.schedule.version
        after = None if deleted else replace(schedule, version=version)
        self.changes.schedules[key] = ScheduleChange(schedule.namespace, schedule.name, after, version)
        due = None if after is None else after.wakes_at()
        self.changes.deadlines[schedule.key, "schedule", 0] = due
        if due is not None and (self.next_schedule is None or due < self.next_schedule):
            self.next_schedule = due

    def _take_one(self, decision: Decision) -> None:
        run, now = decision.run, decision.now
        if not isinstance(run, StoredRun):  # created by this decision
            run = decision.run = self._add_new_run(run)
        self.touched[run.run_id] = run
        task = run.task
        if decision.closes:
            self._note_failure(run, decision)
        fold.fold(run, decision)
        if run.task.stuck is not None and run.task.stuck is not task.stuck:
            self.changes.failures.append((run, failure_of_stuck(run, run.task.stuck), now))
        if run.task is not task and (run.closed_at is not None or (task.worker is None) != (run.task.worker is None)):
            self.task_changed(run, task, now)
        if decision.events:
            self._gather_events(run, decision.events)
            if decision.closes:
                self.ended.append((run, decision.events[-1].event))
        for effect in decision.effects:
            gather = GATHER.get(type(effect))
            if gather is not None:
                gather(self, run, effect, now)

    def _note_failure(self, run: StoredRun, decision: Decision) -> None:
        """Add a run that fails to its failure group; called before the decision is folded."""
        failure = failure_of_close(run, decision.events[-1].event)
        if failure is not None:
            self.changes.failures.append((run, failure, decision.now))

    def _add_new_run(self, created: Run) -> StoredRun:
        run = StoredRun.of(created)
        self._created.add(run.run_id)
        self.changes.new_runs.append(run)
        self.newest[run.namespace, run.workflow_id] = run
        if run.search != NULL:
            self.changes.attributed.append(run)
        return run

    def task_changed(self, run: StoredRun, before: Task, now: Time) -> None:
        """Count a workflow task leased to a worker or taken from a worker; the run is in `touched` already."""
        if run.task.epoch > before.epoch and run.task.worker is not None:
            self.tally.task_waits.append(now - (before.since or now))
            if before.epoch == (UNCLAIMED if run.start.reopening is None else REOPENED):
                self._claim(run, now)
        elif before.worker is not None and run.task.worker is None and before.until is not None and before.until <= now:
            self.tally.expired.append((run, before.worker))
        if before.worker is not None and run.closed_at is not None:
            self.left.append((run, before.worker))

    def _claim(self, run: StoredRun, now: Time) -> None:
        """Publish the first lease of a run to event streams: on the row of the run's last event, else as its own row.

        A mark on an event of the same batch costs no row: most runs are leased in the batch that starts them (I24).
        """
        place = self._recorded.get(run.run_id)
        if place is None:
            self.changes.claims.append((run, now))
        else:
            self.changes.events[place] = replace(self.changes.events[place], claimed=1)

    def _gather_events(self, run: StoredRun, events: list[Recorded]) -> None:
        self.published.append((run, events))
        run_id, stored = run.run_id, self.changes.events
        size = run.history_bytes
        for recorded in events:
            event = recorded.event
            payload, data = encode_uncertain(event) if type(event) in UNCERTAIN else encode(event)
            size += len(payload)
            if data is not None:
                size += len(data)
            stored.append(StoredEvent(run_id, recorded.seq, recorded.time, event.recorded_name, payload, data))
            if type(event) is ActivityScheduled:
                self._scheduled.add(event.activity_id)
        run.history_bytes = size
        self._recorded[run_id] = len(stored) - 1

    def take_message(self, owner: RunId, key: str) -> None:
        """Have the row of a delivered message deleted; `owner` is lost if the row is gone."""
        self.changes.acknowledged.append((owner, key))
        self.taken.add(key)

    def touch(self, run: StoredRun) -> None:
        """Write a run even without a decision that changes it: `seal` sets its deadline anew."""
        self.touched[run.run_id] = run

    def seal(self, now: Time) -> Time | None:
        """Complete the changes: rows of unleased activities, versions, deadlines. Return the earliest deadline set."""
        changes = self.changes
        for run, activity in self.waiting:
            if run.activities.get(activity.seq) is activity:
                self._leave(run, activity, now)
        if self.ended:
            self._forget_deadlines()
        for run in self.touched.values():
            run.version += 1
            if run.run_id not in self._created:
                changes.runs.append(run)
            if run.closed_at is None:
                self._arm(run, now)
        times = changes.deadlines
        if changes.schedules:
            times = {key: due for key, due in times.items() if key[1] != "schedule"}
        return min((due for due in times.values() if due is not None), default=None)

    def _arm(self, run: StoredRun, now: Time) -> None:
        """Set the deadline of a run, if the stored deadline comes too late or has passed.

        A single deadline row stands for all clocks of a run except timers: leases, time-outs, back-offs. Most clocks
        are stopped in time, so the row is written only to come sooner, and left alone when a clock stops. The deadline
        may then come too soon: the timekeeper finds nothing due (`core` decides), and only then is the next computed
        from all clocks. A row per clock would cost two writes for each lease. Invariant: the stored deadline is never
        later than the first clock of the run (I12).
        """
        armed = run.armed
        if armed is not None and armed <= now:  # the deadline has come: compute the next from all clocks
            clocks = (run.deadline(), *(activity.deadline() for activity in run.activities.values()))
            due = min((clock for clock in clocks if clock is not None), default=None)
            if due == armed:
                return
        else:
            due = run.deadline()
            soonest = self._soonest.get(run.run_id)
            if soonest is not None and (due is None or soonest < due):
                due = soonest
            if due is None or (armed is not None and armed <= due):
                return
        self.changes.deadlines[run.run_id, "run", 0] = run.armed = due

    def _forget_deadlines(self) -> None:
        """Drop the deadlines of closed runs from the changes, and have the stored ones deleted."""
        changes = self.changes
        changes.closed = [run.run_id for run, _ in self.ended]
        closed = set(changes.closed)
        changes.deadlines = {key: due for key, due in changes.deadlines.items() if key[0] not in closed}

    def _put_activity(self, run: StoredRun, effect: fx.PutActivity, now: Time) -> None:
        activity = effect.activity
        if activity.worker is None:
            if activity.not_before is None:
                # The row is written by `attempt_begun` or `seal`: `lease` may find a worker within this batch.
                self.waiting.append((run, activity))
            else:
                self._leave(run, activity, now)
        else:
            self.attempt_begun(run, activity, now)

    def attempt_begun(self, run: StoredRun, activity: Activity, now: Time) -> None:
        """Add the row of an activity with a leased attempt; the run is in `touched` already."""
        extent = Extent.ALL if activity.id in self._scheduled else Extent.STATE
        self.changes.activities[activity.id] = ActivityChange(run, activity, RUNNING, now, extent)
        if activity.started_at == now and activity.heartbeat_at is None:
            self.tally.activity_waits.append(now - activity.queued_at)
        if activity.cancel_requested:
            self.unwanted.append((run.run_id, activity, False))
        self._watch(run, activity)

    def _leave(self, run: StoredRun, activity: Activity, now: Time) -> None:
        """Add the row of an activity without a lease: no worker is free, or its back-off runs."""
        extent = Extent.ALL if activity.id in self._scheduled else Extent.STATE
        self.changes.activities[activity.id] = ActivityChange(run, activity, PENDING, now, extent)
        self._watch(run, activity)

    def _watch(self, run: StoredRun, activity: Activity) -> None:
        """Note a deadline of an activity before the run's stored deadline."""
        due = activity.deadline()
        if due is not None and (run.armed is None or due < run.armed) and due < self._soonest.get(run.run_id, due + 1):
            self._soonest[run.run_id] = due

    def _close_activity(self, run: StoredRun, effect: fx.CloseActivity, now: Time) -> None:
        activity = effect.activity
        extent = self._extent_of_closing(activity.id)
        self.changes.activities[activity.id] = ActivityChange(
            run, activity, effect.status, now, extent, effect.result, effect.error
        )
        if activity.running and effect.status == CANCELLED:
            self.unwanted.append((run.run_id, activity, False))

    def _extent_of_closing(self, activity_id: int) -> Extent:
        """Return the columns to write: the outcome alone, unless this batch changed the activity's row before."""
        if activity_id in self._scheduled:
            return Extent.ALL
        known = self.changes.activities.get(activity_id)
        return Extent.OUTCOME if known is None else known.extent

    def _note_attempt(self, run: StoredRun, effect: fx.NoteAttempt, now: Time) -> None:
        if effect.failure is not None:
            check_failure(effect.failure)
        self.changes.attempts.append(AttemptEnd(run, effect.activity, effect.outcome, effect.failure, now))
        if effect.outcome != "failed":
            # The worker has sent no report. Cancel the attempt there: a hanging function would keep its slot for ever.
            self.unwanted.append((run.run_id, effect.activity, True))

    def _arm_timer(self, run: StoredRun, effect: fx.ArmTimer, _: Time) -> None:
        self.changes.deadlines[run.run_id, "timer", effect.seq] = effect.due

    def _drop_timer(self, run: StoredRun, effect: fx.DropTimer, _: Time) -> None:
        self.changes.deadlines[run.run_id, "timer", effect.seq] = None

    def _put_attributes(self, run: StoredRun, _effect: fx.PutAttributes, _: Time) -> None:
        self.changes.attributed.append(run)

    def _put_version(self, run: StoredRun, effect: fx.PutVersion, _: Time) -> None:
        self.changes.versions.append((run, effect.change_id, effect.version))

    def _put_peer(self, run: StoredRun, effect: fx.PutPeer, _: Time) -> None:
        self.changes.peers[run.run_id, *effect.peer.key] = effect.peer

    def _drop_peer(self, run: StoredRun, effect: fx.DropPeer, _: Time) -> None:
        self.changes.peers[run.run_id, *effect.key] = None

    def _put_snapshot(self, run: StoredRun, effect: fx.PutSnapshot, now: Time) -> None:
        self.changes.snapshots[run.run_id] = Snapshot(run.run_id, effect.seq, effect.state, now)

    def _put_update(self, run: StoredRun, effect: fx.PutUpdate, _: Time) -> None:
        key, state = (run.run_id, effect.update.update_id), effect.update
        known = self.changes.updates.get(key)
        self.changes.updates[key] = (run, state, state.status == RECEIVED if known is None else known[2])

    def _send(self, run: StoredRun, effect: fx.Send, now: Time) -> None:
        self.changes.messages.append((run.run_id, effect.message, now))

    def _acknowledge(self, run: StoredRun, effect: fx.Acknowledge, _: Time) -> None:
        self.take_message(run.run_id, effect.key)


GATHER: dict[type[fx.Effect], Callable[[Batch, StoredRun, Any, Time], None]] = {
    fx.PutActivity: Batch._put_activity,
    fx.CloseActivity: Batch._close_activity,
    fx.NoteAttempt: Batch._note_attempt,
    fx.ArmTimer: Batch._arm_timer,
    fx.DropTimer: Batch._drop_timer,
    fx.PutAttributes: Batch._put_attributes,
    fx.PutVersion: Batch._put_version,
    fx.PutPeer: Batch._put_peer,
    fx.DropPeer: Batch._drop_peer,
    fx.PutSnapshot: Batch._put_snapshot,
    fx.PutUpdate: Batch._put_update,
    fx.Send: Batch._send,
    fx.Acknowledge: Batch._acknowledge,
}
"""The method that adds each effect's rows; effects that are not listed change the run's own row only."""
