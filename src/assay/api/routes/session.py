"""Routes of the caller's session: the caller's identity and roles, the ways to sign in, sign-in and sign-out."""

from typing import Final

from assay.api import answers
from assay.api.access import PUBLIC
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.csrf import check_csrf
from assay.api.router import Route
from assay.auth.json_web_tokens import InvalidToken
from assay.auth.permissions import UNRESTRICTED, Principal
from assay.auth.sessions import BrowserSession
from assay.core.model.ids import SECOND
from assay.wire.credentials import SessionRecord, SignInBody, SignInWays
from assay.wire.errors import Unauthorized


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the identity and roles of the caller, also for anonymous callers."""
    session = await backend.auth.session_of(call) if backend.auth.settings.is_on else None
    caller = session.principal() if session is not None else await _caller(backend, call)
    return answers.json(await _record(backend, caller, session))


async def _caller(backend: Backend, call: ApiCall) -> Principal | None:
    try:
        return await backend.auth.authenticate(call)
    except (Unauthorized, InvalidToken):
        if call.header(b"authorization") is not None:
            raise  # a wrong credential is an error, not an anonymous caller
        return None


async def _record(backend: Backend, caller: Principal | None, session: BrowserSession | None) -> SessionRecord:
    settings, flow = backend.auth.settings, backend.auth.code_flow
    bootstrap = settings.api_keys and not await backend.auth.keys.had_key()
    return SessionRecord(
        authenticated=caller is not None,
        user=None if caller is None else caller.user,
        roles={} if caller is None else caller.shown_roles(),
        csrf=None if session is None else session.csrf,
        auth=settings.mode,
        sign_in=SignInWays(
            api_key=settings.is_on, oidc=None if flow is None else flow.rules.label, bootstrap=bootstrap
        ),
        features=["batches", "failures", *([] if backend.auditor is None else ["audit"])],
    )


async def sign_in(backend: Backend, call: ApiCall) -> HttpResponse:
    """Begin a session of a browser: the response sets the session's cookie."""
    call.require_json()
    body = await call.read(SignInBody)
    if not backend.auth.settings.is_on:
        return answers.json(await _record(backend, UNRESTRICTED, None))
    cookie, session = await session_cookie(backend, call, await backend.auth.check(call, body.api_key))
    return answers.json(await _record(backend, session.principal(), session), 200, [cookie])


async def session_cookie(backend: Backend, call: ApiCall, caller: Principal) -> tuple[Header, BrowserSession]:
    """Begin a session of a browser, and return its cookie. The session that the browser had before ends."""
    auth = backend.auth
    begun = await auth.sessions.sign_in(caller)
    if begun is None:
        raise Unauthorized("the credential has expired")
    before = await auth.session_of(call)
    if before is not None:
        await auth.sessions.end(before.digest)
    session, session_id = begun
    max_age = (session.expires_at - session.created_at) // SECOND
    return auth.cookies.set_session(call, session_id, max_age), session


async def sign_out(backend: Backend, call: ApiCall) -> HttpResponse:
    """End the session of the browser, in all its tabs; without a session nothing happens."""
    auth = backend.auth
    session = await auth.session_of(call) if auth.settings.is_on else None
    if session is not None:
        check_csrf(call, session)
        await auth.sessions.end(session.digest)
    if auth.cookies.session_id(call) is None or call.header(b"authorization") is not None:
        return answers.empty(204)
    return HttpResponse(204, b"", [auth.cookies.set_session(call, "", 0)])


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
    Route(
        method="POST",
        path="/session",
        operation_id="signIn",
        summary="Sign in with an API key or a token",
        tag="session",
        reaction=sign_in,
        body=SignInBody,
        answers={200: SessionRecord},
        access=PUBLIC,
        served_read_only=True,
        problems=("401",),
    ),
    Route(
        method="DELETE",
        path="/session",
        operation_id="signOut",
        summary="Sign out",
        tag="session",
        reaction=sign_out,
        answers={204: None},
        access=PUBLIC,
        served_read_only=True,
    ),
)
