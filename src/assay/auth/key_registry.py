"""The API keys of a database: find, create, list, rotate and revoke keys."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from assay.auth.api_keys import SECRET_BYTES, ApiKey, NewKey, full_prefix, is_key, key_text, may_manage
from assay.auth.key_ring import CHANGE_CHECK_INTERVAL, MIN_REREAD_INTERVAL, KeyRing
from assay.auth.permissions import Principal
from assay.auth.ports import KeyStore
from assay.core.model.attached_rows import NO_ROWS, AttachedRows
from assay.core.model.errors import NotFound, Refused
from assay.core.model.ids import SECOND, Time

log = logging.getLogger("assay.auth")

Attach = Callable[[ApiKey | None, ApiKey], AttachedRows]
"""Makes the rows to write with a change, from the key before the change, if any, and the key after it."""


def attach_nothing(_before: ApiKey | None, _after: ApiKey) -> AttachedRows:
    """Attach no rows to a change."""
    return NO_ROWS


class KeyRegistry:
    """A registry of API keys; as a service, polls for changes of other engines."""

    def __init__(self, store: KeyStore, now: Callable[[], Time], *, read_only: bool = False) -> None:
        self._store = store
        self._now = now
        self._read_only = read_only
        self._ring = KeyRing()
        self._next_read: asyncio.Future[None] | None = None
        self._read_at: Time = 0
        self._noting: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function when keys or sessions of the database have changed."""
        self._listeners.append(listener)

    async def find(self, plaintext: str) -> ApiKey | None:
        """Return the live key with this text.

        Another engine may just have created a key that is not in memory yet. The caller then waits for a new read of
        the table, shared with all callers that wait for the same reason.
        """
        if not is_key(plaintext):
            return None
        key = self._ring.find(plaintext, self._now())
        if key is None:
            await self._read_soon()
            key = self._ring.find(plaintext, self._now())
        if key is not None:
            self._note_use(key)
        return key

    async def find_prefix(self, prefix: str) -> ApiKey | None:
        """Return the live key with this prefix; wait for a new read of the table if the key is not in memory."""
        key = self._ring.find_prefix(prefix, self._now())
        if key is None:
            await self._read_soon()
            key = self._ring.find_prefix(prefix, self._now())
        return key

    async def _read_soon(self) -> None:
        if self._next_read is None:
            self._next_read = asyncio.ensure_future(self._read_later())
        await asyncio.shield(self._next_read)

    async def _read_later(self) -> None:
        await asyncio.sleep(max(0, self._read_at + MIN_REREAD_INTERVAL - self._now()) / SECOND)
        self._next_read = None  # later callers need a read that begins after the creation of their keys
        await self.read()

    async def read(self) -> None:
        """Read the keys into memory."""
        self._read_at = self._now()
        counter = await self._store.changes()  # read before the keys: the next check then finds a change in between
        if self._ring.load(await self._store.keys(), counter, self._read_at):
            for listener in self._listeners:
                listener()

    async def run_once(self) -> Time | None:
        """Read the keys again if another engine has changed them."""
        if self._ring.is_stale(await self._store.changes()):
            await self.read()
        return self._now() + CHANGE_CHECK_INTERVAL

    def _note_use(self, key: ApiKey) -> None:
        if not self._read_only and self._ring.note_use(key, self._now()):
            noting = asyncio.ensure_future(self._store.used(key.digest, self._now()))
            self._noting.add(noting)
            noting.add_done_callback(self._noted)

    def _noted(self, noting: "asyncio.Task[None]") -> None:
        self._noting.discard(noting)
        if not noting.cancelled() and noting.exception() is not None:
            log.warning("the last use of a key could not be written: %s", noting.exception())

    async def create(
        self, wanted: NewKey, *, idempotent: bool = False, attach: Attach = attach_nothing
    ) -> tuple[ApiKey, str | None]:
        """Create a key.

        Args:
            wanted: The fields of the key.
            idempotent: Return the oldest live key of the label instead, if the label has a live key.
            attach: Makes the rows to write in the transaction of the change.

        Returns:
            The stored key and its text; the text of an existing key is None.
        """
        plaintext, key = await self._drawn(wanted)
        if idempotent and wanted.label is not None:
            found = await self._store.add_key_of_label(key, attach(None, key))
            await self.read()
            return found, plaintext if found.digest == key.digest else None
        await self._store.add_key(key, attach(None, key))
        await self.read()
        return key, plaintext

    async def create_first(self, wanted: NewKey, attach: Attach = attach_nothing) -> tuple[ApiKey, str] | None:
        """Create the first key of the database; return None if the database ever had a key."""
        plaintext, key = await self._drawn(wanted)
        if not await self._store.add_first_key(key, attach(None, key)):
            return None
        await self.read()
        return key, plaintext

    async def had_key(self) -> bool:
        """Return whether the database ever had a key."""
        return await self._store.had_key()

    async def rotate(
        self, prefix: str, overlap: Time, principal: Principal, attach: Attach = attach_nothing
    ) -> tuple[ApiKey, str]:
        """Create a successor of a key; the old key ends after `overlap`.

        Raises:
            NotFound: The key is not visible to the caller, or revoked.
            Refused: The key has expired.
        """
        old = await self._managed(prefix, principal)
        now = self._now()
        if not old.is_live(now):
            raise Refused(f"key {old.prefix} has expired", code="key_expired")
        wanted = NewKey(
            label=old.label, role=old.role, namespaces=old.namespaces, queues=old.queues, expires_at=old.expires_at
        )
        plaintext, key = await self._drawn(wanted)
        if not await self._store.rotate(old.prefix, now + overlap, key, attach(old, key)):
            raise NotFound(f"API key {old.prefix}")
        await self.read()
        return key, plaintext

    async def revoke(self, prefix: str, principal: Principal, attach: Attach = attach_nothing) -> ApiKey:
        """Revoke a key; return its state before.

        Raises:
            NotFound: The key is not visible to the caller, or already revoked.
        """
        key = await self._managed(prefix, principal)
        now = self._now()
        if not await self._store.revoke(key.prefix, now, attach(key, replace(key, revoked_at=now))):
            raise NotFound(f"API key {key.prefix}")
        await self.read()
        return key

    async def list(self, principal: Principal, *, revoked: bool = False) -> Sequence[ApiKey]:
        """Return the keys that a caller may manage, newest first; revoked keys only with `revoked`."""
        found = await self._store.keys()
        return [key for key in found if may_manage(principal, key.namespaces) and (revoked or key.revoked_at is None)]

    async def _managed(self, prefix: str, principal: Principal) -> ApiKey:
        wanted = full_prefix(prefix)
        for key in await self.list(principal):
            if key.prefix == wanted:
                return key
        raise NotFound(f"API key {wanted}")

    async def _is_taken(self, prefix: str) -> bool:
        return any(key.prefix == prefix for key in await self._store.keys())

    async def _drawn(self, wanted: NewKey) -> tuple[str, ApiKey]:
        """Return a fresh key whose prefix no other key has or had: prefixes stand for keys in paths and audits."""
        while True:
            plaintext = key_text(secrets.token_bytes(SECRET_BYTES))
            key = wanted.stored(plaintext, self._now())
            if not await self._is_taken(key.prefix):
                return plaintext, key
