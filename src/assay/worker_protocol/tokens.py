"""Task tokens: opaque, signed proofs of a lease of this engine, valid for one attempt only.

`base64url(version | key id | payload | HMAC-SHA256)`. A token is a capability: it contains the namespace, the run, the
lease and, except for polling workers, the worker. A token with a changed bit is invalid.

Endpoints handle leases. A `LeaseTokens` creates and opens tokens where messages become bytes; in memory the lease
itself replaces the token (`PlainLeases`).
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from assay.core.model.errors import NotFound
from assay.core.model.ids import Namespace, RunId

if TYPE_CHECKING:
    Token = Any  # a lease, where messages are passed in memory
else:
    Token = str

LONGEST_TOKEN_CHARS: Final = 2_048
CACHED_TOKENS: Final = 10_000
"""Tokens of one worker that are opened without cryptography."""
_HEAD: Final = b"\x01\x01"
"""The version of the format, and the number of the key."""
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_MAC: Final = 32
_BLOCK: Final = 64


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The content of a token; `seq` is 0 for a workflow task, `fence` its epoch or the attempt's id."""

    namespace: Namespace
    run_id: RunId
    seq: int
    fence: int
    worker: str = ""
    """The only worker that may use the token; empty for polling workers."""
    activity: bool = False
    """True for an attempt of an activity; its seq may be 0 as well."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Lease).decode


class Tokens:
    """Seals and opens tokens with the key of this database."""

    def __init__(self, key: bytes) -> None:
        padded = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        # Both halves of the HMAC are prepared once: for short texts twice as fast as `hmac`.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def seal(self, lease: Lease) -> str:
        """Return a token for a lease."""
        content = _HEAD + _encode(lease)
        sealed = b2a_base64(content + self._mac(content), newline=False)
        return sealed.translate(_URL_SAFE, b"=").decode("ascii")

    def open(self, token: str) -> Lease:
        """Return the lease of a token; raise `NotFound`, without a reason, for a token of another database."""
        try:
            raw = (
                b""
                if len(token) > LONGEST_TOKEN_CHARS
                else urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
            )
            content, mac = raw[:-_MAC], raw[-_MAC:]
            if content.startswith(_HEAD) and hmac.compare_digest(mac, self._mac(content)):
                return _decode(content[len(_HEAD) :])
        except (ValueError, msgspec.DecodeError):
            pass
        raise unknown_task()

    def _mac(self, content: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()


class LeaseTokens(Protocol):
    """Tokens for the leases of one worker."""

    def seal(self, lease: Lease) -> Token:
        """Return a token for a lease."""
        ...

    def open(self, token: Token) -> Lease:
        """Return the lease of a token; raise `NotFound` for any other value."""
        ...

    def expect(self, lease: Lease) -> None:
        """Note the lease that will probably be sealed next."""
        ...

    def prepare(self) -> None:
        """Seal the expected lease, while the worker works."""
        ...


class SealedLeases:
    """See `LeaseTokens`: sealed texts, for messages that leave the process."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._leases: dict[str, Lease] = {}
        self._expected: Lease | None = None
        self._prepared: tuple[Lease, str] | None = None

    def seal(self, lease: Lease) -> Token:
        """See `LeaseTokens`."""
        prepared = self._prepared
        token = prepared[1] if prepared is not None and prepared[0] == lease else self._tokens.seal(lease)
        if len(self._leases) >= CACHED_TOKENS:
            self._leases.clear()
        self._leases[token] = lease
        return token

    def open(self, token: Token) -> Lease:
        """See `LeaseTokens`."""
        lease = self._leases.get(token)
        return self._tokens.open(token) if lease is None else lease

    def expect(self, lease: Lease) -> None:
        """See `LeaseTokens`."""
        self._expected = lease

    def prepare(self) -> None:
        """See `LeaseTokens`."""
        if self._expected is not None:
            self._prepared = self._expected, self._tokens.seal(self._expected)
            self._expected = None


class PlainLeases:
    """See `LeaseTokens`: leases themselves, for messages that are passed in memory."""

    def seal(self, lease: Lease) -> Token:
        """See `LeaseTokens`."""
        return lease

    def open(self, token: Token) -> Lease:
        """See `LeaseTokens`."""
        if not isinstance(token, Lease):
            raise unknown_task()
        return token

    def expect(self, lease: Lease) -> None:
        """See `LeaseTokens`: a lease needs no preparation."""

    def prepare(self) -> None:
        """See `LeaseTokens`: a lease needs no preparation."""


def unknown_task() -> NotFound:
    """Return the error for an unknown token; the same error for every reason."""
    return NotFound("task", code="unknown_task")
