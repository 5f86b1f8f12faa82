"""Conditions of lists of runs that are rarely used together; the usual ones are in `queries`."""

# ruff: noqa: S608  # only constants and placeholders are joined; values are parameters

from collections.abc import Callable, Iterator

from assay.core.model.run import OPEN_STATUSES
from assay.storage.run_filter import RunFilter

Place = Callable[[object], str]
"""Adds an argument to a query and returns its placeholder."""

_OF_SCHEDULE = """r.run_id IN (
    SELECT f.run_id FROM schedule_fires f WHERE f.namespace = $1 AND f.schedule = {} AND f.run_id IS NOT NULL)"""
_OF_FAILURE = """r.run_id IN (
    SELECT f.run_id FROM failed_runs f WHERE f.namespace = $1 AND f.fingerprint = {})"""
_OF_WORKER = """r.closed_at IS NULL AND (r.task_worker = {0} OR EXISTS (
    SELECT 1 FROM activities held WHERE held.run_id = r.run_id AND held.completed_at IS NULL AND held.worker = {0}))"""


def checked_status(status: str) -> str:
    """Return a status that may stand in the text of a query; raise `ValueError` for any other text."""
    if not (status.isascii() and status.replace("_", "").isalpha()):
        raise ValueError(status)
    return status


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
    if wanted.failure is not None:
        yield _OF_FAILURE.format(place(wanted.failure))
    if wanted.worker is not None:
        yield _OF_WORKER.format(place(wanted.worker))
    if wanted.attention or wanted.waiting:
        yield "r.closed_at IS NULL"
    if wanted.attention:
        yield f"({' OR '.join(_attention(level, wanted, place) for level in wanted.attention)})"
    if wanted.waiting:
        yield f"({' OR '.join(_waiting(kind, wanted, place) for kind in wanted.waiting)})"
    if wanted.error:
        yield f"$contains(r.error, {place(folded(wanted.error)).removeprefix('$')})"


def _waiting(kind: str, wanted: RunFilter, place: Place) -> str:
    """Return the condition of open runs with a wait of a kind, by columns alone."""
    if kind in ("no_worker", "no_handler"):
        unserved = _unserved(wanted, place, queues=kind == "no_worker")
        return f"({unserved} OR {_stuck_for(kind)})" if kind == "no_handler" else unserved
    return _BY_COLUMNS.get(kind) or _stuck_for(kind)


def _stuck_for(reason: str) -> str:
    return f"""(r.stuck IS NOT NULL AND $mentions(r.stuck, '"reason":"{reason}"'))"""


def _unserved(wanted: RunFilter, place: Place, *, queues: bool) -> str:
    """Return the condition of runs whose ready work waits on a queue without workers, or without its type."""
    tasks, activities = [], []
    if queues:
        named = ", ".join(place(service.queue) for service in wanted.served_queues)
        outside = f"u.task_queue NOT IN ({named})" if named else "1 = 1"
        tasks, activities = [outside], [outside]
    else:
        for service in wanted.served_queues:
            for found, column, kinds in (
                (tasks, "u.workflow_type", service.workflow_types),
                (activities, "u.name", service.activities),
            ):
                if kinds is not None:
                    names = ", ".join(place(name) for name in kinds)
                    other = f" AND {column} NOT IN ({names})" if names else ""
                    found.append(f"(u.task_queue = {place(service.queue)}{other})")
    parts = []
    if tasks:
        parts.append(f"SELECT u.run_id FROM runs u WHERE {_READY_TASK} AND u.namespace = $1 AND ({' OR '.join(tasks)})")
    if activities:
        ready = f"{_READY_ACTIVITY} AND u.namespace = $1 AND ({' OR '.join(activities)})"
        parts.append(f"SELECT u.run_id FROM activities u WHERE {ready}")
    return f"r.run_id IN ({' UNION '.join(parts)})" if parts else "1 = 0"


def _attention(level: str, wanted: RunFilter, place: Place) -> str:
    operator = " OR ".join(
        ("r.stuck IS NOT NULL", _unserved(wanted, place, queues=True), _unserved(wanted, place, queues=False))
    )
    if level == "operator":
        return f"({operator})"
    return f"((r.awaiting IS NOT NULL OR {_BY_COLUMNS['message']}) AND NOT ({operator}))"


_READY_TASK = "u.task_since IS NOT NULL AND u.task_worker IS NULL AND u.task_not_before IS NULL"
_READY_ACTIVITY = "u.completed_at IS NULL AND u.worker IS NULL AND u.not_before IS NULL"


def _activity(state: str) -> str:
    open_activity = "SELECT 1 FROM activities w WHERE w.run_id = r.run_id AND w.completed_at IS NULL"
    return f"EXISTS ({open_activity} AND {state})"


_BY_COLUMNS = {
    "signal": "r.awaiting IS NOT NULL",
    "message": """(r.waits IS NOT NULL AND $mentions(r.waits, '"kind":"message"'))""",
    "send": """(r.waits IS NOT NULL AND $mentions(r.waits, '"kind":"send"'))""",
    "events": """(r.waits IS NOT NULL AND $mentions(r.waits, '"kind":"events"'))""",
    "idle": """(r.waits IS NOT NULL AND $mentions(r.waits, '"kind":"nothing"'))""",
    "cancelling": "r.cancel_seq > 0",
    "start_delay": "(r.task_not_before IS NOT NULL AND r.stuck IS NULL)",
    "task_queued": "(r.task_since IS NOT NULL AND r.task_worker IS NULL AND r.task_not_before IS NULL)",
    "task_running": "r.task_worker IS NOT NULL",
    "activity_retry": _activity("w.worker IS NULL AND w.not_before IS NOT NULL"),
    "activity_queued": _activity("w.worker IS NULL AND w.not_before IS NULL"),
    "activity_running": _activity("w.worker IS NOT NULL"),
    "activity_cancelling": _activity("w.worker IS NOT NULL AND w.cancel_requested > 0"),
    "activities": _activity("1 = 1"),
    "timer": "EXISTS (SELECT 1 FROM deadlines w WHERE w.run_id = r.run_id AND w.kind = 'timer')",
    "child": "EXISTS (SELECT 1 FROM runs w WHERE w.parent_run_id = r.run_id AND w.closed_at IS NULL)",
    "children": "EXISTS (SELECT 1 FROM runs w WHERE w.parent_run_id = r.run_id AND w.closed_at IS NULL)",
}


def folded(text: str) -> str:
    """Return the text with ASCII letters in lower case: both databases fold only ASCII."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
