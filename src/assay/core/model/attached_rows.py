"""Rows that are written beside a change: the kept answer of its request, and the audit of its caller."""

from collections.abc import Sequence
from typing import Final

import msgspec

from assay.core.model.ids import Time

ACCEPTED: Final = "ok"
REFUSED: Final = "refused"


class AuditRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An accepted change, or the refusals of one caller and operation within a minute."""

    id: int = 0
    """Given by the database; 0 before."""
    at: Time
    actor: str | None
    credential: str | None
    address: str | None
    action: str
    """The operationId of the route."""
    namespace: str | None
    target: str | None
    outcome: str = ACCEPTED
    code: str | None = None
    count: int = 1
    before: bytes | None = None
    """The state before the change as JSON; only for schedules, namespaces, keys and failure groups."""
    after: bytes | None = None
    request_id: str | None = None
    merged_by: str | None = None
    """The key under which refusals of a minute are counted in one row; None for a change."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a reader wants; None is no condition."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    outcome: str | None = None
    namespaces: Sequence[str] | None = None
    after: Time | None = None
    before: Time | None = None
    before_id: int | None = None
    """Only rows with a lower id: the cursor of a page."""


class RequestOutcome(msgspec.Struct, frozen=True, gc=False):
    """The first reply to a request with an idempotency key; repetitions of the request receive the same reply."""

    namespace: str
    key: str
    fingerprint: bytes
    status: int
    body: bytes
    created_at: Time


class AttachedRows(msgspec.Struct, frozen=True):
    """Rows that are written in the transaction of a change: the kept answer of its request, and its audit."""

    outcome: RequestOutcome | None = None
    audit: AuditRow | None = None


NO_ROWS: Final = AttachedRows()
