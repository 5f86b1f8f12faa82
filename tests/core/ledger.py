"""An independent model of what runs may do: it believes only requests and replies, never the state of a run."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from assay.core import commands as cmd
from assay.core import events as ev
from assay.core import requests as rq
from assay.core.effects import Decision, NoteAttempt
from assay.core.ids import RunId
from assay.core.replies import Advanced, Started
from assay.core.run import Activity, Run, Task
from tests.core.invariants import picture
from tests.core.support import events


class Ledger:
    """What must be true if the replies were."""

    def __init__(self) -> None:
        self.signals: defaultdict[RunId, list[bytes]] = defaultdict(list)
        self.holders: dict[RunId, tuple[str, int] | None] = {}
        self.epochs: defaultdict[RunId, int] = defaultdict(int)
        self.starts: defaultdict[tuple[RunId, int], int] = defaultdict(int)
        self.current: dict[tuple[RunId, int], int | None] = {}
        self.attempt_ids: set[int] = set()
        self.closed: dict[RunId, dict[str, Any]] = {}

    def carried(self, run_id: RunId, recorded: Iterable[ev.Recorded]) -> None:
        """A run begins with signals that another had accepted (R19, R20)."""
        signals = [entry.event for entry in recorded if isinstance(entry.event, ev.SignalReceived)]
        self.signals[run_id] = [bytes(signal.payload) for signal in signals]

    def task_granted(self, run_id: RunId, worker: str, epoch: int) -> None:
        assert self.holders.get(run_id) is None, "I7: two leases"
        assert epoch > self.epochs[run_id], "I7: an epoch twice"
        self.holders[run_id], self.epochs[run_id] = (worker, epoch), epoch

    def advanced(self, request: rq.Advance, reply: Advanced, run: Run) -> None:
        """A turn was heard; `run` is still as it was before."""
        holder = self.holders.get(request.run_id)
        holds = holder == (request.worker, request.epoch)
        if reply.accepted:
            self.turn_accepted(request, reply, run, holds)
        if reply.accepted and reply.leased and not holds:
            self.task_granted(request.run_id, request.worker, reply.epoch)
        elif holds and not reply.leased:
            self.holders[request.run_id] = None
        for outcome, recorded in zip(request.outcomes, reply.recorded, strict=True):
            assert recorded or not reply.accepted, "R8: commands without their results"
            if recorded and isinstance(outcome, rq.ActivityOutcome):
                self.attempt_reported(request.run_id, outcome.seq, outcome.attempt_id)
            assert holds or not recorded or isinstance(outcome, rq.ActivityOutcome), "R3: a step of a stranger"

    def turn_accepted(self, request: rq.Advance, reply: Advanced, run: Run, holds: bool) -> None:
        seen = request.seen_seq if request.seen_seq >= 0 else run.task.granted_seq
        if request.outcomes:
            assert seen == run.last_seq, "R8: something else has happened"
        if reply.closed and not any(isinstance(command, cmd.CancelWorkflow) for command in request.commands):
            assert seen >= run.last_seq, "R7: a close that has not seen everything"
        if not holds:
            assert request.outcomes, "I7: commands of somebody who does not hold the task"
            assert self.holders.get(request.run_id) is None, "R8: somebody holds the task"
            assert self.epochs[request.run_id] == request.epoch, "R8: another epoch"
            assert run.task.since is None, "R8: a task is due"

    def attempt_begun(self, run_id: RunId, activity: Activity) -> None:
        key = (run_id, activity.seq)
        assert activity.attempt_id not in self.attempt_ids, "I8: an attempt id twice"
        assert self.current.get(key) is None, "I8: two attempts at once"
        self.attempt_ids.add(activity.attempt_id)
        self.starts[key] += 1
        self.current[key] = activity.attempt_id
        limit = activity.options.retry.max_attempts
        assert activity.attempt == self.starts[key], "I8: attempts are counted"
        assert not limit or self.starts[key] <= limit, "I8: too many attempts"

    def attempt_reported(self, run_id: RunId, seq: int, attempt_id: int) -> None:
        assert self.current.get((run_id, seq)) == attempt_id, "I8: a report of an attempt that is over"

    def took(self, request: rq.Request, decision: Decision) -> None:
        run = decision.run
        match request:
            case rq.Signal():
                self.signals[run.run_id].append(bytes(request.payload))
            case rq.StartWorkflow() if isinstance(decision.reply, Started) and decision.events:
                self.signals[run.run_id] += [bytes(message.payload) for message in request.signals]
            case rq.LeaseTask() if isinstance(decision.reply, Task):
                self.task_granted(run.run_id, request.worker, decision.reply.epoch)
            case rq.Advance() if isinstance(decision.reply, Advanced):
                self.advanced(request, decision.reply, run)
            case rq.FailTask() | rq.ReleaseTask() | rq.ExtendTask():
                assert self.holders.get(run.run_id) == (request.worker, request.epoch), "I7: not the holder"
            case rq.LeaseActivity() if isinstance(decision.reply, Activity):
                self.attempt_begun(run.run_id, decision.reply)
            case (
                rq.CompleteActivity()
                | rq.FailActivity()
                | rq.CancelledActivity()
                | rq.HeartbeatActivity()
                | rq.ExtendActivity()
                | rq.ReleaseActivity()
            ):
                self.attempt_reported(run.run_id, request.seq, request.attempt_id)
                if isinstance(request, rq.ReleaseActivity) and not request.lost:
                    self.starts[run.run_id, request.seq] -= 1
                    self.current[run.run_id, request.seq] = None
        if isinstance(request, rq.FailTask | rq.ReleaseTask | rq.LoseTask | rq.Elapse):
            self.task_ended(request, decision)
        for part in (decision, *decision.others):
            self.attempts_ended(part)

    def task_ended(self, request: rq.Request, decision: Decision) -> None:
        run_id = decision.run.run_id
        if isinstance(request, rq.Elapse):
            held = decision.run.task
            expired = request.kind == "run" and held.until is not None and held.until <= decision.now
            if not expired or decision.closes:
                return
        self.holders[run_id] = None

    def attempts_ended(self, decision: Decision) -> None:
        run_id = decision.run.run_id
        for effect in decision.effects:
            if isinstance(effect, NoteAttempt):
                self.current[run_id, effect.activity.seq] = None
        for event in events(decision):
            if isinstance(event, ev.ActivityCompleted | ev.ActivityFailed | ev.ActivityCancelled):
                self.current[run_id, event.activity_seq] = None
                began = self.starts[run_id, event.activity_seq] or decision.run.start.reopening is not None
                assert began or not isinstance(event, ev.ActivityCompleted), "I8: a result of nothing"
            if event.closes is not None:
                self.holders[run_id] = None

    def agrees_with(self, run: Run, history: list[ev.Recorded]) -> None:
        told = [bytes(entry.event.payload) for entry in history if isinstance(entry.event, ev.SignalReceived)]
        assert told == self.signals[run.run_id], "I14: signals"
        worker = run.task.worker
        held = None if worker is None else (worker, run.task.epoch)
        assert held == self.holders.get(run.run_id), "I7: the holder"
        for seq, activity in run.activities.items():
            current = activity.attempt_id if activity.running else None
            assert current == self.current.get((run.run_id, seq)), "I8: the current attempt"
        if run.closed:
            last = picture(run)
            first = self.closed.setdefault(run.run_id, last)
            if first["next_run_id"] is None:  # a failed run may get a successor (R20)
                first["next_run_id"] = run.next_run_id
            assert last == first, "I5: a closed run has changed"
