"""The ports between the engine and a database.

`Store` is the port of the write path and of reads, `Registry` of namespaces, workers and queues, `Journal` of the event
stream, `Leftovers` of rows that are kept for a while. A store moves rows; it decides nothing. Recovery relies on these
rules:

* `write` is one transaction. When it returns, all of it is durable and survives a power cut (I1, I2), except for the
  runs it names as lost: of those nothing was written, another engine was faster. When it raises `Rejected`, nothing
  was written. When it raises `OutcomeUnknown`, it may or may not have been (I3): the caller must not tell anybody
  that it failed. When it raises `Broken`, the engine must stop. Whatever else it raises, nothing was written.
* Reads see every write that has returned (I23).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Protocol

import msgspec

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.effects import OutboxMessage
from assay.core.model.errors import AssayError, Kind, Unavailable
from assay.core.model.events import Event, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import Payload
from assay.core.registrations import NamespaceCounts, NamespaceRow, QueueRow, WaitingWork, WorkerHealth, WorkerRow
from assay.core.schedules.model import Fire, Schedule
from assay.storage.changes import (
    ActivityChange,
    AttemptEnd,
    Changes,
    Extent,
    RequestOutcome,
    ScheduleChange,
    Snapshot,
    StoredEvent,
    StoredRun,
    Unfired,
)
from assay.storage.journal_entries import BEGINNING, Claim, JournalEntry, JournalPage, JournalRow, Note, Position
from assay.storage.ready_work import Demand, ReadyActivity, ReadyTask
from assay.storage.run_filter import RunFilter, ServedQueue

__all__ = [
    "BEGINNING",
    "READ_SECONDS",
    "ActivityChange",
    "AttemptEnd",
    "Broken",
    "Changes",
    "Claim",
    "CommitStatus",
    "Conflict",
    "Deadline",
    "Demand",
    "Extent",
    "HeldLease",
    "Journal",
    "JournalEntry",
    "JournalPage",
    "JournalRow",
    "Leftovers",
    "MeasuredStore",
    "NamespaceCounts",
    "NamespaceRow",
    "Note",
    "OutcomeUnknown",
    "Position",
    "QueueRow",
    "ReadTooLong",
    "ReadyActivity",
    "ReadyTask",
    "Registry",
    "Rejected",
    "Replaced",
    "RequestOutcome",
    "RunFilter",
    "RunPage",
    "RunRecord",
    "ScheduleChange",
    "ServedQueue",
    "Snapshot",
    "Store",
    "StoredActivity",
    "StoredEvent",
    "StoredRun",
    "TooManyReads",
    "UnansweredCommit",
    "Unfired",
    "WaitingWork",
    "WorkerRow",
]


class Rejected(AssayError):
    """The store did not take the write: no room, busy, or a constraint; nothing was changed."""

    code = "store_rejected"
    kind = Kind.UNAVAILABLE


class Conflict(Rejected):
    """A uniqueness rule was about to be broken: a decision was made on old knowledge (R45)."""

    code = "store_conflict"


class CommitStatus(Enum):
    """The state of a transaction whose COMMIT was sent."""

    COMMITTED = auto()
    ABORTED = auto()
    IN_PROGRESS = auto()
    """Neither of the two yet: the COMMIT may still be on its way to the database."""
    UNKNOWN = auto()
    """The database has no record of the transaction, and never will have one."""


class UnansweredCommit(Protocol):
    """A transaction whose COMMIT was sent and not answered, in a store that keeps the status of transactions."""

    lost: frozenset[RunId]
    """The runs that `write` would have returned: of these nothing was written even if the rest is durable."""

    async def status(self) -> CommitStatus:
        """Return the transaction's status; raise `Rejected` if the store does not answer."""
        ...

    async def abort_if_idle(self) -> None:
        """End the transaction if its COMMIT has not reached the database; raise `Rejected` if that fails."""
        ...


class OutcomeUnknown(AssayError):
    """The store failed after COMMIT was sent: the write may be there or not (I3)."""

    code = "outcome_unknown"
    kind = Kind.UNAVAILABLE
    commit: UnansweredCommit | None = None
    """None if the store has a single writer: once `write` has raised, its COMMIT is either done or undone."""


class Broken(OutcomeUnknown):
    """The storage itself fails (I/O error, corruption): stop serving, do not try again (4.8)."""

    code = "store_broken"


class Replaced(Broken, Unavailable):
    """The files of the store were deleted or replaced under the engine: nothing is acknowledged any more (I1)."""

    code = "store_replaced"


READ_SECONDS: Final = 5.0
"""The longest time for a caller's read. A longer one would take connections and processors from others, and on SQLite
keep the WAL from beginning anew."""


class ReadTooLong(Unavailable):
    """A caller's read was interrupted after its longest time."""

    code = "read_too_long"

    def __init__(self, seconds: float = READ_SECONDS) -> None:
        super().__init__(f"the read took longer than {seconds:g} s and was interrupted: ask for less")


class TooManyReads(Unavailable):
    """A caller's read was refused: as many as the store allows run already."""

    code = "too_many_reads"


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """Something that must be looked at when its time comes: `kind` is run, activity or timer."""

    run_id: RunId
    kind: str
    ref: int
    due_at: Time = 0


class HeldLease(msgspec.Struct, frozen=True, gc=False):
    """A lease in the hands of a worker; `seq` is -1 for the workflow task, `fence` its epoch or attempt."""

    run_id: RunId
    seq: int
    fence: int
    worker: WorkerId = WorkerId("")
    until: Time | None = None


class RunRecord(msgspec.Struct, frozen=True):
    """A run as it is shown to callers: its row, its input, and its result or the event that says why it has none."""

    run: StoredRun
    input: Payload
    result: Payload
    closing: Event | None = None


class RunPage(list[RunRecord]):
    """A page of a list of runs; `more` is True if other runs follow the last of these."""

    __slots__ = ("more",)

    def __init__(self, records: Iterable[RunRecord] = (), *, more: bool = False) -> None:
        super().__init__(records)
        self.more = more


class StoredActivity(msgspec.Struct, frozen=True):
    """An activity as it is shown to callers, open or closed."""

    run_id: RunId
    namespace: str
    workflow_id: str
    seq: int
    id: int
    name: str
    task_queue: str
    status: str
    attempt: int
    attempt_id: int
    input: Payload
    result: Payload
    error: str | None
    options: Payload
    claimed_by: str | None
    scheduled_at: Time
    started_at: Time | None
    completed_at: Time | None
    last_heartbeat: Time | None
    last_failure: FailureInfo | None = None
    """Of the attempt before, while another is to come."""
    not_before: Time | None = None
    """Until when the next attempt has to wait, if it has to."""
    queued_at: Time = 0
    """Since when the last attempt waited for a worker, or could have."""


class MeasuredStore(Protocol):
    """The values of a store that metrics show."""

    @property
    def wal_bytes(self) -> int | None:
        """Return the size of the write-ahead log; None where the store does not keep one of its own."""
        ...


class Store(MeasuredStore, Protocol):
    """What the engine needs of a database, and nothing more."""

    shared: bool
    """May other engines write to it at the same time? Then the run cache can be stale and ready work must be polled."""

    inline: bool
    """Does `write` finish without giving up the event loop? Then no reader of the loop can see half of it."""

    async def open(self) -> None:
        """Connect, take the single-instance lock where there is one, check durability settings, migrate."""
        ...

    async def close(self) -> None:
        """Let go of everything `open` took."""
        ...

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """Read the clock that counts: the database's where several engines share it, this machine's otherwise.

        A jump is first taken out of the shared correction, unless that was changed since.
        """
        ...

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """Call `wake` when another engine may have left work or events, `closed` with the runs that it has closed.

        None stands for any run. Hints can be lost: readers poll as well.
        """
        ...

    async def load(
        self, run_ids: Sequence[RunId], workflow_ids: Sequence[tuple[Namespace, WorkflowId]]
    ) -> Sequence[StoredRun]:
        """The runs named by id and the newest run of each workflow id, folded; unknown ones are left out."""
        ...

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """Write all of `changes` in one transaction; the runs that lost a compare-and-set come back unwritten."""
        ...

    async def outcomes(self, keys: Sequence[tuple[str, str]]) -> Sequence[RequestOutcome]:
        """The stored outcomes of those (namespace, key) pairs that have one."""
        ...

    async def events(
        self, run_id: RunId, after: int = 0, limit: int = 10_000, kind: str | None = None
    ) -> Sequence[Recorded]:
        """A page of a history in order of seq."""
        ...

    async def due(self, now: Time, wall: Time, limit: int) -> Sequence[Deadline]:
        """Return deadlines that have come, oldest first: of schedules by the wall clock, others by engine time."""
        ...

    async def next_due(self) -> tuple[Time | None, Time | None]:
        """Return the next deadline in engine time, and the next of a schedule by the wall clock."""
        ...

    async def ready_tasks(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyTask]:
        """Return workflow tasks that wait for a worker, at most `limit` for each demand, its oldest first.

        Where engines compete the tasks are reserved for a moment, and all demands of one task queue together are met
        with the oldest tasks of that queue, at most as many as one of them allows.
        """
        ...

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyActivity]:
        """Return activities that wait for a worker, by the same rules as `ready_tasks`."""
        ...

    async def local_leases(self) -> Sequence[HeldLease]:
        """Leases of workers that lived inside an engine process of this store (R9)."""
        ...

    async def leases(self, worker: WorkerId | None = None) -> Sequence[HeldLease]:
        """Leases of one worker over the network, or of all of them (R9, R11)."""
        ...

    async def messages(self, before: Time, limit: int) -> Sequence[OutboxMessage]:
        """Outbox messages put there before a time, oldest first."""
        ...

    async def numbers(self, count: int) -> int:
        """Reserve `count` numbers of the one integer sequence; the first of them."""
        ...

    async def load_schedules(self, keys: Sequence[tuple[Namespace, str]]) -> Sequence[Schedule]:
        """The schedules of those (namespace, name) pairs that exist."""
        ...

    async def list_schedules(self, namespace: str | None, *, waiting: bool = False) -> Sequence[Schedule]:
        """The schedules of a namespace, or of all, by name; with `waiting` only those that have fires waiting."""
        ...

    async def fires(self, namespace: str, name: str, limit: int) -> Sequence[Fire]:
        """The latest fires of a schedule, newest first."""
        ...

    async def count_fires(self, namespace: str, name: str) -> int:
        """How many fires of a schedule are kept."""
        ...

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None) -> RunRecord | None:
        """One run as callers see it; the newest of the id unless `run_id` says which."""
        ...

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        """Return a page of runs as callers see them; it is never empty while `more` is True."""
        ...

    async def count_runs(self, wanted: RunFilter) -> int:
        """How many runs a filter matches, whatever its page."""
        ...

    async def activity(self, number: int) -> StoredActivity | None:
        """An activity by its own id or by the id of one of its attempts (R35)."""
        ...

    async def snapshot(self, run_id: RunId) -> Snapshot | None:
        """What a run's queries answer."""
        ...


class Registry(Protocol):
    """The rows beside the histories: namespaces, workers, queues and the engine's own secrets.

    No decision depends on them. A change that has a `RequestOutcome` writes it in the same transaction, so a repeated
    request has its effect once.
    """

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """All namespaces, by name."""
        ...

    async def create_namespace(self, row: NamespaceRow, outcome: RequestOutcome | None = None) -> bool:
        """Create a namespace; False if it was there already."""
        ...

    async def delete_namespace(self, name: str, outcome: RequestOutcome | None = None) -> bool:
        """Forget a namespace that has no open run; False if it has one or was not there."""
        ...

    async def counts(self, namespace: str, seen_after: Time) -> NamespaceCounts:
        """What a namespace holds."""
        ...

    async def register(self, row: WorkerRow, outcome: RequestOutcome | None = None) -> None:
        """Keep a worker's registration."""
        ...

    async def seen(self, workers: Sequence[tuple[str, Time]], health: Mapping[str, WorkerHealth]) -> None:
        """Write when workers gave their last sign of life, and the health that some of them reported."""
        ...

    async def worker(self, worker_id: str) -> WorkerRow | None:
        """A registration by its id."""
        ...

    async def workers(self, namespace: str, seen_after: Time) -> Sequence[WorkerRow]:
        """Workers that were heard of after a time, in order of registration."""
        ...

    async def holdings(self, workers: Sequence[str]) -> dict[str, int]:
        """How many tasks each of these workers holds."""
        ...

    async def queues(self, namespace: str, seen_after: Time) -> Sequence[QueueRow]:
        """The queues that have open work or workers, by name."""
        ...

    async def waiting(self) -> Sequence[WaitingWork]:
        """Return how much work waits for a worker, by namespace and task queue."""
        ...

    async def waits(self, namespace: str, queue: str, names: Sequence[str] | None) -> bool:
        """Return whether an activity of these names (None: of any name) waits on a task queue."""
        ...

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """A secret of this database; `fresh` becomes it if there is none yet."""
        ...


class Journal(Protocol):
    """All events and notes in the order in which they became durable, which never changes once read (I24)."""

    async def head(self) -> Position:
        """The position of the newest row that may be read."""
        ...

    async def position(self, row_id: int) -> Position:
        """The position of the row with this id, or of the last one before it."""
        ...

    async def since(self, time: Time) -> int | None:
        """The id of the first row of this time or later; none if all are older."""
        ...

    async def after(self, position: Position, limit: int) -> JournalPage:
        """Return the rows after a position, oldest first: `limit` at most, or up to the row that passes 8 MiB."""
        ...

    async def oldest_after(self, position: Position) -> Time | None:
        """Return the time of the first row after a position, also if the row cannot be read in order yet."""
        ...

    async def concerns(self, namespaces: Collection[str], after: Position, before: int | None) -> bool:
        """Is any row of these namespaces after a position and, unless that is None, below an id?"""
        ...


class Leftovers(Protocol):
    """Rows that are kept for a while: outcomes of old requests, due times that started no run, old notes.

    Histories are never deleted here. A deletion that is interrupted goes on at the next call.
    """

    async def forget_outcomes(self, before: Time, limit: int) -> int:
        """Forget answers given before a time, oldest first; how many.

        An answer stays while a run of its namespace is open that is as old as itself: it may be about that run, and is
        kept for the life of it (4.4).
        """
        ...

    async def forget_fires(self, before: Time, limit: int) -> int:
        """Forget records from before a time of due times that started no run; how many.

        One that did start a run is kept like the run: a backfill must not start it again (I11).
        """
        ...

    async def forget_notes(self, before: Time, limit: int) -> int:
        """Forget notes of the journal from before a time, which nobody is told any more; how many."""
        ...
