"""Conditions of lists of runs that are rarely used together; the usual ones are in `queries`."""

from collections.abc import Callable, Iterator

from assay.core.model.run import OPEN_STATUSES
from assay.storage.run_filter import RunFilter

Place = Callable[[object], str]
"""Adds an argument to a query and returns its placeholder."""

_OF_SCHEDULE = """r.run_id IN (
    SELECT f.run_id FROM schedule_fires f WHERE f.namespace = $1 AND f.schedule = {} AND f.run_id IS NOT NULL)"""
_OF_WORKER = """r.closed_at IS NULL AND (r.task_worker = {0} OR EXISTS (
    SELECT 1 FROM activities held WHERE held.run_id = r.run_id AND held.completed_at IS NULL AND held.worker = {0}))"""


def further_conditions(wanted: RunFilter, place: Place) -> Iterator[str]:
    """Yield the conditions of a filter; `$1` is its namespace."""
    if wanted.statuses:
        yield f"r.status IN ({', '.join(place(status) for status in wanted.statuses)})"
        if set(wanted.statuses) <= set(OPEN_STATUSES):
            yield "r.closed_at IS NULL"
    if wanted.run_ids:
        yield f"r.run_id IN ({', '.join(place(run_id) for run_id in wanted.run_ids)})"
    if wanted.roots:
        yield "r.parent_workflow_id IS NULL"
    if wanted.close_reason is not None:
        yield f"r.close_reason = {place(wanted.close_reason)}"
    if wanted.closed_after is not None:
        yield f"r.closed_at > {place(wanted.closed_after)}"
    if wanted.closed_before is not None:
        yield f"r.closed_at < {place(wanted.closed_before)}"
    if wanted.schedule is not None:
        yield _OF_SCHEDULE.format(place(wanted.schedule))
    if wanted.worker is not None:
        yield _OF_WORKER.format(place(wanted.worker))
    if wanted.error:
        yield f"$contains(r.error, {place(folded(wanted.error)).removeprefix('$')})"


def folded(text: str) -> str:
    """Return the text with ASCII letters in lower case: both databases fold only ASCII."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
