"""UUIDs of workflow code, from recorded time and a seeded random source: the same on every replay."""

import random
import uuid
from typing import Final

from assay.core.model.ids import Time

_GREGORIAN_OFFSET: Final = 0x01B21DD213814000
"""The number of 100 ns intervals between 1582-10-15, where the time of a UUID begins, and 1970."""
_MULTICAST: Final = 1 << 40
"""Marks the node of a UUID as random instead of the address of a machine."""


def uuid1(time: Time, source: random.Random) -> uuid.UUID:
    """Return a UUID of version 1: a time, a random sequence number and a random node."""
    intervals = time * 10 + _GREGORIAN_OFFSET + source.getrandbits(3)
    return uuid.UUID(
        fields=(
            intervals & 0xFFFFFFFF,
            (intervals >> 32) & 0xFFFF,
            (intervals >> 48) & 0x0FFF,
            source.getrandbits(6),
            source.getrandbits(8),
            source.getrandbits(48) | _MULTICAST,
        ),
        version=1,
    )


def uuid7(time: Time, source: random.Random) -> uuid.UUID:
    """Return a UUID of version 7: a time in milliseconds and 74 random bits."""
    high = (time // 1000) << 16 | 0x7000 | source.getrandbits(12)
    low = 0b10 << 62 | source.getrandbits(62)
    return uuid.UUID(int=high << 64 | low)
