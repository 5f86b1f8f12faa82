"""Encode events to bytes and decode them: the form in which histories are stored, sent and kept.

An event has a `payload`, the JSON document that the API shows. A few events have a bare value as payload, for example
the input of a workflow; their other fields are in a second document, `data`. The decoder accepts unknown fields, and
returns an `UnknownEvent` for an unknown kind: a worker that replays the event fails its task, and the run stays open.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from assay.core.model.errors import Invalid
from assay.core.model.events import (
    KINDS,
    Event,
    StartData,
    WorkflowCancelled,
    WorkflowCancelRequested,
    WorkflowCompleted,
    WorkflowStarted,
)
from assay.core.model.failure import FailureInfo
from assay.core.model.payload import NULL, Payload

_encode = msgspec.json.Encoder().encode
_decoders = {name: msgspec.json.Decoder(kind).decode for name, kind in KINDS.items()}
_start = msgspec.json.Decoder(StartData).decode
_failure = msgspec.json.Decoder(FailureInfo).decode
_NULL = b"null"
_FLAWS = (msgspec.MsgspecError, TypeError, ValueError)


class UnknownEvent(Event, frozen=True, gc=False):
    """An event of a later version, kept as recorded."""

    recorded_name: ClassVar[str] = "UnknownEvent"
    """Not used: `name` has the recorded name."""
    name: str
    payload: Payload
    data: Payload = NULL


class _Next(msgspec.Struct, omit_defaults=True):
    next_run_id: str | None = None


class _Reason(msgspec.Struct, omit_defaults=True):
    reason: str | None = None


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """Return the payload of an event and, if the payload is a bare value, the data with its other fields."""
    split = _SPLIT.get(type(event))
    if split is not None:
        return split(event)
    return _encode(event), None


def encode_uncertain(event: Event) -> tuple[bytes, bytes | None]:
    """Encode an event with values of user code; raise `Invalid` if the result could not be decoded (I20)."""
    try:
        payload, data = encode(event)
        decode(event.recorded_name, payload, data)
    except (Invalid, *_FLAWS) as error:
        raise _unrecordable(event.recorded_name, error.__cause__ or error) from error
    return payload, data


def check_failure(failure: FailureInfo) -> None:
    """Raise `Invalid` if a failure, once encoded, could not be decoded."""
    try:
        _failure(_encode(failure))
    except _FLAWS as error:
        raise _unrecordable("failure", error) from error


def _unrecordable(name: str, error: BaseException) -> Invalid:
    text = f"this {name} cannot be recorded: {error}".replace("`", "")
    return Invalid(text)


def decode(name: str, payload: bytes, data: bytes | None) -> Event:
    """Return the event that `encode` produced these bytes from; raise `Invalid` if they are not an event."""
    join = _JOIN.get(name)
    try:
        if join is not None:
            return join(payload, data)
        decoder = _decoders.get(name)
        return _unknown(name, payload, data) if decoder is None else decoder(payload)
    except msgspec.MsgspecError as error:
        raise Invalid(f"a recorded {name} cannot be read: {error}", code="unreadable_event") from error


def _unknown(name: str, payload: bytes, data: bytes | None) -> UnknownEvent:
    return UnknownEvent(name, Payload(payload), NULL if data is None else Payload(data))


def _split_unknown(event: UnknownEvent) -> tuple[bytes, bytes | None]:
    return bytes(event.payload), None if event.data == NULL else bytes(event.data)


def _split_started(event: WorkflowStarted) -> tuple[bytes, bytes | None]:
    return bytes(event.input), None if event.start is None else _encode(event.start)


def _split_completed(event: WorkflowCompleted) -> tuple[bytes, bytes | None]:
    return bytes(event.result), None if event.next_run_id is None else _encode(_Next(event.next_run_id))


def _split_cancelled(event: WorkflowCancelled) -> tuple[bytes, bytes | None]:
    return _NULL, None if event.reason is None else _encode(_Reason(event.reason))


def _split_cancel_requested(event: Event) -> tuple[bytes, bytes | None]:
    payload = _encode(event)
    return (_NULL if payload == b"{}" else payload), None


def _join_started(payload: bytes, data: bytes | None) -> Event:
    return WorkflowStarted(_document(payload), None if data is None else _start(data))


def _join_completed(payload: bytes, data: bytes | None) -> Event:
    following = None if data is None else msgspec.json.decode(data, type=_Next).next_run_id
    return WorkflowCompleted(_document(payload), following)  # type: ignore[arg-type]  # RunId is a str


def _join_cancelled(_: bytes, data: bytes | None) -> Event:
    return WorkflowCancelled(None if data is None else msgspec.json.decode(data, type=_Reason).reason)


def _join_cancel_requested(payload: bytes, _: bytes | None) -> Event:
    return WorkflowCancelRequested() if payload == _NULL else _decoders["WorkflowCancelRequested"](payload)


def _document(payload: bytes) -> Payload:
    return NULL if payload == _NULL else Payload(payload)


_SPLIT: dict[type[Event], Callable[[Any], tuple[bytes, bytes | None]]] = {
    UnknownEvent: _split_unknown,
    WorkflowStarted: _split_started,
    WorkflowCompleted: _split_completed,
    WorkflowCancelled: _split_cancelled,
    WorkflowCancelRequested: _split_cancel_requested,
}
_JOIN = {
    "WorkflowStarted": _join_started,
    "WorkflowCompleted": _join_completed,
    "WorkflowCancelled": _join_cancelled,
    "WorkflowCancelRequested": _join_cancel_requested,
}
