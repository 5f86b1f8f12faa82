"""The filter of a list of runs."""

import msgspec

from assay.core.model.ids import Time


class ServedQueue(msgspec.Struct, frozen=True):
    """A task queue whose workers serve these workflow types and no others."""

    queue: str
    workflow_types: tuple[str, ...]


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a list shows; newest first. `cursor` is (created_at, run_id) of the last one already seen."""

    namespace: str
    status: str | None = None
    open: bool | None = None
    """True for runs that are open, False for closed ones."""
    stuck: bool | None = None
    """True for runs that wait for a fix: whose workflow task failed, or waits for a handler that `served` lacks."""
    served: tuple[ServedQueue, ...] = ()
    """Queues on which a waiting task of another type is stuck, since only the engine's list of workers shows it."""
    served_before: Time | None = None
    """Only tasks that have waited since before this time are stuck for lack of a handler."""
    workflow_type: str | None = None
    task_queue: str | None = None
    workflow_id: str | None = None
    parent_id: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    search: tuple[tuple[str, object], ...] = ()
    """(key, JSON value) pairs that must all be there, typed: 5 is 5.0 but not "5". An attribute that is a list has each
    of its elements; a wanted list wants them all; null and objects are never there."""
    text: str | None = None
    parent_run_id: str | None = None
    """Children that this run has started."""
    oldest_first: bool = False
    cursor: tuple[Time, str] | None = None
    offset: int = 0
    limit: int = 50
    """How many runs at most. A page also ends with the run that takes its documents past `RUNS_PAGE_BYTES`."""
