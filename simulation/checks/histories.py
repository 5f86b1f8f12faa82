"""What must hold of every history at the end, and of the rows that stand beside it."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from assay.core.model import events as ev
from assay.core.model.events import Recorded, StartData
from assay.core.model.ids import SECOND, Namespace, RunId, WorkflowId
from assay.core.model.run import Run
from assay.core.rules.fold import apply
from assay.storage.sql import notes, rows
from simulation.ledger import Ledger
from simulation.tables import PLACE, Tables

ACTIVITY, EVENT = PLACE["activities"], PLACE["events"]
FOLDED = (
    "status", "close_reason", "error", "closed_at", "last_time", "last_seq", "input_seq", "next_run_id", "cancel_seq",
    "activity_mark", "timer_mark", "effect_mark", "step_mark", "signals",
)  # fmt: skip
"""Columns of a run's row that its history alone determines."""


class Life:
    """One run: its row and its history."""

    def __init__(self, row: dict[str, Any], history: list[Recorded]) -> None:
        self.row = row
        self.history = history
        self.run_id: RunId = row["run_id"]
        self.workflow_id: WorkflowId = row["workflow_id"]

    @property
    def start(self) -> StartData:
        """What the run knows from its first moment on."""
        first = self.history[0].event
        if not isinstance(first, ev.WorkflowStarted) or first.start is None:
            raise TypeError(f"{self.run_id} does not begin with WorkflowStarted")
        return first.start

    @property
    def end(self) -> ev.Event | None:
        """The closing event, if the run is closed."""
        last = self.history[-1].event
        return last if last.closes is not None else None

    def of(self, *kinds: type[ev.Event]) -> Iterator[Recorded]:
        """The events of some kinds."""
        return (recorded for recorded in self.history if isinstance(recorded.event, kinds))


class Archive:
    """All that the database has at the end, decoded."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        histories: dict[str, list[Recorded]] = {}
        self.claims: Counter[str] = Counter()
        """How often it is told of each run that a worker took it up for the first time."""
        for (run_id, seq), row in sorted(tables.rows["events"].items()):
            if seq == notes.NOTE_SEQ:
                self.claims.update(claim.run_id for claim in notes.note_of(0, 0, *row[2:5]).claims)
            else:
                histories.setdefault(run_id, []).append(rows.recorded((*row[1:6], seq)))
                self.claims[run_id] += row[EVENT["claimed"]]
        self.lives = {row["run_id"]: Life(row, histories.get(row["run_id"], [])) for row in tables.runs()}

    def chain(self, workflow_id: str) -> list[Life]:
        """The runs of an id, oldest first."""
        found = [life for life in self.lives.values() if life.workflow_id == workflow_id]
        return sorted(found, key=lambda life: life.row["number"])

    @cached_property
    def activities(self) -> dict[tuple[RunId, int], dict[str, Any]]:
        """Every activity's row by run and seq."""
        names = list(ACTIVITY)
        found = (dict(zip(names, row, strict=True)) for row in self.tables.rows["activities"].values())
        return {(row["run_id"], row["seq"]): row for row in found}


def check_histories(archive: Archive, ledger: Ledger) -> None:
    """Check every history on its own and with its family."""
    for life in archive.lives.values():
        for check in (_whole, _folds, _once, _versions, _claimed, _timers, _leftovers):
            for problem in check(life, archive):
                ledger.violate(f"{problem} ({life.workflow_id} {life.run_id})")
        for problem in (*_successor(life, archive), *_reopened(life, archive), *_children(life, archive)):
            ledger.violate(f"{problem} ({life.workflow_id} {life.run_id})")


def _whole(life: Life, _: Archive) -> Iterator[str]:
    """I4 and I5: dense, and closed exactly once, at the end."""
    if [recorded.seq for recorded in life.history] != list(range(1, len(life.history) + 1)):
        yield "I4 the history has gaps"
    closings = [recorded for recorded in life.history if recorded.event.closes is not None]
    if (life.row["closed_at"] is not None) != (len(closings) == 1 and closings[0] is life.history[-1]):
        yield f"I5 closed_at is {life.row['closed_at']} and there are {len(closings)} closing events"


def _folds(life: Life, archive: Archive) -> Iterator[str]:
    """I2: what the row says is what the history says; of a closed run the retry alone may name a successor."""
    row = dict(life.row)
    following = archive.lives.get(row["next_run_id"])
    if following is not None and following.start.reopening is not None and getattr(life.end, "next_run_id", 1) is None:
        row["next_run_id"] = None
    if isinstance(life.end, ev.WorkflowCancelled):
        row["next_run_id"] = None
    run = Run(Namespace(row["namespace"]), life.workflow_id, life.run_id, row["number"], life.start, row["created_at"])
    run.tail = None
    for recorded in life.history:
        apply(run, recorded)
    if run.closed_at is None and row["task_epoch"]:
        run.status = "RUNNING"
    for name in FOLDED:
        if getattr(run, name) != row[name]:
            yield f"I2 the row says {name} is {row[name]!r}, the history {getattr(run, name)!r}"


def _once(life: Life, _: Archive) -> Iterator[str]:
    """I6 and I17: one outcome for each thing that was ordered."""
    outcomes: Counter[tuple[str, object]] = Counter()
    for recorded in life.history:
        match recorded.event:
            case ev.ActivityCompleted(activity_seq=seq) | ev.ActivityFailed(activity_seq=seq):
                outcomes["activity", seq] += 1
            case ev.ActivityCancelled(activity_seq=seq):
                outcomes["activity", seq] += 1
            case ev.TimerFired(timer_seq=seq) | ev.TimerCancelled(timer_seq=seq):
                outcomes["timer", seq] += 1
            case ev.StepCompleted(step_seq=seq) | ev.StepFailed(step_seq=seq):
                outcomes["step", seq] += 1
            case ev.SideEffectRecorded(side_effect_seq=seq):
                outcomes["side effect", seq] += 1
            case ev.ChildWorkflowCompleted(child_workflow_id=name) | ev.ChildWorkflowFailed(child_workflow_id=name):
                outcomes["child", name] += 1
    yield from (f"I6 {kind} {seq} has {count} outcomes" for (kind, seq), count in outcomes.items() if count > 1)


def _versions(life: Life, archive: Archive) -> Iterator[str]:
    """I2 and I6: a change has one version in a run, never the default, and the table has what the history has."""
    recorded = [
        (one.event.change_id, one.event.version) for one in life.history if type(one.event) is ev.VersionRecorded
    ]
    found = dict(recorded)
    if len(found) != len(recorded):
        yield f"I6 a change has several versions: {recorded}"
    if any(version < 0 for version in found.values()):
        yield "I6 the default version is recorded"
    kept = {row[1]: row[2] for row in archive.tables.rows["versions"].values() if row[0] == life.run_id}
    if kept != found:
        yield f"I2 the table has the versions {kept}, the history {found}"


def _claimed(life: Life, archive: Archive) -> Iterator[str]:
    """I24: it is told once if a worker ever took up the run, and not otherwise."""
    first = 0 if life.start.reopening is None else 1
    expected = 1 if life.row["task_epoch"] > first else 0
    if archive.claims[life.run_id] != expected:
        yield f"I24 it is told {archive.claims[life.run_id]} times that the run was taken up, not {expected} times"


def _timers(life: Life, _: Archive) -> Iterator[str]:
    """I10: never early, neither by the engine's clock nor as the run sees it."""
    armed: dict[int, tuple[int, ev.TimerScheduled]] = {}
    for recorded in life.of(ev.TimerScheduled, ev.TimerFired):
        event = recorded.event
        if isinstance(event, ev.TimerScheduled):
            armed[event.timer_seq] = recorded.time, event
        elif isinstance(event, ev.TimerFired):
            since, timer = armed[event.timer_seq]
            due = max(timer.fire_at, since / SECOND + timer.duration_secs)
            if recorded.time / SECOND < due - 1e-5:
                yield f"I10 timer {event.timer_seq} fired {due - recorded.time / SECOND:.6f} s early"


def _leftovers(life: Life, archive: Archive) -> Iterator[str]:
    """I2 and I12: rows of work agree with the history; a closed run has none left."""
    deadlines = {key[1:] for key in archive.tables.rows["deadlines"] if key[0] == life.run_id}
    still_open = {
        row["seq"]: row for key, row in archive.activities.items() if key[0] == life.run_id and not row["completed_at"]
    }
    if life.end is not None:
        if deadlines:
            yield f"I2 a closed run still has the deadlines {sorted(deadlines)}"
        if still_open:
            yield f"I2 a closed run still has the activities {sorted(still_open)}"
        return
    scheduled = {r.event.timer_seq for r in life.of(ev.TimerScheduled)}  # type: ignore[attr-defined]  # by kind
    gone = {r.event.timer_seq for r in life.of(ev.TimerFired, ev.TimerCancelled)}  # type: ignore[attr-defined]
    if {ref for kind, ref in deadlines if kind == "timer"} != scheduled - gone:
        yield "I2 armed timers differ from the history"


def _successor(life: Life, archive: Archive) -> Iterator[str]:
    """I18: a run that goes on has its successor, linked both ways."""
    following = getattr(life.end, "next_run_id", None)
    if following is None:
        return
    other = archive.lives.get(following)
    if other is None or other.start.previous_run_id != life.run_id:
        yield f"I18 its successor {following} is missing or does not know it"


def _reopened(life: Life, archive: Archive) -> Iterator[str]:
    """I1 and I14: a copy has the signals of the run before it, in order, and undoes no work but that of a cancel."""
    reopening, previous = life.start.reopening, life.start.previous_run_id
    before = None if reopening is None or previous is None else archive.lives.get(previous)
    if before is None:
        return
    if before.row["next_run_id"] != life.run_id:
        yield f"I18 it follows {before.run_id}, which goes on in {before.row['next_run_id']}"
    signals = [recorded.event for recorded in before.of(ev.SignalReceived)]
    if [recorded.event for recorded in life.of(ev.SignalReceived)][: len(signals)] != signals:
        yield f"I14 signals of {before.run_id} are not in its copy"
    # an activity that is scheduled anew has a later time
    kept = {(recorded.event.activity_seq, recorded.time) for recorded in life.of(ev.ActivityScheduled)}  # type: ignore[attr-defined]
    cancelled = min((recorded.seq for recorded in before.of(ev.WorkflowCancelRequested)), default=len(before.history))
    for recorded in before.of(ev.ActivityScheduled):
        if recorded.seq < cancelled and (recorded.event.activity_seq, recorded.time) not in kept:  # type: ignore[attr-defined]
            yield f"I1 event {recorded.seq} of {before.run_id} was undone"


def _children(life: Life, archive: Archive) -> Iterator[str]:
    """I2 and I17: started in the same transaction, and heard of exactly once unless the parent ended first."""
    notified = {r.event.child_workflow_id for r in life.of(ev.ChildWorkflowCompleted, ev.ChildWorkflowFailed)}  # type: ignore[attr-defined]
    started = {r.event.child_workflow_id: r.event.run_id for r in life.of(ev.ChildWorkflowStarted)}  # type: ignore[attr-defined]
    for workflow_id, run_id in started.items():
        child = archive.lives.get(run_id)
        if child is None:
            yield f"I2 its child {workflow_id} was never born"
        elif life.end is None and archive.chain(workflow_id)[-1].end is not None and workflow_id not in notified:
            yield f"I17 it never heard of the end of {workflow_id}"
    for other in archive.lives.values():
        parent = other.start.parent
        if parent is not None and parent.run_id == life.run_id and other.workflow_id not in started:
            yield f"I2 it has a child {other.workflow_id} that it did not start"
    yield from _cancel_order(life, archive)


def _cancel_order(life: Life, archive: Archive) -> Iterator[str]:
    """Check that a parent receives a cancel request before its children."""
    parent = life.start.parent
    if parent is None or parent.run_id not in archive.lives:
        return
    above = archive.lives[parent.run_id]
    for recorded in life.of(ev.WorkflowCancelRequested):
        cancelled = isinstance(recorded.event, ev.WorkflowCancelRequested) and recorded.event.sender is not None
        if cancelled and above.end is None and not above.row["cancel_seq"]:
            yield f"order of work: it was cancelled by {above.workflow_id}, which was not"
