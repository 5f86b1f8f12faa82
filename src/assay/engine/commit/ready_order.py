"""The order in which work that became ready in one batch goes out."""

from collections.abc import Sequence

from assay.core.model.payload import NULL
from assay.core.model.priority import activity_order, task_order
from assay.core.model.run import Activity
from assay.storage.ports import StoredRun


def first_activities(waiting: Sequence[tuple[StoredRun, Activity]]) -> Sequence[tuple[StoredRun, Activity]]:
    """Return the activities of a batch in the order in which they go out; most batches have no priorities."""
    if len(waiting) < 2 or not any(
        run.start.priority is not NULL or activity.options.priority is not NULL for run, activity in waiting
    ):
        return waiting
    return sorted(waiting, key=lambda pair: activity_order(*pair))


def first_tasks(touched: Sequence[StoredRun]) -> Sequence[StoredRun]:
    """Return the runs of a batch in the order in which their tasks go out; most batches have no priorities."""
    if len(touched) < 2 or not any(run.start.priority is not NULL for run in touched):
        return touched
    return sorted(touched, key=lambda run: task_order(run) or 0)
