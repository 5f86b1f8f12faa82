"""Runs that wait for a worker that nobody is: shown as stuck, though no task of theirs ever failed (R21)."""

from typing import Final

from msgspec.structs import replace

from assay.core.ids import SECOND, Time
from assay.core.run import NO_HANDLER, Stuck
from assay.engine.dispatcher import Dispatcher
from assay.storage.ports import RunRecord

UNSERVED_AGE: Final[Time] = 5 * SECOND
"""How long a task must have been due where other engines may have a worker for it."""


def explained(record: RunRecord, dispatcher: Dispatcher, now: Time, *, shared: bool) -> RunRecord:
    """The record; if its task is due and the workers of its queue serve other types only, with that as the reason."""
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
