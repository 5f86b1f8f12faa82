"""The browser sessions of a database: sign in, find and end sessions."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from assay.auth.permissions import Principal
from assay.auth.ports import SessionStore
from assay.auth.sessions import SESSION_BYTES, BrowserSession, is_session_id, new_session, session_digest
from assay.core.model.ids import SECOND, Time

SESSION_CACHE_TIME: Final[Time] = 5 * SECOND
"""The longest time for which an engine accepts a session that another engine has ended."""
MAX_CACHED_SESSIONS: Final = 10_000


class SessionRegistry:
    """Sessions with a short cache, so that a page with many requests does not read its session for each of them."""

    def __init__(self, store: SessionStore, now: Callable[[], Time]) -> None:
        self._store = store
        self._now = now
        self._cached: OrderedDict[str, tuple[BrowserSession, Time]] = OrderedDict()

    async def sign_in(self, principal: Principal) -> tuple[BrowserSession, str] | None:
        """Store a new session; return the session and its id, or None if the credential has ended."""
        now = self._now()
        session_id = secrets.token_hex(SESSION_BYTES)
        session = new_session(principal, session_id, secrets.token_hex(SESSION_BYTES), now)
        if session.expires_at <= now:
            return None
        await self._store.add_session(session)
        return session, session_id

    async def find(self, session_id: str) -> BrowserSession | None:
        """Return the live session with this id."""
        return await self.find_digest(session_digest(session_id)) if is_session_id(session_id) else None

    async def find_digest(self, digest: str) -> BrowserSession | None:
        """Return the live session with this digest."""
        now = self._now()
        cached = self._cached.get(digest)
        if cached is not None and now < cached[1]:
            session: BrowserSession | None = cached[0]
        else:
            session = await self._store.session(digest, now)
            self._remember(digest, session, now)
        return session if session is not None and now < session.expires_at else None

    def _remember(self, digest: str, session: BrowserSession | None, now: Time) -> None:
        self._cached.pop(digest, None)
        if session is not None:
            self._cached[digest] = session, now + SESSION_CACHE_TIME
            if len(self._cached) > MAX_CACHED_SESSIONS:
                self._cached.popitem(last=False)

    async def end(self, digest: str) -> None:
        """End a session."""
        await self._store.end_session(digest)
        self._cached.pop(digest, None)

    def forget(self) -> None:
        """Read all sessions again: another engine may have ended one."""
        self._cached.clear()
