"""Routes that list runs: by filters, of an id, and children."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from assay.api import answers
from assay.api.access import READ_SHOWN, require, require_shown
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter
from assay.api.routes.workflows import CURSOR, TOTAL, found_run, read_route, records_of
from assay.auth.permissions import ALL_NAMESPACES, Permission
from assay.core.model.errors import Invalid, NotFound
from assay.engine.filters import LARGEST_LIMIT, LARGEST_RUN_IDS, run_filter
from assay.engine.reads import RunFilter, RunRecord
from assay.wire import responses
from assay.wire.overviews import WorkflowSummary, summary_of
from assay.wire.render import cursor_of, parse_cursor

COUNT_LIMIT: Final = 10_000
"""Runs are counted up to here if a caller asks for a capped count."""
COUNTS: Final = ("exact", "capped", "none")
TEXTS: Final = (
    "status", "type", "queue", "workflow_id", "parent_id", "change_version", "text", "run_ids", "close_reason",
    "schedule", "worker", "error", "attention", "waiting", "failure",
)  # fmt: skip
NUMBERS: Final = ("created_after", "created_before", "closed_after", "closed_before")


class RunsPage(msgspec.Struct, frozen=True):
    """A page of runs, newest first: whether older runs follow and newer runs precede, and the number of all."""

    found: Sequence[RunRecord]
    older: bool
    newer: bool
    total: int | None


async def list_runs(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the runs that match the filters, newest first."""
    wanted = await filter_of(backend, call)
    view = call.text("view", "full")
    if view not in ("full", "summary"):
        raise Invalid(f"view must be full or summary, not {view!r}", field="view")
    if view == "full":
        return await _answer(backend, call, wanted)
    wanted = replace(wanted, documents=False)
    return await backend.shared_answers.get(_shared_key(call), lambda: _answer(backend, call, wanted, short=True))


def _shared_key(call: ApiCall) -> tuple[object, ...]:
    shown = call.principal.namespaces_with(Permission.READ) if call.namespace == ALL_NAMESPACES else None
    return call.operation, bytes(call.scope["query_string"]), shown


async def _answer(backend: Backend, call: ApiCall, wanted: RunFilter, *, short: bool = False) -> HttpResponse:
    counting = call.text("count", "exact")
    if counting not in COUNTS:
        raise Invalid(f"count must be exact, capped or none, not {counting!r}", field="count")
    with backend.admission.admit(wanted.namespace):
        page = await _read(backend, call, wanted, str(counting))
    records: Sequence[Any] = await records_of(backend, page.found)
    headers: list[Header] = []
    if page.total is not None:
        headers.append((b"x-total-count", str(page.total).encode()))
        if counting == "capped" and page.total >= COUNT_LIMIT:
            headers.append((b"x-total-capped", b"true"))
    if page.found and page.older:
        headers.append((b"x-next-cursor", _cursor(page.found[-1])))
    if page.found and page.newer:
        headers.append((b"x-previous-cursor", _cursor(page.found[0])))
    return answers.json([summary_of(record) for record in records] if short else records, 200, headers)


async def _read(backend: Backend, call: ApiCall, wanted: RunFilter, counting: str) -> RunsPage:
    before, reads = call.text("before"), backend.engine.reads
    if before is not None:
        if wanted.cursor is not None:
            raise Invalid("before and cursor exclude each other", field="before")
        # The page before a run is the first page after it in the opposite order, turned round.
        wanted = replace(wanted, cursor=parse_cursor(before), oldest_first=True)
    counted = replace(wanted, cursor=None, count_limit=COUNT_LIMIT if counting == "capped" else None)
    found = await reads.listed(wanted)
    total = None if counting == "none" else await reads.count(counted)
    if before is None:
        return RunsPage(found, found.more, wanted.cursor is not None or wanted.offset > 0, total)
    return RunsPage(found[::-1], True, found.more, total)


def _cursor(record: RunRecord) -> bytes:
    return cursor_of(record.run.created_at, record.run.run_id).encode()


async def filter_of(backend: Backend, call: ApiCall) -> RunFilter:
    """Return the filter in the query of a request; raise an error if the caller may not read the runs."""
    wanted = run_filter(call.namespace, filters_of(call))
    if call.namespace != ALL_NAMESPACES:
        require(call.principal, Permission.READ, call.namespace)
        return await backend.insight.with_services(wanted)
    if wanted.workflow_id is None and not wanted.run_ids:
        raise Invalid("namespace=* needs workflow_id or run_ids", field="namespace")
    shown = require_shown(call.principal, Permission.READ)
    names = (row.name for row in await backend.worker_registry.namespaces())
    return replace(wanted, namespaces=tuple(name for name in names if shown is None or name in shown))


def filters_of(call: ApiCall) -> dict[str, Any]:
    """Return the filters in the query of a request by name, with the place of the page."""
    filters: dict[str, Any] = {name: call.text(name) for name in TEXTS}
    filters |= {name: call.number(name) for name in NUMBERS}
    filters["type"] = filters["type"] or call.text("workflow_type")
    attributes = call.text("search_attrs") or call.text("search_attributes")
    filters |= _place(call)
    filters["offset"] = call.whole("offset")
    filters |= {name: call.flag(name, False) for name in ("stuck", "roots") if call.text(name) is not None}
    if attributes is not None:
        try:
            filters["search_attrs"] = msgspec.json.decode(attributes)
        except (msgspec.DecodeError, RecursionError):
            raise Invalid("search_attrs must be a JSON object", field="search_attrs") from None
        if not isinstance(filters["search_attrs"], dict):
            raise Invalid("search_attrs must be a JSON object", field="search_attrs")
    return filters


def _place(call: ApiCall, default: int | None = None) -> dict[str, Any]:
    """Return limit and cursor of a page; without a limit in the query the limit is `default`."""
    limit, cursor = call.whole("limit"), call.text("cursor")
    return {
        "limit": default if limit is None else min(limit, LARGEST_LIMIT),
        "cursor": None if cursor is None else parse_cursor(cursor),
    }


async def _page(backend: Backend, wanted: RunFilter) -> tuple[Sequence[RunRecord], int, bool]:
    """Return a page of runs. Lists count among the waiting requests of their namespace, like changes."""
    with backend.admission.admit(wanted.namespace):
        return await backend.engine.reads.page(wanted)


async def _listed(backend: Backend, found: Sequence[RunRecord], total: int, more: bool) -> HttpResponse:
    last = found[-1].run if more and found else None
    cursor = None if last is None else cursor_of(last.created_at, last.run_id)
    return answers.listed(await records_of(backend, found), total, cursor)


async def runs(backend: Backend, call: ApiCall) -> HttpResponse:
    """List all runs of an id, newest first."""
    name = call.parameters["workflow_id"]
    wanted = run_filter(call.namespace, {"workflow_id": name, **_place(call, LARGEST_LIMIT)})
    found, total, more = await _page(backend, wanted)
    if not total:
        raise NotFound(f"workflow {name}")
    return await _listed(backend, found, total, more)


async def children(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the children of a workflow id, oldest first."""
    parent = await found_run(backend, call)
    of_run = None if call.text("run_id") is None else parent.run.run_id
    wanted = run_filter(call.namespace, {"parent_id": call.parameters["workflow_id"], **_place(call, LARGEST_LIMIT)})
    return await _listed(backend, *await _page(backend, replace(wanted, parent_run_id=of_run, oldest_first=True)))


FILTERS: Final = (
    Parameter(
        "status",
        "Only runs of these statuses, with commas between them. `open` and `closed` stand for several.",
        responses.StatusFilter,
    ),
    Parameter("stuck", "True for stuck runs, false for runs that are not stuck.", bool),
    Parameter("type", "Only runs of this workflow type. `workflow_type` is another name."),
    Parameter("queue", "Only runs of this task queue."),
    Parameter("workflow_id", "Only runs of this workflow id."),
    Parameter("run_ids", f"Only these runs: at most {LARGEST_RUN_IDS} run ids with commas between them."),
    Parameter("parent_id", "Only children of this workflow id."),
    Parameter("roots", "True for runs without a parent.", bool),
    Parameter("created_after", "Only runs created after this time, in seconds since the epoch.", float),
    Parameter("created_before", "Only runs created before this time, in seconds since the epoch.", float),
    Parameter("closed_after", "Only runs closed after this time, in seconds since the epoch.", float),
    Parameter("closed_before", "Only runs closed before this time, in seconds since the epoch.", float),
    Parameter("close_reason", "Only runs closed for this reason: `terminated`, `timed_out` or `continued_as_new`."),
    Parameter("attention", "Only open runs that need an `operator` or a `person`, by their own waits; with commas."),
    Parameter("waiting", "Only open runs with a wait of one of these kinds, with commas between them."),
    Parameter("failure", "Only runs of the failure group with this fingerprint."),
    Parameter("schedule", "Only runs that this schedule started."),
    Parameter("worker", "Only open runs of which this worker holds the task or an activity."),
    Parameter(
        "search_attrs",
        "A JSON object. Only runs whose search attributes contain all its pairs, with the same types."
        " `search_attributes` is another name.",
    ),
    Parameter("change_version", "Only runs that recorded a version of this change: `payment-v2`, or `payment-v2:2`."),
    Parameter("text", "Only runs with this text in the workflow id, type or run id, in upper or lower case."),
    Parameter("error", "Only runs with this text in their error, in upper or lower case."),
)
_LISTING: Final = (
    *FILTERS,
    Parameter("view", "`summary` leaves out the documents of the runs; default `full`."),
    Parameter("count", "`exact` (default), `capped` (up to 10,000) or `none`."),
    Parameter("cursor", "The X-Next-Cursor of the previous page."),
    Parameter("before", "The X-Previous-Cursor of the following page: the page before it."),
    Parameter("limit", "The maximum number of runs; default 50. A page also ends at 8 MiB of documents.", int),
    Parameter("offset", "The number of runs to skip.", int),
)
_PAGE: Final = (
    Parameter("limit", "The maximum number of runs; default 10,000. A page also ends at 8 MiB of documents.", int),
    Parameter("cursor", "The X-Next-Cursor of the previous page."),
)
CAPPED: Final = Parameter("X-Total-Capped", "`true` if there are more runs than were counted.")
PREVIOUS: Final = Parameter("X-Previous-Cursor", "The cursor of the previous page; only sent if there is one.")

ROUTES: Final = (
    read_route(
        "/workflows",
        "listWorkflows",
        "List runs, newest first",
        list_runs,
        (list[responses.WorkflowRecord], list[WorkflowSummary]),
        query=_LISTING,
        headers=(TOTAL, CAPPED, CURSOR, PREVIOUS),
        access=READ_SHOWN,
    ),
    read_route(
        "/workflows/{workflow_id}/runs",
        "listRuns",
        "List the runs of an id, newest first",
        runs,
        list[responses.WorkflowRecord],
        query=_PAGE,
        headers=(TOTAL, CURSOR),
    ),
    read_route(
        "/workflows/{workflow_id}/children",
        "listChildren",
        "List the children of an id, oldest first",
        children,
        list[responses.WorkflowRecord],
        query=_PAGE,
        headers=(TOTAL, CURSOR),
    ),
)
