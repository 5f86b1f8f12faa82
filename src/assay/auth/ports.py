"""The ports between authentication and a database: API keys, sessions and tickets.

Each call is a transaction, durable when the call returns; `rows` are written in the same transaction. Changes of keys
and sessions raise a number, which other engines poll.
"""

from collections.abc import Sequence
from typing import Protocol

from assay.auth.api_keys import ApiKey
from assay.auth.sessions import BrowserSession
from assay.core.model.attached_rows import NO_ROWS, AttachedRows
from assay.core.model.ids import Time


class KeyStore(Protocol):
    """Stored API keys, shared by all engines of a database."""

    async def changes(self) -> int:
        """Return the number that every change of keys and every ended session raises."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """Return all keys, including revoked and expired keys, newest first."""
        ...

    async def had_key(self) -> bool:
        """Return whether the database ever had a key."""
        ...

    async def add_key(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> None:
        """Store a key."""
        ...

    async def add_first_key(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> bool:
        """Store a key if the database never had a key; return whether the key was stored. Only one caller succeeds."""
        ...

    async def add_key_of_label(self, key: ApiKey, rows: AttachedRows = NO_ROWS) -> ApiKey:
        """Store a key unless its label has a live key; return the oldest live key of the label."""
        ...

    async def rotate(self, prefix: str, expires_at: Time, successor: ApiKey, rows: AttachedRows = NO_ROWS) -> bool:
        """Store a successor and set the end of the old key to `expires_at`, unless the old key ends sooner.

        Return False, and change nothing, if the old key is revoked.
        """
        ...

    async def revoke(self, prefix: str, now: Time, rows: AttachedRows = NO_ROWS) -> bool:
        """Revoke a key and end its sessions; return False if the key does not exist or is already revoked."""
        ...

    async def used(self, digest: str, now: Time) -> None:
        """Store the time of a key's last use."""
        ...


class SessionStore(Protocol):
    """Sessions of browsers and tickets of event streams, shared by all engines of a database."""

    async def add_session(self, session: BrowserSession) -> None:
        """Store a session, and delete expired sessions."""
        ...

    async def session(self, digest: str, now: Time) -> BrowserSession | None:
        """Return a live session by its digest."""
        ...

    async def end_session(self, digest: str) -> bool:
        """End a session; return False if the session does not exist."""
        ...

    async def add_ticket(self, digest: str, content: bytes, expires_at: Time, now: Time) -> None:
        """Store a ticket of an event stream, and delete expired tickets."""
        ...

    async def take_ticket(self, digest: str, now: Time) -> bytes | None:
        """Delete a ticket and return its content; None if the ticket was taken before or has expired."""
        ...
