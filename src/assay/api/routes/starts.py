"""The route that starts runs, and optionally waits for the result in the same request."""

from typing import Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from assay.api import answers
from assay.api.access import ACT_IN_BODY, require
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall, document, payload
from assay.api.mutations import change
from assay.api.router import Route
from assay.api.routes.workflows import NAMESPACE, WAIT, outcome
from assay.auth.permissions import Permission
from assay.core.model.arguments import packed_payload
from assay.core.model.errors import Invalid
from assay.core.model.ids import Namespace, RunId, RunKey, WorkflowId, id_of_request
from assay.core.model.options import OPTION_PARSERS, check_id, check_text, checked_start, choice
from assay.core.model.payload import NULL, Payload
from assay.core.model.peers import LINK, MONITOR
from assay.core.model.policies import IdConflict
from assay.core.model.replies import Started
from assay.core.model.requests import FirstSignal, StartWorkflow
from assay.core.model.start_options import OptionKind, by_option, given_options
from assay.core.rules.mailbox_watches import check_mailbox
from assay.wire import responses
from assay.wire.render import start_record
from assay.wire.request_bodies import SignalAtStart, StartBody

MAX_TYPE_BYTES: Final = 200
"""Bytes of the workflow type in a generated id; a whole id has at most 255 bytes."""
_PARSERS: Final = {**OPTION_PARSERS, **by_option({OptionKind.OBJECT: document, OptionKind.PRIORITY: payload})}
_started: Final = msgspec.json.Decoder(responses.StartAnswer).decode


async def start(backend: Backend, call: ApiCall) -> HttpResponse:
    """Start a run. With `wait_secs` the response has the result, if the run ends in time."""
    body = await call.read(StartBody)
    wait = call.wait()
    request = start_request(body, body.namespace or call.namespace)
    require(call.principal, Permission.ACT, request.namespace)
    if not backend.worker_registry.has_namespace(request.namespace):
        await backend.worker_registry.ensure(checked_start(request).namespace)
    reply = _Reply()
    answer = await change(backend, call, request.namespace, request, reply.rendered)
    if reply.repeated is not None:
        await backend.engine.check_repeated(request, reply.repeated)
    if wait is None or answer.status not in (200, 201):
        return answer
    return await _waited(backend, call, request.namespace, answer, wait)


def start_request(body: StartBody, namespace: str) -> StartWorkflow:
    """Return the request of a body."""
    return StartWorkflow(
        namespace=Namespace(namespace),
        workflow_id=_id(body, namespace) if body.workflow_id is None else WorkflowId(body.workflow_id),
        workflow_type=body.workflow_type,
        task_queue="default" if body.task_queue is None else body.task_queue,
        input=_input(body),
        id_conflict_policy=_conflict(body),
        signals=tuple(_first(signal, body.sender) for signal in body.signals or ()),
        request_id=body.request_id,
        watchers=_watchers(body),
        **given_options(body, _PARSERS),
    )


def _watchers(body: StartBody) -> tuple[tuple[str, str], ...]:
    given = ((MONITOR, body.monitor_by, "monitor_by"), (LINK, body.link_by, "link_by"))
    return tuple((mode, check_mailbox(address, mode, name)) for mode, address, name in given if address is not None)


def _input(body: StartBody) -> Payload:
    if body.args is None:
        return payload(body.input, "input")
    if body.input is not NULL and body.input != NULL:
        raise Invalid("give an input or args, not both", field="args")
    return payload(packed_payload(body.args), "args")


def _id(body: StartBody, namespace: str) -> WorkflowId:
    """Return an id for a start without an id. Starts with the same request id need the same workflow id."""
    if body.request_id is not None:
        return id_of_request(namespace, body.request_id)
    short = body.workflow_type.lower().encode()[:MAX_TYPE_BYTES].decode(errors="ignore")
    return WorkflowId(f"wf-{short}-{uuid4().hex[:12]}")


def _conflict(body: StartBody) -> IdConflict:
    """Return the conflict policy; an explicit policy has precedence over `error_if_exists`."""
    default = IdConflict.USE_EXISTING if body.error_if_exists is False else IdConflict.FAIL
    return choice(IdConflict, body.id_conflict_policy, "id_conflict_policy", default)


def _first(signal: SignalAtStart, sender: str | None) -> FirstSignal:
    content = message_of(signal.payload, signal.args)
    sender = check_text(signal.sender or sender, "from")
    return FirstSignal(check_id(signal.name, "signals.name"), content, sender, several_of(signal.args))


def several_of(args: list[Payload] | None) -> tuple[Payload, ...]:
    """Return the arguments of a message with several arguments; nothing for one argument or none."""
    return () if args is None or len(args) < 2 else tuple(args)


def message_of(content: Payload, args: list[Payload] | None) -> Payload:
    """Return the payload of a message: the payload itself, a single argument, or a list of several arguments."""
    if not args:
        return payload(content, "payload")
    return payload(args[0] if len(args) == 1 else Payload(msgspec.json.encode(args)), "args")


class _Reply:
    """The reply to a start, on its way to the caller."""

    def __init__(self) -> None:
        self.repeated: Started | None = None

    def rendered(self, reply: object) -> tuple[int, bytes]:
        """Return status and body; keep a repeated start, because its request is compared with the original request."""
        if not isinstance(reply, Started):
            raise TypeError(reply)
        self.repeated = reply if reply.repeated else None
        return (201 if reply.started else 200), answers.encoded(start_record(reply))


async def _waited(backend: Backend, call: ApiCall, namespace: str, answer: HttpResponse, wait: float) -> HttpResponse:
    started = _started(answer.body)
    key = RunKey(Namespace(namespace), WorkflowId(started.workflow_id), RunId(started.run_id))
    ending, closed = await outcome(backend, key, wait, follow=True)
    status = answer.status if closed else 202
    replayed = [header for header in answer.headers if header[0] == b"idempotent-replay"]
    return answers.json(replace(ending, started=started.started, pid=started.pid), status, replayed)


ROUTES: Final = (
    Route(
        method="POST",
        path="/workflows",
        operation_id="startWorkflow",
        summary="Start a run",
        tag="workflows",
        reaction=start,
        body=StartBody,
        query=(NAMESPACE, WAIT),
        idempotent=True,
        access=ACT_IN_BODY,
        answers={
            201: (responses.StartAnswer, responses.ResultAnswer),
            200: (responses.StartAnswer, responses.ResultAnswer),
            202: responses.ResultAnswer,
        },
    ),
)
