"""The requests to runs. Each request names its run; `decide` makes the decision."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import msgspec

from assay.core.model.commands import AnyCommand, ScheduleActivity
from assay.core.model.effects import OutboxMessage
from assay.core.model.events import Event, Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse, ParentClose, RetryPolicy
from assay.core.model.start_options import StartOptions
from assay.core.model.update_states import UpdateState

HELD_EPOCH = -1
"""Stands for the epoch of the lease that the worker holds: polling workers send only their own id."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """The base class of all requests."""

    allowed_when_closed: ClassVar[bool] = False
    """True if the request may be decided for a closed run; other requests are refused (I5)."""


class ToRun(Request, frozen=True, gc=False):
    """A request to the run with this id."""

    run_id: RunId


class ToWorkflow(Request, frozen=True, gc=False):
    """A request to the current run of a workflow id, or to the named run."""

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId | None = None


class FirstSignal(msgspec.Struct, frozen=True, gc=False):
    """A signal recorded with the start, before any other signal."""

    name: str
    payload: Payload = NULL
    sender: str | None = None
    args: tuple[Payload, ...] = ()


class StartWorkflow(Request, StartOptions[Time, RetryPolicy, IdReuse], frozen=True, gc=False, kw_only=True):
    """Start a run under an id, as the policies allow. Times in microseconds."""

    namespace: Namespace
    workflow_id: WorkflowId
    workflow_type: str
    task_queue: str = "default"
    input: Payload = NULL
    id_conflict_policy: IdConflict = IdConflict.FAIL
    id_reuse_policy: IdReuse = IdReuse.ALLOW_DUPLICATE
    signals: tuple[FirstSignal, ...] = ()
    request_id: str | None = None
    schedule: str | None = None
    scheduled_for: Time | None = None
    parent_close_policy: ParentClose = ParentClose.TERMINATE
    watchers: tuple[tuple[str, str], ...] = ()
    """Mailboxes that watch the run: mode and address."""


class Signal(ToWorkflow, frozen=True, gc=False):
    """Send a message to an open run."""

    name: str = ""
    payload: Payload = NULL
    sender: str | None = None
    context: Payload = NULL
    message_id: str | None = None
    args: tuple[Payload, ...] = ()
    """Several arguments; one argument is the payload."""


class Update(ToWorkflow, frozen=True, gc=False):
    """Send an update to an open run; the same `update_id` is one update of the run."""

    name: str = ""
    args: tuple[Payload, ...] = ()
    update_id: str = ""
    known: UpdateState | None = None
    """The update of the run with this id; read from the store."""


class RequestCancel(ToWorkflow, frozen=True, gc=False):
    """Request the cancellation of an open run; with `deadline`, a run still open after this time is terminated."""

    reason: str | None = None
    sender: str | None = None
    deadline: Time | None = None


class Terminate(ToWorkflow, frozen=True, gc=False):
    """End an open run without notice to its code."""

    reason: str | None = None
    by: str | None = None


class AddWatcher(ToWorkflow, frozen=True, gc=False):
    """Let a mailbox watch a workflow; of a workflow that has ended or does not exist it gets the end at once."""

    allowed_when_closed: ClassVar[bool] = True
    watcher: str = ""
    mode: str = ""
    pid: str = ""
    """The workflow, as the watcher has named it."""
    ending: Event | None = None
    """The closing event of a closed run; filled in by the engine."""


class RemoveWatcher(ToWorkflow, frozen=True, gc=False):
    """End the watch of a mailbox; without effect for a workflow that is not watched."""

    allowed_when_closed: ClassVar[bool] = True
    watcher: str = ""
    mode: str = ""


class RestartAsNew(ToWorkflow, frozen=True, gc=False):
    """Continue as new by a request from outside: an open run is closed, a closed run stays as it is."""

    allowed_when_closed: ClassVar[bool] = True
    input: Payload = NULL
    signals: tuple[Recorded, ...] = ()
    new_workflow_id: WorkflowId | None = None
    """Another workflow id begins a new chain."""
    keep_input: bool = False
    """True to use the input of this run, read before the decision, instead of `input`."""


class RetryFailed(ToWorkflow, frozen=True, gc=False):
    """Continue a closed run as a new run of its id, with a copy of its history up to a cut."""

    allowed_when_closed: ClassVar[bool] = True
    requested_by: str = ""
    reason: str = ""
    from_seq: int | None = None
    """The last event to keep; None for the latest cut that undoes no finished work."""
    histories: Mapping[RunId, Sequence[Recorded]] = MappingProxyType({})
    """The histories of the run and of its children to reopen, and the closing events of children that ended by
    themselves; filled in by the engine."""
    named: tuple[tuple[Namespace, WorkflowId], ...] = ()
    """The namespaces and ids of children whose newest runs the decision needs; filled in by the engine."""
    complete: bool = True
    """False if the tree of children is larger than a request may reopen, and was not read to the end."""


class ScheduleDirect(ToWorkflow, frozen=True, gc=False):
    """Schedule an activity of an open run from outside its code; once per seq."""

    command: ScheduleActivity = ScheduleActivity()
    known: bool = False
    """True if an open or closed activity has this seq; read from the store."""


class LeaseTask(ToRun, frozen=True, gc=False):
    """Lease the due workflow task to a worker. `lease` is None for a worker in the process of the engine."""

    worker: WorkerId
    lease: Time | None
    local: bool = False


class StepOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of an inline step."""

    seq: int
    name: str
    time: Time
    result: Payload = NULL
    failure: FailureInfo | None = None
    attempt: int = 1
    retry_in: float | None = None
    input_hash: str | None = None


class ActivityOutcome(msgspec.Struct, frozen=True, gc=False):
    """The result of an activity with which the worker has already advanced. Failures are reported separately."""

    seq: int
    attempt_id: int
    time: Time
    result: Payload = NULL


class Advance(ToRun, frozen=True, gc=False):
    """The completion of a workflow task: outcomes that the worker advanced with, then the resulting commands.

    `seen_seq` is the last event that the worker had applied before these outcomes. With `pending` the code stopped at
    local work (a step, or a side effect in a speculative turn); with `early` the code has not yet run on from the
    outcomes; with `more` further commands of the same turn follow, and its input events count as unseen until the last
    message. In all three cases the worker keeps the lease.
    """

    worker: WorkerId
    epoch: int
    seen_seq: int
    commands: tuple[AnyCommand, ...] = ()
    outcomes: tuple[StepOutcome | ActivityOutcome, ...] = ()
    pending: bool = False
    early: bool = False
    lease: Time | None = None
    local: bool = False
    unread: tuple[Recorded, ...] = ()
    """Inputs that go along if a command continues as new; filled in by the engine."""
    unread_until: int = -1
    """The last event of the run when `unread` was read; negative if nothing was read."""
    updates: Mapping[str, UpdateState] = MappingProxyType({})
    """The updates that commands answer, by id; filled in by the engine."""
    unused: frozenset[tuple[str, int]] = frozenset()
    """(kind of event, seq) of commands with a seq below the highest that have no event yet; filled in by the engine."""
    more: bool = False
    deadlock: str | None = None
    """A sentence about code that waits for nothing that can come; the turn is complete."""
    denied: frozenset[str] = frozenset()
    """Namespaces named by commands in which the credential of the worker grants nothing; filled in by the API."""


class FailTask(ToRun, frozen=True, gc=False):
    """Report a failed workflow task: non-determinism, no handler. The run stays open."""

    worker: WorkerId
    epoch: int
    reason: str
    message: str


class ExtendTask(ToRun, frozen=True, gc=False):
    """Extend the lease of a workflow task."""

    worker: WorkerId
    epoch: int
    lease: Time


class ReleaseTask(ToRun, frozen=True, gc=False):
    """Release a workflow task undone, for example when a worker stops; not counted as a failure."""

    worker: WorkerId
    epoch: int


class LeaseActivity(ToRun, frozen=True, gc=False):
    """Lease a waiting activity to a worker: a new attempt begins."""

    seq: int
    worker: WorkerId
    lease: Time | None
    local: bool = False
    name: str = ""
    """The activity's name, by which the worker's slot is released if the lease is refused."""


class CompleteActivity(ToRun, frozen=True, gc=False):
    """Record the result of a successful attempt."""

    seq: int
    attempt_id: int
    result: Payload = NULL


class FailActivity(ToRun, frozen=True, gc=False):
    """Record a failed attempt; the retry policy decides about another attempt."""

    seq: int
    attempt_id: int
    failure: FailureInfo


class CancelledActivity(ToRun, frozen=True, gc=False):
    """Record the end of an attempt whose cancellation was requested."""

    seq: int
    attempt_id: int
    details: Payload = NULL


class HeartbeatActivity(ToRun, frozen=True, gc=False):
    """Record the heartbeat of an attempt; the next attempt receives the details."""

    seq: int
    attempt_id: int
    details: Payload = NULL
    lease: Time | None = None


class ExtendActivity(ToRun, frozen=True, gc=False):
    """Extend the lease of an attempt because its process is alive; not a heartbeat of the attempt."""

    seq: int
    attempt_id: int
    lease: Time


class ReleaseActivity(ToRun, frozen=True, gc=False):
    """Release an attempt uncounted, as if it had not begun; with `lost`, when its worker died, count the attempt."""

    seq: int
    attempt_id: int
    lost: bool = False


class LoseTask(ToRun, frozen=True, gc=False):
    """Take the workflow task from a worker that died together with its engine."""

    epoch: int


class Elapse(ToRun, frozen=True, gc=False):
    """Handle a deadline. `kind` is `run`, `activity` or `timer`; without effect if nothing is due."""

    allowed_when_closed: ClassVar[bool] = True
    kind: str = "run"
    ref: int = 0


class Deliver(ToWorkflow, frozen=True, gc=False):
    """Deliver outbox messages to a target; each is applied at most once, and its row is deleted."""

    allowed_when_closed: ClassVar[bool] = True
    messages: tuple[OutboxMessage, ...] = ()
    """One message, or several of an ordered kind."""
    endings: Mapping[RunId, Event] = MappingProxyType({})
    """The closing events of the runs that messages are about; filled in by the engine."""

    @staticmethod
    def of(*messages: OutboxMessage) -> "Deliver":
        """Return the request for messages to one target."""
        first = messages[0]
        return Deliver(first.namespace, first.workflow_id, first.run_id, messages)
