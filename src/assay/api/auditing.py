"""Rows of the audit for requests: the caller, the operation and its target."""

from typing import Any, Final

import msgspec

from assay.api.call import ApiCall
from assay.core.model.attached_rows import REFUSED, AuditRow
from assay.core.model.duration import MINUTE
from assay.core.model.requests import Request
from assay.core.schedules.model import Schedule
from assay.core.schedules.requests import ScheduleRequest
from assay.engine.audit import Audit
from assay.engine.commit.audit_note import AuditNote
from assay.wire.errors import Forbidden
from assay.wire.schedule_bodies import schedule_record

TARGETS: Final = ("workflow_id", "name", "fingerprint", "prefix", "batch_id", "mailbox_id", "activity_id")
"""Path parameters that name the target of a change, the first found counts."""

_encode: Final = msgspec.json.Encoder().encode


class Auditor:
    """Makes the rows of accepted requests, and counts refusals."""

    def __init__(self, audit: Audit) -> None:
        self.audit = audit

    def note(self, call: ApiCall, namespace: str, request: Request) -> AuditNote:
        """Return the audit of a request on the write path."""
        target = getattr(request, "workflow_id", None) or getattr(request, "name", None)
        render = _schedule if isinstance(request, ScheduleRequest) else None
        return AuditNote(self.row(call, namespace, target), render)

    def row(
        self, call: ApiCall, namespace: str | None, target: str | None = None, *, before: Any = None, after: Any = None
    ) -> AuditRow:
        """Return the row of an accepted change.

        Args:
            call: The request.
            namespace: The namespace of the change; `*` for several.
            target: The id, name, prefix or fingerprint that the change is about; by default from the path.
            before: The record of the target before the change, without secrets; None for no record.
            after: The record of the target after the change, without secrets.
        """
        return AuditRow(
            at=self.audit.now(),
            actor=call.principal.user,
            credential=call.principal.credential,
            address=call.address,
            action=call.operation,
            namespace=namespace,
            target=target or _target(call),
            before=None if before is None else _encode(before),
            after=None if after is None else _encode(after),
            request_id=call.given_request_id,
        )

    def refuse(self, call: ApiCall, problem: Forbidden) -> None:
        """Count a refusal: one row for each caller, operation and minute."""
        row = self.row(call, problem.namespace)
        minute = row.at // MINUTE
        key = _encode([minute, row.actor, row.credential, row.action]).decode()
        self.audit.count_refusal(
            msgspec.structs.replace(row, outcome=REFUSED, code=problem.code, merged_by=key, request_id=call.request_id)
        )


def acting_name(call: ApiCall, given: str | None) -> str | None:
    """Return the name of the caller for a record: of its credential, or `given` without authentication."""
    principal = call.principal
    return given if principal.credential is None else principal.user or principal.credential


def _target(call: ApiCall) -> str | None:
    return next((call.parameters[name] for name in TARGETS if name in call.parameters), None)


def _schedule(schedule: Schedule) -> bytes:
    return _encode(schedule_record(schedule))
