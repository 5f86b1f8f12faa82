"""The routes by which mailboxes watch workflows."""

from typing import Any, Final

from assay.api.access import ACT_IN_BODY, require
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.mutations import change
from assay.api.router import Parameter, Route
from assay.auth.permissions import Permission
from assay.core.model.addresses import WORKFLOW, Address, parse_address
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace, RunId, WorkflowId
from assay.core.model.peers import LINK, MONITOR
from assay.core.model.requests import AddWatcher, RemoveWatcher
from assay.core.rules.mailbox_watches import check_mailbox
from assay.wire.request_bodies import WatchBody

_NOTHING: Final[dict[int, Any]] = {200: None}


async def watch(backend: Backend, call: ApiCall) -> HttpResponse:
    """Let a mailbox watch a workflow."""
    body = await call.read(WatchBody)
    watcher = check_mailbox(body.watcher, body.mode)
    target = _target(body.target)
    _require(call, watcher, target)
    run_id = None if target.part is None else RunId(target.part)
    request = AddWatcher(
        Namespace(target.namespace), WorkflowId(target.id), run_id, watcher=watcher, mode=body.mode, pid=body.target
    )
    return await change(backend, call, target.namespace, request)


async def unwatch(backend: Backend, call: ApiCall) -> HttpResponse:
    """End the watch of a mailbox; without effect for a workflow that is not watched."""
    named = {name: call.text(name) for name in ("watcher", "target", "mode")}
    if named["watcher"] is None or named["target"] is None:
        body = await call.read(WatchBody)
        named = {"watcher": body.watcher, "target": body.target, "mode": body.mode}
    mode = named["mode"] or MONITOR
    watcher = check_mailbox(named["watcher"] or "", mode)
    target = parse_address(named["target"])
    if target is None or target.scheme != WORKFLOW:
        return HttpResponse(200)
    _require(call, watcher, target)
    run_id = None if target.part is None else RunId(target.part)
    request = RemoveWatcher(Namespace(target.namespace), WorkflowId(target.id), run_id, watcher=watcher, mode=mode)
    try:
        return await change(backend, call, target.namespace, request)
    except NotFound:
        return HttpResponse(200)


def _target(text: str) -> Address:
    target = parse_address(text)
    if target is None or target.scheme != WORKFLOW:
        raise Invalid("target must be the address of a workflow, wf://...", field="target")
    return target


def _require(call: ApiCall, watcher: str, target: Address) -> None:
    mailbox = parse_address(watcher)
    for address in (mailbox, target):
        if address is not None:
            require(call.principal, Permission.ACT, address.namespace)


_QUERY: Final = (
    Parameter("watcher", "The address of the mailbox."),
    Parameter("target", "The address of the workflow."),
    Parameter("mode", f"`{MONITOR}`, unless given, or `{LINK}`."),
)
ROUTES: Final = (
    Route(
        method="PUT",
        path="/watches",
        operation_id="addWatch",
        summary="Let a mailbox watch a workflow",
        tag="messages",
        reaction=watch,
        body=WatchBody,
        idempotent=True,
        access=ACT_IN_BODY,
        answers=_NOTHING,
    ),
    Route(
        method="DELETE",
        path="/watches",
        operation_id="removeWatch",
        summary="End the watch of a mailbox",
        tag="messages",
        reaction=unwatch,
        query=_QUERY,
        access=ACT_IN_BODY,
        answers=_NOTHING,
    ),
)
