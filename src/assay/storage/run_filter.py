"""The filter of a list of runs."""

import msgspec

from assay.core.model.ids import Time


class ServedQueue(msgspec.Struct, frozen=True):
    """A task queue whose workers serve only these workflow types."""

    queue: str
    workflow_types: tuple[str, ...]


class QueueService(msgspec.Struct, frozen=True):
    """A task queue with workers: the workflow types and activities that they serve, None for all."""

    queue: str
    workflow_types: tuple[str, ...] | None
    activities: tuple[str, ...] | None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a list, newest first. `cursor` is (created_at, run_id) of the last run of the previous page."""

    namespace: str
    status: str | None = None
    open: bool | None = None
    """True for open runs, False for closed runs."""
    stuck: bool | None = None
    """True for runs that wait for a fix: the workflow task failed, or no worker in `served` has its workflow type."""
    served: tuple[ServedQueue, ...] = ()
    """Queues on which waiting tasks of other types are stuck. Passed in, because only the engine has the workers."""
    served_before: Time | None = None
    """Tasks that began to wait after this time are not stuck yet for lack of a worker."""
    workflow_type: str | None = None
    task_queue: str | None = None
    workflow_id: str | None = None
    parent_id: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    search: tuple[tuple[str, object], ...] = ()
    """(key, JSON value) pairs that a run must have, typed: 5 equals 5.0 but not "5". An attribute with a list has each
    element as a value, a list in the filter requires every element, and null and objects match no run."""
    change_version: str | None = None
    """A change id, or a change id and a version: `payment` or `payment:2`."""
    text: str | None = None
    parent_run_id: str | None = None
    """Only children of this run."""
    statuses: tuple[str, ...] = ()
    """Several statuses; a run must have one of them."""
    run_ids: tuple[str, ...] = ()
    namespaces: tuple[str, ...] | None = None
    """Runs of these namespaces instead of `namespace`; only together with `workflow_id` or `run_ids`."""
    roots: bool = False
    """Only runs without a parent."""
    close_reason: str | None = None
    schedule: str | None = None
    """Only runs that this schedule started."""
    worker: str | None = None
    """Only open runs of which this worker holds the task or an activity."""
    error: str | None = None
    """A text in the error, in upper or lower case."""
    closed_after: Time | None = None
    closed_before: Time | None = None
    attention: tuple[str, ...] = ()
    """Only open runs that need an `operator`, or a `person`, by their own waits."""
    waiting: tuple[str, ...] = ()
    """Only open runs with a wait of one of these kinds."""
    served_queues: tuple[QueueService, ...] = ()
    """The queues with workers, for `attention` and `waiting`: ready work of others needs an operator."""
    failure: str | None = None
    """Only runs of the failure group with this fingerprint."""
    documents: bool = True
    """False if inputs, results and memos are not needed: they are not read, and do not end a page."""
    count_limit: int | None = None
    """Count no further than this."""
    oldest_first: bool = False
    cursor: tuple[Time, str] | None = None
    offset: int = 0
    limit: int = 50
    """The maximum number of runs. A page also ends with the run whose documents exceed `RUNS_PAGE_BYTES`."""
