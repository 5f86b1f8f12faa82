"""The route of the audit: which caller changed what, newest first. No route changes or deletes a row."""

from collections.abc import Sequence
from typing import Final

from assay.api import answers
from assay.api.access import MANAGE_SHOWN, require, require_shown
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.auth.permissions import ALL_NAMESPACES, Permission
from assay.core.model.attached_rows import ACCEPTED, REFUSED, AuditFilter
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.wire.audit_records import AuditRecord, audit_record

DEFAULT_AUDIT_ROWS: Final = 50
MAX_AUDIT_ROWS: Final = 1_000
LATEST_SECONDS: Final = 10**12
"""The largest time of a filter, far beyond every clock; a larger number does not fit into the database."""


async def list_audit(backend: Backend, call: ApiCall) -> HttpResponse:
    """List changes and refusals in the namespaces in which the caller is an admin."""
    wanted = AuditFilter(
        actor=call.text("actor"),
        action=call.text("action"),
        target=call.text("target"),
        outcome=_outcome(call),
        namespaces=_namespaces(call),
        after=_time(call, "after"),
        before=_time(call, "before"),
        before_id=_cursor(call),
    )
    limit = _limit(call)
    found = await backend.audit.page(wanted, limit + 1)
    headers: list[Header] = [(b"x-next-cursor", str(found[limit - 1].id).encode())] if len(found) > limit else []
    return answers.json([audit_record(row) for row in found[:limit]], headers=headers)


def _namespaces(call: ApiCall) -> Sequence[str] | None:
    """Return the namespaces whose rows the caller may see and wants; None for all, and for rows without one."""
    namespace = call.text("namespace")
    if namespace is not None:
        require(call.principal, Permission.MANAGE, namespace)
        return None if namespace == ALL_NAMESPACES else (namespace,)
    shown = require_shown(call.principal, Permission.MANAGE)
    return None if shown is None else sorted(shown)


def _outcome(call: ApiCall) -> str | None:
    outcome = call.text("outcome")
    if outcome not in (None, ACCEPTED, REFUSED):
        raise Invalid(f"outcome must be {ACCEPTED} or {REFUSED}, not {outcome!r}", field="outcome")
    return outcome


def _time(call: ApiCall, name: str) -> Time | None:
    given = call.number(name)
    if given is None:
        return None
    if not 0 <= given <= LATEST_SECONDS:
        raise Invalid(f"{name} must be seconds since the epoch, not {given:g}", field=name)
    return int(given * SECOND)


def _cursor(call: ApiCall) -> int | None:
    cursor = call.whole("cursor")
    if cursor is not None and cursor < 1:
        raise Invalid("cursor must be an X-Next-Cursor of this list", field="cursor")
    return cursor


def _limit(call: ApiCall) -> int:
    limit = call.whole("limit")
    if limit is None:
        return DEFAULT_AUDIT_ROWS
    if limit < 1:
        raise Invalid("limit must be at least 1", field="limit")
    return min(limit, MAX_AUDIT_ROWS)


ROUTES: Final = (
    Route(
        method="GET",
        path="/audit",
        operation_id="listAudit",
        summary="List changes and refusals, newest first",
        tag="audit",
        reaction=list_audit,
        query=(
            Parameter("actor", "Only rows of this caller."),
            Parameter("action", "Only rows of this operation, such as `cancelWorkflow`."),
            Parameter("target", "Only rows about this id, name, prefix or fingerprint."),
            Parameter("namespace", "Only rows of this namespace; by default all namespaces of the caller."),
            Parameter("outcome", "`ok` or `refused`."),
            Parameter("after", "Only rows at or after this time, in seconds since the epoch.", float),
            Parameter("before", "Only rows before this time, in seconds since the epoch.", float),
            Parameter("cursor", "`X-Next-Cursor` of the page before."),
            Parameter("limit", f"Most rows of a page; default {DEFAULT_AUDIT_ROWS}.", int),
        ),
        headers=(Parameter("X-Next-Cursor", "The cursor of the next page; absent on the last page.", str),),
        answers={200: list[AuditRecord]},
        access=MANAGE_SHOWN,
    ),
)
