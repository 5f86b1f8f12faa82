"""What workers of our SDK say, from bytes to a message: checked as a whole, and where that fails report by report."""

from typing import Any

import msgspec

from assay.core.errors import Invalid
from assay.core.payload import check_keys, parsed
from assay.wire import exchange as wire


def read(body: bytes, *, careful: bool = False) -> wire.WorkerMessage:
    """A message, parsed as a whole: afterwards every document in it is known to be JSON.

    The limits of their shape are those of each document: a message of many is large and harmless. A report that makes
    no sense is refused alone: what is reported beside it is about other runs (L2). Only carefully it is looked for keys
    that come twice: our SDK, which talks over WebSockets, writes none, and the way is hot.
    """
    try:
        value = parsed(body, limit=wire.MESSAGE_LIMIT, name="message")
        if careful:
            check_keys(body, value, "message")
        return wire.decode_from_worker(body)
    except msgspec.ValidationError as error:
        refusal = Invalid(f"the message is not one of a worker: {error}", code="wrong_shape")
    except Invalid as error:
        refusal = error
    if len(body) > wire.MESSAGE_LIMIT:
        raise refusal
    return _sorted_out(body, refusal)


def _sorted_out(body: bytes, refusal: Invalid) -> wire.WorkerMessage:
    """The message without what is wrong in its reports; refused if that is not all that is wrong."""
    try:
        unread = wire.decode_unread(body)
        reports = tuple([_report(bytes(raw)) for raw in unread.reports])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise refusal from None
    if not any(isinstance(report, wire.Unreadable) for report in reports):
        raise refusal
    rest = {name: getattr(unread, name) for name in wire.WorkerMessage.__struct_fields__ if name != "reports"}
    parsed(wire.encode(wire.WorkerMessage(**rest)), name="message")
    return wire.WorkerMessage(**rest, reports=reports)


def _report(body: bytes) -> Any:
    try:
        parsed(body, limit=wire.MESSAGE_LIMIT, name="it")
        return wire.decode_report(body)
    except (msgspec.ValidationError, Invalid) as error:
        text = f"the engine cannot read this report: {error}".replace("`", "")
        return wire.unreadable(body, text)
