"""The events of histories.

Each struct is a kind of event; its `recorded_name` is the `event_type`. The field names are the keys of the payload in
the API: events are stored in the form in which they are sent. Workflow code reacts to input events only; the other
events echo commands and are found by the command's id.

New kinds, and new fields with a default, may be added. Nothing is ever renamed or removed, because every recorded
history must replay.
"""

from typing import Any, ClassVar

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Seq, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import RetryPolicy
from assay.core.model.start_data import Adopted, ParentLink, Reopening, StartData

__all__ = ["Adopted", "ParentLink", "Reopening", "StartData"]


class Event(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The base class of all events."""

    recorded_name: ClassVar[str]
    """The `event_type` in rows and records; data, independent of the name of the class."""
    is_input: ClassVar[bool] = False
    goes_along: ClassVar[bool] = False
    """True for an input that moves to the next run if a run continues as new before its code has received it."""
    closes: ClassVar[str | None] = None
    """The final status of the run, for an event that closes the run (I5)."""


class InputEvent(Event, frozen=True, gc=False, omit_defaults=True):
    """An event that workflow code receives, one at a time and in order of seq."""

    is_input: ClassVar[bool] = True


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event at its position in a history.

    `id` is the event's number among the events of all runs, assigned by the store; 0 for an event not read from there.
    """

    seq: Seq
    time: Time
    event: Event
    id: int = 0


class WorkflowStarted(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The first event of a run. Payload: the bare input; the options are stored beside the payload."""

    recorded_name: ClassVar[str] = "WorkflowStarted"
    input: Payload = NULL
    start: StartData | None = None


class SignalReceived(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """A signal to the run; kept until the code waits for a signal of this name."""

    recorded_name: ClassVar[str] = "SignalReceived"
    goes_along: ClassVar[bool] = True
    signal: str
    payload: Payload = NULL
    sender: str | None = msgspec.field(default=None, name="from")
    context: Payload = NULL
    message_id: str | None = None
    args: Payload | msgspec.UnsetType = msgspec.UNSET
    """All payloads as a list, if the message has several; absent for one payload or none."""


class WorkflowCancelRequested(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """A request to cancel the run; the code decides how the run closes."""

    recorded_name: ClassVar[str] = "WorkflowCancelRequested"
    goes_along: ClassVar[bool] = True
    reason: str | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    deadline: float | None = None


class ActivityScheduled(Event, frozen=True, gc=False, omit_defaults=False):
    """An activity was scheduled and waits for a worker of its queue."""

    recorded_name: ClassVar[str] = "ActivityScheduled"
    activity_id: int
    activity_seq: int
    name: str
    task_queue: str
    input: Payload = NULL
    options: "ActivityOptions | None" = None


class ActivityCompleted(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """The result of an activity, recorded once (I6)."""

    recorded_name: ClassVar[str] = "ActivityCompleted"
    activity_id: int
    activity_seq: int
    name: str
    result: Payload = NULL
    error: None = None


class ActivityFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The final failure or time-out of an activity; earlier attempts are no events."""

    recorded_name: ClassVar[str] = "ActivityFailed"
    activity_id: int
    activity_seq: int
    name: str
    error: str
    final_attempt: int
    failure: FailureInfo | None = None
    timeout_type: str | None = None


class ActivityCancelRequested(Event, frozen=True, gc=False):
    """The run cancelled an activity; the activity's worker is notified through the heartbeat."""

    recorded_name: ClassVar[str] = "ActivityCancelRequested"
    activity_seq: int


class ActivityCancelled(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The activity ended as cancelled, before or after its lease to a worker."""

    recorded_name: ClassVar[str] = "ActivityCancelled"
    activity_id: int
    activity_seq: int
    name: str
    details: Payload = NULL


class TimerScheduled(Event, frozen=True, gc=False):
    """A timer was started; the timer fires at `fire_at` or shortly after, never before (I10)."""

    recorded_name: ClassVar[str] = "TimerScheduled"
    timer_id: int
    timer_seq: int
    fire_at: float
    duration_secs: float


class TimerFired(InputEvent, frozen=True, gc=False):
    """A timer fired."""

    recorded_name: ClassVar[str] = "TimerFired"
    timer_seq: int
    fire_at: float


class TimerCancelled(Event, frozen=True, gc=False):
    """The run cancelled a timer that had not fired."""

    recorded_name: ClassVar[str] = "TimerCancelled"
    timer_seq: int


class WorkflowAwaitingSignal(Event, frozen=True, gc=False, omit_defaults=True):
    """The run waits for a signal of this name, with a time limit if `timer_seq` is set."""

    recorded_name: ClassVar[str] = "WorkflowAwaitingSignal"
    signal: str
    timer_seq: int | None = None


class SideEffectRecorded(Event, frozen=True, gc=False, omit_defaults=True):
    """The value of a side effect, or its failure; every replay returns the same."""

    recorded_name: ClassVar[str] = "SideEffectRecorded"
    side_effect_seq: int
    name: str
    value: Payload
    failure: FailureInfo | None = None


class VersionRecorded(Event, frozen=True, gc=False):
    """The version of a change, fixed for the rest of the run."""

    recorded_name: ClassVar[str] = "VersionRecorded"
    change_id: str
    version: int


class StepCompleted(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The result of an inline step."""

    recorded_name: ClassVar[str] = "StepCompleted"
    step_seq: int
    name: str
    result: Payload = NULL
    attempt: int = 1
    input_hash: str | None = None
    """The hash of the list of arguments; None if they cannot be encoded, or in events from before hashes existed."""


class StepFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The failure of an inline step: final, or with a back-off too long for waiting in the worker."""

    recorded_name: ClassVar[str] = "StepFailed"
    step_seq: int
    name: str
    error: str
    failure: FailureInfo | None = None
    final_attempt: int = 1
    retry_in: float | None = None
    """The seconds until the next attempt, after a durable timer; None for a final failure."""
    input_hash: str | None = None


class ChildWorkflowStarted(Event, frozen=True, gc=False, omit_defaults=True):
    """A child was started, in the same transaction."""

    recorded_name: ClassVar[str] = "ChildWorkflowStarted"
    child_workflow_id: str
    workflow_type: str
    run_id: RunId | None = None
    child_seq: int = 0
    input_hash: str | None = None
    namespace: Namespace | None = None
    """The namespace of the child; None for the namespace of its parent."""


class ChildWorkflowCompleted(InputEvent, frozen=True, gc=False, omit_defaults=False):
    """The result of a child."""

    recorded_name: ClassVar[str] = "ChildWorkflowCompleted"
    child_workflow_id: str
    result: Payload = NULL
    run_id: RunId | None = None
    child_seq: int = 0


class ChildWorkflowFailed(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The end of a child without a result, or its failed start."""

    recorded_name: ClassVar[str] = "ChildWorkflowFailed"
    child_workflow_id: str
    error: str
    failure: FailureInfo | None = None
    close_reason: str | None = None
    run_id: RunId | None = None
    child_seq: int = 0


class MessageSendRequested(Event, frozen=True, gc=False):
    """The run sends a message; the outcome follows as another event."""

    recorded_name: ClassVar[str] = "MessageSendRequested"
    send_seq: int
    to: str
    topic: str


class MessageDelivered(InputEvent, frozen=True, gc=False):
    """A message of the run is recorded at its target."""

    recorded_name: ClassVar[str] = "MessageDelivered"
    send_seq: int


class MessageSendFailed(InputEvent, frozen=True, gc=False):
    """A message of the run was not accepted, for example because its target does not exist."""

    recorded_name: ClassVar[str] = "MessageSendFailed"
    send_seq: int
    kind: str
    error: str


class ExternalCancelRequested(Event, frozen=True, gc=False):
    """The run requested the cancellation of another run; the outcome follows as another event."""

    recorded_name: ClassVar[str] = "ExternalCancelRequested"
    request_seq: int
    to: str


class ExternalCancelDelivered(InputEvent, frozen=True, gc=False):
    """The cancel request is recorded at its target."""

    recorded_name: ClassVar[str] = "ExternalCancelDelivered"
    request_seq: int


class ExternalCancelFailed(InputEvent, frozen=True, gc=False):
    """The run to be cancelled does not exist or has ended."""

    recorded_name: ClassVar[str] = "ExternalCancelFailed"
    request_seq: int
    kind: str
    error: str


class ExternalTerminateRequested(Event, frozen=True, gc=False):
    """The run terminates another run; the outcome follows as another event."""

    recorded_name: ClassVar[str] = "ExternalTerminateRequested"
    request_seq: int
    to: str


class ExternalTerminateDelivered(InputEvent, frozen=True, gc=False):
    """The other run is terminated."""

    recorded_name: ClassVar[str] = "ExternalTerminateDelivered"
    request_seq: int


class ExternalTerminateFailed(InputEvent, frozen=True, gc=False):
    """The run to be terminated does not exist or has ended."""

    recorded_name: ClassVar[str] = "ExternalTerminateFailed"
    request_seq: int
    kind: str
    error: str


class WatchAdded(Event, frozen=True, gc=False):
    """The run watches another workflow: `mode` is `monitor` or `link`."""

    recorded_name: ClassVar[str] = "WatchAdded"
    watch_id: int
    pid: str
    mode: str


class WatchRemoved(Event, frozen=True, gc=False):
    """The run no longer watches a workflow; 0 for a link that the other side has made."""

    recorded_name: ClassVar[str] = "WatchRemoved"
    watch_id: int


class OptionsSet(Event, frozen=True, gc=False):
    """The run receives ends of linked workflows, or cancel requests, as events instead of exceptions."""

    recorded_name: ClassVar[str] = "OptionsSet"
    trap_links: bool
    trap_cancel: bool


class PeerExited(InputEvent, frozen=True, gc=False, omit_defaults=True):
    """The end of a watched workflow; `watch_id` is 0 for a link that the other side has made."""

    recorded_name: ClassVar[str] = "PeerExited"
    goes_along: ClassVar[bool] = True
    watch_id: int
    mode: str
    pid: str
    run_id: RunId | None = None
    status: str | None = None
    result: Payload = NULL
    failure: FailureInfo | None = None


class UpdateReceived(InputEvent, frozen=True, gc=False):
    """A request to the run whose caller waits for an answer; `args` is a list."""

    recorded_name: ClassVar[str] = "UpdateReceived"
    goes_along: ClassVar[bool] = True
    update_id: str
    name: str
    args: Payload = NULL
    sender: str | None = msgspec.field(default=None, name="from")


class UpdateAccepted(Event, frozen=True, gc=False):
    """The run accepted an update."""

    recorded_name: ClassVar[str] = "UpdateAccepted"
    update_id: str


class UpdateRejected(Event, frozen=True, gc=False):
    """The run rejected an update."""

    recorded_name: ClassVar[str] = "UpdateRejected"
    update_id: str
    failure: FailureInfo | None = None


class UpdateCompleted(Event, frozen=True, gc=False):
    """The run answered an update that it had accepted: with a result, or with a failure."""

    recorded_name: ClassVar[str] = "UpdateCompleted"
    update_id: str
    result: Payload = NULL
    failure: FailureInfo | None = None


class AttributesUpserted(Event, frozen=True, gc=False, omit_defaults=True):
    """Search attributes and memo, merged by key; null removes a key."""

    recorded_name: ClassVar[str] = "AttributesUpserted"
    search: Payload = NULL
    memo: Payload = NULL


class WorkflowCompleted(Event, frozen=True, gc=False, omit_defaults=True):
    """The run completed. Payload: the bare result."""

    recorded_name: ClassVar[str] = "WorkflowCompleted"
    closes: ClassVar[str | None] = "COMPLETED"
    result: Payload = NULL
    next_run_id: RunId | None = None


class WorkflowFailed(Event, frozen=True, gc=False, omit_defaults=True):
    """The run failed: its code raised an error."""

    recorded_name: ClassVar[str] = "WorkflowFailed"
    closes: ClassVar[str | None] = "FAILED"
    error: str = ""
    failure: FailureInfo | None = None
    next_run_id: RunId | None = None


class WorkflowCancelled(Event, frozen=True, gc=False, omit_defaults=True):
    """The run ended as cancelled. Payload: null; the reason is stored beside the payload."""

    recorded_name: ClassVar[str] = "WorkflowCancelled"
    closes: ClassVar[str | None] = "CANCELLED"
    reason: str | None = None


class WorkflowTerminated(Event, frozen=True, gc=False, omit_defaults=True):
    """The run was ended from outside, without notice to its code."""

    recorded_name: ClassVar[str] = "WorkflowTerminated"
    closes: ClassVar[str | None] = "FAILED"
    reason: str = "terminated"
    by: str | None = None
    next_run_id: RunId | None = None


class WorkflowTimedOut(Event, frozen=True, gc=False, omit_defaults=True):
    """The run or its whole chain exceeded its time limit."""

    recorded_name: ClassVar[str] = "WorkflowTimedOut"
    closes: ClassVar[str | None] = "TIMED_OUT"
    scope: str = "run"
    error: str = ""
    next_run_id: RunId | None = None


class WorkflowContinuedAsNew(Event, frozen=True, gc=False, omit_defaults=True):
    """The run closed and the next run of its chain began, in one transaction (I18)."""

    recorded_name: ClassVar[str] = "WorkflowContinuedAsNew"
    closes: ClassVar[str | None] = "COMPLETED"
    next_run_id: RunId | None = None
    workflow_id: str | None = None
    """The workflow id of the next run, if it is another id and begins a new chain."""


class ActivityOptions(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The retry policy and time-outs of an activity; times in microseconds."""

    retry: RetryPolicy = RetryPolicy()
    start_to_close: Time = 300_000_000
    schedule_to_start: Time | None = None
    schedule_to_close: Time | None = None
    heartbeat: Time | None = None
    survives_cancel: bool = False
    context: Payload = NULL
    summary: str | None = None
    priority: Payload = NULL
    id: str | None = None
    """The caller's own name of the activity."""


DEFAULT_OPTIONS = ActivityOptions()


def _leaves(kind: type[Event]) -> list[type[Event]]:
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in _leaves(child)] if below else [kind]


KINDS: dict[str, type[Event]] = {kind.recorded_name: kind for kind in _leaves(Event)}
"""The classes of events by recorded name."""


def next_run_of(event: Event) -> RunId | None:
    """Return the next run of the chain after a closing event; None at the end of the chain."""
    following: RunId | None = getattr(event, "next_run_id", None)
    return None if following is None or getattr(event, "workflow_id", None) is not None else following


def summary_of(event: Event) -> dict[str, Any]:
    """Return the fields of an event without its payloads, for messages to people."""
    return {name: value for name, value in msgspec.structs.asdict(event).items() if not isinstance(value, Payload)}
