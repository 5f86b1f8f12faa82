"""What workflow code may ask for in one turn; a list of commands is one transaction (D10).

The structs are the wire's commands: the tag is `type`, the field names are the original's, ours are added with
defaults, so a worker of the original and our SDK speak one language.
"""

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.input_hash import InputHash
from assay.core.model.payload import NULL, Payload
from assay.core.model.start_options import SpelledOptions


class Command(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="type"):
    """The common face of all commands."""


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


class RequestCancelActivity(Command, frozen=True, gc=False, omit_defaults=True, tag="RequestCancelActivity"):
    """Give up an activity: withdrawn if nobody has it, told through its heartbeat otherwise."""

    seq: int


class ScheduleTimer(Command, frozen=True, gc=False, omit_defaults=True, tag="ScheduleTimer"):
    """Start a durable timer. Idempotent by `seq`."""

    seq: int = 0
    duration_secs: float = 0.0


class CancelTimer(Command, frozen=True, gc=False, omit_defaults=True, tag="CancelTimer"):
    """Give up a timer that has not fired."""

    seq: int


class WaitForSignal(Command, frozen=True, gc=False, omit_defaults=True, tag="WaitForSignal"):
    """Say that the run waits for a signal; only recorded."""

    name: str = ""
    timer_seq: int | None = None


class RecordSideEffect(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordSideEffect"):
    """Keep a value that code produced once. `resume` makes a task due at once, as the original does (R2)."""

    seq: int = 0
    name: str = ""
    value: Payload = NULL
    failure: FailureInfo | None = None
    resume: bool = True


class RecordVersion(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordVersion"):
    """Keep the version of a change for the life of the run (C9)."""

    change_id: str
    version: int


class RecordSnapshot(Command, frozen=True, gc=False, omit_defaults=True, tag="RecordSnapshot"):
    """What the run's queries answer from now on."""

    state: Payload


class UpsertSearchAttributes(Command, frozen=True, gc=False, omit_defaults=True, tag="UpsertSearchAttributes"):
    """Merge search attributes by key."""

    patch: Payload


class UpsertAttributes(Command, frozen=True, gc=False, omit_defaults=True, tag="UpsertAttributes"):
    """Merge search attributes and memo by key; null removes a key."""

    search: Payload = NULL
    memo: Payload = NULL


class _AfterOptions(SpelledOptions, frozen=True, gc=False, kw_only=True):
    """The fields of `StartChildWorkflow` that follow its options when it is encoded.

    Its own fields come first, because they may be positional; keyword-only ones follow in the order of the bases.
    """

    unaware: bool = False
    """Ordered by code that had not heard of the cancel that the same turn has seen; the child must hear of it (I16)."""
    input_hash: InputHash | None = None


class StartChildWorkflow(
    Command, _AfterOptions, frozen=True, gc=False, kw_only=False, omit_defaults=True, tag="StartChildWorkflow"
):
    """Create a child run. Idempotent by the child's id (and, for our SDK, by `seq`)."""

    workflow_type: str = ""
    workflow_id: str = ""
    input: Payload = NULL
    task_queue: str = "default"
    seq: int = 0
    parent_close_policy: str | None = None


class ContinueAsNew(Command, frozen=True, gc=False, omit_defaults=True, tag="ContinueAsNew"):
    """Close this run and begin its successor under the same id."""

    input: Payload = NULL
    workflow_type: str | None = None
    task_queue: str | None = None
    memo: Payload = NULL
    search_attributes: Payload = NULL
    unread_signals: tuple[int, ...] | None = None
    """Seqs of the signals that code has not consumed; absent: all that no accepted task has seen (R19)."""


class CompleteWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="CompleteWorkflow"):
    """Close the run with a result."""

    result: Payload = NULL


class FailWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="FailWorkflow"):
    """Close the run as failed."""

    error: str = "workflow handler raised an error"
    failure: FailureInfo | None = None


class CancelWorkflow(Command, frozen=True, gc=False, omit_defaults=True, tag="CancelWorkflow"):
    """Close the run as cancelled; never refused for unseen events (R7)."""

    reason: str | None = None


AnyCommand = (
    ScheduleActivity
    | RequestCancelActivity
    | ScheduleTimer
    | CancelTimer
    | WaitForSignal
    | RecordSideEffect
    | RecordVersion
    | RecordSnapshot
    | UpsertSearchAttributes
    | UpsertAttributes
    | StartChildWorkflow
    | ContinueAsNew
    | CompleteWorkflow
    | FailWorkflow
    | CancelWorkflow
)

CLOSING = (ContinueAsNew, CompleteWorkflow, FailWorkflow)
"""Closes that must have seen every event; `CancelWorkflow` is not among them (R7)."""
