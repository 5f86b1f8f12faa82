"""What an open run waits for, as data and as sentences. Computed on each read: no event records it."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from assay.core.model import waits as reported
from assay.core.model.explanation import (
    KINDS,
    NONE,
    OPERATOR,
    PERSON,
    WATCH,
    ActivityCounts,
    ChildFact,
    Explanation,
    Facts,
    QueueFacts,
    Wait,
    worst,
)
from assay.core.model.ids import SECOND, Time
from assay.core.model.run import NO_HANDLER, NON_DETERMINISM, TASK_FAILED, Activity, Run, Stuck
from assay.core.model.spans import ago, ahead, clock_time, span
from assay.core.model.waits import AwaitedSignal, ReportedWait

MOST_WAITS: Final = 20
"""Waits in an explanation; `more` counts the others."""
MOST_OF_A_KIND: Final = 5
"""Open activities, and open children, that are explained one by one."""
SHOWN_TYPES: Final = 10
SHOWN_TEXT_CHARACTERS: Final = 200
"""Characters shown of a text of users."""
QUEUED_LONG: Final[Time] = 30 * SECOND
RUNNING_LONG: Final[Time] = 10 * SECOND
_HEALED_BY_CODE: Final = {"deadlock": "Deadlocked", "unsupported_version": "Blocked", NON_DETERMINISM: "Blocked"}
_UNSERVED: Final = ("no_worker", "no_handler", "activity_retry")
_RANK: Final = {kind: rank for rank, kind in enumerate(KINDS)}


def waiting_on(run: Run, facts: Facts, now: Time) -> Explanation | None:
    """Return everything that an open run waits for, the most telling wait first; None for a closed run.

    Args:
        run: the folded run, with its open activities and timers.
        facts: workers, queues and children, as far as the engine has them.
        now: engine time.
    """
    if run.closed:
        return None
    found = [
        *_task(run, facts, now),
        *_cancelling(run, now),
        *_activities(run, facts, now),
        *(_signal(run, wait, now) for wait in run.waits.signals),
        *_reported(run.waits.reported, now),
        *_children(facts, now),
        *_timers(run, now),
    ]
    if not found:
        found.append(_nothing(run, now))
    found.sort(key=lambda wait: _RANK[wait.kind])
    attention = worst([wait.attention for wait in found])
    return Explanation(found[:MOST_WAITS], max(len(found) - MOST_WAITS, 0), attention, now)


def shown(text: str | None) -> str:
    """Return the first line of a user's text, cut to its shown length."""
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
    return line if len(line) <= SHOWN_TEXT_CHARACTERS else line[: SHOWN_TEXT_CHARACTERS - 1] + "…"


def _task(run: Run, facts: Facts, now: Time) -> Iterator[Wait]:
    task = run.task
    if task.stuck is not None:
        yield _stuck(run, task.stuck, facts, now)
    elif task.worker is not None:
        yield _executed(run, task.worker, facts, now)
    elif task.since is not None and task.not_before is not None:
        yield _delayed(run, task.since, task.not_before, now)
    elif task.since is not None:
        queue, name = run.start.task_queue, run.start.workflow_type
        known = facts.queue(queue)
        if known.workers == 0:
            yield _no_worker("workflow", name, queue, known, task.since, now)
        else:
            sentence = f"Ready to go on; waits {span(now - task.since)} for a worker of queue '{queue}'"
            sentence += f" ({known.queued_tasks} queued, {known.workers} workers)."
            fields = {"queue": queue, "workers": known.workers, "queued": known.queued_tasks}
            attention = WATCH if now - task.since > QUEUED_LONG else NONE
            yield Wait("task_queued", sentence, attention, task.since, fields=fields)


def _stuck(run: Run, stuck: Stuck, facts: Facts, now: Time) -> Wait:
    since, until = stuck.since or run.task.since or run.updated_at, stuck.next_try_at
    if stuck.reason == NO_HANDLER:
        subject = ("workflow", run.start.workflow_type, run.start.task_queue)
        return _no_handler(subject, facts.queue(run.start.task_queue).workflows, since, until)
    message = shown(stuck.message).rstrip(".")
    fields: dict[str, Any] = {"message": message, "attempt": stuck.attempt}
    if stuck.reason in _HEALED_BY_CODE:
        if stuck.reason == NON_DETERMINISM:
            fields |= {"seq": None, "expected": None, "actual": None, "source": None}
        sentence = f"{_HEALED_BY_CODE[stuck.reason]}: {message}."
        return Wait(stuck.reason, sentence, OPERATOR, since, until, fields=fields)
    again = "" if until is None else f", next try {ahead(until, now)}"
    sentence = f"Its code could not be run: {message}. Tried {stuck.attempt} times{again}."
    return Wait(TASK_FAILED, sentence, OPERATOR, since, until, fields=fields)


def _executed(run: Run, worker: str, facts: Facts, now: Time) -> Wait:
    """Return the wait for the worker that holds the task: an inline step if the worker names it, else its code."""
    since = run.task.leased_at or run.last_time
    identity, step = facts.identity(worker), facts.step
    holder = {"worker": worker, "identity": identity}
    if step is None:
        attention = WATCH if now - since > RUNNING_LONG else NONE
        sentence = f"Worker '{identity}' runs its code {span(now - since)}."
        return Wait("task_running", sentence, attention, since, fields=holder)
    since = step.since or since
    limit = step.max_attempts or None
    fields = {"step": step.step, "attempt": step.attempt, "max_attempts": limit}
    if step.next_try_at is None:
        sentence = f"Step '{step.step}' runs on worker '{identity}' {span(now - since)}"
        sentence += f", attempt {_counted(step.attempt, limit)}." if step.attempt > 1 or limit else "."
        return Wait("step_running", sentence, NONE, since, fields=fields | holder)
    error = shown(step.error)
    sentence = f"Step '{step.step}' {_failed(step.attempt, limit, step.next_try_at, error, now)}"
    return Wait("step_retry", sentence, WATCH, since, step.next_try_at, fields=fields | {"error": error})


def _delayed(run: Run, since: Time, until: Time, now: Time) -> Wait:
    start, reason = run.start, "start"
    error = None if start.last_failure is None else shown(start.last_failure.message)
    sentence = f"Starts {ahead(until, now)} ({clock_time(until, now)})."
    if start.initiator == "retry":
        reason = "retry"
        sentence = f"Attempt {start.attempt} starts {ahead(until, now)}; the last one failed: {error}"
    elif start.cron_schedule is not None:
        reason = "cron"
        sentence = f"Its next cron run starts {ahead(until, now)} ({clock_time(until, now)})."
    fields = {"reason": reason, "attempt": start.attempt, "error": error, "cron": start.cron_schedule}
    return Wait("start_delay", sentence, NONE, since, until, fields=fields)


def _cancelling(run: Run, now: Time) -> Iterator[Wait]:
    cancel = run.waits.cancel
    if cancel is None:
        return
    until = run.cancel_deadline
    end = "" if until is None else f"; it is terminated {ahead(until, now)}"
    sentence = f"Was asked to cancel {ago(cancel.since, now)}; its code has not ended yet{end}."
    fields = {"reason": cancel.reason, "by": cancel.by}
    yield Wait("cancelling", sentence, WATCH, cancel.since, until, fields=fields)


def _activities(run: Run, facts: Facts, now: Time) -> Iterator[Wait]:
    each = [_activity(activity, facts, now) for activity in run.activities.values()]
    if len(each) <= MOST_OF_A_KIND:
        yield from each
        return
    helpless = [wait for wait in each if wait.kind in _UNSERVED]
    if helpless:
        yield min(helpless, key=lambda wait: _RANK[wait.kind])
    total = facts.activities or _counts(run.activities.values())
    queued = total.open - total.running - total.retrying
    sentence = f"{total.open} activities are open: {total.running} running, {queued} queued,"
    sentence += f" {total.retrying} between tries."
    fields = {"open": total.open, "running": total.running, "queued": queued, "retrying": total.retrying}
    since = min(activity.scheduled_at for activity in run.activities.values())
    yield Wait("activities", sentence, worst([wait.attention for wait in each]), since, fields=fields)


def _counts(activities: Collection[Activity]) -> ActivityCounts:
    running = sum(activity.running for activity in activities)
    retrying = sum(not activity.running and activity.not_before is not None for activity in activities)
    return ActivityCounts(len(activities), running, retrying)


def _activity(activity: Activity, facts: Facts, now: Time) -> Wait:
    if activity.worker is not None:
        return _running_activity(activity, activity.worker, facts, now)
    known = facts.queue(activity.queue)
    since = activity.queued_at or activity.scheduled_at
    if known.workers == 0:
        return _no_worker("activity", activity.name, activity.queue, known, since, now, activity.seq)
    if activity.not_before is not None:
        error = shown(None if activity.last_failure is None else activity.last_failure.message)
        fields = _of_activity(activity) | {"queue": activity.queue, "error": error}
        tries = _failed(activity.attempt, fields["max_attempts"], activity.not_before, error, now)
        sentence = f"Activity '{activity.name}' {tries}"
        return Wait("activity_retry", sentence, WATCH, since, activity.not_before, activity.seq, fields)
    if known.activities is not None and activity.name not in known.activities:
        subject = ("activity", activity.name, activity.queue)
        return _no_handler(subject, known.activities, since, None, activity.seq)
    fields = {
        "activity": activity.name,
        "activity_id": activity.id,
        "queue": activity.queue,
        "attempt": activity.attempt + 1,
        "workers": known.workers,
        "queued": known.queued_activities,
    }
    sentence = f"Activity '{activity.name}' waits {span(now - since)} in queue '{activity.queue}'"
    sentence += f" ({known.queued_activities} queued, {known.workers} workers)."
    attention = WATCH if now - since > QUEUED_LONG else NONE
    return Wait("activity_queued", sentence, attention, since, None, activity.seq, fields)


def _running_activity(activity: Activity, worker: str, facts: Facts, now: Time) -> Wait:
    identity, began = facts.identity(worker), activity.started_at or activity.scheduled_at
    if activity.cancel_requested_at is not None:
        since = max(activity.cancel_requested_at, began)
        stopping = {"activity": activity.name, "activity_id": activity.id, "identity": identity}
        sentence = f"Activity '{activity.name}' was asked to stop {ago(since, now)};"
        sentence += f" worker '{identity}' has not answered."
        return Wait("activity_cancelling", sentence, WATCH, since, None, activity.seq, stopping)
    fields = _of_activity(activity) | {"worker": worker, "identity": identity, "heartbeat_at": activity.heartbeat_at}
    tries = _counted(activity.attempt, fields["max_attempts"])
    beat = "" if activity.heartbeat_at is None else f"; heartbeat {ago(activity.heartbeat_at, now)}"
    sentence = f"Activity '{activity.name}' runs on worker '{identity}' {span(now - began)}, attempt {tries}{beat}."
    return Wait("activity_running", sentence, NONE, began, None, activity.seq, fields)


def _of_activity(activity: Activity) -> dict[str, Any]:
    return {
        "activity": activity.name,
        "activity_id": activity.id,
        "attempt": activity.attempt,
        "max_attempts": activity.options.retry.max_attempts or None,
    }


def _counted(attempt: int, limit: int | None) -> str:
    return f"{attempt} of {limit}" if limit else f"{attempt}"


def _failed(attempt: int, limit: int | None, until: Time, error: str, now: Time) -> str:
    last = f" Last error: {error}" if error else ""
    return f"failed {_counted(attempt, limit)} times; next try {ahead(until, now)}.{last}"


def _no_worker(
    subject: str, name: str, queue: str, known: QueueFacts, since: Time, now: Time, seq: int | None = None
) -> Wait:
    last = ""
    if known.last_identity is not None and known.last_seen is not None:
        last = f"; the last one, '{known.last_identity}', was heard {ago(known.last_seen, now)}"
    fields = {
        "subject": subject,
        "name": name,
        "queue": queue,
        "last_identity": known.last_identity,
        "last_seen": known.last_seen,
    }
    return Wait("no_worker", f"No worker serves queue '{queue}'{last}.", OPERATOR, since, None, seq, fields)


def _no_handler(
    of: tuple[str, str, str], served: frozenset[str] | None, since: Time, until: Time | None, seq: int | None = None
) -> Wait:
    subject, name, queue = of
    names = sorted(served or ())
    listed, more = names[:SHOWN_TYPES], max(len(names) - SHOWN_TYPES, 0)
    words = (", ".join(listed) or "none") + (f" and {more} more" if more else "")
    sentence = f"No worker of queue '{queue}' has a handler for {subject} '{name}' (they serve {words})."
    fields = {"subject": subject, "name": name, "queue": queue, "served": listed, "served_more": more}
    return Wait("no_handler", sentence, OPERATOR, since, until, seq, fields)


def _signal(run: Run, wait: AwaitedSignal, now: Time) -> Wait:
    until = None if wait.timer_seq is None else run.timers.get(wait.timer_seq)
    end = "" if until is None else f"; gives up {ahead(until, now)}"
    sentence = f"Waits {span(now - wait.since)} for signal '{wait.name}'{end}."
    return Wait("signal", sentence, PERSON, wait.since, until, wait.seq or None, {"signal": wait.name})


def _reported(waits: Sequence[ReportedWait], now: Time) -> Iterator[Wait]:
    for wait in waits:
        begun = f"Waits {span(now - wait.since)} for"
        if wait.kind == reported.MESSAGE:
            on = f" on {', '.join(wait.topics)}" if wait.topics else ""
            yield Wait("message", f"{begun} a message{on}.", PERSON, wait.since, fields={"topics": list(wait.topics)})
        elif wait.kind == reported.SEND:
            sentence = f"{begun} the delivery of a message to {wait.to}."
            yield Wait("send", sentence, NONE, wait.since, fields={"to": wait.to})
        elif wait.kind == reported.EVENTS:
            yield Wait("events", f"{begun} an event of another workflow.", NONE, wait.since)


def _children(facts: Facts, now: Time) -> Iterator[Wait]:
    if facts.open_children <= MOST_OF_A_KIND:
        yield from (_child(child, now) for child in facts.children)
        return
    helpless = next((child for child in facts.children if child.attention in (PERSON, OPERATOR)), None)
    if helpless is not None:
        yield _child(helpless, now)
    oldest = facts.children[0]
    sentence = f"{facts.open_children} of {facts.total_children} children are open;"
    sentence += f" the oldest, '{oldest.workflow_id}', {span(now - oldest.created_at)}."
    fields = {
        "open": facts.open_children,
        "total": facts.total_children,
        "child_workflow_id": oldest.workflow_id,
    }
    attention = worst([_attention_of(child) for child in facts.children])
    yield Wait("children", sentence, attention, oldest.created_at, fields=fields)


def _attention_of(child: ChildFact) -> str:
    return child.attention if child.attention in (PERSON, OPERATOR) else NONE


def _child(child: ChildFact, now: Time) -> Wait:
    summary = f": {child.summary}" if child.summary else ""
    fields = {
        "child_workflow_id": child.workflow_id,
        "child_run_id": child.run_id,
        "workflow_type": child.workflow_type,
        "status": child.status,
        "child_summary": child.summary,
    }
    sentence = f"Child '{child.workflow_id}' is open {span(now - child.created_at)}{summary}"
    return Wait("child", sentence, _attention_of(child), child.created_at, None, child.seq, fields)


def _timers(run: Run, now: Time) -> Iterator[Wait]:
    bounding = {wait.timer_seq for wait in run.waits.signals}
    for seq, due in sorted(run.timers.items(), key=lambda timer: timer[1]):
        if seq not in bounding:
            sentence = f"Timer fires {ahead(due, now)} ({clock_time(due, now)})."
            yield Wait("timer", sentence, NONE, None, due, None, {"timer_seq": seq})


def _nothing(run: Run, now: Time) -> Wait:
    """Return the wait of a run with nothing open: idle if its code said so, else for a signal that it did not name."""
    if any(wait.kind == reported.NOTHING for wait in run.waits.reported):
        return Wait("idle", "Nothing is pending: only a signal or a cancel can wake it.", OPERATOR)
    sentence = f"Waits {span(now - run.last_time)} for a signal."
    return Wait("signal", sentence, PERSON, run.last_time, fields={"signal": None})
