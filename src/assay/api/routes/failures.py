"""Routes of failure groups: runs that failed alike, and what people said about them."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from assay.api import answers
from assay.api.access import ACT, READ
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import NAMESPACE, records_of
from assay.core.model.duration import HOUR
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import SECOND, Time, seconds
from assay.core.model.options import check_text
from assay.core.rules.failure_groups import ATTEMPT, GROUP_STATES, MUTED, OPEN, SOURCES, FailureGroup, grouped
from assay.wire.failure_records import FailureGroupBody, FailureGroupRecord
from assay.wire.responses import WorkflowRecord

LISTED_GROUPS: Final = 200
FAILING_ACTIVITIES: Final = 1_000
HOURS_SHOWN: Final = 24
HIGHEST_COUNT: Final = 2**31
LATEST_UNTIL_SECONDS: Final = 1e11


async def list_failures(backend: Backend, call: ApiCall) -> HttpResponse:
    """List failure groups, the latest failure first."""
    state, source, kind = call.text("state"), call.text("source"), call.text("type")
    if state is not None and state not in GROUP_STATES:
        raise Invalid(f"state is {state!r}; it can be {', '.join(GROUP_STATES)}", field="state")
    if source is not None and source not in SOURCES:
        raise Invalid(f"source is {source!r}; it can be {', '.join(SOURCES)}", field="source")
    since = call.number("since")
    now = backend.engine.now()
    after = 0 if since is None else round(min(max(since, 0.0), LATEST_UNTIL_SECONDS) * SECOND)
    if source == ATTEMPT:
        groups = await _failing(backend, call.namespace)
    else:
        groups = await backend.failures.groups(call.namespace, after, LISTED_GROUPS)
    shown = [
        group
        for group in groups
        if (state is None or group.current(now)[0] == state)
        and (source is None or group.source == source)
        and (kind is None or group.workflow_type == kind)
    ]
    return answers.json(await _records(backend, shown, now))


async def _failing(backend: Backend, namespace: str) -> Sequence[FailureGroup]:
    """Return groups of activities between two tries; they are not stored."""
    found: dict[str, FailureGroup] = {}
    for _, _, workflow_type, name, failure, at in await backend.failures.failing(namespace, FAILING_ACTIVITIES):
        facts = grouped(workflow_type, failure, ATTEMPT, name)
        known = found.get(facts.fingerprint)
        if known is None:
            known = FailureGroup(
                namespace=namespace,
                fingerprint=facts.fingerprint,
                source=ATTEMPT,
                workflow_type=workflow_type,
                where=name,
                kind=facts.kind,
                type=facts.type,
                message=facts.message,
                first_seen=at,
            )
        first, last = min(known.first_seen, at), max(known.last_seen, at)
        number = known.count + 1
        found[facts.fingerprint] = replace(known, count=number, open=number, first_seen=first, last_seen=last)
    return sorted(found.values(), key=lambda group: -group.last_seen)


async def _records(backend: Backend, groups: Sequence[FailureGroup], now: Time) -> list[FailureGroupRecord]:
    if not groups:
        return []
    namespace = groups[0].namespace
    # The last of the 24 hours is the present one, so that it ends now.
    hours = await backend.failures.per_hour(
        namespace, [group.fingerprint for group in groups], now - HOURS_SHOWN * HOUR
    )
    return [_record(group, hours[group.fingerprint], await _sample(backend, group), now) for group in groups]


async def _sample(backend: Backend, group: FailureGroup) -> WorkflowRecord | None:
    named = await backend.failures.sample(group.namespace, group.fingerprint)
    found = None if named is None else await backend.engine.reads.find(group.namespace, *named)
    return None if found is None else (await records_of(backend, [found]))[0]


def _record(
    group: FailureGroup, per_hour: Sequence[int], sample: WorkflowRecord | None, now: Time
) -> FailureGroupRecord:
    state, regressed = group.current(now)
    return FailureGroupRecord(
        fingerprint=group.fingerprint,
        source=group.source,
        workflow_type=group.workflow_type,
        where=group.where,
        kind=group.kind,
        type=group.type,
        message=group.message,
        count=group.count,
        open=group.open,
        first_seen=seconds(group.first_seen),
        last_seen=seconds(group.last_seen),
        per_hour=list(per_hour),
        builds=[],
        sample=sample,
        state=state,
        regressed=regressed,
        assignee=group.assignee,
        note=group.note,
    )


async def _found(backend: Backend, call: ApiCall) -> FailureGroup:
    fingerprint = call.parameters["fingerprint"]
    found = await backend.failures.group(call.namespace, fingerprint)
    if found is None:
        raise NotFound(f"failure group {fingerprint}")
    return found


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a failure group."""
    found = await _found(backend, call)
    return answers.json((await _records(backend, [found], backend.engine.now()))[0])


async def change(backend: Backend, call: ApiCall) -> HttpResponse:
    """Mute, resolve or reopen a failure group, or note who takes care of it."""
    body = await call.read(FailureGroupBody)
    group, now = await _found(backend, call), backend.engine.now()
    changed = replace(group, **_changes(body, group, now))
    (before,) = await _records(backend, [group], now)
    (after,) = await _records(backend, [changed], now)
    auditor = backend.auditor
    shown = {"before": _audited(before), "after": _audited(after)}
    audit = None if auditor is None else auditor.row(call, call.namespace, group.fingerprint, **shown)
    await backend.failures.change(changed, audit)
    return answers.json(after)


def _audited(record: FailureGroupRecord) -> dict[str, Any]:
    return {"state": record.state, "assignee": record.assignee, "note": record.note}


def _changes(body: FailureGroupBody, group: FailureGroup, now: Time) -> dict[str, Any]:
    """Return the changed fields of a group; `until_count` counts further runs."""
    changes: dict[str, Any] = {}
    if body.state is not UNSET:
        if body.state not in GROUP_STATES:
            raise Invalid(f"state is {body.state!r}; it can be {', '.join(GROUP_STATES)}", field="state")
        changes |= {"state": body.state, "changed_at": now, "until_at": None, "until_count": None, "until_build": None}
    state = changes.get("state", group.current(now)[0])
    limits = [name for name in ("until", "until_count", "until_build") if getattr(body, name) not in (UNSET, None)]
    if limits and state != MUTED:
        raise Invalid(f"{limits[0]} is only for the state {MUTED}, not {state or OPEN}", field=limits[0])
    if isinstance(body.until, int | float):
        if not 0 <= body.until <= LATEST_UNTIL_SECONDS:
            raise Invalid("until must be a time in seconds since the epoch", field="until")
        changes["until_at"] = round(body.until * SECOND)
    if isinstance(body.until_count, int):
        if not 1 <= body.until_count <= HIGHEST_COUNT:
            raise Invalid("until_count must be a positive number", field="until_count")
        changes["until_count"] = group.count + body.until_count
    for name in ("until_build", "assignee", "note"):
        value = getattr(body, name)
        if value is not UNSET:
            changes[name] = check_text(value, name)
    return changes


def _route(method: str, path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method=method,
        path=f"/failures{path}",
        operation_id=operation_id,
        summary=summary,
        tag="failures",
        reaction=reaction,
        query=(NAMESPACE, *more.pop("query", ())),
        answers={200: answer},
        access=READ if method == "GET" else ACT,
        **more,
    )


ROUTES: Final = (
    _route(
        "GET",
        "",
        "listFailures",
        "List failure groups, the latest failure first",
        list_failures,
        list[FailureGroupRecord],
        query=(
            Parameter("state", "`open`, `muted` or `resolved`; default all."),
            Parameter("source", "`run`, `blocked`, or `attempt` for activities between two tries."),
            Parameter("type", "Only groups of this workflow type."),
            Parameter("since", "Only groups with a failure after this time, in seconds since the epoch.", float),
        ),
    ),
    _route("GET", "/{fingerprint}", "getFailure", "Describe a failure group", describe, FailureGroupRecord),
    _route(
        "PATCH",
        "/{fingerprint}",
        "changeFailure",
        "Mute, resolve or assign a failure group",
        change,
        FailureGroupRecord,
        body=FailureGroupBody,
        body_optional=True,
    ),
)
