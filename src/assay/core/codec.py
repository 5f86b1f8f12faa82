"""Events as bytes and back: the form in which histories are stored, sent and kept for ever.

An event has a `payload`, the JSON document that the wire shows, and for the few events whose payload is a bare value
(R16) a `data` document with their other fields. Readers accept fields they do not know; a kind they do not know is an
`UnknownEvent` in its place, which fails the task that meets it and not the run (U5).
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
    """An event of a later version, kept as it came."""

    recorded_name: ClassVar[str] = "UnknownEvent"
    """Of no use: `name` has the recorded one."""
    name: str
    payload: Payload
    data: Payload = NULL


class _Next(msgspec.Struct, omit_defaults=True):
    next_run_id: str | None = None


class _Reason(msgspec.Struct, omit_defaults=True):
    reason: str | None = None


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """The event's payload and, where the payload is a bare value, the data beside it."""
    split = _SPLIT.get(type(event))
    if split is not None:
        return split(event)
    return _encode(event), None


def encode_uncertain(event: Event) -> tuple[bytes, bytes | None]:
    """The same for an event with fields that programs fill in; `Invalid` if it could not be read again (I20)."""
    try:
        payload, data = encode(event)
        decode(event.recorded_name, payload, data)
    except (Invalid, *_FLAWS) as error:
        raise _unrecordable(event.recorded_name, error.__cause__ or error) from error
    return payload, data


def check_failure(failure: FailureInfo) -> None:
    """`Invalid` if a failure could not be read again."""
    try:
        _failure(_encode(failure))
    except _FLAWS as error:
        raise _unrecordable("failure", error) from error


def _unrecordable(name: str, error: BaseException) -> Invalid:
    text = f"this {name} cannot be recorded: {error}".replace("`", "")
    return Invalid(text)


def decode(name: str, payload: bytes, data: bytes | None) -> Event:
    """The event that `encode` was given; `Invalid` for bytes that are no event."""
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
