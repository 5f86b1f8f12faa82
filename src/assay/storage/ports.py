"""The ports between the engine and a database.

`Store` is the port of the write path and of reads, `Registry` of namespaces, workers and queues, `EventJournal` of the
event stream, `Leftovers` of rows with a limited lifetime. A store moves rows and decides nothing. Recovery relies on
these rules:

* `write` is one transaction. When `write` returns, the transaction is durable and survives a power cut (I1, I2). The
  runs in the returned set are the exception: another engine changed them first, and nothing was written for them.
* `Rejected` means nothing was written. `OutcomeUnknown` means the transaction may or may not be durable (I3), and the
  caller must not report a failure. `Broken` means the engine must stop. After any other exception nothing was written.
* Reads see every write that has returned (I23).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Protocol

import msgspec

from assay.core.engine_time import ClockReading, Jump
from assay.core.model.attached_rows import NO_ROWS, AttachedRows, RequestOutcome
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
    ScheduleChange,
    Snapshot,
    StoredEvent,
    StoredRun,
    Unfired,
    fence_of,
)
from assay.storage.journal_entries import BEGINNING, Claim, JournalEntry, JournalPage, JournalRow, Note, Position
from assay.storage.mail_ports import MailStore, MeasuredStore
from assay.storage.ready_work import Demand, ReadyActivity, ReadyTask
from assay.storage.run_filter import QueueService, RunFilter, ServedQueue

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
    "EventJournal",
    "Extent",
    "HeldLease",
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
    "QueueService",
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
    "fence_of",
]


class Rejected(AssayError):
    """The store refused the write and changed nothing: the disk is full, the database busy, a constraint violated."""

    code = "store_rejected"
    kind = Kind.UNAVAILABLE


class Conflict(Rejected):
    """The write would have violated a uniqueness constraint: its decision was based on stale rows."""

    code = "store_conflict"


class CommitStatus(Enum):
    """The state of a transaction whose COMMIT was sent."""

    COMMITTED = auto()
    ABORTED = auto()
    IN_PROGRESS = auto()
    """Not decided yet: the COMMIT may still be on its way to the database."""
    UNKNOWN = auto()
    """The database has no record of the transaction and will never have a record of it."""


class UnansweredCommit(Protocol):
    """A transaction whose COMMIT was sent and not answered, in a store that keeps the status of transactions."""

    lost: frozenset[RunId]
    """The runs that `write` would have returned: nothing was written for them even if the rest is durable."""

    async def status(self) -> CommitStatus:
        """Return the transaction's status; raise `Rejected` if the store does not respond."""
        ...

    async def abort_if_idle(self) -> None:
        """End the transaction if its COMMIT has not reached the database; raise `Rejected` if the attempt fails."""
        ...


class OutcomeUnknown(AssayError):
    """The store failed after COMMIT was sent: the write may or may not be durable (I3)."""

    code = "outcome_unknown"
    kind = Kind.UNAVAILABLE
    commit: UnansweredCommit | None = None
    """None if the store has a single writer: once `write` has raised, its COMMIT is either done or undone."""


class Broken(OutcomeUnknown):
    """The storage itself fails (I/O error, corruption): the engine must stop and must not retry."""

    code = "store_broken"


class Replaced(Broken, Unavailable):
    """The files of the store were deleted or replaced under the engine: no write may be acknowledged (I1)."""

    code = "store_replaced"


READ_SECONDS: Final = 5.0
"""The longest time for a caller's read. A longer read would take connections and processors from other callers, and on
SQLite its snapshot would keep the WAL from restarting at its beginning."""


class ReadTooLong(Unavailable):
    """A caller's read was interrupted after its longest time."""

    code = "read_too_long"

    def __init__(self, seconds: float = READ_SECONDS) -> None:
        super().__init__(f"the read took longer than {seconds:g} s and was interrupted: request less")


class TooManyReads(Unavailable):
    """A caller's read was refused: the store already runs its maximum number of reads."""

    code = "too_many_reads"


class Deadline(msgspec.Struct, frozen=True, gc=False):
    """A time at which the engine must act on a run; `kind` is run, activity, timer or schedule."""

    run_id: RunId
    kind: str
    ref: int
    due_at: Time = 0


class HeldLease(msgspec.Struct, frozen=True, gc=False):
    """A lease that a worker holds; `seq` is -1 for the workflow task, `fence` is the task's epoch or the attempt id."""

    run_id: RunId
    seq: int
    fence: int
    worker: WorkerId = WorkerId("")
    until: Time | None = None


class RunRecord(msgspec.Struct, frozen=True):
    """A run as callers see it: the row, the input, and either the result or the event that closed the run without."""

    run: StoredRun
    input: Payload
    result: Payload
    closing: Event | None = None


class RunPage(list[RunRecord]):
    """A page of a list of runs; `more` is True if further runs follow the last run of the page."""

    __slots__ = ("more",)

    def __init__(self, records: Iterable[RunRecord] = (), *, more: bool = False) -> None:
        super().__init__(records)
        self.more = more


class StoredActivity(msgspec.Struct, frozen=True):
    """An activity as callers see it, open or closed."""

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
    """The failure of the previous attempt, while another attempt is to follow."""
    not_before: Time | None = None
    """The earliest time of the next attempt, if the attempt has to wait."""
    queued_at: Time = 0
    """The time from which a worker could take the last attempt."""


class Store(MeasuredStore, MailStore, Protocol):
    """The calls that the engine requires of a database."""

    shared: bool
    """True if other engines may write at the same time: the run cache can be stale and ready work must be polled."""

    inline: bool
    """True if `write` never suspends: no other task of the event loop can then run between its beginning and end."""

    async def open(self) -> None:
        """Connect, take the single-instance lock where there is one, check durability settings, migrate."""
        ...

    async def close(self) -> None:
        """Release all resources that `open` acquired."""
        ...

    async def clock(self, jump: Jump | None = None) -> ClockReading:
        """Return a reading of the authoritative clock: the database's if several engines share it, else this machine's.

        A jump is first removed from the shared correction, unless another engine has changed the correction since.
        """
        ...

    def subscribe(
        self, wake: Callable[[], None], closed: Callable[[Collection[RunId] | None], None] | None = None
    ) -> None:
        """Call `wake` when another engine may have added work or events, `closed` with the runs that it has closed.

        `closed` receives None if any run may have closed. Hints can be lost, therefore readers poll as well.
        """
        ...

    async def load(
        self, run_ids: Sequence[RunId], workflow_ids: Sequence[tuple[Namespace, WorkflowId]]
    ) -> Sequence[StoredRun]:
        """Return the runs with these ids and the newest run of each workflow id, folded; unknown ids are left out."""
        ...

    async def write(self, changes: Changes) -> frozenset[RunId]:
        """Write `changes` in one transaction; return the runs that lost a compare-and-set and were not written."""
        ...

    async def outcomes(self, keys: Sequence[tuple[str, str]]) -> Sequence[RequestOutcome]:
        """Return the stored outcomes of these (namespace, key) pairs; pairs without an outcome are left out."""
        ...

    async def events(
        self, run_id: RunId, after: int = 0, limit: int = 10_000, kind: str | None = None
    ) -> Sequence[Recorded]:
        """Return a page of a history in order of seq."""
        ...

    async def due(self, now: Time, wall: Time, limit: int) -> Sequence[Deadline]:
        """Return due deadlines, oldest first. Schedules are due by the wall clock, runs by engine time."""
        ...

    async def next_due(self) -> tuple[Time | None, Time | None]:
        """Return the next deadline of runs in engine time, and of schedules by the wall clock."""
        ...

    async def ready_tasks(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyTask]:
        """Return workflow tasks that wait for a worker, at most `limit` for each demand, oldest first.

        A shared store reserves the tasks for a short time, and meets all demands of a task queue together with the
        oldest tasks of the queue, up to the limit of a single demand.
        """
        ...

    async def ready_activities(self, demands: Sequence[Demand], now: Time) -> Sequence[ReadyActivity]:
        """Return activities that wait for a worker, by the same rules as `ready_tasks`."""
        ...

    async def local_leases(self) -> Sequence[HeldLease]:
        """Return the leases of workers that ran inside an engine process of this store."""
        ...

    async def leases(self, worker: WorkerId | None = None) -> Sequence[HeldLease]:
        """Return the leases of a worker that is connected over the network, or of all network workers."""
        ...

    async def messages(self, before: Time, limit: int) -> Sequence[OutboxMessage]:
        """Return outbox messages that were created before a time, oldest first."""
        ...

    async def numbers(self, count: int) -> int:
        """Reserve `count` numbers of the store's integer sequence; return the first number."""
        ...

    async def load_schedules(self, keys: Sequence[tuple[Namespace, str]]) -> Sequence[Schedule]:
        """Return the schedules with these (namespace, name) pairs; unknown pairs are left out."""
        ...

    async def list_schedules(self, namespace: str | None, *, waiting: bool = False) -> Sequence[Schedule]:
        """Return schedules by name, of a namespace or of all; with `waiting` only schedules with waiting fires."""
        ...

    async def fires(self, namespace: str, name: str, limit: int) -> Sequence[Fire]:
        """Return the latest fires of a schedule, newest first."""
        ...

    async def count_fires(self, namespace: str, name: str) -> int:
        """Return the number of stored fires of a schedule."""
        ...

    async def describe(self, namespace: str, workflow_id: str, run_id: str | None) -> RunRecord | None:
        """Return a run as callers see it: the run with `run_id`, or the newest run of the workflow id."""
        ...

    async def list_runs(self, wanted: RunFilter) -> RunPage:
        """Return a page of runs as callers see them; a page with `more` has at least one run."""
        ...

    async def count_runs(self, wanted: RunFilter) -> int:
        """Return the number of runs that a filter matches, without regard to cursor, offset and limit."""
        ...

    async def activity(self, number: int) -> StoredActivity | None:
        """Return the activity whose own id, or the id of any of its attempts, is `number`."""
        ...

    async def snapshot(self, run_id: RunId) -> Snapshot | None:
        """Return the stored results of a run's queries."""
        ...


class Registry(Protocol):
    """The rows beside the histories: namespaces, workers, queues and the engine's own secrets.

    No decision depends on them. The attached rows of a change are written in its transaction.
    """

    async def namespaces(self) -> Sequence[NamespaceRow]:
        """Return all namespaces, by name."""
        ...

    async def create_namespace(self, row: NamespaceRow, rows: AttachedRows = NO_ROWS) -> bool:
        """Create a namespace; return False if the name exists."""
        ...

    async def delete_namespace(self, name: str, rows: AttachedRows = NO_ROWS) -> bool:
        """Delete a namespace; return False if the namespace has an open run or does not exist."""
        ...

    async def counts(self, namespace: str, seen_after: Time) -> NamespaceCounts:
        """Return the numbers of runs and workers in a namespace."""
        ...

    async def register(self, row: WorkerRow, outcome: RequestOutcome | None = None) -> None:
        """Store a worker's registration."""
        ...

    async def seen(self, workers: Sequence[tuple[str, Time]], health: Mapping[str, WorkerHealth]) -> None:
        """Store the times of the workers' last heartbeats, and their health where a worker reported its health."""
        ...

    async def worker(self, worker_id: str) -> WorkerRow | None:
        """Return a worker's registration by its id."""
        ...

    async def workers(self, namespace: str, seen_after: Time) -> Sequence[WorkerRow]:
        """Return workers whose last heartbeat is after a time, in order of registration."""
        ...

    async def latest_workers(self, namespace: str, limit: int) -> Sequence[WorkerRow]:
        """Return the workers of a namespace by their last heartbeat, the latest first."""
        ...

    async def holdings(self, workers: Sequence[str]) -> dict[str, int]:
        """Return the number of tasks that each worker holds."""
        ...

    async def queues(self, namespace: str, seen_after: Time) -> Sequence[QueueRow]:
        """Return the queues that have open work or workers, by name."""
        ...

    async def waiting(self) -> Sequence[WaitingWork]:
        """Return the amount of work that waits for a worker, by namespace and task queue."""
        ...

    async def waits(self, namespace: str, queue: str, names: Sequence[str] | None) -> bool:
        """Return whether an activity of these names (None: of any name) waits on a task queue."""
        ...

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """Return a secret of this database; store `fresh` first if the secret does not exist."""
        ...


class EventJournal(Protocol):
    """All events and notes in commit order; the order never changes once rows are read (I24)."""

    async def head(self) -> Position:
        """Return the position of the newest readable row."""
        ...

    async def position(self, row_id: int) -> Position:
        """Return the position of the row with this id, or of the last row before."""
        ...

    async def since(self, time: Time) -> int | None:
        """Return the id of the first row at or after a time; None if all rows are older."""
        ...

    async def after(self, position: Position, limit: int) -> JournalPage:
        """Return the rows after a position, oldest first: `limit` at most, or up to the row that passes 8 MiB."""
        ...

    async def oldest_after(self, position: Position) -> Time | None:
        """Return the time of the first row after a position, including rows that are not readable in order yet."""
        ...

    async def concerns(self, namespaces: Collection[str], after: Position, before: int | None) -> bool:
        """Return whether these namespaces have a row after a position and, unless `before` is None, below that id."""
        ...


class Leftovers(Protocol):
    """Rows with a limited lifetime: outcomes of old requests, due times without a run, old notes.

    Histories are never deleted here. An interrupted deletion continues at the next call.
    """

    async def forget_outcomes(self, before: Time, limit: int) -> int:
        """Delete outcomes from before a time, oldest first; return their number.

        An outcome may belong to any open run of its namespace that is at least as old, and must live as long as its
        run. Outcomes are therefore kept while such a run is open.
        """
        ...

    async def forget_fires(self, before: Time, limit: int) -> int:
        """Delete fires from before a time that started no run; return their number.

        A fire that started a run is kept like the run: a backfill must not start the due time again (I11).
        """
        ...

    async def forget_audits(self, before: Time, limit: int) -> int:
        """Delete rows of the audit from before a time; return their number."""
        ...

    async def forget_notes(self, before: Time, limit: int) -> int:
        """Delete notes of the journal from before a time, which are no longer streamed; return their number."""
        ...
