"""Authenticate requests: an API key, a token or the cookie of a session becomes a principal, or the request gets a 401.

A bearer with the form of a token is checked as a token only, never as a key.
"""

import asyncio
from ipaddress import ip_address
from typing import Final

import msgspec

from assay.api.call import ApiCall
from assay.api.cookies import Cookies
from assay.api.csrf import check_csrf
from assay.api.exposure import unmapped
from assay.api.request_rates import seconds_until
from assay.auth.api_keys import is_key, prefix_of
from assay.auth.code_flow import CodeFlow
from assay.auth.failed_attempts import FailedAttempts
from assay.auth.issuer import Issuer
from assay.auth.json_web_tokens import InvalidToken, is_token
from assay.auth.key_registry import KeyRegistry
from assay.auth.permissions import UNRESTRICTED, Principal
from assay.auth.session_registry import SessionRegistry
from assay.auth.sessions import BrowserSession
from assay.auth.tickets import StreamTicket, TicketRegistry
from assay.core.model.errors import AssayError, Kind
from assay.core.model.ids import Time
from assay.engine.clock import Clock
from assay.wire.errors import Unauthorized

VALIDITY_CHECK_SECONDS: Final = 1.0
"""How often the credential of an open stream or socket is checked: they end within 5 s of its revocation."""
_BEARER: Final = "bearer "
_FORWARDED: Final = (b"forwarded", b"x-forwarded-")
_MISSING: Final = "Missing Authorization: Bearer <token>"


class TooManyAttempts(AssayError):
    """An address, or a key prefix, has shown too many wrong credentials."""

    code = "too_many_attempts"
    kind = Kind.RATE_LIMITED

    def __init__(self, wait: Time) -> None:
        self.retry_after_seconds = seconds_until(wait)
        super().__init__(f"too many wrong credentials; wait {self.retry_after_seconds} s before another one")


class AuthSettings(msgspec.Struct, frozen=True):
    """The credentials that an operator accepts."""

    api_keys: bool = False
    issuer: str | None = None
    header: bytes | None = None
    """A further header with a token, read if a request has no `Authorization`."""

    @property
    def is_on(self) -> bool:
        """Return whether any credential is required."""
        return self.api_keys or self.issuer is not None

    @property
    def mode(self) -> str:
        """Return the mode that clients receive."""
        modes = [*(["jwt"] if self.issuer is not None else []), *(["api-key"] if self.api_keys else [])]
        return "+".join(modes) or "none"


class Authentication:
    """Finds the principals of requests."""

    def __init__(
        self,
        settings: AuthSettings,
        keys: KeyRegistry,
        sessions: SessionRegistry,
        tickets: TicketRegistry,
        cookies: Cookies,
        issuer: Issuer | None,
        clock: Clock,
        code_flow: CodeFlow | None = None,
    ) -> None:
        self.settings = settings
        self.keys = keys
        self.sessions = sessions
        self.tickets = tickets
        self.cookies = cookies
        self.code_flow = code_flow
        self._issuer = issuer
        self._clock = clock
        self._failures = FailedAttempts()
        keys.on_change(sessions.forget)

    async def authenticate(self, call: ApiCall, *, by_cookie: bool = True) -> Principal:
        """Return the principal of a request: by its `Authorization`, by a cookie, or by the operator's own header.

        Args:
            call: The request.
            by_cookie: Accept the cookie of a session; workers have no cookies.

        Raises:
            Unauthorized: The credential is missing or not valid.
            TooManyAttempts: The credential is not valid, and many wrong credentials came before.
            CsrfFailed: A change by cookie lacks the proof that a page of the engine requests the change.
        """
        if not self.settings.is_on:
            return UNRESTRICTED
        bearer = _bearer(call)
        if bearer is None and by_cookie and (session := await self.session_of(call)) is not None:
            check_csrf(call, session)
            return session.principal()
        if bearer is None and self.settings.header is not None:
            bearer = call.header(self.settings.header)
        if bearer is None:
            raise Unauthorized(_MISSING)
        return await self.check(call, bearer)

    async def check(self, call: ApiCall, bearer: str) -> Principal:
        """Return the principal of a key or token; count a wrong one for the caller.

        Raises:
            Unauthorized: The credential is not valid.
            TooManyAttempts: The credential is not valid, and many wrong credentials came before.
        """
        try:
            return await self._principal(bearer)
        except (Unauthorized, InvalidToken):
            self._count_failure(call, bearer)
            raise

    async def session_of(self, call: ApiCall) -> BrowserSession | None:
        """Return the session of a request's cookie; None without a live session, or beside an `Authorization`."""
        if call.header(b"authorization") is not None:
            return None
        session_id = self.cookies.session_id(call)
        session = None if session_id is None else await self.sessions.find(session_id)
        if session is None or not self._accepts(session) or not await self.is_valid(session.principal()):
            return None
        return session

    def _accepts(self, session: BrowserSession) -> bool:
        """Return whether the engine still accepts the kind of credential with which the session began."""
        by_key = session.credential is not None and is_prefix(session.credential)
        return self.settings.api_keys if by_key else self.settings.issuer is not None

    async def redeem(self, call: ApiCall, text: str) -> StreamTicket:
        """Return the ticket of an event stream, which is then used up.

        Raises:
            Unauthorized: The ticket is used, expired or unknown, or the request has the credential of another caller.
        """
        ticket = await self.tickets.take(text)
        if ticket is None or not await self.is_valid(ticket.principal()):
            raise Unauthorized("the ticket is not valid: it has been used, has expired, or is unknown")
        if self.settings.is_on:
            try:
                caller = await self.authenticate(call)
            except Unauthorized:
                if call.header(b"authorization") is not None:
                    raise
                return ticket
            if not ticket.belongs_to(caller):
                raise Unauthorized("the ticket belongs to another caller")
        return ticket

    async def _principal(self, bearer: str) -> Principal:
        if is_token(bearer):
            if self._issuer is None:
                raise Unauthorized("JWT authentication is not enabled on this server")
            return await self._issuer.authenticate(bearer)
        if not self.settings.api_keys:
            raise Unauthorized("Token is not a valid JWT and API-key authentication is not enabled")
        key = await self.keys.find(bearer)
        if key is None:
            raise Unauthorized("Invalid API key")
        return key.principal()

    def _count_failure(self, call: ApiCall, bearer: str) -> None:
        """Count a wrong credential for its address and, if it looks like a key, for the key's prefix."""
        now = self._clock.now()
        sources = [f"address {call.address}", *([f"key {prefix_of(bearer)}"] if is_key(bearer) else [])]
        wait = max([self._failures.note(source, now) for source in sources])
        if wait > 0:
            raise TooManyAttempts(wait)

    async def may_bootstrap(self, call: ApiCall) -> bool:
        """Return whether a caller without a credential may create the first key.

        Only callers on this machine may, not through a proxy, and only as long as no key has ever existed.
        """
        return self.settings.api_keys and _is_direct_loopback(call) and not await self.keys.had_key()

    async def wait_until_invalid(self, principal: Principal) -> None:
        """Wait until a principal is no longer authenticated: until its key is revoked, or its credential ends."""
        while await self.is_valid(principal):  # noqa: ASYNC110 - time ends a credential, and no event
            await asyncio.sleep(VALIDITY_CHECK_SECONDS)

    async def is_valid(self, principal: Principal) -> bool:
        """Return whether the credential of an authenticated principal is still valid.

        Long connections check again and again, and end when their key or session expires, is revoked or signed out.
        """
        if principal.expires_at is not None and self._clock.now() >= principal.expires_at:
            return False
        if principal.session is not None and await self.sessions.find_digest(principal.session) is None:
            return False
        credential = principal.credential
        return credential is None or not is_prefix(credential) or await self.keys.find_prefix(credential) is not None


def is_prefix(credential: str) -> bool:
    """Return whether the credential of a principal is an API key."""
    return credential.startswith("assay_")


def _is_direct_loopback(call: ApiCall) -> bool:
    if any(name.startswith(_FORWARDED) for name, _ in call.scope["headers"]):
        return False
    try:
        return unmapped(ip_address(call.peer)).is_loopback
    except ValueError:
        return False


def _bearer(call: ApiCall) -> str | None:
    header = call.header(b"authorization")
    if header is None or header[: len(_BEARER)].lower() != _BEARER:
        return None
    return header[len(_BEARER) :].strip()
