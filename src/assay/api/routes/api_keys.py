"""Routes of API keys: create, list, rotate and revoke. The text of a key is returned once, when it is created."""

from functools import partial
from typing import Any, Final

import msgspec

from assay.api import answers
from assay.api.access import MANAGE_SHOWN, require, require_shown
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.mutations import answer_of, key_of
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import TOTAL
from assay.auth.api_keys import DEFAULT_OVERLAP_SECONDS, ApiKey, NewKey, check_new_key
from assay.auth.permissions import ALL_NAMESPACES, UNRESTRICTED, Permission, Role
from assay.core.model.attached_rows import AttachedRows
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time, seconds
from assay.engine.commit.idempotency import IdempotencyKey, Rendered
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
        return await _create_first(backend, call, body)
    require_shown(call.principal, Permission.MANAGE)
    wanted = _wanted(backend, call, body)
    for namespace in wanted.namespaces:
        require(call.principal, Permission.MANAGE, namespace)
    once = await key_of(call, call.namespace, _without_text)
    attach = partial(_attached, backend, call, once)
    made = await backend.kept_answers.once(
        once, partial(backend.auth.keys.create, wanted, idempotent=body.idempotent, attach=attach)
    )
    return _made(made)


def _made(made: tuple[ApiKey, str | None] | Rendered) -> HttpResponse:
    """Return the answer with a new key. A repetition has no text: kept answers contain no secrets."""
    if isinstance(made, Rendered):
        return answer_of(made)
    key, plaintext = made
    return answers.json(_record(key, plaintext), 200 if plaintext is None else 201)


def _without_text(reply: object) -> tuple[int, bytes]:
    if not isinstance(reply, ApiKey):
        raise TypeError(reply)
    return 200, answers.encoded(_record(reply))


def _attached(
    backend: Backend, call: ApiCall, once: IdempotencyKey | None, before: ApiKey | None, after: ApiKey
) -> AttachedRows:
    """Return the rows of a change: the kept answer without the text of the key, and the audit."""
    audit = None
    if backend.auditor is not None:
        namespace = after.namespaces[0] if len(after.namespaces) == 1 else ALL_NAMESPACES
        audit = backend.auditor.row(
            call,
            namespace,
            after.prefix if before is None else before.prefix,
            before=None if before is None else _record(before),
            after=_record(after),
        )
    return AttachedRows(backend.kept_answers.outcome(once, after), audit)


async def _create_first(backend: Backend, call: ApiCall, body: KeyBody) -> HttpResponse:
    """Create the first key: an admin of all namespaces. Role and namespaces of the body are ignored."""
    now = backend.engine.now()
    chosen = check_new_key(label=body.label, expires_at=_time(body.expires_at), creator=UNRESTRICTED, now=now)
    made = await backend.auth.keys.create_first(
        NewKey(label=chosen.label, role=Role.ADMIN, namespaces=(ALL_NAMESPACES,), expires_at=chosen.expires_at),
        partial(_attached, backend, call, None),
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
    once = await key_of(call, call.namespace, _without_text)
    prefix, attach = call.parameters["prefix"], partial(_attached, backend, call, once)
    return _made(
        await backend.kept_answers.once(
            once, partial(backend.auth.keys.rotate, prefix, int(overlap * SECOND), call.principal, attach)
        )
    )


async def revoke(backend: Backend, call: ApiCall) -> HttpResponse:
    """Revoke an API key. All engines refuse the key within seconds."""
    require_shown(call.principal, Permission.MANAGE)
    attach = partial(_attached, backend, call, None)
    await backend.auth.keys.revoke(call.parameters["prefix"], call.principal, attach)
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
    _route(
        "POST",
        "",
        "createApiKey",
        "Create an API key",
        create,
        _MADE,
        body=KeyBody,
        body_optional=True,
        idempotent=True,
    ),
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
        _MADE,
        body=RotateBody,
        body_optional=True,
        idempotent=True,
    ),
    _route("DELETE", "/{prefix}", "revokeApiKey", "Revoke an API key", revoke, {204: None}),
)
