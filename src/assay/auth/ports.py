"""The port between authentication and a database: API keys, sessions and tickets.

Each call is one transaction, durable when it returns. Changes of keys and sessions raise a number, by which other
engines notice them.
"""

from collections.abc import Sequence
from typing import Protocol

from assay.auth.api_keys import ApiKey
from assay.auth.sessions import BrowserSession
from assay.core.model.ids import Time


class CredentialStore(Protocol):
    """Stored credentials, shared by all engines of a database."""

    async def changes(self) -> int:
        """Return a number that grows with every change of keys and with every ended session."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """Return all keys, revoked and expired ones included, newest first."""
        ...

    async def had_key(self) -> bool:
        """Return whether any key was ever made in this database."""
        ...

    async def add_key(self, key: ApiKey) -> None:
        """Store a key."""
        ...

    async def add_first_key(self, key: ApiKey) -> bool:
        """Store a key if no key was ever made; return whether it was stored. Of many callers one succeeds."""
        ...

    async def add_key_of_label(self, key: ApiKey) -> ApiKey:
        """Store a key unless its label has a live one; return the oldest live key of the label."""
        ...

    async def rotate(self, prefix: str, expires_at: Time, successor: ApiKey) -> None:
        """Store a successor and let the old key end at `expires_at`, unless it ends sooner."""
        ...

    async def revoke(self, prefix: str, now: Time) -> bool:
        """Revoke a key and end its sessions; return False if there is no such key, or it is revoked already."""
        ...

    async def used(self, digest: str, now: Time) -> None:
        """Note when a key was last used."""
        ...

    async def add_session(self, session: BrowserSession) -> None:
        """Store a session, and forget expired ones."""
        ...

    async def session(self, digest: str, now: Time) -> BrowserSession | None:
        """Return a session that has not ended."""
        ...

    async def end_session(self, digest: str) -> bool:
        """End a session; return False if there was none."""
        ...

    async def add_ticket(self, digest: str, content: bytes, expires_at: Time, now: Time) -> None:
        """Store a ticket of an event stream, and forget expired ones."""
        ...

    async def take_ticket(self, digest: str, now: Time) -> bytes | None:
        """Return the content of a ticket and delete it; None if it was taken before or has expired."""
        ...
