"""Runs of a type that no connected worker serves: shown as stuck, although none of their tasks failed."""

from typing import Final

from msgspec.structs import replace

from assay.core.model.ids import SECOND, Namespace, Time
from assay.core.model.run import NO_HANDLER, Stuck
from assay.engine.dispatch import Dispatcher
from assay.storage.ports import RunFilter, RunRecord, ServedQueue

UNSERVED_AGE: Final[Time] = 5 * SECOND
"""Age of a due task on a shared store after which it counts as unserved: another engine may have a worker for it."""


def explained(record: RunRecord, dispatcher: Dispatcher, now: Time, *, shared: bool) -> RunRecord:
    """Return the record; with a reason if its task is due and the workers of its queue serve other types only."""
    run = record.run
    task, kind, queue = run.task, run.start.workflow_type, run.start.task_queue
    if run.closed or not task.ready or (shared and now - (task.since or now) < UNSERVED_AGE):
        return record
    served = dispatcher.served(run.namespace, queue)
    if served is None or kind in served:
        return record
    known = ", ".join(sorted(served)) or "none"
    message = f"no worker of queue {queue} has a handler for workflow type {kind} (registered: {known})"
    stuck = Stuck(NO_HANDLER, message, task.failures)
    return replace(record, run=replace(run, task=replace(task, stuck=stuck)))


def with_served(wanted: RunFilter, dispatcher: Dispatcher, now: Time, *, shared: bool) -> RunFilter:
    """Return a filter that finds as stuck exactly the runs that `explained` shows as stuck."""
    if wanted.stuck is None:
        return wanted
    served = dispatcher.served_queues(Namespace(wanted.namespace))
    queues = tuple(ServedQueue(queue, tuple(sorted(types))) for queue, types in sorted(served.items()))
    return replace(wanted, served=queues, served_before=now - UNSERVED_AGE if shared else None)
