"""What an engine holds in memory between two batches: bounded in bytes, whatever sizes callers choose."""

from collections.abc import Iterator, Sequence

import msgspec

from assay.core.model.events import Event
from assay.core.model.limits import TAIL_BYTES, TAIL_EVENTS
from assay.core.model.run import Run
from assay.core.model.sizes import activity_bytes, event_bytes, run_bytes


def memory_violations(runs: Sequence[Run], counted_bytes: int, limit_bytes: int) -> Iterator[str]:
    """Return what is wrong with the bytes of a cache.

    The bound is checked against payloads that are measured here. The cache's own count must be that of its runs: one
    that drifts would sooner or later keep too much, or nothing at all.
    """
    held = sum(map(_payload_bytes, runs))
    if held > limit_bytes:
        yield f"memory: {held:,} bytes of payloads are cached, {limit_bytes:,} may be"
    if counted_bytes != sum(map(run_bytes, runs)):
        yield f"memory: {counted_bytes:,} bytes are counted, the runs have {sum(map(run_bytes, runs)):,}"
    for run in runs:
        yield from _run_violations(run)


def _run_violations(run: Run) -> Iterator[str]:
    tail = run.tail or []
    if len(tail) > TAIL_EVENTS or sum(_event_bytes(recorded.event) for recorded in tail) > TAIL_BYTES:
        yield f"memory: the tail of {run.workflow_id} is kept beyond its bound"
    if run.tail_bytes != sum(event_bytes(recorded.event) for recorded in tail):
        yield f"memory: the size of the tail of {run.workflow_id} is counted wrong"
    if run.activity_bytes != sum(map(activity_bytes, run.activities.values())):
        yield f"memory: the size of the activities of {run.workflow_id} is counted wrong"


def _payload_bytes(run: Run) -> int:
    tail = sum(_event_bytes(recorded.event) for recorded in run.tail or ())
    activities = sum(len(activity.input) + len(activity.details) for activity in run.activities.values())
    return tail + activities + len(run.input) + len(run.memo) + len(run.search)


def _event_bytes(event: Event) -> int:
    values = (getattr(event, name) for name in event.__struct_fields__)
    return sum(len(value) for value in values if isinstance(value, msgspec.Raw))
