"""The form in which failures of activities, children and workflows are stored and sent."""

from __future__ import annotations

import msgspec

from assay.core.model.errors import Kind
from assay.core.model.payload import NULL, Payload


class FailureInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure as data: its kind, message, origin, and whether a retry is allowed."""

    kind: Kind = Kind.UNKNOWN
    message: str = ""
    retryable: bool | None = None
    details: Payload = NULL
    type: str | None = None
    stack: str | None = None
    cause: FailureInfo | None = None
    source: str | None = None
    retry_state: str | None = None
    timeout_type: str | None = None
