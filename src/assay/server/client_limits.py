"""Limits of time, size and number for clients of the server."""

import resource
from dataclasses import dataclass
from typing import Final

from assay.api.guard import HEADERS_LIMIT_BYTES, URL_LIMIT_BYTES
from assay.worker_protocol.messages import MAX_MESSAGE_BYTES

SPARE_FILES: Final = 128
"""Open files reserved for the database and the program itself."""


@dataclass(frozen=True)
class ClientLimits:
    """The time that a client may take, the bytes that it may send, and the number of connections."""

    head_seconds: float = 10.0
    """For the first line and the headers; also for a connection without a request."""
    body_seconds: float = 20.0
    body_pace: int = 1_024
    """Bytes a second after `body_seconds`: a long body may take longer."""
    answer_seconds: float = 30.0
    """For the client to read a part of an answer."""
    silence_seconds: float = 60.0
    """For a WebSocket without a message; workers send heartbeats every few seconds."""
    head_bytes: int = HEADERS_LIMIT_BYTES + URL_LIMIT_BYTES + 1_024
    body_bytes: int = MAX_MESSAGE_BYTES + 1024 * 1024
    """More than any route reads; a client that keeps sending after a refusal is disconnected here."""
    connections: int = 10_000


def connections_within(wanted: int) -> int:
    """Raise the limit of open files as far as permitted; return the number of connections that fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        granted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        soft = granted
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - SPARE_FILES))
