"""A start that is repeated under its request id asks for the same as the first time, or it is refused (4.4)."""

from assay.core.errors import Invalid
from assay.core.events import Event, WorkflowStarted
from assay.core.payload import same_value, value_of
from assay.core.replies import Started
from assay.core.requests import StartWorkflow
from assay.storage.store import Store


async def check_same(store: Store, request: StartWorkflow, reply: Started) -> None:
    """Compare a repeated start with what the history of its run began with; only such a start pays for the read."""
    for recorded in await store.events(reply.key.run_id, limit=1):
        if not _same(recorded.event, request):
            message = "this request id was used for another start"
            raise Invalid(message, code="request_id_reused", field="request_id")


def _same(first: Event, request: StartWorkflow) -> bool:
    if not isinstance(first, WorkflowStarted) or first.start is None:
        return True
    same_type = first.start.workflow_type == request.workflow_type
    return same_type and same_value(value_of(first.input), value_of(request.input))
