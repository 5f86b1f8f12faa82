"""A cache of verified tokens: verifying a signature costs more than the rest of a request's authentication."""

import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from assay.auth.permissions import Principal
from assay.core.model.ids import SECOND, Time

REMEMBERED_TIME: Final[Time] = 60 * SECOND
MAX_REMEMBERED_TOKENS: Final = 10_000


class _Verified(msgspec.Struct, frozen=True, gc=False):
    principal: Principal
    until: Time
    generation: int


class VerifiedTokens:
    """Principals by the SHA-256 of their token, for at most a minute and never beyond the token's end."""

    def __init__(self) -> None:
        self._by_digest: OrderedDict[bytes, _Verified] = OrderedDict()

    def find(self, token: str, generation: int, now: Time) -> Principal | None:
        """Return the principal of a token that was verified with the same key set and has not expired."""
        digest = _digest(token)
        found = self._by_digest.get(digest)
        if found is None:
            return None
        if now >= found.until or found.generation != generation:
            del self._by_digest[digest]
            return None
        return found.principal

    def add(self, token: str, principal: Principal, generation: int, now: Time) -> None:
        """Remember a token that was verified with the key set of this generation."""
        until = now + REMEMBERED_TIME
        if principal.expires_at is not None:
            until = min(until, principal.expires_at)
        self._by_digest[_digest(token)] = _Verified(principal, until, generation)
        if len(self._by_digest) > MAX_REMEMBERED_TOKENS:
            self._by_digest.popitem(last=False)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
