"""The API keys of a database in memory, and the rules for reading the table again."""

import hmac
from collections.abc import Iterable
from typing import Final

from assay.auth.api_keys import ApiKey, digest_of, is_key
from assay.core.model.ids import SECOND, Time

CHANGE_CHECK_INTERVAL: Final[Time] = 2 * SECOND
"""The interval of checks of the change counter: a revoked key must be refused within 5 s on every engine."""
MIN_REREAD_INTERVAL: Final[Time] = SECOND // 10
"""The minimum time between two reads for unknown keys: wrong keys must not cost a query each."""
LAST_USE_INTERVAL: Final[Time] = 60 * SECOND


class KeyRing:
    """The keys of a database by digest, as of the last read of the table."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._by_prefix: dict[str, ApiKey] = {}
        self._counter: int | None = None
        self._read_at: Time | None = None
        self._used: dict[str, Time] = {}

    def load(self, keys: Iterable[ApiKey], counter: int, now: Time) -> bool:
        """Replace the keys with keys read at `now`, with the value of the change counter before the read.

        Return whether the counter has changed.
        """
        changed = self.is_stale(counter)
        self._keys = {key.digest: key for key in keys}
        self._by_prefix = {key.prefix: key for key in self._keys.values()}
        self._counter = counter
        self._read_at = now
        return changed

    def is_stale(self, counter: int) -> bool:
        """Return whether keys were created, rotated or revoked since the last read."""
        return counter != self._counter

    def may_reread(self, now: Time) -> bool:
        """Return whether a well-formed unknown key justifies another read of the table now."""
        return self._read_at is None or now - self._read_at >= MIN_REREAD_INTERVAL

    def find(self, plaintext: str, now: Time) -> ApiKey | None:
        """Return the live key with this text.

        Digests are compared in constant time. The dictionary look-up by a hash of the secret is not constant in time,
        but reveals nothing useful about the secret.
        """
        if not is_key(plaintext):
            return None
        digest = digest_of(plaintext)
        key = self._keys.get(digest)
        if key is None or not hmac.compare_digest(key.digest, digest) or not key.is_live(now):
            return None
        return key

    def find_prefix(self, prefix: str, now: Time) -> ApiKey | None:
        """Return the live key with this prefix: streams and sessions end with their key."""
        key = self._by_prefix.get(prefix)
        return key if key is not None and key.is_live(now) else None

    def note_use(self, key: ApiKey, now: Time) -> bool:
        """Return whether the use of a key should be written: at most once a minute for each key."""
        last = max(self._used.get(key.digest, 0), key.last_used_at or 0)
        if now - last < LAST_USE_INTERVAL:
            return False
        self._used[key.digest] = now
        return True
