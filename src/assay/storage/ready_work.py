"""Work that waits for a worker, and the demands by which engines look for it."""

import msgspec

from assay.core.model.ids import Namespace, RunId, Time


class ReadyTask(msgspec.Struct, frozen=True, gc=False):
    """A workflow task that waits for a worker."""

    run_id: RunId
    namespace: Namespace
    queue: str
    workflow_type: str
    order: Time
    """Its place: the time since when it is ready, later by its priority."""


class ReadyActivity(msgspec.Struct, frozen=True, gc=False):
    """An activity that waits for a worker."""

    run_id: RunId
    namespace: Namespace
    queue: str
    name: str
    seq: int
    order: Time


class Demand(msgspec.Struct, frozen=True, gc=False):
    """Work that workers of an engine can take: a task queue, and a workflow type or activity name."""

    namespace: Namespace
    queue: str
    kind: str | None
    """None for work of all types."""
    limit: int
    after: tuple[str, Time, RunId, int] | None = None
    """Type, age, run and seq (0 for a task) of the last work of the previous page; only if no other engine competes."""
