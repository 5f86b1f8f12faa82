"""Records of the audit, as a client returns them."""

from typing import Any

from assay.sdk.client.records import Record


class AuditEntryRecord(Record):
    """An accepted change, or refusals of one caller and operation within a minute."""

    __slots__ = ()
    component = "AuditRecord"
    telling = ("at", "actor", "action", "target", "outcome")
    id: int
    at: float
    actor: str | None
    credential: str | None
    address: str | None
    action: str
    namespace: str | None
    target: str | None
    outcome: str
    code: str | None
    count: int
    before: Any
    after: Any
    request_id: str | None
