"""Routes of namespaces: create, list, count, delete. A namespace is also created by its first use."""

from typing import Final

from assay.api import answers
from assay.api.access import READ_NAMED, READ_SHOWN, require_shown
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.mutations import answer_of, key_of, nothing
from assay.api.router import Route
from assay.api.routes.workflows import TOTAL
from assay.auth.permissions import Permission
from assay.core.model.errors import Invalid
from assay.wire import responses
from assay.wire.registrations import namespace_record, namespace_stats
from assay.wire.request_bodies import NamespaceBody


async def create(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create a namespace."""
    body = await call.read(NamespaceBody)
    # The key belongs to the caller's namespace, not to the new one: reusing it for another name must be refused.
    key = await key_of(call, call.namespace, _created)
    try:
        auditor = backend.auditor
        audit = None if auditor is None else auditor.row(call, body.name, body.name, after={"name": body.name})
        known = await backend.worker_registry.create(body.name, key, audit)
    except Invalid as error:
        if error.field == "namespace":  # the field of this body is `name`
            error.field = "name"
        raise
    return answers.empty(201) if known is None else answer_of(known)


def _created(_: object) -> tuple[int, bytes]:
    return 201, b""


async def list_namespaces(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the namespaces that the caller may read, ordered by name."""
    shown = require_shown(call.principal, Permission.READ)
    rows = await backend.worker_registry.namespaces()
    return answers.listed([namespace_record(row) for row in rows if shown is None or row.name in shown])


async def stats(backend: Backend, call: ApiCall) -> HttpResponse:
    """Count the runs, schedules and workers of a namespace. All counts of a missing namespace are zero."""
    name = call.parameters["name"]
    return answers.json(namespace_stats(name, *await backend.worker_registry.counts(name)))


async def delete(backend: Backend, call: ApiCall) -> HttpResponse:
    """Delete a namespace without open runs and schedules."""
    name = call.parameters["name"]
    audit = None if backend.auditor is None else backend.auditor.row(call, name, before={"name": name})
    known = await backend.worker_registry.delete(name, await key_of(call, call.namespace, nothing), audit)
    return answers.empty() if known is None else answer_of(known)


ROUTES: Final = (
    Route(
        method="POST",
        path="/namespaces",
        operation_id="createNamespace",
        summary="Create a namespace",
        tag="namespaces",
        reaction=create,
        body=NamespaceBody,
        idempotent=True,
        answers={201: None},
    ),
    Route(
        method="GET",
        path="/namespaces",
        operation_id="listNamespaces",
        summary="List namespaces",
        tag="namespaces",
        reaction=list_namespaces,
        headers=(TOTAL,),
        answers={200: list[responses.NamespaceRecord]},
        access=READ_SHOWN,
    ),
    Route(
        method="GET",
        path="/namespaces/{name}",
        operation_id="getNamespace",
        summary="Get the counts of a namespace",
        tag="namespaces",
        reaction=stats,
        answers={200: responses.NamespaceStats},
        access=READ_NAMED,
    ),
    Route(
        method="DELETE",
        path="/namespaces/{name}",
        operation_id="deleteNamespace",
        summary="Delete a namespace",
        tag="namespaces",
        reaction=delete,
        idempotent=True,
        answers={200: None},
    ),
)
