"""Routes of API keys: create, list, rotate and revoke. The text of a key is returned once, when it is created."""

from typing import Any, Final

import msgspec

from assay.api import answers
from assay.api.access import MANAGE_SHOWN, require, require_shown
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import TOTAL
from assay.auth.api_keys import DEFAULT_OVERLAP_SECONDS, ApiKey, NewKey, check_new_key
from assay.auth.permissions import ALL_NAMESPACES, UNRESTRICTED, Permission, Role
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time, seconds
from assay.wire.credentials import ApiKeyRecord, KeyBody, RotateBody
from assay.wire.errors import Unauthorized

NO_BOOTSTRAP: Final = (
    "Missing Authorization: Bearer <token>. The first key is made on the engine's own machine, or with"
    " `assay serve --generate-api-key`"
)


async def create(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create an API key. Only this response contains the text of the key: the engine stores a hash."""
    body = await call.read(KeyBody)
    if call.anonymous:
        return await _create_first(backend, body)
    require_shown(call.principal, Permission.MANAGE)
    wanted = _wanted(backend, call, body)
    for namespace in wanted.namespaces:
        require(call.principal, Permission.MANAGE, namespace)
    key, plaintext = await backend.auth.keys.create(wanted, idempotent=body.idempotent)
    return answers.json(_record(key, plaintext), 200 if plaintext is None else 201)


async def _create_first(backend: Backend, body: KeyBody) -> HttpResponse:
    """Create the first key: an admin of all namespaces. Role and namespaces of the body are ignored."""
    now = backend.engine.now()
    chosen = check_new_key(label=body.label, expires_at=_time(body.expires_at), creator=UNRESTRICTED, now=now)
    made = await backend.auth.keys.create_first(
        NewKey(label=chosen.label, role=Role.ADMIN, namespaces=(ALL_NAMESPACES,), expires_at=chosen.expires_at)
    )
    if made is None:
        raise Unauthorized(NO_BOOTSTRAP)
    return answers.json(_record(*made), 201)


def _wanted(backend: Backend, call: ApiCall, body: KeyBody) -> NewKey:
    return check_new_key(
        label=body.label,
        role=body.role,
        namespaces=body.namespaces,
        queues=body.queues,
        expires_at=_time(body.expires_at),
        creator=call.principal,
        now=backend.engine.now(),
    )


async def list_keys(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the API keys of the namespaces in which the caller is an admin."""
    require_shown(call.principal, Permission.MANAGE)
    found = await backend.auth.keys.list(call.principal, revoked=call.flag("revoked", False))
    return answers.listed([_record(key) for key in found])


async def rotate(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create a successor of an API key. The old key is accepted until the overlap ends."""
    body = await call.read(RotateBody)
    require_shown(call.principal, Permission.MANAGE)
    overlap = DEFAULT_OVERLAP_SECONDS if body.overlap_secs is None else body.overlap_secs
    if not 0 <= overlap <= 10 * 365 * 86_400:
        raise Invalid("overlap_secs must be a number of seconds, not negative", field="overlap_secs")
    key, plaintext = await backend.auth.keys.rotate(call.parameters["prefix"], int(overlap * SECOND), call.principal)
    return answers.json(_record(key, plaintext), 201)


async def revoke(backend: Backend, call: ApiCall) -> HttpResponse:
    """Revoke an API key. All engines refuse the key within seconds."""
    require_shown(call.principal, Permission.MANAGE)
    await backend.auth.keys.revoke(call.parameters["prefix"], call.principal)
    return answers.empty(204)


def _time(given: float | None) -> Time | None:
    return None if given is None else int(given * SECOND)


def _record(key: ApiKey, plaintext: str | None = None) -> ApiKeyRecord:
    return ApiKeyRecord(
        plaintext=msgspec.UNSET if plaintext is None else plaintext,
        prefix=key.prefix,
        label=key.label,
        role=key.role.value,
        namespaces=list(key.namespaces),
        queues=None if key.queues is None else list(key.queues),
        created_at=seconds(key.created_at),
        expires_at=None if key.expires_at is None else seconds(key.expires_at),
        last_used_at=None if key.last_used_at is None else seconds(key.last_used_at),
        revoked_at=msgspec.UNSET if key.revoked_at is None else seconds(key.revoked_at),
    )


def _route(method: str, path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method=method,
        path=f"/api-keys{path}",
        operation_id=operation_id,
        summary=summary,
        tag="api keys",
        reaction=reaction,
        answers=answer,
        access=MANAGE_SHOWN,
        **more,
    )


_MADE: Final = {201: ApiKeyRecord, 200: ApiKeyRecord}
_REVOKED: Final = Parameter("revoked", "True includes revoked keys.", bool)

ROUTES: Final = (
    _route("POST", "", "createApiKey", "Create an API key", create, _MADE, body=KeyBody, body_optional=True),
    _route(
        "GET",
        "",
        "listApiKeys",
        "List API keys, newest first",
        list_keys,
        {200: list[ApiKeyRecord]},
        query=(_REVOKED,),
        headers=(TOTAL,),
    ),
    _route(
        "POST",
        "/{prefix}/rotate",
        "rotateApiKey",
        "Rotate an API key",
        rotate,
        {201: ApiKeyRecord},
        body=RotateBody,
        body_optional=True,
    ),
    _route("DELETE", "/{prefix}", "revokeApiKey", "Revoke an API key", revoke, {204: None}),
)
