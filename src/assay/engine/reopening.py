"""What a retry needs beside its run: the history that is copied, and how the run's children have ended (R20)."""

from collections.abc import Sequence

from msgspec.structs import replace

from assay.core.events import Event, Recorded
from assay.core.ids import RunId, WorkflowId
from assay.core.requests import RetryFailed
from assay.core.rules.retry import last_failure, open_children
from assay.core.run import FAILED, Run
from assay.storage.store import Store


async def with_history(request: RetryFailed, run: Run, store: Store) -> tuple[RetryFailed, Sequence[Run]]:
    """The request with all that it needs, and the newest runs of its children, as the store has them."""
    if run.status != FAILED:
        return request, ()
    history = await _history(run.run_id, store)
    cut = last_failure(history)
    names = () if cut is None else tuple((run.namespace, name) for name in open_children(history[:cut]))
    children = await store.load((), names) if names else ()
    endings: list[tuple[WorkflowId, Event]] = []
    for child in children:
        if child.closed:
            page = await store.events(child.run_id, child.last_seq - 1, limit=1)
            endings += [(child.workflow_id, recorded.event) for recorded in page]
    return replace(request, history=history, endings=tuple(endings)), children


async def _history(run_id: RunId, store: Store) -> tuple[Recorded, ...]:
    found: list[Recorded] = []
    while page := await store.events(run_id, found[-1].seq if found else 0):
        found.extend(page)
    return tuple(found)
