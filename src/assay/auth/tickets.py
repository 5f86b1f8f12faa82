"""Tickets of event streams: `EventSource` cannot send headers, so a caller exchanges its credential for a ticket.

A ticket is a random text for a single use within 30 s. Its row has the caller and the parameters of the stream; of the
text only the hash is stored.
"""

import re
import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from assay.auth.permissions import Principal, Role
from assay.auth.ports import SessionStore
from assay.auth.sessions import session_digest
from assay.core.model.ids import SECOND, Time

TICKET_LIFETIME: Final[Time] = 30 * SECOND
TICKET_BYTES: Final = 32
_FORM: Final = re.compile(r"[0-9a-f]{64}\Z")


class StreamTicket(msgspec.Struct, frozen=True, kw_only=True):
    """The caller and the parameters of an event stream."""

    user: str | None
    credential: str | None
    roles: dict[str, list[str]]
    expires_at: Time | None
    """The end of the caller's credential."""
    session: str | None
    parameters: dict[str, list[str]]

    def principal(self) -> Principal:
        """Return the principal that has received the ticket."""
        return Principal(
            user=self.user,
            credential=self.credential,
            roles={namespace: frozenset(map(Role, held)) for namespace, held in self.roles.items()},
            expires_at=self.expires_at,
            session=self.session,
        )

    def belongs_to(self, principal: Principal) -> bool:
        """Return whether a caller is the principal that has received the ticket."""
        return (self.user, self.credential) == (principal.user, principal.credential)


class TicketRegistry:
    """Issues tickets, and accepts each of them once on any engine of the database."""

    def __init__(self, store: SessionStore, now: Callable[[], Time]) -> None:
        self._store = store
        self._now = now

    async def issue(self, principal: Principal, parameters: dict[str, list[str]]) -> tuple[str, Time]:
        """Return the text of a new ticket, and its end."""
        ticket = StreamTicket(
            user=principal.user,
            credential=principal.credential,
            roles={namespace: sorted(held) for namespace, held in principal.roles.items()},
            expires_at=principal.expires_at,
            session=principal.session,
            parameters=parameters,
        )
        text, now = secrets.token_hex(TICKET_BYTES), self._now()
        ends = now + TICKET_LIFETIME
        await self._store.add_ticket(session_digest(text), msgspec.json.encode(ticket), ends, now)
        return text, ends

    async def take(self, text: str) -> StreamTicket | None:
        """Return a ticket and delete it; None for a used, expired or unknown ticket."""
        if not _FORM.match(text):
            return None
        content = await self._store.take_ticket(session_digest(text), self._now())
        return None if content is None else msgspec.json.decode(content, type=StreamTicket)
