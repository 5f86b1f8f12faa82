"""Browser sessions: a random id in a cookie, the rest on the server. Only the hash of the id is stored."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from assay.auth.permissions import Principal, Role
from assay.core.model.ids import SECOND, Time

SESSION_LIFETIME: Final[Time] = 12 * 3600 * SECOND
SESSION_BYTES: Final = 32
SECURE_COOKIE: Final = "__Host-wf"
_PLAIN_COOKIE: Final = "wf_"
_ID: Final = re.compile(r"[0-9a-f]{64}\Z")


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """The stored session of a signed-in browser."""

    digest: str
    """The hex SHA-256 of the id in the cookie."""
    user: str | None
    credential: str | None
    roles: dict[str, list[str]]
    queues: list[str] | None = None
    csrf: str
    created_at: Time
    expires_at: Time

    def principal(self) -> Principal:
        """Return the principal of a request with this session's cookie."""
        return Principal(
            user=self.user,
            credential=self.credential,
            roles={namespace: frozenset(map(Role, held)) for namespace, held in self.roles.items()},
            queues=None if self.queues is None else frozenset(self.queues),
            expires_at=self.expires_at,
            session=self.digest,
        )

    def accepts_csrf(self, token: str | None) -> bool:
        """Return whether a request carries the session's own CSRF token."""
        return token is not None and hmac.compare_digest(token.encode(), self.csrf.encode())


def new_session(principal: Principal, session_id: str, csrf: str, now: Time) -> BrowserSession:
    """Return the session of a caller who signs in at `now`; the session ends after 12 hours, or with the credential."""
    ends = now + SESSION_LIFETIME
    return BrowserSession(
        digest=session_digest(session_id),
        user=principal.user,
        credential=principal.credential,
        roles={namespace: sorted(held) for namespace, held in principal.roles.items()},
        queues=None if principal.queues is None else sorted(principal.queues),
        csrf=csrf,
        created_at=now,
        expires_at=ends if principal.expires_at is None else min(ends, principal.expires_at),
    )


def is_session_id(text: str) -> bool:
    """Return whether a text has the form of a session id; other texts are refused without a search."""
    return _ID.match(text) is not None


def session_digest(session_id: str) -> str:
    """Return the hex SHA-256 of a session id: stored instead of the id."""
    return hashlib.sha256(session_id.encode()).hexdigest()


def cookie_name(*, secure: bool, database_id: str) -> str:
    """Return the cookie's name; contains the database's id, because engines on the same host share cookies on http."""
    return SECURE_COOKIE if secure else f"{_PLAIN_COOKIE}{database_id[:8]}"


def set_cookie(name: str, value: str, *, secure: bool, max_age: int) -> str:
    """Return the `Set-Cookie` header of a cookie; `max_age` 0 deletes the cookie."""
    return f"{name}={value}; Max-Age={max_age}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"


def read_cookies(header: str | None) -> Mapping[str, str]:
    """Return the cookies of a request by name; of several with the same name the first, which is the most specific.

    The parser of the standard library stops at the first odd name, and other programs on the host set cookies, too.
    """
    found: dict[str, str] = {}
    for part in (header or "").split(";"):
        name, equals, value = part.partition("=")
        if equals:
            found.setdefault(name.strip(), value.strip())
    return found
