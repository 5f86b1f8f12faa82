"""Task tokens: opaque proofs that a task was leased here, for one attempt and no other (4.1).

`base64url(version | key id | payload | HMAC-SHA256)`. A token is a capability: it names the namespace, the run, the
lease and, where it is known, the worker; whoever changes a bit of it has none.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from typing import Final

import msgspec

from assay.core.errors import NotFound
from assay.core.ids import Namespace, RunId
from assay.storage.ports import Registry

TOKEN_SECRET_NAME: Final = "task_tokens"  # noqa: S105  # the name of the secret
LONGEST_TOKEN_CHARS: Final = 2_048
_HEAD: Final = b"\x01\x01"
"""The version of the format, and the number of the key."""
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_MAC: Final = 32
_BLOCK: Final = 64


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a token stands for; `seq` is 0 for a workflow task, `fence` its epoch or the attempt's id."""

    namespace: Namespace
    run_id: RunId
    seq: int
    fence: int
    worker: str = ""
    """Who alone may use it; empty where the protocol does not say."""
    activity: bool = False
    """Is it one of an activity? Their seqs may be 0, too."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Lease).decode


class Tokens:
    """Seals and opens tokens with the key of this database."""

    def __init__(self, key: bytes) -> None:
        padded = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        # Both halves of the HMAC are prepared once: for texts as short as these that is twice as fast as `hmac`.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    @classmethod
    async def of(cls, registry: Registry) -> "Tokens":
        """With the key that all engines of a database share."""
        return cls(await registry.secret(TOKEN_SECRET_NAME, secrets.token_bytes(32)))

    def seal(self, lease: Lease) -> str:
        """A token for a lease."""
        content = _HEAD + _encode(lease)
        sealed = b2a_base64(content + self._mac(content), newline=False)
        return sealed.translate(_URL_SAFE, b"=").decode("ascii")

    def open(self, token: str) -> Lease:
        """The lease of a token; one that was not made here is unknown, and no more is said about it."""
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
        raise unknown()

    def _mac(self, content: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()


def unknown() -> NotFound:
    """What is said of a token that stands for nothing here, whatever the reason (4.3)."""
    return NotFound("task", code="unknown_task")
