"""The commands of workflow code; all commands of a workflow task are applied in one transaction.

The structs are also the wire format, for the SDK and for polling workers alike: the tag is `type`, and fields that only
the SDK sends have defaults.
"""

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.input_hash import InputHash
from assay.core.model.payload import NULL, Payload
from assay.core.model.start_options import SpelledOptions


class Command(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """The base class of all commands."""


class ScheduleActivity(Command, frozen=True, gc=False, omit_defaults=True, tag="ScheduleActivity"):
    """Put an activity on a queue. Idempotent by `seq`."""

    seq: int = 0
    name: str = ""
    task_queue: str = "default"
    input: Payload = NULL
    max_attempts: int | None = None
    initial_interval_secs: float | None = None
    backoff_coefficient: float | None = None
    maximum_interval_secs: float | None = None
    non_retryable: tuple[str, ...] = ()
    start_to_close_secs: float | None = None
    schedule_to_start_secs: float | None = None
    schedule_to_close_secs: float | None = None
    heartbeat_timeout_secs: float | None = None
    survives_cancel: bool = False
    context: Payload = NULL
    summary: str | None = None
    priority: Payload = NULL
    id: str | None = None


class RequestCancelActivity(Command, frozen=True, gc=False, omit_defaults=True, tag="RequestCancelActivity"):
    """Cancel an activity: withdrawn if no worker runs it, otherwise notified through its heartbeat."""

    seq: int


class ScheduleTimer(Command, frozen=True, gc=False, omit_defaults=True, tag="ScheduleTimer"):
    """Start a durable timer. Idempotent by `seq`."""

    seq: int = 0
    duration_secs: float = 0.0


class CancelTimer(Command, frozen=True, gc=False, omit_defaults=True, tag="CancelTimer"):
    """Cancel a timer that has not fired."""

    seq: int


class WaitForSignal(Command, frozen=True, gc=False, omit_defaults=True, tag="WaitForSignal"):
    """Record that the run waits for a signal; without any other effect."""

    name: str = ""
    timer_seq: int | None = None


class SendMessage(Command, frozen=True, gc=False, omit_defaults=True, tag="SendMessage"):
    """Send a message to another workflow or a mailbox; the outcome is an event. Idempotent by `seq`."""

    seq: int = 0
    to: str = ""
    topic: str = ""
    args: tuple[Payload, ...] = ()


class UpdateResponse(Command, frozen=True, gc=False, omit_defaults=True, tag="UpdateResponse"):
    """Answer an update: `ack` accepts, `nak` rejects, `ok` completes and `error` fails the update."""

    update_id: str = ""
    answer: str = ""
    payload: Payload = NULL


class RecordSideEffect(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordSideEffect"):
    """Record a value that code produced once. `resume` makes a task due at once, for polling workers."""

    seq: int = 0
    name: str = ""
    value: Payload = NULL
    failure: FailureInfo | None = None
    resume: bool = True


class RecordVersion(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordVersion"):
    """Record the version of a change for the rest of the run."""

    change_id: str
    version: int


class RecordSnapshot(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordSnapshot"):
    """Replace the state that queries of the run return."""

    state: Payload


class UpsertSearchAttributes(Command, frozen=True, gc=False, omit_defaults=True, tag="UpsertSearchAttributes"):
    """Merge search attributes by key."""

    patch: Payload


class UpsertAttributes(Command, frozen=True, gc=False, omit_defaults=True, tag="UpsertAttributes"):
    """Merge search attributes and memo by key; null removes a key."""

    search: Payload = NULL
    memo: Payload = NULL


class ChildMessage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A message that a child has received when it starts; `args` are the contents of a message with several."""

    name: str
    payload: Payload = NULL
    args: tuple[Payload, ...] = ()


class _AfterOptions(SpelledOptions, frozen=True, gc=False, kw_only=True):
    """The fields of `StartChildWorkflow` that follow its options when it is encoded.

    The command's own fields come first, because they may be positional; keyword-only fields follow in the order of the
    bases.
    """

    unaware: bool = False
    """True if the command was issued before the code received a cancel request of the same turn: the cancel must reach
    the child as well (I16)."""
    input_hash: InputHash | None = None
    namespace: str | None = None
    """The namespace of the child, unless it is the parent's."""
    spawned: bool = False
    """True if the code runs on as if the child were started: a child that cannot be started refuses the turn."""
    signals: tuple[ChildMessage, ...] = ()
    """Messages that the child has received when it starts, before all others."""


class StartChildWorkflow(
    Command, _AfterOptions, frozen=True, gc=False, kw_only=False, omit_defaults=True, tag="StartChildWorkflow"
):
    """Start a child workflow. Idempotent by `seq`, or by the child's workflow id if the seq is 0."""

    workflow_type: str = ""
    workflow_id: str = ""
    input: Payload = NULL
    task_queue: str = "default"
    seq: int = 0
    parent_close_policy: str | None = None


class RequestCancelExternal(Command, frozen=True, gc=False, omit_defaults=True, tag="RequestCancelExternal"):
    """Request the cancellation of another run; a run still open after the deadline is terminated."""

    seq: int = 0
    target: str = ""
    reason: str | None = None
    deadline_secs: float | None = None


class TerminateExternal(Command, frozen=True, gc=False, omit_defaults=True, tag="TerminateExternal"):
    """Terminate another run."""

    seq: int = 0
    target: str = ""
    reason: str | None = None


class Watch(Command, frozen=True, gc=False, omit_defaults=True, tag="Watch"):
    """Watch another workflow: `monitor` or `link`. Idempotent by `seq`, the number of the watch."""

    seq: int = 0
    target: str = ""
    mode: str = "monitor"
    own_child: bool = False
    """True for a child of this run, whose end is recorded anyway: only the other direction of a link is new."""


class Unwatch(Command, frozen=True, gc=False, omit_defaults=True, tag="Unwatch"):
    """End a watch, by its number; with the number 0 a link that the other side has made."""

    watch_id: int = 0
    target: str = ""
    mode: str = "monitor"


class SetOptions(Command, frozen=True, gc=False, omit_defaults=True, tag="SetOptions"):
    """Set whether ends of linked workflows and cancel requests are events for the code, not exceptions."""

    trap_links: bool = False
    trap_cancel: bool = False


class ContinueAsNew(Command, frozen=True, gc=False, omit_defaults=True, tag="ContinueAsNew"):
    """Close this run and begin its successor under the same id."""

    input: Payload = NULL
    workflow_type: str | None = None
    task_queue: str | None = None
    memo: Payload = NULL
    search_attributes: Payload = NULL
    unread_signals: tuple[int, ...] | None = None
    """The former name of `unread`, sent by older workers."""
    unread: tuple[int, ...] | None = None
    """The seqs of inputs that code has received and not taken from its channels. Inputs that the worker has not
    received go along in any case."""


class CompleteWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="CompleteWorkflow"):
    """Close the run with a result."""

    result: Payload = NULL


class FailWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="FailWorkflow"):
    """Close the run as failed."""

    error: str = "workflow handler raised an error"
    failure: FailureInfo | None = None


class CancelWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="CancelWorkflow"):
    """Close the run as cancelled; never refused because of unseen events."""

    reason: str | None = None


AnyCommand = (
    ScheduleActivity
    | RequestCancelActivity
    | ScheduleTimer
    | CancelTimer
    | WaitForSignal
    | SendMessage
    | UpdateResponse
    | RecordSideEffect
    | RecordVersion
    | RecordSnapshot
    | UpsertSearchAttributes
    | UpsertAttributes
    | StartChildWorkflow
    | RequestCancelExternal
    | TerminateExternal
    | Watch
    | Unwatch
    | SetOptions
    | ContinueAsNew
    | CompleteWorkflow
    | FailWorkflow
    | CancelWorkflow
)

CLOSING = (ContinueAsNew, CompleteWorkflow, FailWorkflow)
"""Closing commands that are refused if the worker has not seen every event; `CancelWorkflow` is always accepted."""
