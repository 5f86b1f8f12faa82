"""Responses with numbers over many runs, and with what a namespace has: types, queues, trees."""

from typing import Any

import msgspec

from assay.wire.responses import Status


class AttentionCounts(msgspec.Struct, kw_only=True):
    """The numbers of open runs that need an operator or a person; `capped` if there are more than were counted."""

    operator: int
    person: int
    capped: bool


class RunCounts(msgspec.Struct, kw_only=True):
    """The numbers of runs; each is counted up to a limit."""

    total: int
    capped: bool
    by_status: dict[str, int]
    attention: AttentionCounts


class HistogramBucket(msgspec.Struct, kw_only=True):
    """The runs that were started in a part of a time range, and what became of them so far."""

    at: float
    started: int
    completed: int
    failed: int
    cancelled: int
    timed_out: int


class RunHistogram(msgspec.Struct, kw_only=True):
    """Runs over time; approximate if there were too many to look at all of them."""

    from_: float = msgspec.field(name="from")
    to: float
    step: float
    approximate: bool
    buckets: list[HistogramBucket]


class Facet(msgspec.Struct, kw_only=True):
    """A value that runs of a namespace have, and the number of open runs with it."""

    value: Any
    open: int


class TreeNode(msgspec.Struct, kw_only=True):
    """A run in the tree of its children; `children` is null where they were not loaded."""

    workflow_id: str
    run_id: str
    workflow_type: str
    status: Status
    close_reason: str | None
    created_at: float
    completed_at: float | None
    summary: str | None
    child_count: int
    by_status: dict[str, int]
    children: "list[TreeNode] | None"


class RunTree(msgspec.Struct, kw_only=True):
    """A run with its ancestors, the first one first, and its descendants."""

    path: list[TreeNode]
    node: TreeNode


class WorkflowTypeRecord(msgspec.Struct, kw_only=True):
    """A workflow type that workers serve on a queue; schemas are null until workers send them."""

    name: str
    queue: str
    doc: str | None
    input_schema: Any
    signals: Any
    queries: list[str]


class FireTime(msgspec.Struct, kw_only=True):
    """A due time of a cron expression: seconds since the epoch, the local time, and a remark about the clock."""

    at: float
    local: str
    note: str | None


class SchedulePreview(msgspec.Struct, kw_only=True):
    """The next due times of a cron expression, and what it means."""

    description: str
    fires: list[FireTime]
    warnings: list[str]


class SchedulePreviewBody(msgspec.Struct, kw_only=True):
    """A cron expression to be tried."""

    cron_expr: str
    timezone: str = "UTC"
    dst: str = "skip"
    jitter_secs: float = 0
    count: int = 10
