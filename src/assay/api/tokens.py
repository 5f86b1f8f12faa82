"""Task tokens: a lease in the hands of a worker, made and read by engines of one database only (4.1).

`base64url(version | key id | payload | HMAC-SHA256)`. A token is a capability for one attempt, or for one epoch of a
workflow task: it names the namespace, the run, the lease and the worker, and whoever changes a bit of it has none.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from typing import Final

import msgspec

from assay.core.errors import NotFound
from assay.core.ids import Time

VERSION: Final = 1
KEY_ID: Final = 1
KEY_BYTES: Final = 32
LONGEST: Final = 2048
_BLOCK: Final = 64
_HEAD: Final = bytes((VERSION, KEY_ID))
_MAC: Final = hashlib.sha256().digest_size


class Lease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a token stands for; `seq` is 0 and `fence` the epoch for a workflow task, else the attempt's id."""

    namespace: str
    run_id: str
    seq: int
    fence: int
    worker: str
    issued_at: Time = 0
    activity: bool = False


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Lease).decode


class Tokens:
    """Makes tokens and reads them. The key is made once per database and kept there."""

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK, b"\0") if len(key) <= _BLOCK else hashlib.sha256(key).digest().ljust(_BLOCK, b"\0")
        # The two halves of an HMAC are prepared once: that is twice as fast as the library's for texts as short as these.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def _mac(self, text: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()

    def issue(self, lease: Lease) -> str:
        """The token of a lease."""
        text = _HEAD + _encode(lease)
        return urlsafe_b64encode(text + self._mac(text)).decode("ascii").rstrip("=")

    def read(self, token: str) -> Lease:
        """The lease that a token stands for; `NotFound` for everything that is no token of this database."""
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4)) if len(token) <= LONGEST else b""
        except (BadBase64, ValueError):
            raw = b""
        text, mac = raw[:-_MAC], raw[-_MAC:]
        if not text.startswith(_HEAD) or not hmac.compare_digest(mac, self._mac(text)):
            raise unknown()
        return _decode(text[len(_HEAD) :])


def unknown() -> NotFound:
    """What is said of a token that stands for nothing here; it tells no more than that (4.3)."""
    return NotFound("there is no such task", code="unknown_task")
