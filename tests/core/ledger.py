"""An independent model of what runs may do: it believes only requests and replies, never the state of a run."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model import requests as rq
from assay.core.model.effects import Decision, NoteAttempt, Send
from assay.core.model.ids import RunId
from assay.core.model.policies import IdConflict, ParentClose
from assay.core.model.replies import Advanced, Started
from assay.core.model.run import Activity, Run, Task
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
        self.unwanted: set[tuple[RunId, int]] = set()
        self.seen: defaultdict[RunId, int] = defaultdict(int)
        self.closed: dict[RunId, dict[str, Any]] = {}

    def carried(self, run_id: RunId, recorded: Iterable[ev.Recorded]) -> None:
        """Record the signals that a new run takes over from an earlier run."""
        signals = [entry.event for entry in recorded if isinstance(entry.event, ev.SignalReceived)]
        self.signals[run_id] = [bytes(signal.payload) for signal in signals]

    def task_granted(self, run_id: RunId, worker: str, epoch: int) -> None:
        assert self.holders.get(run_id) is None, "I7: two leases"
        assert epoch > self.epochs[run_id], "I7: an epoch twice"
        self.holders[run_id], self.epochs[run_id] = (worker, epoch), epoch

    def advanced(self, request: rq.Advance, decision: Decision, reply: Advanced, history: list[ev.Recorded]) -> None:
        """A turn was heard; the run and its history are still as they were before."""
        repeats = 0 <= request.seen_seq < self.seen[request.run_id]
        holds = self.holders.get(request.run_id) == (request.worker, request.epoch) and not repeats
        if reply.accepted:
            self.turn_accepted(request, decision, reply, holds, history)
            self.seen[request.run_id] = reply.seen_seq
            self.turn_knows(request, decision, reply, history)
        if reply.accepted and reply.leased:
            if holds:  # a lease that is kept is granted anew, so that a repeat of the turn is stale
                self.holders[request.run_id] = None
            self.task_granted(request.run_id, request.worker, reply.epoch)
        elif holds and not reply.leased:
            self.holders[request.run_id] = None
        for outcome, recorded in zip(request.outcomes, reply.recorded, strict=True):
            assert recorded or not reply.accepted, "fused completion: commands without their results"
            if recorded and isinstance(outcome, rq.ActivityOutcome):
                self.attempt_reported(request.run_id, outcome.seq, outcome.attempt_id)
            assert holds or not recorded or isinstance(outcome, rq.ActivityOutcome), (
                "a step of a worker without the lease"
            )

    def turn_accepted(
        self, request: rq.Advance, decision: Decision, reply: Advanced, holds: bool, history: list[ev.Recorded]
    ) -> None:
        run = decision.run
        seen = request.seen_seq if request.seen_seq >= 0 else run.task.granted_seq
        if request.outcomes:
            assert seen == run.last_seq, "fused completion: the worker has not seen all events"
        if reply.closed and not any(isinstance(command, cmd.CancelWorkflow) for command in request.commands):
            unseen = [entry.event for entry in history if entry.seq > seen]
            if isinstance(decision.events[-1].event, ev.WorkflowContinuedAsNew):
                unseen = [event for event in unseen if event.is_input and not event.goes_along]
            assert not unseen, "a close that has not seen all events"
        if run.cancel_seq > seen:
            self.children_hear(decision)
        if not holds:
            assert request.outcomes, "I7: commands of somebody who does not hold the task"
            assert self.holders.get(request.run_id) is None, "fused completion: the task is leased"
            assert self.epochs[request.run_id] == request.epoch, "fused completion: another epoch"
            assert run.task.since is None, "fused completion: a task is due"

    def children_hear(self, decision: Decision) -> None:
        """Children of a turn that had not heard of the cancel are told of it, but for those that are let go (I16)."""
        notified = {effect.message.run_id for effect in decision.effects if isinstance(effect, Send)}
        for other in decision.others:
            link = other.run.start.parent
            if link is not None and link.run_id == decision.run.run_id and link.close_policy is not ParentClose.ABANDON:
                assert other.run.run_id in notified, "I16: a child that has not heard of the cancel"

    def turn_knows(self, request: rq.Advance, decision: Decision, reply: Advanced, history: list[ev.Recorded]) -> None:
        """The worker is not taken to know an input that it was not told of, and gets a task if it asked for one."""
        if reply.closed:
            return
        seen = request.seen_seq if request.seen_seq >= 0 else decision.run.task.granted_seq
        later = [entry for entry in history if entry.seq > seen] + decision.events[len(request.outcomes) :]
        unknown = [entry.seq for entry in later if entry.event.is_input]
        assert not unknown or reply.seen_seq < unknown[0], "I14: an input that the worker does not know of"
        resumes = any(isinstance(command, cmd.RecordSideEffect) and command.resume for command in request.commands)
        assert decision.task.since is not None or not (resumes or unknown), "liveness: no task"

    def refused(self, request: rq.Request, run: Run | None) -> None:
        """A valid result is recorded even if the commands in the same message are refused."""
        if run is None or run.closed:
            return
        if isinstance(request, rq.Advance):
            for outcome in request.outcomes:
                current = self.current.get((run.run_id, outcome.seq))
                good = isinstance(outcome, rq.ActivityOutcome) and outcome.attempt_id == current
                assert not good, "fused completion: a valid result was refused"
        if isinstance(request, rq.CompleteActivity | rq.FailActivity | rq.HeartbeatActivity):
            assert self.current.get((run.run_id, request.seq)) != request.attempt_id, "I8: a good report was refused"

    def attempt_begun(self, run_id: RunId, activity: Activity) -> None:
        key = (run_id, activity.seq)
        assert activity.attempt_id not in self.attempt_ids, "I8: an attempt id twice"
        assert key not in self.unwanted, "an attempt at a withdrawn activity"
        assert self.current.get(key) is None, "I8: two attempts at once"
        self.attempt_ids.add(activity.attempt_id)
        self.starts[key] += 1
        self.current[key] = activity.attempt_id
        limit = activity.options.retry.max_attempts
        assert activity.attempt == self.starts[key], "I8: attempts are counted"
        assert not limit or self.starts[key] <= limit, "I8: too many attempts"

    def attempt_reported(self, run_id: RunId, seq: int, attempt_id: int) -> None:
        assert self.current.get((run_id, seq)) == attempt_id, "I8: a report of an attempt that is over"

    def took(self, request: rq.Request, decision: Decision, history: list[ev.Recorded]) -> None:
        """A request was decided; the run and its history are still as they were before."""
        run = decision.run
        match request:
            case rq.Signal():
                self.signals[run.run_id].append(bytes(request.payload))
            case rq.StartWorkflow() if isinstance(decision.reply, Started) and decision.events:
                self.signals[run.run_id] += [bytes(message.payload) for message in request.signals]
                ends = bool(decision.others)
                assert not ends or request.id_conflict_policy is IdConflict.TERMINATE_EXISTING, (
                    "an open run was ended by a start"
                )
            case rq.LeaseTask() if isinstance(decision.reply, Task):
                self.task_granted(run.run_id, request.worker, decision.reply.epoch)
            case rq.Advance() if isinstance(decision.reply, Advanced):
                self.advanced(request, decision, decision.reply, history)
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
        run = decision.run
        noted = {effect.activity.seq for effect in decision.effects if isinstance(effect, NoteAttempt)}
        for event in events(decision):
            match event:
                case ev.ActivityCompleted() | ev.ActivityFailed() | ev.ActivityCancelled():
                    self.activity_ended(run, event, noted)
                case ev.ActivityCancelRequested(activity_seq=seq):
                    self.unwanted.add((run.run_id, seq))
                case ev.WorkflowCancelRequested():
                    given_up = [seq for seq, found in run.activities.items() if not found.options.survives_cancel]
                    self.unwanted.update((run.run_id, seq) for seq in given_up)
            if event.closes is not None:
                self.holders[run.run_id] = None
        for seq in noted:
            self.current[run.run_id, seq] = None

    def activity_ended(self, run: Run, event: Any, noted: set[int]) -> None:
        key = (run.run_id, event.activity_seq)
        if run.start.reopening is None or run.last_seq:
            assert self.starts[key] or not isinstance(event, ev.ActivityCompleted), "I8: a result of nothing"
            ran = self.current.get(key) is not None and isinstance(event, ev.ActivityFailed)
            assert not ran or event.activity_seq in noted, "I12: the last attempt left no trace"
        self.current[key] = None

    def agrees_with(self, run: Run, history: list[ev.Recorded]) -> None:
        notified = [bytes(entry.event.payload) for entry in history if isinstance(entry.event, ev.SignalReceived)]
        assert notified == self.signals[run.run_id], "I14: signals"
        worker = run.task.worker
        held = None if worker is None else (worker, run.task.epoch)
        assert held == self.holders.get(run.run_id), "I7: the holder"
        for seq, activity in run.activities.items():
            current = activity.attempt_id if activity.running else None
            assert current == self.current.get((run.run_id, seq)), "I8: the current attempt"
            assert activity.running or (run.run_id, seq) not in self.unwanted, "a withdrawn activity is queued"
        if run.closed:
            last = picture(run)
            first = self.closed.setdefault(run.run_id, last)
            if first["next_run_id"] is None:  # a failed run may be retried by a new run
                first["next_run_id"] = run.next_run_id
            assert last == first, "I5: a closed run has changed"
