"""Everything a history can say.

Each struct is one kind of event; its `recorded_name` is the `event_type`. The field names are the keys of the
wire's payload, so an event is stored in the form in which it is shown. Input events (R1) are the only ones that
workflow code reacts to; all others are echoes of commands, looked up by the command's id.

A field may be added with a default, a kind may be added; nothing here is ever renamed or removed, because histories
written today must replay for ever (U5).
"""

from typing import Any, ClassVar

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.ids import RunId, Seq, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import ParentClose, RetryPolicy


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The common face of all events."""

    recorded_name: ClassVar[str]
    """The `event_type` of its rows and records: data, whatever the class is called."""
    is_input: ClassVar[bool] = False
    closes: ClassVar[str | None] = None
    """The terminal status this event gives its run, if it ends one (I5)."""


class InputEvent(Event, frozen=True, gc=False, omit_defaults=True):
    """An event that workflow code is told of, one at a time and in order of seq."""

    is_input: ClassVar[bool] = True


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event in its place: what a history is a list of.

    `id` is its number among the events of all runs. The store gives it one; an event that was not read there has none.
    """

    seq: Seq
    time: Time
    event: Event
    id: int = 0


class ParentLink(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a child came from, and what its parent's close means to it."""

    workflow_id: str
    run_id: RunId
    child_seq: int = 0
    close_policy: ParentClose = ParentClose.TERMINATE


class Adopted(msgspec.Struct, frozen=True, gc=False):
    """An open child of an earlier run that is this run's now: the run that started it, and the child's id."""

    run_id: RunId
    workflow_id: str


class Reopening(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a run begins with the history of one that failed (R20)."""

    requested_by: str
    reason: str
    activity_seq: int
    adopted: tuple[Adopted, ...] = ()
    origin: RunId | None = None
    """The run that had this history first: what its code drew at random, the copy has to draw again."""
    activity_id: int = 0
    """What the activity that is tried again is called here."""


class StartData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run knows from its first moment on, beside its input; never changes (capabilities 3.2)."""

    workflow_type: str
    task_queue: str
    first_run_id: RunId
    initiator: str = "start"
    previous_run_id: RunId | None = None
    attempt: int = 1
    parent: ParentLink | None = None
    retry_policy: RetryPolicy | None = None
    cron_schedule: str | None = None
    run_timeout: Time | None = None
    execution_deadline: Time | None = None
    task_timeout: Time | None = None
    context: Payload = NULL
    memo: Payload = NULL
    search_attributes: Payload = NULL
    last_completion_result: Payload = NULL
    last_failure: FailureInfo | None = None
    first_task_at: Time | None = None
    scheduled_for: Time | None = None
    schedule: str | None = None
    request_id: str | None = None
    summary: str | None = None
    details: str | None = None
    priority: Payload = NULL
    reopening: Reopening | None = None
    first_workflow_type: str | None = None
    """The type that the chain was started with, if a continue-as-new has changed it."""
    engine_version: str | None = None
    """The version of the engine that began the run."""

    @property
    def chain_types(self) -> tuple[str, str]:
        """Return the type of this run and the type that its chain was started with."""
        return self.workflow_type, self.first_workflow_type or self.workflow_type


class WorkflowStarted(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """Payload: the bare input; the rest travels beside it (R16)."""

    recorded_name: ClassVar[str] = "WorkflowStarted"
    input: Payload = NULL
    start: StartData | None = None


class SignalReceived(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """A message to the run; kept whether or not anybody waits for it yet (C53)."""

    recorded_name: ClassVar[str] = "SignalReceived"
    signal: str
    payload: Payload = NULL
    sender: str | None = msgspec.field(default=None, name="from")
    context: Payload = NULL
    message_id: str | None = None


class WorkflowCancelRequested(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """A polite request to end; how the run closes is its own decision (R18)."""

    recorded_name: ClassVar[str] = "WorkflowCancelRequested"
    reason: str | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    deadline: float | None = None


class ActivityScheduled(Event, frozen=True, gc=False, omit_defaults=False):
    """An activity waits for a worker of its queue."""

    recorded_name: ClassVar[str] = "ActivityScheduled"
    activity_id: int
    activity_seq: int
    name: str
    task_queue: str
    input: Payload = NULL
    options: "ActivityOptions | None" = None


class ActivityCompleted(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """The one recorded result of an activity (I6)."""

    recorded_name: ClassVar[str] = "ActivityCompleted"
    activity_id: int
    activity_seq: int
    name: str
    result: Payload = NULL
    error: None = None


class ActivityFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The final failure or time-out of an activity; earlier attempts are rows of a side table (R10)."""

    recorded_name: ClassVar[str] = "ActivityFailed"
    activity_id: int
    activity_seq: int
    name: str
    error: str
    final_attempt: int
    failure: FailureInfo | None = None
    timeout_type: str | None = None


class ActivityCancelRequested(Event, frozen=True, gc=False):
    """The run no longer wants this activity; its worker hears of it through its heartbeat."""

    recorded_name: ClassVar[str] = "ActivityCancelRequested"
    activity_seq: int


class ActivityCancelled(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The activity ended as cancelled, before or after a worker took it."""

    recorded_name: ClassVar[str] = "ActivityCancelled"
    activity_id: int
    activity_seq: int
    name: str
    details: Payload = NULL


class TimerScheduled(Event, frozen=True, gc=False):
    """A timer runs; it fires at `fire_at` or a little later, never before (I10)."""

    recorded_name: ClassVar[str] = "TimerScheduled"
    timer_id: int
    timer_seq: int
    fire_at: float
    duration_secs: float


class TimerFired(InputEvent, frozen=True, gc=False):
    """A timer's time has come."""

    recorded_name: ClassVar[str] = "TimerFired"
    timer_seq: int
    fire_at: float


class TimerCancelled(Event, frozen=True, gc=False):
    """The run gave up a timer that had not fired."""

    recorded_name: ClassVar[str] = "TimerCancelled"
    timer_seq: int


class WorkflowAwaitingSignal(Event, frozen=True, gc=False, omit_defaults=True):
    """The run waits for a signal of this name, with a time limit if `timer_seq` is set."""

    recorded_name: ClassVar[str] = "WorkflowAwaitingSignal"
    signal: str
    timer_seq: int | None = None


class SideEffectRecorded(Event, frozen=True, gc=False, omit_defaults=True):
    """The value that code got once and gets again on every replay, null included, or the failure it met."""

    recorded_name: ClassVar[str] = "SideEffectRecorded"
    side_effect_seq: int
    name: str
    value: Payload
    failure: FailureInfo | None = None


class VersionRecorded(Event, frozen=True, gc=False):
    """The version of a change that this run keeps for life (C9)."""

    recorded_name: ClassVar[str] = "VersionRecorded"
    change_id: str
    version: int


class StepCompleted(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The durable result of an inline step (R3)."""

    recorded_name: ClassVar[str] = "StepCompleted"
    step_seq: int
    name: str
    result: Payload = NULL
    attempt: int = 1
    input_hash: str | None = None
    """Hash of the list of arguments; None if they cannot be encoded, or were recorded before there were hashes."""


class StepFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """An inline step failed: for good, or with a back-off too long to wait for in the worker."""

    recorded_name: ClassVar[str] = "StepFailed"
    step_seq: int
    name: str
    error: str
    failure: FailureInfo | None = None
    final_attempt: int = 1
    retry_in: float | None = None
    """Set when this was not the end: seconds until the code orders the step again, by a durable timer."""
    input_hash: str | None = None


class ChildWorkflowStarted(Event, frozen=True, gc=False, omit_defaults=True):
    """A child exists; it was created in the same transaction (R14)."""

    recorded_name: ClassVar[str] = "ChildWorkflowStarted"
    child_workflow_id: str
    workflow_type: str
    run_id: RunId | None = None
    child_seq: int = 0
    input_hash: str | None = None


class ChildWorkflowCompleted(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """A child's result."""

    recorded_name: ClassVar[str] = "ChildWorkflowCompleted"
    child_workflow_id: str
    result: Payload = NULL
    run_id: RunId | None = None
    child_seq: int = 0


class ChildWorkflowFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """Every unhappy end of a child, or that it could not be started at all (R15, R16)."""

    recorded_name: ClassVar[str] = "ChildWorkflowFailed"
    child_workflow_id: str
    error: str
    failure: FailureInfo | None = None
    close_reason: str | None = None
    run_id: RunId | None = None
    child_seq: int = 0


class AttributesUpserted(Event, frozen=True, gc=False, omit_defaults=True):
    """Search attributes and memo merged by key; null removes a key."""

    recorded_name: ClassVar[str] = "AttributesUpserted"
    search: Payload = NULL
    memo: Payload = NULL


class WorkflowCompleted(Event, frozen=True, gc=False, omit_defaults=True):
    """Payload: the bare result."""

    recorded_name: ClassVar[str] = "WorkflowCompleted"
    closes: ClassVar[str | None] = "COMPLETED"
    result: Payload = NULL
    next_run_id: RunId | None = None


class WorkflowFailed(Event, frozen=True, gc=False, omit_defaults=True):
    """The run's own code failed."""

    recorded_name: ClassVar[str] = "WorkflowFailed"
    closes: ClassVar[str | None] = "FAILED"
    error: str = ""
    failure: FailureInfo | None = None
    next_run_id: RunId | None = None


class WorkflowCancelled(Event, frozen=True, gc=False, omit_defaults=True):
    """The run ended as cancelled. Payload null; the reason travels beside it."""

    recorded_name: ClassVar[str] = "WorkflowCancelled"
    closes: ClassVar[str | None] = "CANCELLED"
    reason: str | None = None


class WorkflowTerminated(Event, frozen=True, gc=False, omit_defaults=True):
    """The run was ended from outside, without asking its code."""

    recorded_name: ClassVar[str] = "WorkflowTerminated"
    closes: ClassVar[str | None] = "FAILED"
    reason: str = "terminated"
    by: str | None = None
    next_run_id: RunId | None = None


class WorkflowTimedOut(Event, frozen=True, gc=False, omit_defaults=True):
    """The run or its whole chain took longer than allowed (C26, C27)."""

    recorded_name: ClassVar[str] = "WorkflowTimedOut"
    closes: ClassVar[str | None] = "TIMED_OUT"
    scope: str = "run"
    error: str = ""
    next_run_id: RunId | None = None


class WorkflowContinuedAsNew(Event, frozen=True, gc=False, omit_defaults=True):
    """The run ended and its successor began in one transaction (I18)."""

    recorded_name: ClassVar[str] = "WorkflowContinuedAsNew"
    closes: ClassVar[str | None] = "COMPLETED"
    next_run_id: RunId | None = None
    workflow_id: str | None = None
    """The successor's id if it is another one: a chain of its own (R38)."""


class ActivityOptions(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How an activity is tried; times in microseconds."""

    retry: RetryPolicy = RetryPolicy()
    start_to_close: Time = 300_000_000
    schedule_to_start: Time | None = None
    schedule_to_close: Time | None = None
    heartbeat: Time | None = None
    survives_cancel: bool = False
    context: Payload = NULL
    summary: str | None = None
    priority: Payload = NULL


DEFAULT_OPTIONS = ActivityOptions()


def _leaves(kind: type[Event]) -> list[type[Event]]:
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in _leaves(child)] if below else [kind]


KINDS: dict[str, type[Event]] = {kind.recorded_name: kind for kind in _leaves(Event)}
"""Every event type by its recorded name."""


def next_run_of(event: Event) -> RunId | None:
    """The run in which a chain goes on after this end; None at the end of a chain, also where another id begins one."""
    following: RunId | None = getattr(event, "next_run_id", None)
    return None if following is None or getattr(event, "workflow_id", None) is not None else following


def summary_of(event: Event) -> dict[str, Any]:
    """The event's fields without its documents, for messages to people."""
    return {name: value for name, value in msgspec.structs.asdict(event).items() if not isinstance(value, Payload)}
