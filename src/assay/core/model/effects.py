"""What a decision does beside recording events: facts that live next to the history, and messages to other runs."""

import msgspec

from assay.core.model.events import Event, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Seq, Time, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import Activity, Child, Run, Task


class Effect(msgspec.Struct, frozen=True, gc=False):
    """The common face of all effects."""


class PutActivity(Effect, frozen=True, gc=False):
    """An open activity is now as given."""

    activity: Activity


class CloseActivity(Effect, frozen=True, gc=False):
    """An activity has its outcome, or is withdrawn."""

    activity: Activity
    status: str
    result: Payload = NULL
    error: str | None = None


class NoteAttempt(Effect, frozen=True, gc=False):
    """An attempt ended without being the activity's outcome (R10); kept for operators and checkers."""

    activity: Activity
    outcome: str
    failure: FailureInfo | None = None


class ArmTimer(Effect, frozen=True, gc=False):
    """A timer is due at the given time."""

    seq: int
    due: Time


class DropTimer(Effect, frozen=True, gc=False):
    """A timer has fired or is given up."""

    seq: int


class PutChild(Effect, frozen=True, gc=False):
    """The run has this open child."""

    child: Child


class DropChild(Effect, frozen=True, gc=False):
    """The child is closed or no longer this run's business."""

    workflow_id: WorkflowId


class SetDeadlines(Effect, frozen=True, gc=False):
    """The run's own limits changed."""

    cancel_deadline: Time | None = None


class SetNext(Effect, frozen=True, gc=False):
    """A closed run has a successor after all; the one thing about it that may still change (R20)."""

    run_id: RunId


class PutAttributes(Effect, frozen=True, gc=False):
    """Search attributes and memo after a merge."""

    search: Payload
    memo: Payload


class PutSnapshot(Effect, frozen=True, gc=False):
    """What queries answer, as of the given event."""

    seq: int
    state: Payload


CANCEL, TERMINATE, CHILD_CLOSED = "cancel", "terminate", "child_closed"
OUTBOX_KINDS = (CANCEL, TERMINATE, CHILD_CLOSED)
"""The kinds of messages, as outbox rows record them."""


class OutboxMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request to an existing run of another id, durable until that run has taken it (R14)."""

    key: str
    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId
    kind: str
    reason: str | None = None
    event: Event | None = None
    sender: str | None = None


class Send(Effect, frozen=True, gc=False):
    """Put a message into the outbox, in the same transaction as the events."""

    message: OutboxMessage


class Acknowledge(Effect, frozen=True, gc=False):
    """A message has been taken: forget it."""

    key: str


class Decision(msgspec.Struct):
    """What one request does to one run: events, effects, new runs and the caller's reply.

    Rules only ever add to it; nothing of the run changes until the whole decision is folded in.
    """

    run: Run
    now: Time
    time: Time
    last_seq: int
    seen_seq: int
    task: Task
    activity_mark: int
    timer_mark: int
    effect_mark: int
    events: list[Recorded] = []
    effects: list[Effect] = []
    others: list["Decision"] = []
    """Decisions about other runs that belong to the same transaction: new_runs, and an end that makes room."""
    reply: object = None
    closes: bool = False
    """Does this decision end its run?"""
    unused: frozenset[tuple[str, int]] = frozenset()
    """Seqs below the highest of their kind of event, and yet without one: see `Advance.unused`."""

    @staticmethod
    def of(run: Run, now: Time) -> "Decision":
        """One that leaves the run as it is, so far."""
        return Decision(
            run,
            now,
            now if now > run.last_time else run.last_time,
            run.last_seq,
            run.seen_seq,
            run.task,
            run.activity_mark,
            run.timer_mark,
            run.effect_mark,
        )

    def record(self, event: Event, time: Time | None = None) -> Recorded:
        """Append `event` at the next seq, now or at the `time` its worker saw (R12); times never go back (I13)."""
        if time is None:
            time = self.time
        else:
            earliest = self.events[-1].time if self.events else self.run.last_time
            if time < earliest:
                time = earliest
            if time > self.time:
                self.time = time
        seq = self.last_seq = self.last_seq + 1
        recorded = Recorded(Seq(seq), time, event)
        self.events.append(recorded)
        self.closes = event.closes is not None
        return recorded

    def takes(self, kind: type[Event], seq: int, highest: int) -> bool:
        """Is `seq` still free for an event of this kind, of which `highest` is the highest so far? It is taken now."""
        if seq > highest:
            return True
        if (kind.recorded_name, seq) not in self.unused:
            return False
        self.unused -= {(kind.recorded_name, seq)}
        return True

    def add(self, effect: Effect) -> None:
        """Append an effect."""
        self.effects.append(effect)

    def wake(self) -> None:
        """The run has something to tell its code: a workflow task is due."""
        if self.task.since is None:
            self.task = msgspec.structs.replace(self.task, since=self.now)

    def activities(self) -> dict[int, Activity]:
        """The open activities as this decision leaves them."""
        found = dict(self.run.activities)
        for effect in self.effects:
            if isinstance(effect, PutActivity):
                found[effect.activity.seq] = effect.activity
            elif isinstance(effect, CloseActivity):
                found.pop(effect.activity.seq, None)
        return found

    def activity(self, seq: int) -> Activity | None:
        """The open activity `seq` as this decision leaves it."""
        for effect in reversed(self.effects):
            if isinstance(effect, PutActivity) and effect.activity.seq == seq:
                return effect.activity
            if isinstance(effect, CloseActivity) and effect.activity.seq == seq:
                return None
        return self.run.activities.get(seq)

    def has_timer(self, seq: int) -> bool:
        """Is timer `seq` running as this decision leaves it?"""
        for effect in reversed(self.effects):
            if isinstance(effect, ArmTimer | DropTimer) and effect.seq == seq:
                return isinstance(effect, ArmTimer)
        return seq in self.run.timers

    def children(self) -> dict[WorkflowId, Child]:
        """The open children as this decision leaves them."""
        found = dict(self.run.children)
        for effect in self.effects:
            if isinstance(effect, PutChild):
                found[effect.child.workflow_id] = effect.child
            elif isinstance(effect, DropChild):
                found.pop(effect.workflow_id, None)
        return found
