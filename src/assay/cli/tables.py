"""Columns of tables of runs and events, and the texts of their cells."""

from collections.abc import Mapping
from typing import Any, Final

from assay.cli.render import ELLIPSIS, Column, Record, compact
from assay.cli.times import duration_text, now

MAX_DETAIL_CHARACTERS: Final = 120
"""Characters shown of a document in the column DETAIL; the JSON has the whole document."""
MAX_ERROR_CHARACTERS: Final = 48


def duration_of(run: Record) -> str | None:
    """Return the duration of a run, up to now if it is open."""
    began, ended = run.get("created_at"), run.get("completed_at")
    if not isinstance(began, int | float):
        return None
    return duration_text((ended if isinstance(ended, int | float) else now()) - began)


def error_of(run: Record) -> str | None:
    """Return the first line of a run's failure, or the reason why the run is stuck."""
    stuck, error = run.get("stuck"), run.get("error")
    if isinstance(stuck, Mapping):
        return f"stuck: {stuck.get('reason')}"
    return first_line(error) if isinstance(error, str) and error else None


def short_error_of(run: Record) -> str | None:
    """Return the error of a run for a terminal: cut, because another column follows."""
    error = error_of(run)
    return (
        error if error is None or len(error) <= MAX_ERROR_CHARACTERS else error[: MAX_ERROR_CHARACTERS - 1] + ELLIPSIS
    )


def waiting_of(run: Record) -> str | None:
    """Return the sentence about the most telling thing that a run or a schedule waits for."""
    waiting = run.get("waiting_on")
    return waiting.get("summary") if isinstance(waiting, Mapping) else None


def shown_status(run: Record) -> str | None:
    """Return a run's status for a terminal; STUCK for a run that waits for a fix."""
    return "STUCK" if run.get("stuck") else run.get("status")


def first_line(text: str) -> str:
    """Return the first non-blank line of a text."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


_STATUS: Final = Column("STATUS", "status", on_terminal=shown_status)
_OURS: Final = (
    Column("STARTED", "created_at", is_time=True),
    Column("DURATION", "", value=duration_of),
    Column("ERROR", "", value=error_of, on_terminal=short_error_of),
    Column("WAITING", "", value=waiting_of),
)
RUNS: Final = (
    Column("ID", "id"),
    Column("TYPE", "workflow_type"),
    _STATUS,
    Column("QUEUE", "task_queue"),
    *_OURS,
)
CHILDREN: Final = (*RUNS[:3], *_OURS)
CHAIN: Final = (
    Column("RUN ID", "run_id"),
    Column("STATUS", "status", on_terminal=shown_status),
    Column("REASON", "close_reason"),
    Column("CREATED", "created_at", is_time=True),
    Column("COMPLETED", "completed_at", is_time=True),
)


class EventNames:
    """Names for the events of a history. Some events contain only the seq of an activity; an earlier event names it."""

    def __init__(self) -> None:
        self._activities: dict[object, str] = {}

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of a table of events."""
        return (
            Column("SEQ", "seq"),
            Column("TYPE", "event_type"),
            Column("TIMESTAMP", "timestamp", is_time=True),
            Column("NAME", "", value=self.name_of),
            Column("DETAIL", "", value=detail_of),
        )

    def name_of(self, event: Record) -> str | None:
        """Return the name of the activity, step, signal, child or timer of an event."""
        payload = _payload(event)
        kind = str(event.get("event_type"))
        if kind == "WorkflowStarted":
            return _text(event.get("workflow_type"))
        if kind == "ActivityScheduled":
            self._activities[payload.get("activity_seq")] = str(payload.get("name"))
        if kind == "ActivityCancelRequested":
            return self._activities.get(payload.get("activity_seq"), f"activity {payload.get('activity_seq')}")
        if kind.startswith("Timer"):
            return f"timer {payload.get('timer_seq')}"
        for field in ("name", "signal", "child_workflow_id", "change_id"):
            if kind not in _BARE and isinstance(payload.get(field), str):
                return _text(payload[field])
        return None


def detail_of(event: Record) -> str | None:
    """Return the detail of an event: an error, a result, a duration or a reason."""
    kind, payload = str(event.get("event_type")), _payload(event)
    if kind in ("WorkflowStarted", "WorkflowCompleted"):
        return _document(event.get("payload"))
    if kind == "WorkflowCancelled":
        return _text(event.get("reason"))
    if isinstance(payload.get("error"), str):
        return _failed(payload)
    if "duration_secs" in payload:
        return duration_text(float(payload["duration_secs"]))
    for field in ("result", "value", "payload", "input", "search", "reason", "next_run_id", "version"):
        if payload.get(field) is not None:
            return _document(payload[field])
    return None


def _failed(payload: Mapping[str, Any]) -> str:
    attempts = payload.get("final_attempt")
    retried = f"attempt {attempts}: " if isinstance(attempts, int) and attempts > 1 else ""
    return retried + first_line(payload["error"])


_BARE: Final = frozenset({"WorkflowStarted", "WorkflowCompleted"})
"""Events whose payload is a user's document."""


def _payload(event: Record) -> Mapping[str, Any]:
    payload = event.get("payload")
    return payload if isinstance(payload, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _document(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else compact(value)
    return text if len(text) <= MAX_DETAIL_CHARACTERS else text[: MAX_DETAIL_CHARACTERS - 1] + ELLIPSIS
