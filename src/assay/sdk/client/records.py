"""Typed records: dicts with the wire's names, returned by the calls of a client.

A record is a plain JSON object: `record["status"]`, `json.dumps(record)`, `**record` and `record == {...}` work, and so
do fields that a newer engine adds. Nested objects of the engine are records too; values of users stay plain. A test
compares the annotations with the components of the OpenAPI document.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Self

SHOWN_FIELDS: Final = 8
"""Fields in the repr of a record; a longer record shows the fields of `telling`."""

_values: Final = reprlib.Repr()
_values.maxstring = _values.maxother = 60
_values.maxdict = _values.maxlist = 4


class Record(dict[str, Any]):
    """A JSON object of the engine; `record["status"]` and `record.status` are the same.

    Args:
        *items: As for `dict`.
        **fields: As for `dict`.
    """

    __slots__ = ()
    component: ClassVar[str | None] = None
    """The component of the OpenAPI document that describes the record."""
    nested: ClassVar[Mapping[str, type[Record]]] = {}
    """Classes of the fields that hold records."""
    telling: ClassVar[tuple[str, ...]] = ()
    """Fields that the repr of a long record shows, unless they are None."""

    def __init__(self, *items: Any, **fields: Any) -> None:
        super().__init__(*items, **fields)
        for name, kind in self.nested.items():
            value = self.get(name)
            if type(value) is dict:
                self[name] = kind(value)
            elif type(value) is list:
                self[name] = [kind(one) for one in value]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"this record has no {name!r}; it has {known}", name=name, obj=self) from None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        names = list(self) if len(self) <= SHOWN_FIELDS else self._most_telling()
        shown = [f"{name}={_values.repr(self[name])}" for name in names]
        hidden = len(self) - len(names)
        return f"{type(self).__name__}({', '.join([*shown, f'... {hidden} more'] if hidden else shown)})"

    def _most_telling(self) -> list[str]:
        """Return the names of the fields that a short repr shows."""
        wanted = [name for name in self.telling if self.get(name) is not None]
        return wanted or list(self)[:SHOWN_FIELDS]

    def copy(self) -> Self:
        """Return another record with the same items.

        Returns:
            A record of the same class.
        """
        return type(self)(self)


class StuckRecord(Record):
    """The reason why the tasks of an open run fail."""

    __slots__ = ()
    component = "Stuck"
    reason: str
    message: str
    attempt: int
    next_try_at: float | None


class WaitRecord(Record):
    """A thing that an open run or a schedule waits for; fields after `seq` are only there for kinds that have them."""

    __slots__ = ()
    component = "WaitEntry"
    telling = ("kind", "sentence", "attention", "since", "until")
    kind: str
    sentence: str
    attention: str
    since: float | None
    until: float | None
    seq: int | None
    subject: str
    name: str
    queue: str
    served: list[str]
    served_more: int
    last_identity: str | None
    last_seen: float | None
    message: str
    expected: str | None
    actual: str | None
    source: str | None
    reason: str | None
    by: str | None
    activity: str
    activity_id: int
    step: str
    attempt: int
    max_attempts: int | None
    error: str | None
    worker: str
    identity: str
    heartbeat_at: float | None
    workers: int
    queued: int
    running: int
    retrying: int
    open: int
    total: int
    signal: str | None
    topics: list[str]
    to: str | None
    child_workflow_id: str
    child_run_id: str
    child_summary: str | None
    workflow_type: str
    status: str
    timer_seq: int
    cron: str | None
    fires: int
    workflow_id: str | None
    timezone: str


class WaitingOnRecord(Record):
    """What an open run or a schedule waits for: the most telling wait, and all `waits`."""

    __slots__ = ()
    component = "WaitingOn"
    nested: ClassVar[Mapping[str, type[Record]]] = {"waits": WaitRecord}
    telling = ("kind", "summary", "attention", "since", "until")
    kind: str
    summary: str
    attention: str
    since: float | None
    until: float | None
    signal: str | None
    waits: list[WaitRecord]
    more: int
    as_of: float


class WaitingRecord(Record):
    """The answer of `explain`: what a run waits for, with its status."""

    __slots__ = ()
    component = "WaitingAnswer"
    nested: ClassVar[Mapping[str, type[Record]]] = {"stuck": StuckRecord, "waiting_on": WaitingOnRecord}
    telling = ("workflow_id", "run_id", "status", "stuck", "waiting_on")
    workflow_id: str
    run_id: str
    status: str
    close_reason: str | None
    history_length: int
    updated_at: float
    cancel_requested: bool
    stuck: StuckRecord | None
    waiting_on: WaitingOnRecord | None


class FailureRecord(Record):
    """A recorded failure; `details` is a value of the user's code."""

    __slots__ = ()
    component = "Failure"
    kind: str
    message: str
    retryable: bool | None
    details: Any
    type: str | None
    stack: str | None
    cause: FailureRecord | None
    source: str | None
    retry_state: str | None
    timeout_type: str | None
    telling = ("kind", "type", "message", "retryable", "cause", "source", "timeout_type")


FailureRecord.nested = {"cause": FailureRecord}


class RetryPolicyRecord(Record):
    """The retry policy of a run, with the wire's names."""

    __slots__ = ()
    component = "RetryPolicy"
    maximum_attempts: int
    initial_interval: float
    backoff_coefficient: float
    maximum_interval: float
    non_retryable_error_types: list[str]


class WorkflowRecord(Record):
    """A run, as `describe` and lists show it; times are seconds since the epoch."""

    __slots__ = ()
    component = "WorkflowRecord"
    nested: ClassVar[Mapping[str, type[Record]]] = {
        "stuck": StuckRecord,
        "waiting_on": WaitingOnRecord,
        "failure": FailureRecord,
        "retry_policy": RetryPolicyRecord,
    }
    telling = ("workflow_id", "run_id", "workflow_type", "status", "result", "error", "stuck", "waiting_on")
    id: str
    namespace: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: str
    input: Any
    result: Any
    error: str | None
    parent_id: str | None
    claimed_by: str | None
    search_attributes: Any
    archived_at: float | None
    archive_uri: str | None
    created_at: float
    updated_at: float
    completed_at: float | None
    workflow_id: str
    close_reason: str | None
    next_run_id: str | None
    engine_version: str | None
    stuck: StuckRecord | None
    waiting_on: WaitingOnRecord | None
    failure: FailureRecord | None
    memo: Any
    cancel_requested: bool
    history_length: int
    history_bytes: int
    retryable: bool
    retry_refusal: str | None
    attempt: int
    initiator: str
    first_run_id: str
    previous_run_id: str | None
    parent_run_id: str | None
    parent_namespace: str | None
    run_timeout: float | None
    task_timeout: float | None
    execution_deadline: float | None
    first_task_at: float | None
    retry_policy: RetryPolicyRecord | None
    cron_schedule: str | None
    schedule: str | None
    scheduled_for: float | None
    context: Any
    summary: str | None
    details: str | None
    priority: Any
    actor: str | None
    scope: list[str] | None


class EventRecord(Record):
    """An event of a history; some event types have further fields."""

    __slots__ = ()
    component = "OtherRecord"
    nested: ClassVar[Mapping[str, type[Record]]] = {"failure": FailureRecord}
    telling = ("seq", "event_type", "payload", "timestamp")
    id: int
    workflow_id: str
    run_id: str
    seq: int
    event_type: str
    payload: Any
    timestamp: float


class ActivityRecord(Record):
    """An activity of a run, with its newest attempt."""

    __slots__ = ()
    component = "ActivityRecord"
    telling = ("id", "name", "workflow_id", "status", "attempt", "result", "error")
    id: int
    workflow_id: str
    seq: int
    name: str
    task_queue: str
    input: Any
    status: str
    result: Any
    error: str | None
    attempt: int
    max_attempts: int
    initial_interval_secs: float
    backoff_coefficient: float
    start_to_close_secs: float
    heartbeat_timeout_secs: float | None
    claimed_by: str | None
    scheduled_at: float
    started_at: float | None
    completed_at: float | None
    last_heartbeat: float | None
    namespace: str
    run_id: str
    attempt_id: int | None


class StartRecord(Record):
    """The answer to a start; `started` is False if the start attached to an existing run."""

    __slots__ = ()
    component = "StartAnswer"
    workflow_id: str
    run_id: str
    status: str
    started: bool
    pid: str


class RetryRecord(Record):
    """The answer to a retry: the new run, and the activity that is attempted again."""

    __slots__ = ()
    component = "RetryAnswer"
    nested: ClassVar[Mapping[str, type[Record]]] = {"activity": ActivityRecord}
    workflow_id: str
    run_id: str
    status: str
    activity: ActivityRecord | None
    invalidated_activities: int
    dropped_events: int


class StateRecord(Record):
    """The latest answers of all queries of a run."""

    __slots__ = ()
    component = "StateAnswer"
    state: Any
    event_seq: int
    created_at: float


class QueryRecord(Record):
    """The latest answer of one query of a run."""

    __slots__ = ()
    component = "QueryAnswer"
    value: Any
    event_seq: int
    created_at: float


class ScheduleRecord(Record):
    """A schedule, with its last and its next due time."""

    __slots__ = ()
    component = "ScheduleRecord"
    nested: ClassVar[Mapping[str, type[Record]]] = {"waiting_on": WaitingOnRecord}
    telling = ("name", "workflow_type", "cron_expr", "timezone", "paused", "last_run_at", "next_run_at")
    name: str
    namespace: str
    workflow_type: str
    cron_expr: str
    timezone: str
    input: Any
    task_queue: str
    overlap_policy: str
    paused: bool
    last_run_at: float | None
    next_run_at: float | None
    last_workflow_id: str | None
    created_at: float
    dst: str
    missed: str
    window_secs: float
    jitter_secs: float
    end_at: float | None
    remaining: int | None
    search_attributes: Any
    memo: Any
    pause_reason: str | None
    paused_by: str | None
    paused_at: float | None
    waiting: list[float]
    updated_at: float
    waiting_on: WaitingOnRecord


class FireRecord(Record):
    """The outcome of one due time of a schedule."""

    __slots__ = ()
    component = "FireRecord"
    telling = ("schedule", "due_at", "outcome", "reason", "workflow_id", "run_id", "trigger")
    schedule: str
    namespace: str
    due_at: float
    fired_at: float
    outcome: str
    reason: str | None
    workflow_id: str | None
    run_id: str | None
    trigger: str
    until: float | None


class NamespaceRecord(Record):
    """A namespace, as a list shows it."""

    __slots__ = ()
    component = "NamespaceRecord"
    name: str
    created_at: float


class NamespaceStatsRecord(Record):
    """The numbers of runs, schedules and workers of a namespace."""

    __slots__ = ()
    component = "NamespaceStats"
    telling = ("namespace", "total_workflows", "pending", "running", "completed", "failed")
    namespace: str
    total_workflows: int
    running: int
    pending: int
    completed: int
    failed: int
    cancelled: int
    timed_out: int
    schedules: int
    workers: int


class WorkerRecord(Record):
    """A worker that sent a heartbeat within the last 90 seconds."""

    __slots__ = ()
    component = "WorkerRecord"
    telling = ("id", "identity", "task_queue", "workflows", "activities", "active_tasks", "healthy")
    id: str
    namespace: str
    identity: str
    task_queue: str
    workflows: list[str] | None
    activities: list[str] | None
    max_concurrent_workflows: int
    max_concurrent_activities: int
    active_tasks: int
    last_heartbeat: float
    registered_at: float
    healthy: bool
    abandoned_threads: int


class QueueRecord(Record):
    """A queue with open work or workers."""

    __slots__ = ()
    component = "QueueStats"
    queue: str
    pending_activities: int
    running_activities: int
    workers: int
    pending_workflow_tasks: int
    oldest_pending_at: float | None
