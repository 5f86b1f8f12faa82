"""Structs of one transaction: the rows that `Store.write` writes."""

from collections.abc import Sequence
from enum import Enum, auto

import msgspec
from msgspec.structs import astuple

from assay.core.model.attached_rows import AuditRow, RequestOutcome
from assay.core.model.effects import OutboxMessage
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Time
from assay.core.model.mailboxes import Letter
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import Peer
from assay.core.model.run import Activity, Run
from assay.core.model.update_states import UpdateState
from assay.core.rules.failure_groups import FailureFacts
from assay.core.schedules.model import Fire, Schedule, schedule_key


class StoredRun(Run):
    """A run together with facts about its rows. The write path maintains them; no decision depends on them."""

    version: int = 0
    """The version of the row, checked and raised by every UPDATE; 0 before the first write of the run."""
    armed: Time | None = None
    """The deadline that the store holds for this run."""
    history_bytes: int = 0
    """The size of the stored events."""

    @staticmethod
    def of(run: Run) -> "StoredRun":
        """Return the stored form of a run that a rule has created."""
        return StoredRun(*astuple(run))


class Snapshot(msgspec.Struct, frozen=True):
    """The results of a run's queries, as of an event."""

    run_id: RunId
    event_seq: int
    state: Payload
    created_at: Time


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """A row of the events table: an encoded event with its run and seq."""

    run_id: RunId
    seq: int
    time: Time
    kind: str
    payload: bytes
    data: bytes | None
    claimed: int = 0
    """1 if a worker claimed the run for the first time in the same transaction and after this event.

    No event records a claim."""


class Extent(Enum):
    """The columns of a row that a change writes."""

    ALL = auto()
    STATE = auto()
    OUTCOME = auto()


class ActivityChange(msgspec.Struct, frozen=True, gc=False):
    """An activity's row after a decision; `status` is PENDING or RUNNING while it is open.

    `extent` selects the columns to write: all, the state of an open activity, or only the outcome.
    """

    run: Run
    activity: Activity
    status: str
    time: Time
    extent: Extent
    result: Payload = NULL
    error: str | None = None


class AttemptEnd(msgspec.Struct, frozen=True, gc=False):
    """An attempt that ended and did not decide its activity's outcome."""

    run: Run
    activity: Activity
    outcome: str
    failure: FailureInfo | None
    time: Time


class ScheduleChange(msgspec.Struct, frozen=True):
    """A schedule's row after a decision; None deletes the row. The stored row must still have version - 1."""

    namespace: str
    name: str
    schedule: Schedule | None
    version: int

    @property
    def key(self) -> RunId:
        """Return the key of the schedule: the id in the set of lost runs, and in the ties to runs decided with it."""
        return schedule_key(self.namespace, self.name)

    @property
    def is_new(self) -> bool:
        """Return whether the change inserts the row."""
        return self.version == 1


class Unfired(msgspec.Struct, frozen=True):
    """Due times of a schedule that started no run; `name` makes the row of their note unique."""

    key: RunId
    name: str
    fires: Sequence[Fire]


def fence_of(key: str) -> RunId:
    """Return the name under which `Store.write` returns an outbox message whose row was gone."""
    return RunId(f"outbox {key}")


class Changes(msgspec.Struct):
    """The changes of a transaction; empty fields cost nothing."""

    new_runs: list[StoredRun] = msgspec.field(default_factory=list)
    runs: list[StoredRun] = msgspec.field(default_factory=list)
    """Changed runs. `version` is the new version, and the stored row must still have the previous version."""
    events: list[StoredEvent] = msgspec.field(default_factory=list)
    claims: list[tuple[Run, Time]] = msgspec.field(default_factory=list)
    """Runs that were claimed for the first time, before any of their events in this transaction."""
    activities: dict[int, ActivityChange] = msgspec.field(default_factory=dict)
    """By activity id: an activity that changes twice in a batch is written once."""
    attempts: list[AttemptEnd] = msgspec.field(default_factory=list)
    deadlines: dict[tuple[RunId, str, int], Time | None] = msgspec.field(default_factory=dict)
    """Due times by (run, kind, ref); None deletes the deadline."""
    closed: list[RunId] = msgspec.field(default_factory=list)
    """Runs that ended: all their deadlines are deleted."""
    snapshots: dict[RunId, Snapshot] = msgspec.field(default_factory=dict)
    attributed: list[Run] = msgspec.field(default_factory=list)
    """Runs whose search attributes changed."""
    versions: list[tuple[Run, str, int]] = msgspec.field(default_factory=list)
    """Recorded versions: the run, the change id and the version."""
    peers: dict[tuple[RunId, str, str], Peer | None] = msgspec.field(default_factory=dict)
    """Watchers, watches and options of runs, by run, kind and name; None deletes the row."""
    schedules: dict[tuple[str, str], ScheduleChange] = msgspec.field(default_factory=dict)
    """Schedules that lost their compare-and-set are returned by key, like runs. An existing name is a `Conflict`."""
    fires: list[Fire] = msgspec.field(default_factory=list)
    """The results of due times; a due time with a stored result is a `Conflict` (I11)."""
    retaken: list[Fire] = msgspec.field(default_factory=list)
    """Fires whose due times are recorded as missed: the new record replaces the old record."""
    unfired: list[Unfired] = msgspec.field(default_factory=list)
    messages: list[tuple[RunId, OutboxMessage, Time]] = msgspec.field(default_factory=list)
    """Messages for the outbox, each with its sending run. A message with a stored key is the same message."""
    acknowledged: list[tuple[RunId, str]] = msgspec.field(default_factory=list)
    """Keys of delivered messages, each with the receiving run, or with its own `fence_of` if no run receives it. If a
    row is gone, the run is lost, and the fence with it: another delivery has had its effect (I17)."""
    updates: dict[tuple[RunId, str], tuple[Run, UpdateState, bool]] = msgspec.field(default_factory=dict)
    """Updates by run and id: the run, the state, and whether the row is new. A stored row of a new one is a
    `Conflict`."""
    mail: list[Letter] = msgspec.field(default_factory=list)
    """Messages for mailboxes, each with its delivery, which is lost if the mailbox does not exist."""
    outcomes: list[tuple[RunId | None, RequestOutcome]] = msgspec.field(default_factory=list)
    """Replies to keep, each with the run that the request concerned, if any."""
    audits: list[tuple[RunId | None, AuditRow]] = msgspec.field(default_factory=list)
    """Rows of the audit, each with the run or schedule that the audited request changed."""
    failures: list[tuple[Run, FailureFacts, Time]] = msgspec.field(default_factory=list)
    """Runs that failed or became stuck, for their failure groups."""
    not_before: tuple[Time, Time] | None = None
    """For changes that fire deadlines: the engine time and the wall time of the decision. The clock of a shared store
    must have reached both when the changes are written (I10)."""
    ties: list[tuple[RunId, RunId]] = msgspec.field(default_factory=list)
    """Pairs of runs decided together, as a parent and its new child: if either is lost, both are (I2)."""
