"""What callers send: one struct per body. Documents stay raw bytes; unknown fields are ignored (R33)."""

from typing import Annotated, Any

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload
from assay.core.model.start_options import SpelledOptions

Seconds = float | str
"""A duration: seconds as a number, or a text such as "1h30m" (R22)."""


class SignalAtStart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message that is in the history before anything from outside (C41)."""

    name: str
    payload: Payload = NULL
    args: list[Payload] | None = None
    sender: str | None = msgspec.field(default=None, name="from")


class StartBody(SpelledOptions, frozen=True, gc=False, kw_only=False, omit_defaults=True):
    """Everything that a start can say (capabilities 3.3)."""

    workflow_type: str
    workflow_id: str | None = None
    namespace: str | None = None
    task_queue: str | None = None
    input: Payload = NULL
    id_conflict_policy: str | None = None
    error_if_exists: bool | None = None
    signals: list[SignalAtStart] | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    request_id: str | None = None
    engine_stamp: bool | None = None
    """Ignored; older clients send it."""


class SignalBody(msgspec.Struct, kw_only=True):
    """A message to a run; `args` are several payloads in one message."""

    payload: Payload = NULL
    args: list[Payload] | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    context: Payload = NULL
    message_id: str | None = None


class CancelBody(msgspec.Struct, kw_only=True):
    """A request to end; with `deadline` the run is terminated if it has not ended by then."""

    reason: str | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    deadline: Seconds | None = None


class TerminateBody(msgspec.Struct, kw_only=True):
    """Why a run is ended from outside."""

    reason: str | None = None


class ContinueBody(msgspec.Struct, kw_only=True):
    """The next run's input; another id begins a chain of its own (R38)."""

    input: Payload = NULL
    workflow_id: str | None = None
    keep_input: bool | None = None
    """True keeps the input of this run, as without an input; false makes null an input like any other."""


class RetryBody(msgspec.Struct, kw_only=True):
    """Who wants a closed run to go on, why, which run, and from where."""

    requested_by: str | None = None
    reason: str | None = None
    run_id: str | None = None
    from_seq: int | None = None
    """The last event to keep."""


class ActivityBody(msgspec.Struct, kw_only=True):
    """An activity scheduled from outside its workflow's code."""

    name: str
    seq: int
    task_queue: str
    input: Payload = NULL
    max_attempts: int | None = None
    initial_interval_secs: Seconds | None = None
    backoff_coefficient: float | None = None
    maximum_interval_secs: Seconds | None = None
    non_retryable: list[str] | None = None
    start_to_close_secs: Seconds | None = None
    schedule_to_start_secs: Seconds | None = None
    schedule_to_close_secs: Seconds | None = None
    heartbeat_timeout_secs: Seconds | None = None
    context: Payload = NULL
    summary: str | None = None
    priority: Payload = NULL


EmptyObject = Annotated[dict[str, Any], msgspec.Meta(max_length=0)]
"""An empty list as languages write it whose tables are both list and object."""


class RegisterBody(msgspec.Struct, kw_only=True):
    """The registration of a worker: `[]` or `{}` means none of that kind, null or no list means all."""

    identity: str
    queue: str
    namespace: str | None = None
    workflows: list[str] | EmptyObject | None = None
    activities: list[str] | EmptyObject | None = None
    max_concurrent_workflows: int | None = None
    max_concurrent_activities: int | None = None


class WorkerBody(msgspec.Struct, kw_only=True):
    """A worker's sign of life, with its health if it reports any."""

    worker_id: str
    healthy: bool | None = None
    abandoned_threads: int | None = None


class PollBody(msgspec.Struct, kw_only=True):
    """A worker asks for one task of a queue."""

    queue: str
    worker_id: str
    wait_secs: Seconds | None = None


class CommandsBody(msgspec.Struct, kw_only=True):
    """What workflow code asks for; the whole list or nothing of it (D10)."""

    worker_id: str
    commands: Payload = NULL
    task_token: str | None = None


class TaskBody(msgspec.Struct, kw_only=True):
    """A worker keeps its workflow task."""

    worker_id: str
    task_token: str | None = None


class CompleteBody(msgspec.Struct, kw_only=True):
    """An attempt's result."""

    result: Payload = NULL
    task_token: str | None = None


class FailBody(msgspec.Struct, kw_only=True):
    """An attempt's failure: a sentence, and what else is known of it."""

    error: str
    failure: FailureInfo | None = None
    retryable: bool | None = None
    task_token: str | None = None


class HeartbeatBody(msgspec.Struct, kw_only=True):
    """An attempt is alive; its details are given to the next one (R33)."""

    details: Payload = NULL
    task_token: str | None = None


class NamespaceBody(msgspec.Struct, kw_only=True):
    """A namespace to be."""

    name: str
