"""Several arguments in one input: none is null, one is its bare value, several are `{"$args": […]}`."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from assay.core.model.payload import NULL, Payload

PACKED_ARGUMENTS: Final = "$args"
"""The key of an input that holds several arguments."""

_packed: Final = re.compile(rb'\s*\{\s*"\$args"\s*:')
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def packed_payload(args: Sequence[Payload]) -> Payload:
    """Return the input for arguments that are JSON; an only argument that looks packed is packed once more."""
    if not args:
        return NULL
    if len(args) == 1 and not _packed.match(args[0]):
        return args[0]
    return Payload(msgspec.json.encode({PACKED_ARGUMENTS: list(args)}))


def unpacked_payload(input: Payload) -> list[Payload] | None:
    """Return the arguments of an input that holds several; None for any other input."""
    if not _packed.match(input):
        return None
    found = _decode(input)
    content = bytes(found[PACKED_ARGUMENTS])
    if len(found) != 1 or not content.lstrip().startswith(b"["):
        return None
    return [Payload(entry) for entry in _list(content)]
