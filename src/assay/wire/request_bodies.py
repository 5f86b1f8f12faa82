"""Request bodies, a struct for each. Documents stay raw bytes; unknown fields are ignored."""

from typing import Annotated, Any

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload
from assay.core.model.start_options import SpelledOptions

Seconds = float | str
"""A duration: seconds as a number, or a text such as "1h30m"."""


class SignalAtStart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A signal that is sent with the start, before any other message to the run."""

    name: str
    payload: Payload = NULL
    args: list[Payload] | None = None
    sender: str | None = msgspec.field(default=None, name="from")


class StartBody(SpelledOptions, frozen=True, gc=False, kw_only=False, omit_defaults=True):
    """The options of a start."""

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
    args: list[Payload] | None = None
    """Several arguments, in place of `input`."""
    engine_stamp: bool | None = None
    """Ignored; older clients send it."""
    monitor_by: str | None = None
    """The address of a mailbox that monitors the run."""
    link_by: str | None = None
    """The address of a mailbox that is linked to the run."""


class SignalBody(msgspec.Struct, kw_only=True):
    """A signal to a run; `args` are several payloads in a single signal."""

    payload: Payload = NULL
    args: list[Payload] | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    context: Payload = NULL
    message_id: str | None = None


class MessageBody(msgspec.Struct, kw_only=True):
    """A message to an address: `wf://<namespace>/<workflow id>`, or `mbx://<namespace>/<mailbox id>`."""

    to: str
    topic: str
    args: list[Payload] | None = None
    sender: str | None = msgspec.field(default=None, name="from")


class MailboxBody(msgspec.Struct, kw_only=True):
    """A mailbox to create or to find; without an id a new one is chosen."""

    namespace: str | None = None
    mailbox_id: str | None = None


class WatchBody(msgspec.Struct, kw_only=True):
    """A watch of a workflow by a mailbox: `mode` is `monitor` or `link`."""

    watcher: str
    target: str
    mode: str = "monitor"


class UpdateBody(msgspec.Struct, kw_only=True):
    """An update of a run: its arguments, its id, and the state to wait for, `accepted` or `completed`."""

    args: list[Payload] | None = None
    update_id: str | None = None
    wait: str | None = None


class CancelBody(msgspec.Struct, kw_only=True):
    """A request to cancel a run; after `deadline` a run that is still open is terminated."""

    reason: str | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    deadline: Seconds | None = None


class TerminateBody(msgspec.Struct, kw_only=True):
    """The reason of a termination."""

    reason: str | None = None


class ContinueBody(msgspec.Struct, kw_only=True):
    """The next run's input; another workflow id begins a separate chain."""

    input: Payload = NULL
    workflow_id: str | None = None
    keep_input: bool | None = None
    """True keeps the input of this run, the default without an input; false allows null as an input."""


class RetryBody(msgspec.Struct, kw_only=True):
    """A request to reopen a closed run: the requester, the reason, the run, and the last event to keep."""

    requested_by: str | None = None
    reason: str | None = None
    run_id: str | None = None
    from_seq: int | None = None
    """The seq of the last event to keep."""


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
"""An empty list as encoded by languages whose tables are both list and object."""


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
    """A worker's heartbeat, with its health if reported."""

    worker_id: str
    healthy: bool | None = None
    abandoned_threads: int | None = None


class PollBody(msgspec.Struct, kw_only=True):
    """A worker's poll for a task of a queue."""

    queue: str
    worker_id: str
    wait_secs: Seconds | None = None


class CommandsBody(msgspec.Struct, kw_only=True):
    """The commands of workflow code; the whole list is applied, or nothing."""

    worker_id: str
    commands: Payload = NULL
    task_token: str | None = None


class TaskBody(msgspec.Struct, kw_only=True):
    """A worker's request to extend the lease of its workflow task."""

    worker_id: str
    task_token: str | None = None


class CompleteBody(msgspec.Struct, kw_only=True):
    """An attempt's result."""

    result: Payload = NULL
    task_token: str | None = None


class FailBody(msgspec.Struct, kw_only=True):
    """An attempt's failure: a sentence, and further details."""

    error: str
    failure: FailureInfo | None = None
    retryable: bool | None = None
    task_token: str | None = None


class HeartbeatBody(msgspec.Struct, kw_only=True):
    """An attempt's heartbeat; the next attempt receives the details."""

    details: Payload = NULL
    task_token: str | None = None


class NamespaceBody(msgspec.Struct, kw_only=True):
    """A new namespace."""

    name: str
