"""The origin and options of a run, recorded in its first event.

Fields with a default may be added at the end. Nothing is ever renamed or removed, because every history must be read.
"""

import msgspec

from assay.core.model.failure import FailureInfo
from assay.core.model.ids import Namespace, RunId, Time
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import OwnWatch
from assay.core.model.policies import ParentClose, RetryPolicy


class ParentLink(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The parent of a child, and the policy for the child when the parent closes."""

    workflow_id: str
    run_id: RunId
    child_seq: int = 0
    close_policy: ParentClose = ParentClose.TERMINATE
    namespace: Namespace | None = None
    """The namespace of the parent; None for the namespace of the child."""


class Adopted(msgspec.Struct, frozen=True, gc=False):
    """An open child taken over from an earlier run: the run that started the child, and the child's workflow id."""

    run_id: RunId
    workflow_id: str


class Reopening(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The retry that created a run with the history of a closed run."""

    requested_by: str
    reason: str
    activity_seq: int
    adopted: tuple[Adopted, ...] = ()
    origin: RunId | None = None
    """The run that had this history first; its id seeds the random numbers, which the copy has to repeat."""
    activity_id: int = 0
    """The id, in this run, of the retried activity."""
    replay_until: int = 0
    """The last input before the last echo of the copy: the code of the earlier run has passed the events up to here."""


class StartData(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The options and origin of a run, beside its input; never changes."""

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
    """The workflow type at the start of the chain, if a continue-as-new has changed the type."""
    engine_version: str | None = None
    """The version of the engine that created the run."""
    watches: tuple[OwnWatch, ...] = ()
    """The watches that the previous run of the chain has left to this run."""
    actor: str | None = None
    scope: tuple[str, ...] | None = None
    """The actor and policies under which the run was started, as callers pass them on; not verified."""

    @property
    def chain_types(self) -> tuple[str, str]:
        """Return the workflow type of this run and the type at the start of its chain."""
        return self.workflow_type, self.first_workflow_type or self.workflow_type
