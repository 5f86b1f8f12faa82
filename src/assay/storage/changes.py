"""Structs of one transaction: the rows that `Store.write` writes."""

from collections.abc import Sequence
from enum import Enum, auto

import msgspec
from msgspec.structs import astuple

from assay.core.model.effects import OutboxMessage
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.run import Activity, Run
from assay.core.schedules.model import Fire, Schedule, schedule_key


class StoredRun(Run):
    """A run with facts about its rows. The write path keeps them; no decision rests on them."""

    version: int = 0
    """The version of the row, which every UPDATE checks and raises; 0 before the run is written for the first time."""
    armed: Time | None = None
    """The deadline that the store holds for this run."""
    history_bytes: int = 0
    """The size of the stored events."""

    @staticmethod
    def of(run: Run) -> "StoredRun":
        """Return a run that a rule has created as one to be stored."""
        return StoredRun(*astuple(run))


class RequestOutcome(msgspec.Struct, frozen=True, gc=False):
    """What a request with an idempotency key was answered the first time (4.4)."""

    namespace: str
    key: str
    fingerprint: bytes
    status: int
    body: bytes
    created_at: Time


class Snapshot(msgspec.Struct, frozen=True):
    """What a run's queries answer, and as of which event."""

    run_id: RunId
    event_seq: int
    state: Payload
    created_at: Time


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as bytes, in its place."""

    run_id: RunId
    seq: int
    time: Time
    kind: str
    payload: bytes
    data: bytes | None
    claimed: int = 0
    """1 if the run was claimed for the first time in the same transaction, after this event: no event says so."""


class Extent(Enum):
    """How much of a row a change writes."""

    ALL = auto()
    STATE = auto()
    OUTCOME = auto()


class ActivityChange(msgspec.Struct, frozen=True, gc=False):
    """An activity's row after a decision; `status` is PENDING or RUNNING while it is open.

    `extent` tells how much of the row is new: all of it, what changes while it is open, or only its outcome.
    """

    run: Run
    activity: Activity
    status: str
    time: Time
    extent: Extent
    result: Payload = NULL
    error: str | None = None


class AttemptEnd(msgspec.Struct, frozen=True, gc=False):
    """An attempt that ended without being its activity's outcome."""

    run: Run
    activity: Activity
    outcome: str
    failure: FailureInfo | None
    time: Time


class ScheduleChange(msgspec.Struct, frozen=True):
    """A schedule's row after a decision, None when it is deleted; the row must still have version - 1."""

    namespace: str
    name: str
    schedule: Schedule | None
    version: int

    @property
    def key(self) -> RunId:
        """What a lost one is called, and what the runs decided with it are tied to."""
        return schedule_key(self.namespace, self.name)

    @property
    def is_new(self) -> bool:
        """Is there to be no such row yet?"""
        return self.version == 1


class Unfired(msgspec.Struct, frozen=True):
    """Due times of one schedule that started no run; told under a name that nothing else has."""

    key: RunId
    name: str
    fires: Sequence[Fire]


class Changes(msgspec.Struct):
    """One transaction's worth of changes; what stays empty costs nothing."""

    new_runs: list[StoredRun] = msgspec.field(default_factory=list)
    runs: list[StoredRun] = msgspec.field(default_factory=list)
    """Changed runs; `version` is already the new one, the row must still have the one before."""
    events: list[StoredEvent] = msgspec.field(default_factory=list)
    claims: list[tuple[Run, Time]] = msgspec.field(default_factory=list)
    """Runs that were claimed for the first time, each before any event that it has here."""
    activities: dict[int, ActivityChange] = msgspec.field(default_factory=dict)
    """By activity id, so that an activity that changes twice in a batch is written once."""
    attempts: list[AttemptEnd] = msgspec.field(default_factory=list)
    deadlines: dict[tuple[RunId, str, int], Time | None] = msgspec.field(default_factory=dict)
    """By (run, kind, ref): when it is due, or None to forget it."""
    closed: list[RunId] = msgspec.field(default_factory=list)
    """Runs that ended: all their deadlines go."""
    snapshots: dict[RunId, Snapshot] = msgspec.field(default_factory=dict)
    attributed: list[Run] = msgspec.field(default_factory=list)
    """Runs whose search attributes changed."""
    schedules: dict[tuple[str, str], ScheduleChange] = msgspec.field(default_factory=dict)
    """Schedules that lost their compare-and-set come back by their key, like runs; a name taken is a `Conflict`."""
    fires: list[Fire] = msgspec.field(default_factory=list)
    """What became of due times; a due time that is there already is a `Conflict` (I11)."""
    retaken: list[Fire] = msgspec.field(default_factory=list)
    """Fires whose due times are recorded as missed: that record makes way for the new one."""
    unfired: list[Unfired] = msgspec.field(default_factory=list)
    messages: list[tuple[RunId, OutboxMessage, Time]] = msgspec.field(default_factory=list)
    """Messages for the outbox, each with the run that sends it; a key that is there already is the same message."""
    acknowledged: list[tuple[RunId, str]] = msgspec.field(default_factory=list)
    """Keys of messages that were taken, each with the run that took it."""
    outcomes: list[tuple[RunId | None, RequestOutcome]] = msgspec.field(default_factory=list)
    """Answers to keep, each with the run it is about, if any."""
    not_before: tuple[Time, Time] | None = None
    """For changes that fire deadlines: the engine time and the wall time that they were decided at. Where engines share
    a store its clock must have reached both when the changes are written (I10)."""
    ties: list[tuple[RunId, RunId]] = msgspec.field(default_factory=list)
    """Runs decided together, as a parent and the child it starts: if one is lost, so is the other (I2)."""
