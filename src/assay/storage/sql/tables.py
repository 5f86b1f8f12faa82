"""The tables that decisions write: each column once, with a type that both databases have.

Times are integers in microseconds, flags are 0 or 1, documents are JSON as bytes, absent values are NULL. Other tables
do not repeat the contents of events: a run's input and `StartData` are in the first event, its result in the last.
"""

from enum import StrEnum

import msgspec


class Type(StrEnum):
    """The three column types of the schema."""

    TEXT = "text"
    INT = "bigint"
    BYTES = "bytes"


class Table(msgspec.Struct, frozen=True, eq=False):
    """The columns of a table that a kind of write uses; the first `key` columns identify a row."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    key: int
    fixed: int
    """The number of leading columns that an upsert does not change, including the key."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the column names in order."""
        return tuple(name for name, _ in self.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the key columns."""
        return self.names[: self.key]

    @property
    def changing(self) -> tuple[str, ...]:
        """Return the names of the columns that an update writes."""
        return self.names[self.fixed :]


def _table(name: str, key: int, /, *, last_fixed: str | None = None, **columns: Type) -> Table:
    fixed = key if last_fixed is None else list(columns).index(last_fixed) + 1
    return Table(name, tuple(columns.items()), key, fixed)


T, I, B = Type.TEXT, Type.INT, Type.BYTES  # noqa: E741  # a table of letters reads better than a wall of words

_RUN_IDENTITY: dict[str, Type] = {
    "run_id": T,
    "namespace": T,
    "workflow_id": T,
    "number": I,
    "workflow_type": T,
    "task_queue": T,
    "created_at": I,
    "parent_workflow_id": T,
    "parent_run_id": T,
}
_RUN_STATE: dict[str, Type] = {
    "version": I,
    "status": T,
    "updated_at": I,
    "last_time": I,
    "last_seq": I,
    "input_seq": I,
    "seen_seq": I,
    "history_bytes": I,
    "cancel_seq": I,
    "cancel_deadline": I,
    "run_deadline": I,
    "task_since": I,
    "task_not_before": I,
    "task_epoch": I,
    "task_worker": T,
    "task_until": I,
    "task_local": I,
    "task_granted_seq": I,
    "task_failures": I,
    "stuck": B,
    "awaiting": T,
    "activity_mark": I,
    "timer_mark": I,
    "effect_mark": I,
    "step_mark": I,
    "signals": I,
    "send_mark": I,
    "sends": I,
    "reserved_until": I,
    "task_leased_at": I,
    "waits": B,
    "task_order": I,
}
_RUN_CLOSE: dict[str, Type] = {"closed_at": I, "close_reason": T, "error": T, "next_run_id": T}

RUNS = _table("runs", 1, last_fixed="parent_run_id", **_RUN_IDENTITY, **_RUN_STATE, **_RUN_CLOSE)

RUN_UPDATES = _table("runs", 1, run_id=T, **_RUN_STATE)
"""A run that stays open. Without `closed_at` in the UPDATE, SQLite does not rewrite the index of open runs."""

RUN_CLOSINGS = _table("runs", 1, run_id=T, **_RUN_STATE, **_RUN_CLOSE)

EVENTS = _table("events", 2, run_id=T, seq=I, time=I, kind=T, payload=B, data=B, claimed=I)

ACTIVITIES = _table(
    "activities",
    1,
    last_fixed="scheduled_at",
    id=I,
    run_id=T,
    seq=I,
    name=T,
    task_queue=T,
    namespace=T,
    input=B,
    options=B,
    scheduled_at=I,
    status=T,
    attempt=I,
    attempt_id=I,
    not_before=I,
    worker=T,
    local=I,
    queued_at=I,
    started_at=I,
    lease_until=I,
    heartbeat_at=I,
    details=B,
    cancel_requested=I,
    last_failure=B,
    completed_at=I,
    result=B,
    error=T,
    reserved_until=I,
    queue_order=I,
)

ACTIVITY_CLOSINGS = _table("activities", 1, id=I, status=T, completed_at=I, result=B, error=T)

ATTEMPTS = _table(
    "attempts",
    1,
    id=I,
    activity_id=I,
    run_id=T,
    attempt=I,
    outcome=T,
    worker=T,
    started_at=I,
    ended_at=I,
    failure=B,
)

DEADLINES = _table("deadlines", 3, run_id=T, kind=T, ref=I, due_at=I)
CLEARED = _table("deadlines", 3, run_id=T, kind=T, ref=I)
CLOSED = _table("deadlines", 1, run_id=T)

SNAPSHOTS = _table("snapshots", 1, run_id=T, event_seq=I, state=B, created_at=I)

DOCUMENTS = _table("documents", 1, run_id=T, memo=B, search=B)
"""Changed memos and search attributes; in a table of their own, because every step rewrites the row in `runs`."""

ATTRIBUTES = _table("attributes", 3, run_id=T, key=T, value=T, namespace=T)
UNATTRIBUTED = _table("attributes", 1, run_id=T)

PEERS = _table("peers", 3, run_id=T, kind=T, name=T, number=I, pid=T)
GONE_PEERS = _table("peers", 3, run_id=T, kind=T, name=T)

VERSIONS = _table("versions", 2, run_id=T, change_id=T, version=I, namespace=T)

OUTBOX = _table(
    "outbox_messages",
    1,
    key=T,
    namespace=T,
    workflow_id=T,
    run_id=T,
    kind=T,
    reason=T,
    sender=T,
    event_kind=T,
    event_payload=B,
    details=B,
    created_at=I,
)
"""Messages to runs, until they are delivered. Each row has a number, in the order of insertion."""
ACKNOWLEDGED = _table("outbox_messages", 1, key=T)

UPDATES = _table(
    "updates", 2, last_fixed="workflow_id", run_id=T, update_id=T, namespace=T, workflow_id=T, status=T, result=B,
    failure=B,
)  # fmt: skip

SCHEDULES = _table("schedules", 1, key=T, version=I, wakes_at=I, waiting=I, document=B, namespace=T, name=T)
SCHEDULE_UPDATES = _table("schedules", 1, key=T, version=I, wakes_at=I, waiting=I, document=B)
GONE_SCHEDULES = _table("schedules", 1, key=T)

FIRES = _table(
    "schedule_fires",
    3,
    namespace=T,
    schedule=T,
    due_at=I,
    fired_at=I,
    outcome=T,
    reason=T,
    workflow_id=T,
    run_id=T,
    cause=T,
    until=I,
)
MISSED_FIRES = _table("schedule_fires", 5, namespace=T, schedule=T, due_at=I, outcome=T, cause=T)
GONE_FIRES = _table("schedule_fires", 2, namespace=T, schedule=T)

FAILURE_GROUPS = _table(
    "failure_groups",
    2,
    namespace=T,
    fingerprint=T,
    source=T,
    workflow_type=T,
    place=T,
    kind=T,
    type=T,
    message=T,
    first_seen=I,
    state=T,
)
FAILED_RUNS = _table("failed_runs", 2, run_id=T, fingerprint=T, namespace=T, source=T, at=I)

OUTCOMES = _table("outcomes", 2, namespace=T, key=T, fingerprint=B, status=I, body=B, created_at=I)

AUDIT = _table(
    "audit",
    0,
    at=I,
    actor=T,
    credential=T,
    address=T,
    action=T,
    namespace=T,
    target=T,
    outcome=T,
    code=T,
    count=I,
    before=B,
    after=B,
    request_id=T,
    merged_by=T,
)
"""Inserted only: the database gives each row its id."""
