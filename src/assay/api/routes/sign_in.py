"""Routes of the sign-in at an issuer: lead the browser there, and take it back with a session."""

from typing import Final

from assay.api import answers
from assay.api.access import PUBLIC
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import PREFIXES, Parameter, Route
from assay.api.routes.session import session_cookie
from assay.auth.code_flow import LOGIN_SECONDS, CodeFlow, OidcFailed, begin_attempt, decode_attempt, landing_path
from assay.core.model.errors import NotFound
from assay.wire.errors import Unauthorized

CALLBACK: Final = "/session/callback"
SEE_OTHER: Final = 303
_ANSWERED: Final = ("code", "state", "iss", "error")


async def begin(backend: Backend, call: ApiCall) -> HttpResponse:
    """Lead the browser to the issuer, where a person signs in."""
    flow = _flow(backend)
    attempt = begin_attempt(call.text("next"))
    address = await flow.address(attempt, _redirect_uri(backend, call))
    return _see_other(address, backend.auth.cookies.set_login(call, attempt.encoded(), LOGIN_SECONDS))


async def finish(backend: Backend, call: ApiCall) -> HttpResponse:
    """Take the browser back from the issuer: begin a session, and lead to the page that the person wanted."""
    flow, cookies = _flow(backend), backend.auth.cookies
    forget = cookies.set_login(call, "", 0)
    try:
        attempt = decode_attempt(cookies.login(call))
        answer = {name: call.text(name) for name in _ANSWERED}
        caller = await flow.finish(attempt, answer, _redirect_uri(backend, call))
        cookie, _ = await session_cookie(backend, call, caller)
    except OidcFailed as problem:
        return answers.error(problem, [forget])
    except Unauthorized:
        return answers.error(OidcFailed("the ID token has expired"), [forget])
    return _see_other(landing_path(attempt.next), cookie, forget)


def _flow(backend: Backend) -> CodeFlow:
    if backend.auth.code_flow is None:
        raise NotFound("a sign-in at an issuer; `assay serve --auth-client-id` turns it on")
    return backend.auth.code_flow


def _redirect_uri(backend: Backend, call: ApiCall) -> str:
    """Return the address to which the issuer sends the browser back; the operator has registered it there."""
    origin = backend.settings.exposure.public_origin
    if origin is None:
        forwarded = None if call.forwarded is None else call.forwarded.host
        origin = f"{'https' if call.is_secure else 'http'}://{forwarded or call.header(b'host')}"
    return f"{origin}{PREFIXES[1]}{CALLBACK}"


def _see_other(location: str, *cookies: Header) -> HttpResponse:
    return HttpResponse(SEE_OTHER, b"", [(b"location", location.encode("ascii")), *cookies])


ROUTES: Final = (
    Route(
        method="GET",
        path="/session/oidc",
        operation_id="beginSignIn",
        summary="Sign in at the issuer",
        tag="session",
        reaction=begin,
        query=(Parameter("next", "The path below `/workflow/` to show after the sign-in."),),
        answers={303: None},
        access=PUBLIC,
    ),
    Route(
        method="GET",
        path=CALLBACK,
        operation_id="finishSignIn",
        summary="Return from a sign-in at the issuer",
        tag="session",
        reaction=finish,
        query=(
            Parameter("code", "The code of the issuer."),
            Parameter("state", "The state of the attempt."),
            Parameter("iss", "The issuer."),
            Parameter("error", "The reason of a refusal."),
        ),
        answers={303: None},
        access=PUBLIC,
    ),
)
