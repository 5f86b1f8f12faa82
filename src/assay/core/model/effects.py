"""Decisions and their effects beside events: rows next to the history, and messages to other runs."""

import msgspec

from assay.core.model.events import Event, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, RunKey, Seq, Time, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import Peer, PeerKey
from assay.core.model.run import Activity, Child, ChildKey, Run, Task
from assay.core.model.update_states import UpdateState


class Effect(msgspec.Struct, frozen=True, gc=False):
    """The base class of all effects."""


class PutActivity(Effect, frozen=True, gc=False):
    """Insert or update an open activity."""

    activity: Activity


class CloseActivity(Effect, frozen=True, gc=False):
    """Close an activity that has its outcome or is withdrawn."""

    activity: Activity
    status: str
    result: Payload = NULL
    error: str | None = None


class NoteAttempt(Effect, frozen=True, gc=False):
    """Record an attempt whose end is not the outcome of the activity, for operators and checkers."""

    activity: Activity
    outcome: str
    failure: FailureInfo | None = None


class ArmTimer(Effect, frozen=True, gc=False):
    """Arm a timer for the given time."""

    seq: int
    due: Time


class DropTimer(Effect, frozen=True, gc=False):
    """Delete a timer that has fired or was cancelled."""

    seq: int


class PutChild(Effect, frozen=True, gc=False):
    """Insert or update an open child."""

    child: Child


class DropChild(Effect, frozen=True, gc=False):
    """Delete a child that is closed or now belongs to another run."""

    key: ChildKey


class PutPeer(Effect, frozen=True, gc=False):
    """Insert or replace a watcher, a watch or an option of the run."""

    peer: Peer


class DropPeer(Effect, frozen=True, gc=False):
    """Delete a watcher, a watch or an option of the run."""

    key: PeerKey


class SetDeadlines(Effect, frozen=True, gc=False):
    """Set the deadline of the run's cancellation."""

    cancel_deadline: Time | None = None


class SetNext(Effect, frozen=True, gc=False):
    """Set the successor of a closed run after a retry; no other field of a closed run changes."""

    run_id: RunId


class PutAttributes(Effect, frozen=True, gc=False):
    """Replace search attributes and memo by the merged ones."""

    search: Payload
    memo: Payload


class PutVersion(Effect, frozen=True, gc=False):
    """Insert the version of a change."""

    change_id: str
    version: int


class PutSnapshot(Effect, frozen=True, gc=False):
    """Replace the state that queries return, as of the given event."""

    seq: int
    state: Payload


CANCEL, TERMINATE, CHILD_CLOSED = "cancel", "terminate", "child_closed"
MESSAGE, OUTCOME = "message", "outcome"
WATCH, UNWATCH, EXIT = "watch", "unwatch", "exit"
MAIL = "mail"
OUTBOX_KINDS = (CANCEL, TERMINATE, CHILD_CLOSED, MESSAGE, OUTCOME, MAIL, WATCH, UNWATCH, EXIT)
"""The kinds of messages; recorded in outbox rows. An engine delivers no row of any other kind."""

ORDERED_KINDS = frozenset((MESSAGE, MAIL))
"""Kinds whose messages reach one target in the order in which they were sent."""


class OutboxDetails(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The fields of an outbox message that only some kinds have; stored as one document, so that kinds may add more."""

    waiter: RunKey | None = None
    """The run that waits for the outcome of its request; the outcome is a message of its own."""
    request_seq: int = 0
    """The number of the request among the requests of its kind of the waiting run."""
    deadline: Time | None = None
    """The time, from the delivery, after which a cancelled run is terminated."""
    about: RunId | None = None
    """The run whose closing event is read when the message is delivered: the row of a message has no result."""
    watches: tuple[tuple[int, str, str], ...] = ()
    """The watches of the sender, or of the receiver, that a message is about: number, mode and watched address."""


class OutboxMessage(OutboxDetails, frozen=True, gc=False, omit_defaults=True, kw_only=False):
    """A message to a run, kept in the outbox until the transaction that applies the message deletes its row."""

    key: str
    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId | None
    """The run; None for the run of the workflow id that is current when the message is delivered."""
    kind: str
    reason: str | None = None
    event: Event | None = None
    sender: str | None = None

    @property
    def details(self) -> OutboxDetails | None:
        """Return the fields beside the columns of a row; None if all are empty."""
        found = OutboxDetails(
            waiter=self.waiter,
            request_seq=self.request_seq,
            deadline=self.deadline,
            about=self.about,
            watches=self.watches,
        )
        return None if found == NO_DETAILS else found


NO_DETAILS = OutboxDetails()


class PutUpdate(Effect, frozen=True, gc=False):
    """Insert or replace the state of an update."""

    update: UpdateState


class Send(Effect, frozen=True, gc=False):
    """Insert a message into the outbox, in the same transaction as the events."""

    message: OutboxMessage


class Acknowledge(Effect, frozen=True, gc=False):
    """Delete a delivered message from the outbox; if the row is gone, nothing of the whole decision is written."""

    key: str


class Decision(msgspec.Struct):
    """The result of one request to one run: events, effects, new runs and the reply to the caller.

    Rules only add to a decision; the run does not change until `fold` applies the whole decision.
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
    """Decisions about other runs in the same transaction: runs that begin, and a run that ends to free its id."""
    started: dict[tuple[Namespace, WorkflowId] | ChildKey, Run] | None = None
    """The children among `others`, by namespace and workflow id, and by their keys; None without children."""
    reply: object = None
    closes: bool = False
    """True if the last event closes the run."""
    send_mark: int | None = None
    """The highest number of a message that this decision sends; None before the first."""
    sends: int = 0
    """Messages that this decision sends."""
    unused: frozenset[tuple[str, int]] = frozenset()
    """(kind of event, seq) below the highest seq of the kind without an event: see `Advance.unused`."""

    @staticmethod
    def of(run: Run, now: Time) -> "Decision":
        """Return a decision without events and effects for a run."""
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
        """Append `event` at the next seq, now or at the `time` that its worker used; times never go back (I13)."""
        if time is None:
            time = self.time
        else:
            # The clock of the worker may be behind or ahead: never before the last event, and later events follow.
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

    def claim_seq(self, kind: type[Event], seq: int, highest: int) -> bool:
        """Return whether `seq` is free for an event of this kind, and take it; `highest` is the highest seq so far."""
        if seq > highest:  # the usual case: code numbers its commands in order
            return True
        if (kind.recorded_name, seq) not in self.unused:
            return False
        self.unused -= {(kind.recorded_name, seq)}
        return True

    def add(self, effect: Effect) -> None:
        """Append an effect."""
        self.effects.append(effect)

    def wake(self) -> None:
        """Make a workflow task due, because the run has a new event for its code."""
        if self.task.since is None:
            # A task that is not due is stuck only by a deadlock, which a new event may end.
            self.task = msgspec.structs.replace(self.task, since=self.now, stuck=None)

    def activities(self) -> dict[int, Activity]:
        """Return the open activities after this decision."""
        found = dict(self.run.activities)
        for effect in self.effects:
            if isinstance(effect, PutActivity):
                found[effect.activity.seq] = effect.activity
            elif isinstance(effect, CloseActivity):
                found.pop(effect.activity.seq, None)
        return found

    def activity(self, seq: int) -> Activity | None:
        """Return the activity `seq` if it is open after this decision."""
        for effect in reversed(self.effects):
            if isinstance(effect, PutActivity) and effect.activity.seq == seq:
                return effect.activity
            if isinstance(effect, CloseActivity) and effect.activity.seq == seq:
                return None
        return self.run.activities.get(seq)

    def has_timer(self, seq: int) -> bool:
        """Return whether timer `seq` is armed after this decision."""
        for effect in reversed(self.effects):
            if isinstance(effect, ArmTimer | DropTimer) and effect.seq == seq:
                return isinstance(effect, ArmTimer)
        return seq in self.run.timers

    def children(self) -> dict[ChildKey, Child]:
        """Return the open children after this decision."""
        found = dict(self.run.children)
        for effect in self.effects:
            if isinstance(effect, PutChild):
                found[effect.child.key] = effect.child
            elif isinstance(effect, DropChild):
                found.pop(effect.key, None)
        return found
