"""Hashes of inputs: a history keeps only the hash of a step's arguments and of a child's input (I19)."""

from hashlib import sha256
from typing import Annotated, Final, TypeAlias

import msgspec

from assay.core.model.payload import Payload, value_of

HASH_DIGITS: Final = 16

InputHash: TypeAlias = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]*$", min_length=HASH_DIGITS, max_length=HASH_DIGITS)
]
"""A hash in a worker's message; recorded hashes are not checked again."""

_encode: Final = msgspec.json.Encoder(order="sorted").encode
EMPTY_HASH: Final = sha256()


def canonical_json(raw: bytes | Payload) -> bytes:
    """Return the JSON in `raw` with sorted keys and without blanks: equal values have equal bytes."""
    return _encode(value_of(raw))


def hash_of(text: bytes) -> str:
    """Return the first digits of the SHA-256 of canonical JSON."""
    # Copying an empty hash costs half of creating a hash, because OpenSSL looks the algorithm up by name.
    digest = EMPTY_HASH.copy()
    digest.update(text)
    return digest.hexdigest()[:HASH_DIGITS]


def input_hash(raw: bytes | Payload) -> str:
    """Return the hash of a JSON value, independent of blanks and the order of keys."""
    return hash_of(canonical_json(raw))
