"""Responses of the engine: built in `render`, encoded by the API, and described in the OpenAPI document.

The fields of a struct are encoded in their order. Fields of type `Any` hold documents of users: JSON values, or raw
JSON if only the API builds the response. An event has the common fields of all kinds; the OpenAPI document derives the
other fields from `core.events`.
"""

from typing import Annotated, Any, Final

import msgspec

from assay.core.model.errors import Kind
from assay.wire.codes import ErrorCode
from assay.wire.waits import WaitingOn


def _one_of(*words: str) -> msgspec.Meta:
    """Return the schema of a text with these possible values."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


STATUSES = ("PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT")
Status = Annotated[str, _one_of(*STATUSES)]
StatusFilter = Annotated[str, _one_of(*STATUSES, "open", "closed")]


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error: a sentence, a stable code, a kind, and fields with details."""

    error: str
    code: ErrorCode | str
    kind: Kind
    field: str | None = None
    workflow_id: str | None = None
    run_id: str | None = None
    status: Status | None = None
    namespace: str | None = None
    name: str | None = None
    outcome: Annotated[str, _one_of("unknown")] | None = None
    oldest_id: int | None = None
    request_id: str | None = None
    """The id of the request in the server's log."""


class Failure(msgspec.Struct):
    """The failure of a run or an activity."""

    kind: Kind
    message: str
    retryable: bool | None
    details: Any
    type: str | None
    stack: str | None
    cause: "Failure | None"
    source: str | None
    retry_state: str | None
    timeout_type: str | None


class Stuck(msgspec.Struct, kw_only=True):
    """The reason for which no worker can process a run's workflow task."""

    reason: str
    message: str
    attempt: int
    next_try_at: float | None


class RetryPolicy(msgspec.Struct):
    """A retry policy; intervals in seconds."""

    maximum_attempts: int
    initial_interval: float
    backoff_coefficient: float
    maximum_interval: float
    non_retryable_error_types: list[str]


class StartAnswer(msgspec.Struct, kw_only=True):
    """A started run; with `started` false an existing run."""

    workflow_id: str
    run_id: str
    status: Status
    started: bool
    pid: str


class ResultAnswer(msgspec.Struct, kw_only=True):
    """The result of a run, or the status of a run that is still open."""

    workflow_id: str
    run_id: str
    status: Status
    result: Any
    error: str | None
    failure: Failure | None
    close_reason: str | None
    reason: str | None
    timeout_type: str | None
    started: bool | msgspec.UnsetType = msgspec.UNSET
    pid: str | msgspec.UnsetType = msgspec.UNSET


class StartFields(msgspec.Struct, kw_only=True):
    """The start options of a run, in its record and beside its first event.

    Only these fields are keyword-only, because msgspec then puts them after the fields of inheriting structs.
    """

    attempt: int
    initiator: str
    first_run_id: str
    previous_run_id: str | None
    parent_run_id: str | None
    run_timeout: float | None
    task_timeout: float | None
    execution_deadline: float | None
    first_task_at: float | None
    retry_policy: RetryPolicy | None
    cron_schedule: str | None
    schedule: str | None
    scheduled_for: float | None
    context: Any
    summary: str | None
    details: str | None
    priority: Any
    engine_version: str | None
    actor: str | None
    scope: list[str] | None


class WorkflowRecord(StartFields):
    """A run; times in seconds since the epoch."""

    id: str
    namespace: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: Status
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
    stuck: Stuck | None
    waiting_on: WaitingOn | None
    failure: Failure | None
    memo: Any
    cancel_requested: bool
    history_length: int
    history_bytes: int
    retryable: bool
    retry_refusal: str | None
    parent_namespace: str | None


class StartedFields(StartFields):
    """The fields beside the payload of a run's first event, whose payload is the bare input."""

    workflow_type: str
    task_queue: str
    parent_id: str | None
    memo: Any
    search_attributes: Any
    last_completion_result: Any
    last_failure: Failure | None
    request_id: str | None
    origin_run_id: str | None


class ActivityOptions(msgspec.Struct):
    """The retry policy and time-outs of an activity; durations in seconds."""

    retry_policy: RetryPolicy
    start_to_close: float
    schedule_to_start: float | None
    schedule_to_close: float | None
    heartbeat_timeout: float | None
    survives_cancel: bool
    context: Any
    summary: str | None
    priority: Any
    id: str | None


class EventRecord(msgspec.Struct):
    """An event of a history; some kinds have fields beside their payload."""

    id: int
    workflow_id: str
    run_id: str
    seq: int
    event_type: str
    payload: Any
    timestamp: float


class CompletedEvent(EventRecord):
    """The end of a run that continues as another run."""

    next_run_id: str | None


class CancelledEvent(EventRecord):
    """The end of a run that was cancelled with a reason."""

    reason: str | None


StartedEvent: Final[Any] = msgspec.defstruct(
    "StartedEvent",
    [(field.name, field.type) for field in msgspec.structs.fields(StartedFields)],
    bases=(EventRecord,),
)
"""The first event of a run, with `StartedFields` beside its payload; Python cannot inherit from both."""


class HistoryEvent(msgspec.Struct, kw_only=True):
    """An event in a workflow task, without fields beside its payload."""

    seq: int
    event_type: str
    payload: Any
    timestamp: float


class StateAnswer(msgspec.Struct, kw_only=True):
    """The results of all queries of a run, as of an event."""

    state: Any
    event_seq: int
    created_at: float


class QueryAnswer(msgspec.Struct, kw_only=True):
    """The result of a query of a run, as of an event."""

    value: Any
    event_seq: int
    created_at: float


class ActivityRecord(msgspec.Struct, kw_only=True):
    """An activity, open or closed."""

    id: int
    workflow_id: str
    seq: int
    name: str
    task_queue: str
    input: Any
    status: Annotated[str, _one_of("PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED")]
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


class UpdateAnswer(msgspec.Struct, kw_only=True):
    """An update: `received` and `accepted` until it is `completed`, `rejected` or `failed`."""

    update_id: str
    status: str
    result: Any = None
    failure: Failure | None = None


class RetryAnswer(msgspec.Struct, kw_only=True):
    """A closed run that was reopened as a new run of its id."""

    workflow_id: str
    run_id: str
    status: Status
    activity: ActivityRecord | None
    invalidated_activities: int
    dropped_events: int


class WorkflowTask(msgspec.Struct, kw_only=True):
    """A workflow task for a worker, with the whole history."""

    workflow_id: str
    run_id: str
    namespace: str
    workflow_type: str
    task_queue: str
    input: Any
    history: list[HistoryEvent]
    attempt: int
    replay_until: int
    task_token: str


class ActivityTask(msgspec.Struct, kw_only=True):
    """An attempt of an activity for a worker; `id` is the attempt's, `input` is JSON text."""

    id: int
    workflow_id: str
    seq: int
    name: str
    task_queue: str
    input: str | None
    status: str
    result: None
    error: None
    attempt: int
    max_attempts: int
    initial_interval_secs: float
    backoff_coefficient: float
    start_to_close_secs: float
    heartbeat_timeout_secs: float | None
    claimed_by: str | None
    scheduled_at: float
    started_at: float | None
    completed_at: None
    last_heartbeat: None
    namespace: str
    run_id: str
    activity_id: int
    workflow_type: str
    heartbeat_details: Any
    context: Any
    actor: str | None
    scope: list[str] | None
    task_token: str


class NoTask(msgspec.Struct, kw_only=True):
    """The response to a poll without a task."""

    task: None


class LeaseAnswer(msgspec.Struct, kw_only=True):
    """The end of a worker's lease of a task."""

    lease_until: float | None


class RegisterAnswer(msgspec.Struct, kw_only=True):
    """The id of a worker."""

    worker_id: str


class WorkerRecord(msgspec.Struct, kw_only=True):
    """A worker with a recent heartbeat; a list that is null means all names."""

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
    """False while its event loop is blocked, or while too many of its threads are abandoned."""
    abandoned_threads: int
    """The number of threads whose attempt is over and whose code has not returned."""


class ScheduleRecord(msgspec.Struct, kw_only=True):
    """A schedule; times in seconds since the epoch, durations in seconds."""

    name: str
    namespace: str
    workflow_type: str
    cron_expr: str
    timezone: str
    input: Any
    task_queue: str
    overlap_policy: Annotated[str, _one_of("skip", "queue", "cancel_old", "terminate_old", "allow_all")]
    paused: bool
    last_run_at: float | None
    next_run_at: float | None
    last_workflow_id: str | None
    created_at: float
    dst: Annotated[str, _one_of("skip", "shift", "both")]
    missed: Annotated[str, _one_of("skip", "last", "all")]
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
    waiting_on: WaitingOn


class FireRecord(msgspec.Struct, kw_only=True):
    """The outcome of a due time of a schedule, and its reason."""

    schedule: str
    namespace: str
    due_at: float
    fired_at: float
    outcome: Annotated[str, _one_of("started", "queued", "skipped", "dropped", "missed", "paused", "failed")]
    reason: str | None
    workflow_id: str | None
    run_id: str | None
    trigger: Annotated[str, _one_of("time", "manual", "backfill")]
    until: float | None


class NamespaceRecord(msgspec.Struct, kw_only=True):
    """A namespace."""

    name: str
    created_at: float


class NamespaceStats(msgspec.Struct, kw_only=True):
    """The counts of a namespace."""

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


class QueueStats(msgspec.Struct, kw_only=True):
    """The numbers of waiting and running tasks of a queue."""

    queue: str
    pending_activities: int
    running_activities: int
    workers: int
    pending_workflow_tasks: int
    oldest_pending_at: float | None


class Health(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The health of the engine."""

    status: str
    service: str
    auth: str | None = None
    read_only: bool = False
    """True if this process only reads a file that an engine may be using; only in `/readyz`."""


class Version(msgspec.Struct, kw_only=True):
    """The version of the engine, and its limits."""

    version: str
    build_profile: str
    limits: dict[str, float]


class StreamEvent(msgspec.Struct, kw_only=True):
    """The data of a frame of the event stream."""

    id: int
    ts: float
    namespace: str
    subsystem: str
    kind: str
    event_type: str
    workflow_id: str
    """Empty for events without a run, as a due time that started no run."""
    run_id: str | None
    workflow_type: str | None
    payload: dict[str, Any]
