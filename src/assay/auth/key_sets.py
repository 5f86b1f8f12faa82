"""Key sets of an issuer: the algorithms of each public key, and the times at which a set is fetched again.

The state is pure: times are arguments, and the caller fetches. A failed fetch keeps the old set, because users with
valid tokens must not be locked out while the issuer is down.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time

MAX_KEY_SET_BYTES: Final = 256 * 1024
MAX_KEY_SET_KEYS: Final = 50
KEY_SET_FRESH_TIME: Final[Time] = 600 * SECOND
KEY_SET_STALE_TIME: Final[Time] = 24 * 3600 * SECOND
"""The longest use of a set while the issuer is unreachable."""
MIN_FETCH_INTERVAL: Final[Time] = 30 * SECOND
"""The minimum time between two fetches for unknown keys, and between two failed fetches."""
MAX_MISSING_KEYS: Final = 128
"""The number of remembered unknown key ids: each of them causes at most a single fetch."""

ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "EdDSA"})
_BY_TYPE: Final[Mapping[tuple[str, str | None], frozenset[str]]] = {
    ("RSA", None): frozenset({"RS256", "PS256"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}


class PublicKey(msgspec.Struct, frozen=True):
    """A key for verifying signatures, with its allowed algorithms."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


class KeySet(msgspec.Struct, frozen=True):
    """The public keys of an issuer."""

    keys: tuple[PublicKey, ...]

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the first key for the algorithm with this id; None as the id matches every key."""
        for key in self.keys:
            if (kid is None or key.kid == kid) and algorithm in key.algorithms:
                return key
        return None

    def has(self, kid: str) -> bool:
        """Return whether a key has this id."""
        return any(key.kid == kid for key in self.keys)


def parse_key_set(document: bytes) -> KeySet:
    """Return the usable keys of a JWKS document; symmetric keys and keys for encryption are left out.

    Raises:
        Invalid: The document is too large, or has another form.
    """
    if len(document) > MAX_KEY_SET_BYTES:
        raise Invalid(f"the key set is larger than {MAX_KEY_SET_BYTES:,} bytes")
    try:
        found = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"the key set is not JSON: {error}") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise Invalid("the key set has no list of keys")
    if len(entries) > MAX_KEY_SET_KEYS:
        raise Invalid(f"the key set has more than {MAX_KEY_SET_KEYS} keys")
    keys = (_public_key(entry) for entry in entries if isinstance(entry, dict))
    return KeySet(tuple(key for key in keys if key is not None))


def _public_key(entry: dict[str, Any]) -> PublicKey | None:
    kid, named, operations = entry.get("kid"), entry.get("alg"), entry.get("key_ops")
    if entry.get("use") not in (None, "sig") or (isinstance(operations, Sequence) and "verify" not in operations):
        return None
    kind = entry.get("kty")
    algorithms = _BY_TYPE.get((str(kind), None if kind == "RSA" else entry.get("crv")), frozenset())
    if named is not None:
        algorithms &= {named} if isinstance(named, str) else frozenset()
    if not algorithms or not (kid is None or isinstance(kid, str)):
        return None
    try:
        key = jwt.PyJWK(entry, algorithm=min(algorithms)).key
    except Exception:  # noqa: BLE001 - a key that cannot be parsed must not make the other keys unusable
        return None
    return PublicKey(kid, algorithms, key)


class KeySetCache:
    """The last key set of an issuer, and the times of its fetches."""

    def __init__(self) -> None:
        self.current: KeySet | None = None
        self.generation = 0
        """Raised with each new set: drops verified tokens, whose key may have left the set."""
        self._fetched_at: Time = 0
        self._tried_at: Time | None = None
        self._missing: OrderedDict[str, Time] = OrderedDict()

    def store(self, keys: KeySet, now: Time) -> None:
        """Replace the current set with a fetched set."""
        self.current = keys
        self.generation += 1
        self._fetched_at = self._tried_at = now
        for kid in [kid for kid in self._missing if keys.has(kid)]:
            del self._missing[kid]

    def fail(self, now: Time) -> None:
        """Record a failed fetch; the old set stays in use, up to a day."""
        self._tried_at = now
        if self.current is not None and now - self._fetched_at > KEY_SET_STALE_TIME:
            self.current = None
            self.generation += 1

    def is_due(self, now: Time) -> bool:
        """Return whether the set is missing or old, and the last attempt long enough ago."""
        if self.current is not None and now - self._fetched_at < KEY_SET_FRESH_TIME:
            return False
        return self._tried_at is None or self.current is None or now - self._tried_at >= MIN_FETCH_INTERVAL

    def may_fetch_for(self, kid: str, now: Time) -> bool:
        """Return whether to fetch for an unknown key id: the first fetch for this id, and not too soon."""
        if kid in self._missing:
            return False
        if self._tried_at is not None and now - self._tried_at < MIN_FETCH_INTERVAL:
            return False
        self._missing[kid] = now
        if len(self._missing) > MAX_MISSING_KEYS:
            self._missing.popitem(last=False)
        return True
