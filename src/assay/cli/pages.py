"""Pages about a run or a schedule for a terminal; other outputs get the JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assay.cli.render import Printer, Record, compact, line_of
from assay.cli.tables import duration_of, first_line, shown_status
from assay.cli.times import duration_text, now, relative, timestamp

LABEL_WIDTH_CHARACTERS: Final = 19
MAX_DOCUMENT_CHARACTERS: Final = 2_000
"""Characters shown of an input or a result; the JSON has the whole document."""
_RUN_DOCUMENTS: Final = ("input", "result", "search_attributes", "memo", "context", "retry_policy", "priority")
_SCHEDULE_DOCUMENTS: Final = ("input", "search_attributes", "memo")


def run_page(run: Record, printer: Printer) -> Iterator[str]:
    """Return the lines of a run's page: status, facts, documents, and the traceback of its failure."""
    status = str(shown_status(run))
    yield f"{printer.heading(line_of(str(run.get('id'))))}  {printer.styled(status)}"
    yield from _facts(_run_facts(run))
    yield from _documents(run, _RUN_DOCUMENTS)
    yield from _failure(run, printer)


def _run_facts(run: Record) -> Iterator[tuple[str, object]]:
    stuck, waiting = run.get("stuck"), run.get("waiting_on")
    if isinstance(stuck, Mapping):
        yield "status", run.get("status")
        yield "stuck", f"{stuck.get('reason')}: {stuck.get('message')}"
        yield "failed tasks", stuck.get("attempt") or None
        yield "next try", _moment(stuck.get("next_try_at"))
    yield from (("waiting", wait.get("sentence")) for wait in _waits(waiting))
    yield "cancel", "requested" if run.get("cancel_requested") and run.get("completed_at") is None else None
    yield "ended as", run.get("close_reason")
    yield "type", run.get("workflow_type")
    yield "queue", run.get("task_queue")
    yield "namespace", run.get("namespace")
    yield "run", run.get("run_id")
    yield "next run", run.get("next_run_id")
    yield "previous run", run.get("previous_run_id")
    yield "parent", run.get("parent_id")
    yield "schedule", run.get("schedule")
    yield "cron", run.get("cron_schedule")
    yield "started", _moment(run.get("created_at"))
    yield "begins", _moment(run.get("first_task_at"))
    yield "ended", _moment(run.get("completed_at"))
    yield "duration", duration_of(run)
    yield "held by", run.get("claimed_by")
    yield "attempt", run.get("attempt") if run.get("attempt") != 1 else None
    yield "time limit", _span(run.get("run_timeout"))
    yield "deadline", _moment(run.get("execution_deadline"))
    yield "summary", run.get("summary")
    yield "details", run.get("details")
    length = run.get("history_length")
    yield "history", f"{length} {'event' if length == 1 else 'events'}, {_bytes(run.get('history_bytes'))}"
    yield "engine", run.get("engine_version")
    if run.get("completed_at") is not None and run.get("status") != "COMPLETED":
        yield "retry", "possible" if run.get("retryable") else run.get("retry_refusal")


def schedule_page(schedule: Record, printer: Printer) -> Iterator[str]:
    """Return the lines of a schedule's page."""
    state = "paused" if schedule.get("paused") else "active"
    yield f"{printer.heading(line_of(str(schedule.get('name'))))}  {state}"
    yield from _facts(_schedule_facts(schedule))
    yield from _documents(schedule, _SCHEDULE_DOCUMENTS)


def _schedule_facts(schedule: Record) -> Iterator[tuple[str, object]]:
    yield from (("waiting", wait.get("sentence")) for wait in _waits(schedule.get("waiting_on")))
    yield "pause", schedule.get("pause_reason")
    yield "paused by", schedule.get("paused_by")
    yield "paused at", _moment(schedule.get("paused_at"))
    yield "type", schedule.get("workflow_type")
    yield "queue", schedule.get("task_queue")
    yield "cron", f"{schedule.get('cron_expr')}  ({schedule.get('timezone')})"
    yield "next", _moment(schedule.get("next_run_at"))
    yield "last", _moment(schedule.get("last_run_at"))
    yield "last workflow", schedule.get("last_workflow_id")
    yield "waiting fires", len(schedule.get("waiting") or ()) or None
    yield "overlap", schedule.get("overlap_policy")
    yield "missed", f"{schedule.get('missed')}, up to {_span(schedule.get('window_secs'))} late"
    yield "jitter", _span(schedule.get("jitter_secs")) if schedule.get("jitter_secs") else None
    yield "dst", schedule.get("dst")
    yield "until", _moment(schedule.get("end_at"))
    yield "remaining", schedule.get("remaining")
    yield "created", _moment(schedule.get("created_at"))


def _facts(facts: Iterator[tuple[str, object]]) -> Iterator[str]:
    for label, value in facts:
        if value is not None and value != "":
            text = value if isinstance(value, str) else compact(value)
            yield f"  {label:<{LABEL_WIDTH_CHARACTERS}}{line_of(text)}"


def _documents(record: Record, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        text = compact(value)
        cut = (
            text
            if len(text) <= MAX_DOCUMENT_CHARACTERS
            else f"{text[:MAX_DOCUMENT_CHARACTERS]}… ({len(text):,} characters; --output json)"
        )
        yield f"  {name.replace('_', ' '):<{LABEL_WIDTH_CHARACTERS}}{line_of(cut)}"


def _failure(run: Record, printer: Printer) -> Iterator[str]:
    """Return the lines of the error, and the frames of the user's code for the failure and its causes."""
    failure: Any = run.get("failure")
    if run.get("error") is None and failure is None:
        return
    yield ""
    for number, line in enumerate(str(run.get("error") or "").splitlines()):
        yield printer.styled(f"  error: {line_of(line)}" if number == 0 else f"  {line_of(line)}", "FAILED")
    while isinstance(failure, Mapping):
        words = [str(failure[name]) for name in ("kind", "type") if failure.get(name)]
        yield f"  {line_of(' '.join(words))}: {line_of(first_line(str(failure.get('message'))))}"
        yield from (f"    {line_of(line)}" for line in str(failure.get("stack") or "").splitlines())
        failure = failure.get("cause")
        if failure is not None:
            yield "  caused by"


def _waits(waiting: object) -> Sequence[Mapping[str, Any]]:
    found = waiting.get("waits") if isinstance(waiting, Mapping) else None
    return found if isinstance(found, list) else []


def _moment(seconds: object) -> str | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return f"{relative(seconds, now())}  ({timestamp(seconds)})"


def _span(seconds: object) -> str | None:
    return duration_text(seconds) if isinstance(seconds, int | float) else None


def _bytes(count: object) -> str:
    if not isinstance(count, int):
        return "-"
    return f"{count} bytes" if count < 1_024 else f"{count / 1_024:,.1f} KiB"
