"""The state of a run: the fields that decisions need, and no others."""

import msgspec

from assay.core.model.events import ActivityOptions, Recorded, StartData
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, RunKey, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import OPTION, TRAP_CANCEL, Peer, PeerKey
from assay.core.model.policies import ParentClose
from assay.core.model.waits import NO_WAITS, Waits

PENDING, RUNNING = "PENDING", "RUNNING"
COMPLETED, FAILED, CANCELLED, TIMED_OUT = "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"
OPEN_STATUSES = (PENDING, RUNNING)
CLOSED_STATUSES = (COMPLETED, FAILED, CANCELLED, TIMED_OUT)


NON_DETERMINISM, NO_HANDLER, TASK_FAILED = "non_determinism", "no_handler", "task_failed"
UNSUPPORTED_VERSION, DEADLOCK = "unsupported_version", "deadlock"
STUCK_REASONS = (NON_DETERMINISM, NO_HANDLER, TASK_FAILED, UNSUPPORTED_VERSION, DEADLOCK)
"""The reasons of a stuck task, in records and in reports of workers."""


class Stuck(msgspec.Struct, frozen=True, gc=False):
    """The reason why a run's task cannot be completed at present; stored beside the history, not in it."""

    reason: str
    message: str
    attempt: int
    next_try_at: Time | None = None
    since: Time | None = None
    """The time of the first failure for this reason; None in rows of older engines."""


class Task(msgspec.Struct, frozen=True, gc=False):
    """The workflow task of a run: since when due, the worker that holds the task, the number of failures.

    Every lease raises `epoch`; reports under an earlier epoch are refused (I7).
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
    leased_at: Time | None = None
    """The time of the lease or of the last accepted turn under it."""

    @property
    def ready(self) -> bool:
        """Return whether the task may be leased now."""
        return self.since is not None and self.worker is None and self.not_before is None

    def deadline(self) -> Time | None:
        """Return when the lease or the back-off of the task ends."""
        if self.worker is not None:
            return self.until
        return self.not_before if self.since is not None else None


class Activity(msgspec.Struct, frozen=True, gc=False):
    """An activity without an outcome, with its current attempt.

    `attempt` counts starts: `max_attempts` limits executions (I8). `attempt_id` is the id of the current attempt;
    reports of other attempts are refused.
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
    cancel_requested_at: Time | None = None
    last_failure: FailureInfo | None = None
    queued_at: Time = 0

    @property
    def cancel_requested(self) -> bool:
        """Return whether the worker of the attempt has been asked to stop."""
        return self.cancel_requested_at is not None

    @property
    def running(self) -> bool:
        """Return whether a worker holds the current attempt."""
        return self.worker is not None

    @property
    def ready(self) -> bool:
        """Return whether the activity may be leased now."""
        return self.worker is None and self.not_before is None

    def deadline(self) -> Time | None:
        """Return the first time at which a time-out, the lease or the back-off ends."""
        # Called for each activity in each batch, so written without the list of `limits`.
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
        """Return the current time-outs: the end of each, and its name."""
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


ChildKey = int | str
"""The number of a child in its parent; the child's workflow id for polling workers, which do not number children."""


def child_key(seq: int, workflow_id: str) -> ChildKey:
    """Return the key of a child among the children of its parent."""
    return seq or workflow_id


class Child(msgspec.Struct, frozen=True, gc=False):
    """An open child of a run."""

    workflow_id: WorkflowId
    run_id: RunId
    seq: int
    close_policy: ParentClose
    cancel_sent: bool = False
    adopted_seq: int | None = None
    """The child's seq in the earlier run that started the child; None for a child of this run."""
    namespace: Namespace | None = None
    """The namespace of the child; None for the namespace of its parent."""

    @property
    def key(self) -> ChildKey:
        """Return the key of the child in its parent."""
        return self.seq or self.workflow_id


class Run(msgspec.Struct):
    """One execution of a workflow, as of the last decision or lease.

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
    """Kept only for a run with a retry policy or a cron schedule, because the next run needs the input."""
    memo: Payload = NULL
    search: Payload = NULL
    activity_mark: int = -1
    timer_mark: int = -1
    effect_mark: int = -1
    """The highest seq of each kind so far; polling workers count from 0."""
    step_mark: int = 0
    signals: int = 0
    send_mark: int = 0
    sends: int = 0
    """Messages of the run without an outcome."""
    unseen: list[int] = msgspec.field(default_factory=list)
    """The seqs of messages that no accepted task has seen."""
    firm_seq: int = 0
    """The last event since `seen_seq` that cannot go along to a next run: an outcome, or a timer that fired."""
    activities: dict[int, Activity] = msgspec.field(default_factory=dict)
    timers: dict[int, Time] = msgspec.field(default_factory=dict)
    children: dict[ChildKey, Child] = msgspec.field(default_factory=dict)
    peers: dict[PeerKey, Peer] | None = None
    """Watchers of the run, its own watches and its options; None for most runs."""
    tail: list[Recorded] | None = msgspec.field(default_factory=list)
    """Events after `seen_seq`; None when they are only in the store."""
    tail_bytes: int = 0
    activity_bytes: int = 0
    """The sizes of `tail` and `activities` (`core/model/sizes.py`), added up as they change."""
    open_steps: set[int] | None = None
    """Steps up to `step_mark` without an outcome, because steps end in any order; None in a run read from the store."""
    versions: dict[str, int] = msgspec.field(default_factory=dict)
    """The recorded versions by change id; fixed for the rest of the run."""
    waits: Waits = NO_WAITS

    @property
    def key(self) -> RunKey:
        """Return the full identity of the run."""
        return RunKey(self.namespace, self.workflow_id, self.run_id)

    @property
    def traps_cancel(self) -> bool:
        """Return whether the code of the run receives a cancel request as an event."""
        return self.peers is not None and (OPTION, TRAP_CANCEL) in self.peers

    @property
    def closed(self) -> bool:
        """Return whether the run has ended; a closed run never changes again (I5)."""
        return self.closed_at is not None

    @property
    def awaiting(self) -> str | None:
        """Return the name of the signal that the code has waited for longest."""
        return self.waits.signals[0].name if self.waits.signals else None

    def deadline(self) -> Time | None:
        """Return the run's next deadline: of its task, its time-outs, or a cancel that becomes a termination."""
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
