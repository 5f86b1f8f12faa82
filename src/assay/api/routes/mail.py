"""The route that sends a message to an address."""

from typing import Any, Final

from assay.api.access import ACT_IN_BODY, require
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, payload
from assay.api.mutations import change
from assay.api.router import Route
from assay.auth.permissions import Permission
from assay.core.model.addresses import UPDATE, WORKFLOW, Address, parse_address
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import NULL
from assay.core.model.requests import Signal
from assay.wire.request_bodies import MessageBody

_NOTHING: Final[dict[int, Any]] = {200: None}


async def send(backend: Backend, call: ApiCall) -> HttpResponse:
    """Send a message to the workflow at an address."""
    body = await call.read(MessageBody)
    target = target_of(body.to)
    require(call.principal, Permission.ACT, target.namespace)
    args = tuple(payload(value, "args") for value in body.args or ())
    request = Signal(
        Namespace(target.namespace),
        WorkflowId(target.id),
        None if target.part is None else RunId(target.part),
        name=check_id(body.topic, "topic"),
        payload=args[0] if len(args) == 1 else NULL,
        sender=check_text(body.sender, "from"),
        args=args if len(args) > 1 else (),
    )
    return await change(backend, call, target.namespace, request)


def target_of(text: str) -> Address:
    """Return the parsed address of a message's target.

    Raises:
        NotFound: The text is no address.
        Invalid: The address is that of an update, which only its workflow answers.
    """
    target = parse_address(text)
    if target is not None and target.scheme == UPDATE:
        raise Invalid("only the workflow that received an update answers it", field="to")
    if target is None or target.scheme != WORKFLOW:
        raise NotFound(f"{text} is not the address of a workflow or mailbox")
    return target


ROUTES: Final = (
    Route(
        method="POST",
        path="/messages",
        operation_id="sendMessage",
        summary="Send a message to an address",
        tag="messages",
        reaction=send,
        body=MessageBody,
        idempotent=True,
        access=ACT_IN_BODY,
        answers=_NOTHING,
    ),
)
