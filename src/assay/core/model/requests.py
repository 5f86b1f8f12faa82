"""All that may be asked of a run. Each request names its run; `decide` answers it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import msgspec

from assay.core.model.commands import AnyCommand, ScheduleActivity
from assay.core.model.effects import OutboxMessage
from assay.core.model.events import Recorded
from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time, WorkerId, WorkflowId
from assay.core.model.payload import NULL, Payload
from assay.core.model.policies import IdConflict, IdReuse, ParentClose, RetryPolicy
from assay.core.model.start_options import StartOptions

HELD_EPOCH = -1
"""Stands for the epoch of whatever lease the worker holds: workers of the original know only their own id (R34)."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """The common face of all requests."""

    allowed_when_closed: ClassVar[bool] = False
    """May it be decided on a run that has ended? All others are refused there (I5)."""


class ToRun(Request, frozen=True, gc=False):
    """A request to exactly one run."""

    run_id: RunId


class ToWorkflow(Request, frozen=True, gc=False):
    """A request to the current run of an id, or to the named run of it."""

    namespace: Namespace
    workflow_id: WorkflowId
    run_id: RunId | None = None


class FirstSignal(msgspec.Struct, frozen=True, gc=False):
    """A message that is in the history before anything from outside (C41)."""

    name: str
    payload: Payload = NULL
    sender: str | None = None


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


class Signal(ToWorkflow, frozen=True, gc=False):
    """Send a message to an open run."""

    name: str = ""
    payload: Payload = NULL
    sender: str | None = None
    context: Payload = NULL
    message_id: str | None = None


class RequestCancel(ToWorkflow, frozen=True, gc=False):
    """Ask an open run to end; with `deadline` it is terminated if it has not by then."""

    reason: str | None = None
    sender: str | None = None
    deadline: Time | None = None


class Terminate(ToWorkflow, frozen=True, gc=False):
    """End an open run without asking its code."""

    reason: str | None = None
    by: str | None = None


class RestartAsNew(ToWorkflow, frozen=True, gc=False):
    """Continue-as-new asked from outside (R38): an open run is closed, a closed one left alone."""

    allowed_when_closed: ClassVar[bool] = True
    input: Payload = NULL
    signals: tuple[Recorded, ...] = ()
    new_workflow_id: WorkflowId | None = None
    """Another id begins a chain of its own."""
    keep_input: bool = False
    """The next run has the input of this one, which is read before the decision, instead of `input`."""


class RetryFailed(ToWorkflow, frozen=True, gc=False):
    """Let a closed run go on as a new run of its id, with a copy of its history up to a cut."""

    allowed_when_closed: ClassVar[bool] = True
    requested_by: str = ""
    reason: str = ""
    from_seq: int | None = None
    """The last event to keep; None for the cut that undoes no finished work."""
    histories: Mapping[RunId, Sequence[Recorded]] = MappingProxyType({})
    """The histories of the run and of the children that may be reopened with it, and the closing events of children
    that ended by themselves; filled in by the engine."""
    named: tuple[WorkflowId, ...] = ()
    """The children whose newest runs the decision depends on; filled in by the engine."""
    complete: bool = True
    """Was everything read? Not if the tree of children is larger than one request may reopen."""


class ScheduleDirect(ToWorkflow, frozen=True, gc=False):
    """Schedule an activity of an open run from outside its code; once per seq."""

    command: ScheduleActivity = ScheduleActivity()
    known: bool = False
    """Is there an activity with this seq already, open or closed? Only the store can tell."""


class LeaseTask(ToRun, frozen=True, gc=False):
    """Give the due workflow task to a worker. `lease` is None for a worker that lives and dies with this engine."""

    worker: WorkerId
    lease: Time | None
    local: bool = False


class StepOutcome(msgspec.Struct, frozen=True, gc=False):
    """How an inline step ended in its worker."""

    seq: int
    name: str
    time: Time
    result: Payload = NULL
    failure: FailureInfo | None = None
    attempt: int = 1
    retry_in: float | None = None
    input_hash: str | None = None


class ActivityOutcome(msgspec.Struct, frozen=True, gc=False):
    """A success that the worker has already advanced on (R8); failures are the engine's to judge."""

    seq: int
    attempt_id: int
    time: Time
    result: Payload = NULL


class Advance(ToRun, frozen=True, gc=False):
    """A worker's turn on a run: outcomes it advanced on, then the commands that follow (design section 6).

    `seen_seq` is the last event it had applied before these outcomes; `pending` says that the code stopped at local
    work (a step, or a side effect in a speculative turn) and needs the lease to go on; `early`, that it has yet to go
    on from the outcomes, and needs the lease for that.
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
    """Signals to carry over when a command continues as new; filled in by the engine (R19)."""
    unused: frozenset[tuple[str, int]] = frozenset()
    """Kind of event and seq of those commands that come out of order and repeat nothing; filled in by the engine."""


class FailTask(ToRun, frozen=True, gc=False):
    """The task could not be done: non-determinism, no handler (R21). The run stays open."""

    worker: WorkerId
    epoch: int
    reason: str
    message: str


class ExtendTask(ToRun, frozen=True, gc=False):
    """Keep the lease of a workflow task."""

    worker: WorkerId
    epoch: int
    lease: Time


class ReleaseTask(ToRun, frozen=True, gc=False):
    """Give a workflow task back undone, as when a worker stops; counts as no failure."""

    worker: WorkerId
    epoch: int


class LeaseActivity(ToRun, frozen=True, gc=False):
    """Give a waiting activity to a worker: a new attempt begins."""

    seq: int
    worker: WorkerId
    lease: Time | None
    local: bool = False
    name: str = ""
    """The activity's name, by which the worker's slot is released if the lease is refused."""


class CompleteActivity(ToRun, frozen=True, gc=False):
    """An attempt succeeded."""

    seq: int
    attempt_id: int
    result: Payload = NULL


class FailActivity(ToRun, frozen=True, gc=False):
    """An attempt failed; the policy says what follows."""

    seq: int
    attempt_id: int
    failure: FailureInfo


class CancelledActivity(ToRun, frozen=True, gc=False):
    """An attempt that was asked to stop has stopped."""

    seq: int
    attempt_id: int
    details: Payload = NULL


class HeartbeatActivity(ToRun, frozen=True, gc=False):
    """An attempt is alive; its details are given to the next one (R33)."""

    seq: int
    attempt_id: int
    details: Payload = NULL
    lease: Time | None = None


class ExtendActivity(ToRun, frozen=True, gc=False):
    """The process that runs an attempt is alive; says nothing of the attempt itself (R9)."""

    seq: int
    attempt_id: int
    lease: Time


class ReleaseActivity(ToRun, frozen=True, gc=False):
    """Take an attempt back as if it had not begun; `lost` counts it, as when its worker died (R9, R11)."""

    seq: int
    attempt_id: int
    lost: bool = False


class LoseTask(ToRun, frozen=True, gc=False):
    """The holder of the workflow task is known to be dead: it died with the engine that held it (R9)."""

    epoch: int


class Elapse(ToRun, frozen=True, gc=False):
    """A deadline has come. `kind` is `run`, `activity` or `timer`; harmless if nothing is due after all."""

    allowed_when_closed: ClassVar[bool] = True
    kind: str = "run"
    ref: int = 0


class Deliver(ToRun, frozen=True, gc=False):
    """Hand a message from the outbox to its run; taken at most once, acknowledged always."""

    allowed_when_closed: ClassVar[bool] = True
    message: OutboxMessage
