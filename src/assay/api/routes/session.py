"""The route of the caller's session: the caller's identity and roles, and the ways to sign in."""

from typing import Final

from assay.api import answers
from assay.api.access import PUBLIC
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Route
from assay.auth.json_web_tokens import InvalidToken
from assay.auth.permissions import Principal
from assay.wire.credentials import SessionRecord
from assay.wire.errors import Unauthorized


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the identity and roles of the caller, also for anonymous callers."""
    return answers.json(await _record(backend, await _caller(backend, call)))


async def _caller(backend: Backend, call: ApiCall) -> Principal | None:
    try:
        return await backend.auth.authenticate(call)
    except (Unauthorized, InvalidToken):
        if call.header(b"authorization") is not None:
            raise  # a wrong credential is an error, not an anonymous caller
        return None


async def _record(backend: Backend, caller: Principal | None) -> SessionRecord:
    settings = backend.auth.settings
    bootstrap = settings.api_keys and not await backend.auth.keys.had_key()
    return SessionRecord(
        authenticated=caller is not None,
        user=None if caller is None else caller.user,
        roles={} if caller is None else caller.shown_roles(),
        csrf=None,
        auth=settings.mode,
        sign_in={"api_key": settings.is_on, "oidc": None, "bootstrap": bootstrap},
        features=[],
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/session",
        operation_id="getSession",
        summary="Describe the caller, and how to sign in",
        tag="session",
        reaction=describe,
        answers={200: SessionRecord},
        access=PUBLIC,
    ),
)
