"""Routes of bulk actions: a dry run with a token, the start with that token, progress, and stop."""

import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from assay.api import answers
from assay.api.access import ACT_IN_BODY, READ, READ_FOUND, require
from assay.api.answers import HttpResponse
from assay.api.auditing import acting_name
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import NAMESPACE, records_of
from assay.auth.permissions import Permission
from assay.core.model.errors import Invalid, NotFound, Refused
from assay.core.model.ids import SECOND, Time, seconds
from assay.core.model.options import check_id, check_text
from assay.engine.batches import ACTIONS, BATCH_RATE, DONE, PREVIEW, RUNNING, STOPPED, BatchItem, BatchRow, skip_reason
from assay.engine.filters import run_filter
from assay.engine.reads import RunFilter, RunRecord
from assay.wire.batch_records import BatchBody, BatchItemRecord, BatchPreview, BatchRecord, BatchStarted

TOKEN_LIFETIME: Final[Time] = 15 * 60 * SECOND
MAX_BATCH_RUNS: Final = 100_000
SAMPLE_RUNS: Final = 10
PAGE_RUNS: Final = 1_000
LISTED_BATCHES: Final = 100
LISTED_ITEMS: Final = 1_000
OUTCOMES: Final = ("succeeded", "refused", "skipped")
_encode: Final = msgspec.json.Encoder().encode
_filters: Final = msgspec.json.Decoder(dict[str, Any]).decode


async def create(backend: Backend, call: ApiCall) -> HttpResponse:
    """Preview a bulk action, or start one with the token of its preview."""
    body = await call.read(BatchBody)
    if body.token is not None:
        return await _start(backend, call, body.token)
    if not body.dry_run:
        raise Invalid("start a batch with the token of its dry run", code="needs_dry_run", field="dry_run")
    require(call.principal, Permission.READ, call.namespace)
    return await _preview(backend, call, body)


async def _preview(backend: Backend, call: ApiCall, body: BatchBody) -> HttpResponse:
    if body.action not in ACTIONS:
        raise Invalid(f"action is {body.action!r}; it can be {', '.join(ACTIONS)}", field="action")
    if body.action == "signal":
        check_id(str((body.arguments or {}).get("name") or ""), "arguments.name")
    if (body.filter is None) == (not body.run_ids):
        raise Invalid("a batch needs a filter or run_ids, not both", field="filter")
    now = backend.engine.now()
    chosen: dict[str, Any] = {"run_ids": body.run_ids} if body.run_ids else dict(body.filter or {})
    matched, skipped, sample = 0, Counter[str](), list[RunRecord]()
    async for page in _pages(backend, call.namespace, chosen, now):
        matched += len(page)
        skipped.update(reason for one in page if (reason := skip_reason(body.action, one.run)) is not None)
        sample.extend(page[: SAMPLE_RUNS - len(sample)])
        if matched > MAX_BATCH_RUNS:
            break
    if matched > MAX_BATCH_RUNS:
        raise Invalid(f"a batch acts on at most {MAX_BATCH_RUNS:,} runs: narrow its filter", code="limit_exceeded")
    token, by = secrets.token_hex(16), acting_name(call, "batch")
    row = BatchRow(
        batch_id=f"b-{secrets.token_hex(8)}",
        namespace=call.namespace,
        token=token,
        action=body.action,
        arguments=_encode(body.arguments or {}),
        reason=check_text(body.reason, "reason"),
        filter=_encode(chosen),
        as_of=now,
        state=PREVIEW,
        total=matched,
        started_by=by,
        started_at=now,
        expires_at=now + TOKEN_LIFETIME,
    )
    await backend.batches.add(row)
    preview = BatchPreview(
        matched=matched,
        capped=False,
        will_act=matched - sum(skipped.values()),
        will_skip=dict(skipped),
        sample=await records_of(backend, sample),
        token=token,
        as_of=seconds(now),
    )
    return answers.json(preview)


async def _pages(
    backend: Backend, namespace: str, chosen: Mapping[str, Any], as_of: Time
) -> AsyncIterator[Sequence[RunRecord]]:
    """Yield the runs of a filter that existed at a time, page by page, newest first."""
    wanted: RunFilter = run_filter(namespace, {**chosen, "limit": None, "cursor": None, "offset": None})
    before = as_of + 1 if wanted.created_before is None else min(wanted.created_before, as_of + 1)
    wanted = await backend.insight.with_services(
        replace(wanted, created_before=before, documents=False, limit=PAGE_RUNS)
    )
    while True:
        page = await backend.engine.reads.listed(wanted)
        if page:
            yield page
        if not page.more:
            return
        wanted = replace(wanted, cursor=(page[-1].run.created_at, page[-1].run.run_id))


async def _start(backend: Backend, call: ApiCall, token: str) -> HttpResponse:
    known = await backend.batches.by_token(token)
    expired = Refused("the token of this batch is unknown or older than 15 minutes", code="token_expired")
    if known is None:
        raise expired
    require(call.principal, Permission.ACT, known.namespace)
    now = backend.engine.now()
    if known.state == PREVIEW:
        if known.expires_at <= now:
            raise expired
        items: list[BatchItem] = []
        async for page in _pages(backend, known.namespace, _filters(known.filter), known.as_of):
            for one in page:
                items.append(BatchItem(place=len(items), workflow_id=one.run.workflow_id, run_id=one.run.run_id))
        auditor = backend.auditor
        audit = None if auditor is None else auditor.row(call, known.namespace, known.batch_id)
        by = acting_name(call, known.started_by or "batch")
        await backend.batches.start(known.batch_id, items, by, now, audit)
        backend.batch_loop.wake()
    return answers.json(BatchStarted(batch_id=known.batch_id), 202)


async def _found(backend: Backend, call: ApiCall, permission: Permission) -> BatchRow:
    found = await backend.batches.batch(call.parameters["batch_id"])
    if found is None or found.state == PREVIEW:
        raise NotFound(f"batch {call.parameters['batch_id']}")
    if not call.principal.has_role_in(found.namespace):
        raise NotFound(f"batch {call.parameters['batch_id']}")
    require(call.principal, permission, found.namespace)
    return found


async def list_batches(backend: Backend, call: ApiCall) -> HttpResponse:
    """List bulk actions, newest first."""
    return answers.json([_record(row) for row in await backend.batches.batches(call.namespace, LISTED_BATCHES)])


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a bulk action with its progress."""
    return answers.json(_record(await _found(backend, call, Permission.READ)))


async def list_items(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the runs of a bulk action with their outcomes."""
    found, outcome = await _found(backend, call, Permission.READ), call.text("outcome")
    if outcome is not None and outcome not in OUTCOMES:
        raise Invalid(f"outcome is {outcome!r}; it can be {', '.join(OUTCOMES)}", field="outcome")
    cursor = call.whole("cursor")
    after = -1 if cursor is None else cursor
    page = await backend.batches.items(found.batch_id, outcome, after, LISTED_ITEMS + 1)
    more = [(b"x-next-cursor", str(page[LISTED_ITEMS - 1].place).encode())] if len(page) > LISTED_ITEMS else []
    return answers.json([_item(item) for item in page[:LISTED_ITEMS]], 200, more)


async def stop(backend: Backend, call: ApiCall) -> HttpResponse:
    """Stop a bulk action; runs that it acted on stay as they are."""
    found = await _found(backend, call, Permission.ACT)
    if found.state == RUNNING:
        await backend.batches.end(found.batch_id, STOPPED, backend.engine.now())
    return answers.json(_record(await _found(backend, call, Permission.ACT)))


def _record(row: BatchRow) -> BatchRecord:
    done = row.succeeded + row.refused + row.skipped
    return BatchRecord(
        batch_id=row.batch_id,
        action=row.action,
        arguments=msgspec.json.decode(row.arguments),
        reason=row.reason,
        filter=_filters(row.filter),
        as_of=seconds(row.as_of),
        state=row.state,
        total=row.total,
        done=done,
        succeeded=row.succeeded,
        refused=row.refused,
        skipped=row.skipped,
        rate=BATCH_RATE if row.state not in (DONE, STOPPED) else 0,
        started_by=row.started_by,
        started_at=seconds(row.started_at),
        ended_at=None if row.ended_at is None else seconds(row.ended_at),
    )


def _item(item: BatchItem) -> BatchItemRecord:
    return BatchItemRecord(
        workflow_id=item.workflow_id,
        run_id=item.run_id,
        outcome=item.outcome,
        code=item.code,
        message=item.message,
        new_run_id=item.new_run_id,
    )


def _route(method: str, path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method=method,
        path=f"/batches{path}",
        operation_id=operation_id,
        summary=summary,
        tag="batches",
        reaction=reaction,
        query=(NAMESPACE, *more.pop("query", ())),
        answers=answer if isinstance(answer, dict) else {200: answer},
        **more,
    )


ROUTES: Final = (
    _route(
        "POST",
        "",
        "createBatch",
        "Preview a bulk action, or start it with the token of its preview",
        create,
        {200: BatchPreview, 202: BatchStarted},
        body=BatchBody,
        access=ACT_IN_BODY,
    ),
    _route("GET", "", "listBatches", "List bulk actions, newest first", list_batches, list[BatchRecord], access=READ),
    _route("GET", "/{batch_id}", "getBatch", "Describe a bulk action", describe, BatchRecord, access=READ_FOUND),
    _route(
        "GET",
        "/{batch_id}/items",
        "listBatchItems",
        "List the runs of a bulk action",
        list_items,
        list[BatchItemRecord],
        access=READ_FOUND,
        query=(
            Parameter("outcome", "`succeeded`, `refused` or `skipped`."),
            Parameter("cursor", "The X-Next-Cursor of the previous page.", int),
        ),
    ),
    _route("POST", "/{batch_id}/stop", "stopBatch", "Stop a bulk action", stop, BatchRecord, access=ACT_IN_BODY),
)
