"""Task tokens: opaque proofs that a task was leased here, for one attempt and no other (4.1)."""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from assay.core.errors import NotFound
from assay.core.ids import Namespace, RunId
from assay.storage.registry import Registry

SECRET: Final = "task_tokens"  # noqa: S105  # the name of the secret
_VERSION: Final = b"\x01"
_MAC: Final = 32


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """What a token stands for; `seq` is 0 for a workflow task, `fence` its epoch or the attempt's id."""

    namespace: Namespace
    run_id: RunId
    seq: int
    fence: int


class Tokens:
    """Seals and opens tokens with the key of this database."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    async def of(cls, registry: Registry) -> "Tokens":
        """With the key that all engines of a database share."""
        return cls(await registry.secret(SECRET, secrets.token_bytes(32)))

    def seal(self, lease: Lease) -> str:
        """A token for a lease."""
        content = _VERSION + msgspec.msgpack.encode(lease)
        return urlsafe_b64encode(content + self._mac(content)).rstrip(b"=").decode("ascii")

    def open(self, token: str) -> Lease:
        """The lease of a token; one that was not made here is unknown, and no more is said about it."""
        try:
            raw = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
            content, mac = raw[:-_MAC], raw[-_MAC:]
            if content[:1] == _VERSION and hmac.compare_digest(mac, self._mac(content)):
                return msgspec.msgpack.decode(content[1:], type=Lease)
        except (ValueError, msgspec.DecodeError):
            pass
        raise NotFound("task", code="unknown_task")

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, hashlib.sha256)
