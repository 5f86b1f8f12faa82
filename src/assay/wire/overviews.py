"""Responses about what runs wait for and about many runs at once: built here, and described in the OpenAPI document."""

import msgspec

from assay.core.model.explanation import Explanation
from assay.core.model.ids import seconds
from assay.core.model.run import Run
from assay.wire.render import stuck_record
from assay.wire.responses import Status, Stuck
from assay.wire.waits import WaitingOn, waiting_record


class WaitingAnswer(msgspec.Struct, kw_only=True):
    """What a run waits for, with the fields of its record that change while it is open."""

    workflow_id: str
    run_id: str
    status: Status
    close_reason: str | None
    history_length: int
    updated_at: float
    cancel_requested: bool
    stuck: Stuck | None
    waiting_on: WaitingOn | None


def waiting_answer(run: Run, waiting: Explanation | None) -> WaitingAnswer:
    """Return what a run waits for, with its status."""
    return WaitingAnswer(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        status=run.status,
        close_reason=run.close_reason,
        history_length=run.last_seq,
        updated_at=seconds(run.updated_at),
        cancel_requested=run.cancel_seq > 0,
        stuck=stuck_record(run.task.stuck),
        waiting_on=None if waiting is None else waiting_record(waiting),
    )
