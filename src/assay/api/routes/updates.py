"""The route of updates: requests to runs whose callers wait for an answer."""

from typing import Final
from uuid import uuid4

from assay.api import answers
from assay.api.access import ACT
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, payload
from assay.api.router import Route
from assay.api.routes.workflows import NAMESPACE, RUN, WAIT
from assay.core.model.errors import Invalid
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.options import check_id
from assay.core.model.requests import Update
from assay.core.model.update_states import ACCEPTED, COMPLETED, UpdateState
from assay.wire import responses
from assay.wire.render import failure_record
from assay.wire.request_bodies import UpdateBody

UPDATE_WAIT_SECONDS: Final = 25.0


async def update(backend: Backend, call: ApiCall) -> HttpResponse:
    """Send an update to an open run, and wait until it is accepted or has its outcome.

    The same `update_id`, or the same `Idempotency-Key` without an id, is one update, also after the run has closed.
    """
    body = await call.read(UpdateBody)
    if body.wait not in (None, ACCEPTED, COMPLETED):
        raise Invalid("wait is accepted or completed", field="wait")
    wait = call.wait()
    namespace, workflow_id = Namespace(call.namespace), WorkflowId(call.parameters["workflow_id"])
    given = body.update_id or call.header(b"idempotency-key")
    update_id = f"u-{uuid4().hex}" if given is None else check_id(given, "update_id")
    run_id = call.text("run_id")
    request = Update(
        namespace,
        workflow_id,
        None if run_id is None else RunId(run_id),
        name=check_id(call.parameters["name"], "name"),
        args=tuple(payload(value, "args") for value in body.args or ()),
        update_id=update_id,
    )
    accepted = body.wait == ACCEPTED
    seconds = UPDATE_WAIT_SECONDS if wait is None else wait
    state = await backend.engine.mail.send(request, accepted=accepted, seconds=seconds, caller=call.namespace)
    done = state.is_final or (accepted and state.status == ACCEPTED)
    return answers.json(update_answer(state), 200 if done else 202)


def update_answer(state: UpdateState) -> responses.UpdateAnswer:
    """Return the response body for an update."""
    failure = None if state.failure is None else failure_record(state.failure)
    return responses.UpdateAnswer(update_id=state.update_id, status=state.status, result=state.result, failure=failure)


ROUTES: Final = (
    Route(
        method="POST",
        path="/workflows/{workflow_id}/update/{name}",
        operation_id="updateWorkflow",
        summary="Send an update to a run and wait for the answer",
        tag="messages",
        reaction=update,
        body=UpdateBody,
        query=(NAMESPACE, RUN, WAIT),
        access=ACT,
        answers={200: responses.UpdateAnswer, 202: responses.UpdateAnswer},
    ),
)
