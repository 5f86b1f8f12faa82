"""The folded state of one run: all that a decision about it needs, and nothing that is only for show."""

import msgspec

from assay.core.model.events import ActivityOptions, Recorded, StartData
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose

PENDING, RUNNING = "PENDING", "RUNNING"
COMPLETED, FAILED, CANCELLED, TIMED_OUT = "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"
OPEN_STATUSES = (PENDING, RUNNING)
CLOSED_STATUSES = (COMPLETED, FAILED, CANCELLED, TIMED_OUT)


NON_DETERMINISM, NO_HANDLER, TASK_FAILED = "non_determinism", "no_handler", "task_failed"
STUCK_REASONS = (NON_DETERMINISM, NO_HANDLER, TASK_FAILED)
"""Why a task may be stuck, as records and workers name it."""


class Stuck(msgspec.Struct, frozen=True, gc=False):
    """Why a run's task cannot be done at present (R21); a fact beside the history, not in it."""

    reason: str
    message: str
    attempt: int
    next_try_at: Time | None = None


class Task(msgspec.Struct, frozen=True, gc=False):
    """The run's one workflow task: due since, who holds it, how often it failed.

    `epoch` is raised by every grant and fences what the holder sends (I7, R7).
    """

    since: Time | None = None
    not_before: Time | None = None
    epoch: int = 0
    worker: WorkerId | None = None
    until: Time | None = None
    local: bool = False
    granted_seq: int = 0
    failures: int = 0
    stuck: Stuck | None = None

    @property
    def ready(self) -> bool:
        """May it be given to a worker now?"""
        return self.since is not None and self.worker is None and self.not_before is None

    def deadline(self) -> Time | None:
        """When something must be done about it if nothing happens."""
        if self.worker is not None:
            return self.until
        return self.not_before if self.since is not None else None


class Activity(msgspec.Struct, frozen=True, gc=False):
    """An activity that has no outcome yet, with its current attempt.

    `attempt` counts starts, so `max_attempts` bounds executions (I8); `attempt_id` names the current one and is the
    fence of everything its worker reports.
    """

    seq: int
    id: int
    name: str
    queue: str
    input: Payload
    options: ActivityOptions
    scheduled_at: Time
    attempt_id: int
    attempt: int = 0
    not_before: Time | None = None
    worker: WorkerId | None = None
    local: bool = False
    started_at: Time | None = None
    lease_until: Time | None = None
    heartbeat_at: Time | None = None
    details: Payload = NULL
    cancel_requested: bool = False
    last_failure: FailureInfo | None = None
    queued_at: Time = 0

    @property
    def running(self) -> bool:
        """Does a worker hold the current attempt?"""
        return self.worker is not None

    @property
    def ready(self) -> bool:
        """May it be given to a worker now?"""
        return self.worker is None and self.not_before is None

    def deadline(self) -> Time | None:
        """The first moment at which one of its clocks (R10), its lease or its back-off runs out."""
        options = self.options
        due = None if options.schedule_to_close is None else self.scheduled_at + options.schedule_to_close
        if self.worker is None:
            start = options.schedule_to_start
            if self.not_before is not None or start is None:
                return _sooner(due, self.not_before)
            return _sooner(due, self.queued_at + start)
        started = self.started_at or 0
        over = started + options.start_to_close
        if due is None or over < due:
            due = over
        if self.lease_until is not None and self.lease_until < due:
            due = self.lease_until
        if options.heartbeat is not None:
            due = _sooner(due, max(self.heartbeat_at or 0, started) + options.heartbeat)
        return due

    def limits(self) -> list[tuple[Time, str]]:
        """Its running clocks: when each is over, and what that is called."""
        options = self.options
        clocks: list[tuple[Time, str]] = []
        if options.schedule_to_close is not None:
            clocks.append((self.scheduled_at + options.schedule_to_close, "schedule_to_close"))
        if self.worker is None:
            if options.schedule_to_start is not None and self.not_before is None:
                clocks.append((self.queued_at + options.schedule_to_start, "schedule_to_start"))
            return clocks
        started = self.started_at or 0
        clocks.append((started + options.start_to_close, "start_to_close"))
        if options.heartbeat is not None:
            clocks.append((max(self.heartbeat_at or 0, started) + options.heartbeat, "heartbeat"))
        if self.lease_until is not None:
            clocks.append((self.lease_until, "lease"))
        return clocks


def _sooner(one: Time | None, other: Time | None) -> Time | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


class Child(msgspec.Struct, frozen=True, gc=False):
    """An open child of this run."""

    workflow_id: WorkflowId
    run_id: RunId
    seq: int
    close_policy: ParentClose
    cancel_sent: bool = False
    adopted_seq: int | None = None
    """The child's seq in the earlier run that started it; None for a child that this run started."""


class Run(msgspec.Struct):
    """One execution of a workflow, as of the last decision or lease that was folded into it.

    A rule creates a run (`rules/new_runs.py`, `rules/retry.py`), and from then on only `fold` changes it.
    """

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId
    number: int
    start: StartData
    created_at: Time
    status: str = PENDING
    close_reason: str | None = None
    error: str | None = None
    closed_at: Time | None = None
    updated_at: Time = 0
    last_time: Time = 0
    last_seq: int = 0
    input_seq: int = 0
    seen_seq: int = 0
    next_run_id: RunId | None = None
    cancel_seq: int = 0
    cancel_deadline: Time | None = None
    run_deadline: Time | None = None
    task: Task = Task()
    input: Payload = NULL
    """Kept only for a run that may be repeated by retry or cron; otherwise it is in the first event alone."""
    memo: Payload = NULL
    search: Payload = NULL
    awaiting: str | None = None
    activity_mark: int = -1
    timer_mark: int = -1
    effect_mark: int = -1
    """The highest seq of each kind so far; a worker that leaves its seqs out counts from 0."""
    step_mark: int = 0
    signals: int = 0
    activities: dict[int, Activity] = msgspec.field(default_factory=dict)
    timers: dict[int, Time] = msgspec.field(default_factory=dict)
    children: dict[WorkflowId, Child] = msgspec.field(default_factory=dict)
    tail: list[Recorded] | None = msgspec.field(default_factory=list)
    """Events after `seen_seq`; None when they are only in the store."""
    tail_bytes: int = 0
    activity_bytes: int = 0
    """The sizes of `tail` and `activities` (`core/model/sizes.py`), added up as they change."""
    open_steps: set[int] | None = None
    """Steps up to `step_mark` without an outcome, for they may end in any order; None in a run read from the store."""

    @property
    def key(self) -> RunKey:
        """Its full identity."""
        return RunKey(self.namespace, self.workflow_id, self.run_id)

    @property
    def closed(self) -> bool:
        """Has it ended? A closed run never changes again (I5)."""
        return self.closed_at is not None

    def deadline(self) -> Time | None:
        """When the run itself needs attention: its task, its time-outs, a cancel that may turn into a termination."""
        if self.closed_at is not None:
            return None
        due = self.task.deadline()
        if self.run_deadline is not None:
            due = _sooner(due, self.run_deadline)
        if self.start.execution_deadline is not None:
            due = _sooner(due, self.start.execution_deadline)
        if self.cancel_deadline is not None:
            due = _sooner(due, self.cancel_deadline)
        return due
