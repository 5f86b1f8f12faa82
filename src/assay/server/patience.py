"""How long a client may take, and how many clients there may be."""

import resource
from dataclasses import dataclass
from typing import Final

from assay.api.guard import HEADERS_LIMIT_BYTES, URL_LIMIT_BYTES
from assay.worker_protocol.messages import MAX_MESSAGE_BYTES

SPARE_FILES: Final = 128
"""Open files that are left to the database and to the program itself."""


@dataclass(frozen=True)
class Patience:
    """How long a client may take, and how much it may bring along."""

    head_seconds: float = 10.0
    """For the first line and the headers; also for a connection on which nothing comes."""
    body_seconds: float = 20.0
    body_pace: int = 1_024
    """Bytes a second beyond that: a body may take long if it is long."""
    answer_seconds: float = 30.0
    """How long an answer may lie around before the client takes any of it."""
    silence_seconds: float = 60.0
    """How long a WebSocket stays open on which nothing arrives; workers send a sign of life every few seconds."""
    head_bytes: int = HEADERS_LIMIT_BYTES + URL_LIMIT_BYTES + 1_024
    body_bytes: int = MAX_MESSAGE_BYTES + 1024 * 1024
    """More than any route reads; whoever goes on sending after a refusal is cut off here."""
    connections: int = 10_000


def connections_within(wanted: int) -> int:
    """How many connections the process can have, after taking as many open files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        granted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (granted, hard))
        soft = granted
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - SPARE_FILES))
