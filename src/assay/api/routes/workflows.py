"""Routes that read runs: describe, list, history, queries and results."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final, cast

from assay.api import answers
from assay.api.access import READ
from assay.api.answers import Header, HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter, Route
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.events import Event, WorkflowCompleted
from assay.core.model.ids import RunKey
from assay.core.model.payload import NULL
from assay.core.model.run import Run
from assay.core.rules.fold import CLOSE_REASONS
from assay.engine.reads import RunRecord, Snapshot
from assay.wire import responses
from assay.wire.overviews import WaitingAnswer, waiting_answer
from assay.wire.render import (
    event_record,
    failure_of,
    run_record,
    state_record,
)
from assay.wire.request_bodies import Seconds

EVENTS_PAGE: Final = 50
LARGEST_EVENTS_PAGE: Final = 1_000
HIGHEST_EVENTS_LIMIT: Final = 65_535

NAMESPACE: Final = Parameter("namespace", "The namespace; default `main`.")
RUN: Final = Parameter("run_id", "The run; default: the newest run of the id.")
WAIT: Final = Parameter("wait_secs", "The time to wait, in seconds or as a text such as `10s`; at most 25 s.", Seconds)
TOTAL: Final = Parameter("X-Total-Count", "The number of all records that match.", int)
CURSOR: Final = Parameter("X-Next-Cursor", "The cursor of the next page; only sent if a next page exists.")


# results


async def result(backend: Backend, call: ApiCall) -> HttpResponse:
    """Wait until a run is closed, and return its result. By default the last run of the chain counts."""
    found = await found_run(backend, call)
    wait = call.wait()
    run, closing = await backend.engine.reads.last(found.run, follow=call.flag("follow", True))
    if closing is not None:
        return answers.json(result_record(run.key, closing))
    if not wait:
        return answers.json(_still_open(run), 202)
    ending, closed = await outcome(backend, run.key, wait, follow=call.flag("follow", True))
    return answers.json(ending, 200 if closed else 202)


async def outcome(backend: Backend, key: RunKey, wait: float, *, follow: bool) -> tuple[responses.ResultAnswer, bool]:
    """Wait until a run is closed, the time is over or the engine stops; return the result and whether it is closed."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait) as limit:
            with backend.held(limit):
                return result_record(*await backend.engine.wait_closed(key, follow=follow)), True
    found = await backend.engine.reads.run(key.namespace, key.workflow_id, key.run_id)
    # Read again: the run may have ended at the same moment as the timeout.
    run, closing = await backend.engine.reads.last(found.run, follow=follow)
    return (_still_open(run), False) if closing is None else (result_record(run.key, closing), True)


def _still_open(run: Run) -> responses.ResultAnswer:
    return responses.ResultAnswer(
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        status=run.status,
        result=None,
        error=None,
        failure=None,
        close_reason=None,
        reason=None,
        timeout_type=None,
    )


def result_record(key: RunKey, event: Event) -> responses.ResultAnswer:
    """Return the result of a closed run. A failure is data here, not an error."""
    error = getattr(event, "error", None) or (getattr(event, "reason", None) if event.closes == "FAILED" else None)
    return responses.ResultAnswer(
        workflow_id=key.workflow_id,
        run_id=key.run_id,
        status=cast(str, event.closes),
        result=event.result if isinstance(event, WorkflowCompleted) else NULL,
        error=error,
        failure=failure_of(event),
        close_reason=CLOSE_REASONS[type(event)],
        reason=getattr(event, "reason", None),
        timeout_type=getattr(event, "scope", None),
    )


# reads


async def found_run(backend: Backend, call: ApiCall) -> RunRecord:
    """Return the run of a path; raise `NotFound` if there is no such run."""
    return await backend.engine.reads.run(call.namespace, call.parameters["workflow_id"], call.text("run_id"))


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the record of a run."""
    return answers.json((await records_of(backend, [await found_run(backend, call)]))[0])


async def records_of(backend: Backend, found: Sequence[RunRecord]) -> list[responses.WorkflowRecord]:
    """Return the records of runs, with what each open run waits for."""
    waits = await backend.insight.waiting([one.run for one in found])
    return [
        run_record(one.run, one.run.history_bytes, one.input, one.result, one.closing, waiting)
        for one, waiting in zip(found, waits, strict=True)
    ]


async def waiting(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return what a run waits for. Made from its state and the connected workers: no event is read."""
    run = await backend.engine.reads.state(call.namespace, call.parameters["workflow_id"], call.text("run_id"))
    return answers.json(waiting_answer(run, (await backend.insight.waiting([run]))[0]))


async def events(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the history of a run: all events, or a page if the query has a limit, a cursor or an order."""
    limit, cursor, order = call.whole("limit"), call.whole("cursor"), call.text("order")
    if order not in (None, "asc", "desc"):
        raise Invalid(f"order must be asc or desc, not {order!r}", field="order")
    if limit is not None and not 1 <= limit <= HIGHEST_EVENTS_LIMIT:
        raise Invalid(f"limit must be from 1 to {HIGHEST_EVENTS_LIMIT}", field="limit")
    if cursor is not None and cursor < 0:
        raise Invalid("cursor must not be negative", field="cursor")
    run = (await found_run(backend, call)).run
    headers: list[Header] = [(b"x-total-count", str(run.last_seq).encode())]
    if limit is None and cursor is None and order is None:
        pages = [page async for page in backend.engine.reads.history_pages(run)]
        return answers.json([event_record(run.key, one) for page in pages for one in page], 200, headers)
    size = min(limit or EVENTS_PAGE, LARGEST_EVENTS_PAGE)
    page = await backend.engine.reads.events(run, cursor, size, newest_first=order == "desc")
    if page and (page[-1].seq > 1 if order == "desc" else page[-1].seq < run.last_seq):
        headers.append((b"x-next-cursor", str(page[-1].seq).encode()))
    return answers.json([event_record(run.key, one) for one in page], 200, headers)


async def _snapshot(backend: Backend, call: ApiCall) -> Snapshot | None:
    """Return the latest query results of a run, or None if the run does not exist or has none."""
    try:
        run = (await found_run(backend, call)).run
    except NotFound:
        return None
    return await backend.engine.reads.snapshot(run.run_id)


async def state(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the latest results of all queries of a run, or of a single query."""
    name, query = call.parameters["workflow_id"], call.parameters.get("name")
    snapshot = await _snapshot(backend, call)
    if snapshot is None and query is None and call.flag("optional", False):
        return answers.json(None)
    if snapshot is None:
        raise NotFound(f"state for workflow {name}")
    record = state_record(snapshot.state, snapshot.event_seq, snapshot.created_at, query)
    if record is None:
        raise NotFound(f"query '{query}' for workflow {name}")
    return answers.json(record)


def read_route(path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    """Return a route that reads runs of a namespace."""
    parameters = (NAMESPACE, *((RUN,) if "{workflow_id}" in path else ()), *more.pop("query", ()))
    found = {200: answer, **more.pop("answers", {})}
    return Route(
        method="GET",
        path=path,
        operation_id=operation_id,
        summary=summary,
        tag=more.pop("tag", "workflows"),
        reaction=reaction,
        answers=found,
        query=parameters,
        access=more.pop("access", READ),
        **more,
    )


_EVENTS = (
    Parameter("limit", "The maximum number of events of a page; default 50. A page also ends at 8 MiB.", int),
    Parameter("cursor", "The seq after which the page begins.", int),
    Parameter("order", "`asc` or `desc`.", str),
)

ROUTES: Final = (
    read_route("/workflows/{workflow_id}", "getWorkflow", "Describe a run", describe, responses.WorkflowRecord),
    read_route(
        "/workflows/{workflow_id}/events",
        "listEvents",
        "Get the history of a run",
        events,
        list[responses.EventRecord],
        query=_EVENTS,
        headers=(TOTAL, CURSOR),
    ),
    read_route(
        "/workflows/{workflow_id}/waiting",
        "getWaiting",
        "Explain what a run waits for",
        waiting,
        WaitingAnswer,
    ),
    read_route(
        "/workflows/{workflow_id}/state",
        "getState",
        "Get the results of all queries",
        state,
        responses.StateAnswer | None,
        query=(
            Parameter("optional", "True for `null` instead of 404 if the run has no queries; default false.", bool),
        ),
    ),
    read_route(
        "/workflows/{workflow_id}/state/{name}",
        "getQuery",
        "Get the result of a query",
        state,
        responses.QueryAnswer,
    ),
    read_route(
        "/workflows/{workflow_id}/result",
        "getResult",
        "Wait for a run, and get its result",
        result,
        responses.ResultAnswer,
        query=(WAIT, Parameter("follow", "Whether to follow the chain to its last run; default true.", bool)),
        answers={202: responses.ResultAnswer},
    ),
)
