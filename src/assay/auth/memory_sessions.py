"""Sessions and tickets in memory, for an engine that must not write to its database."""

from assay.auth.sessions import BrowserSession
from assay.core.model.ids import Time


class MemorySessions:
    """See `SessionStore`."""

    def __init__(self) -> None:
        self._sessions: dict[str, BrowserSession] = {}
        self._tickets: dict[str, tuple[bytes, Time]] = {}

    async def add_session(self, session: BrowserSession) -> None:
        """See `SessionStore`."""
        now = session.created_at
        self._sessions = {digest: kept for digest, kept in self._sessions.items() if now < kept.expires_at}
        self._sessions[session.digest] = session

    async def session(self, digest: str, now: Time) -> BrowserSession | None:
        """See `SessionStore`."""
        found = self._sessions.get(digest)
        return found if found is not None and now < found.expires_at else None

    async def end_session(self, digest: str) -> bool:
        """See `SessionStore`."""
        return self._sessions.pop(digest, None) is not None

    async def add_ticket(self, digest: str, content: bytes, expires_at: Time, now: Time) -> None:
        """See `SessionStore`."""
        self._tickets = {name: kept for name, kept in self._tickets.items() if now < kept[1]}
        self._tickets[digest] = content, expires_at

    async def take_ticket(self, digest: str, now: Time) -> bytes | None:
        """See `SessionStore`."""
        content, expires_at = self._tickets.pop(digest, (None, 0))
        return content if now < expires_at else None
