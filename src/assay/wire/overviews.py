"""Responses about what runs wait for and about many runs at once: built here, and described in the OpenAPI document."""

from typing import Any, Final

import msgspec

from assay.core.model.explanation import Explanation
from assay.core.model.ids import seconds
from assay.core.model.run import Run
from assay.wire.render import stuck_record
from assay.wire.responses import Status, Stuck, WorkflowRecord
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


LEFT_OUT: Final = ("input", "result", "memo", "context", "details", "retry_policy")
"""Fields of a run that a short list leaves out."""
SHORT_ERROR_CHARACTERS: Final = 300

WorkflowSummary: Final[Any] = msgspec.defstruct(
    "WorkflowSummary",
    [(field.name, field.type) for field in msgspec.structs.fields(WorkflowRecord) if field.name not in LEFT_OUT],
    namespace={"__doc__": "A run in a short list: without its documents, its error cut, its first wait alone."},
)


def summary_of(record: WorkflowRecord) -> msgspec.Struct:
    """Return the short form of a record."""
    fields = {name: getattr(record, name) for name in WorkflowSummary.__struct_fields__}
    if record.error is not None:
        fields["error"] = record.error[:SHORT_ERROR_CHARACTERS]
    if record.waiting_on is not None:
        fields["waiting_on"] = msgspec.structs.replace(record.waiting_on, waits=msgspec.UNSET)
    short: msgspec.Struct = WorkflowSummary(**fields)
    return short


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
