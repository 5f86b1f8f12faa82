"""Records of the audit, as clients see them."""

from typing import Any

import msgspec

from assay.core.model.attached_rows import AuditRow
from assay.core.model.ids import seconds


class AuditRecord(msgspec.Struct, kw_only=True):
    """An accepted change, or refusals of one caller and operation within a minute."""

    id: int
    at: float
    actor: str | None
    """The label or prefix of a key, or the name in a token; null without authentication."""
    credential: str | None
    """The prefix of an API key, or `jwt`."""
    address: str | None
    action: str
    """The operationId of the route."""
    namespace: str | None
    target: str | None
    outcome: str
    """`ok` or `refused`."""
    code: str | None
    count: int
    before: Any
    """The target before the change; only for schedules, namespaces, keys and failure groups."""
    after: Any
    request_id: str | None


def audit_record(row: AuditRow) -> AuditRecord:
    """Return the record of a row."""
    return AuditRecord(
        id=row.id,
        at=seconds(row.at),
        actor=row.actor,
        credential=row.credential,
        address=row.address,
        action=row.action,
        namespace=row.namespace,
        target=row.target,
        outcome=row.outcome,
        code=row.code,
        count=row.count,
        before=None if row.before is None else msgspec.Raw(row.before),
        after=None if row.after is None else msgspec.Raw(row.after),
        request_id=row.request_id,
    )
