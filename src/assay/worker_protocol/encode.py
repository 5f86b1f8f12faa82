"""Encode a worker's messages, split if they exceed the size limit."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from assay.core.model.errors import Invalid
from assay.worker_protocol import messages as wire
from assay.worker_protocol.worker_side import WorkerEndpoint

ENVELOPE_BYTES: Final = 1024 * 1024
"""The size of a message without its reports: tokens of thousands of leases, after a lost connection."""


def encode_worker_message(endpoint: WorkerEndpoint, message: wire.WorkerMessage) -> list[bytes]:
    """Return an encoded message, in parts if needed; refuse reports that cannot be encoded or exceed the limit.

    The caller sends the bytes and then calls `WorkerEndpoint.settle_refused`.
    """
    try:
        body = wire.encode(message)
    except Exception:  # noqa: BLE001  # anything that encoding a user's values may raise
        message = replace(message, reports=_encodable(endpoint, message.reports))
        body = wire.encode(message)
    return [body] if len(body) <= wire.MAX_MESSAGE_BYTES else _split(endpoint, message)


def _encodable(endpoint: WorkerEndpoint, reports: Sequence[wire.Report]) -> tuple[wire.Report, ...]:
    """Return the reports that can be encoded: a bad report must not hold up its neighbours."""
    encodable = []
    for report in reports:
        try:
            wire.encode(report)
        except Exception as error:  # noqa: BLE001  # as above
            endpoint.refuse(report, Invalid(f"this cannot be written as JSON: {error}", code="unencodable"))
        else:
            encodable.append(report)
    return tuple(encodable)


def _split(endpoint: WorkerEndpoint, message: wire.WorkerMessage) -> list[bytes]:
    parts: list[bytes] = []
    chunk: list[wire.Report] = []
    size, limit = 0, wire.MAX_MESSAGE_BYTES - ENVELOPE_BYTES
    for report in message.reports:
        length = len(wire.encode(report))
        if length > limit:
            text = f"{length:,} bytes in one turn are more than a message can hold ({wire.MAX_MESSAGE_BYTES:,})"
            endpoint.refuse(report, Invalid(text, code="body_too_large"))
            continue
        if size + length > limit and chunk:
            parts.append(wire.encode(replace(message, reports=tuple(chunk))))
            message = replace(message, number=endpoint.next_number(), hello=None)
            chunk, size = [], 0
        chunk.append(report)
        size += length
    return [*parts, wire.encode(replace(message, reports=tuple(chunk)))]
