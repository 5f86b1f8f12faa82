"""The payload of a message from its arguments: none, one bare value, or a list of several."""

from collections.abc import Sequence

from assay.core.model.events import SignalReceived
from assay.core.model.payload import NULL, Payload


def received(topic: str, args: Sequence[Payload], sender: str | None, payload: Payload = NULL) -> SignalReceived:
    """Return the event of a message with arguments; without arguments, `payload` is its only argument."""
    if len(args) < 2:
        return SignalReceived(topic, args[0] if args else payload, sender)
    several = Payload(b"[" + b",".join(map(bytes, args)) + b"]")
    return SignalReceived(topic, several, sender, args=several)
