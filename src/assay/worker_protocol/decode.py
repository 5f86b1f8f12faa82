"""Decode messages. A worker's message is decoded as a whole and, if that fails, report by report."""

from typing import Any, Final

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.payload import check_keys, parsed
from assay.worker_protocol import messages as wire

_worker_message: Final = msgspec.json.Decoder(wire.WorkerMessage).decode
_raw_reports: Final = msgspec.json.Decoder(wire.UnreadMessage).decode
_report: Final = msgspec.json.Decoder(wire.Report).decode
decode_engine_message: Final = msgspec.json.Decoder(wire.EngineMessage).decode


def decode_worker_message(body: bytes, *, careful: bool = False) -> wire.WorkerMessage:
    """Return the message in `body`; every document in the message was parsed, and is valid JSON.

    The limits of depth and keys apply to each document and not to the message, which may have many documents. A report
    that cannot be decoded becomes an `Unreadable` and is refused alone: the other reports are about other runs.

    Args:
        body: The message as JSON.
        careful: Refuse duplicate keys as well. Off for WebSockets: the SDK writes no duplicate keys, and the path is
            hot.

    Raises:
        Invalid: The message is not a worker's message, beyond a bad report.
    """
    try:
        value = parsed(body, limit=wire.MAX_MESSAGE_BYTES, name="message")
        if careful:
            check_keys(body, value, "message")
        return _worker_message(body)
    except msgspec.ValidationError as error:
        refusal = Invalid(f"the message is not one of a worker: {error}", code="wrong_shape")
    except Invalid as error:
        refusal = error
    if len(body) > wire.MAX_MESSAGE_BYTES:
        raise refusal
    return _without_bad_reports(body, refusal)


def _without_bad_reports(body: bytes, refusal: Invalid) -> wire.WorkerMessage:
    """Return the message with an `Unreadable` for each bad report; raise `refusal` if another part is bad."""
    try:
        unread = _raw_reports(body)
        reports = tuple([_decode_report(bytes(raw)) for raw in unread.reports])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise refusal from None
    if not any(isinstance(report, wire.Unreadable) for report in reports):
        raise refusal
    rest = {name: getattr(unread, name) for name in wire.WorkerMessage.__struct_fields__ if name != "reports"}
    parsed(wire.encode(wire.WorkerMessage(**rest)), name="message")
    return wire.WorkerMessage(**rest, reports=reports)


def _decode_report(body: bytes) -> Any:
    try:
        parsed(body, limit=wire.MAX_MESSAGE_BYTES, name="it")
        return _report(body)
    except (msgspec.ValidationError, Invalid) as error:
        text = f"the engine cannot read this report: {error}".replace("`", "")
        found = msgspec.json.decode(body, type=wire.WorkerReport)
        return wire.Unreadable(found.n, found.token, text)
