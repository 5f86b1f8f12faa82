"""Routes with numbers over many runs, with the values that runs have, and with the tree of a run."""

import asyncio
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from assay.api import answers
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Parameter
from assay.api.routes.lists import FILTERS, filter_of
from assay.api.routes.workflows import read_route
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Namespace, Time, seconds
from assay.core.model.run import CLOSED_STATUSES, OPEN_STATUSES
from assay.engine.reads import RunFilter, StoredRun
from assay.wire import statistics as wire

COUNTED_RUNS: Final = 10_000
COUNTED_ATTENTION: Final = 1_000
MAX_BUCKETS: Final = 120
DEFAULT_BUCKETS: Final = 48
HISTOGRAM_RUNS: Final = 100_000
DEFAULT_RANGE_SECONDS: Final = 86_400.0
MAX_FACETS: Final = 50
MAX_DEPTH: Final = 5
MAX_NODES: Final = 500
FACETS: Final = ("type", "queue", "schedule", "attribute_key", "attribute_value")
ATTENTION_SECONDS: Final = 5.0
FACET_SECONDS: Final = 10.0


async def counts(backend: Backend, call: ApiCall) -> HttpResponse:
    """Count the runs that match the filters, by status. Each count stops at 10,000."""
    wanted = await filter_of(backend, call)
    return await backend.shared_answers.get(_key(call), lambda: _counts(backend, wanted))


def _key(call: ApiCall) -> tuple[object, ...]:
    return call.operation, bytes(call.scope["query_string"])


async def _counts(backend: Backend, wanted: RunFilter) -> HttpResponse:
    reads, statuses = backend.engine.reads, (*OPEN_STATUSES, *CLOSED_STATUSES)
    asked = [status for status in statuses if not wanted.statuses or status in wanted.statuses]
    if wanted.status is not None:
        asked = [status for status in asked if status == wanted.status]
    limited = replace(wanted, statuses=(), count_limit=COUNTED_RUNS, cursor=None, offset=0)
    found = await asyncio.gather(*(reads.count(replace(limited, status=status)) for status in asked))
    by_status = dict(zip(asked, found, strict=True))
    total = sum(found)
    attention = await _attention(backend, wanted.namespace)
    record = wire.RunCounts(
        total=min(total, COUNTED_RUNS),
        capped=total > COUNTED_RUNS or any(count >= COUNTED_RUNS for count in found),
        by_status=by_status,
        attention=attention,
    )
    return answers.json(record)


async def _attention(backend: Backend, namespace: str) -> wire.AttentionCounts:
    """Return the numbers of runs that need attention: read once in five seconds for all callers."""

    async def read() -> wire.AttentionCounts:
        found = []
        for level in ("operator", "person"):
            wanted = RunFilter(namespace=namespace, attention=(level,), count_limit=COUNTED_ATTENTION)
            found.append(await backend.engine.reads.count(await backend.insight.with_services(wanted)))
        capped = any(count >= COUNTED_ATTENTION for count in found)
        return wire.AttentionCounts(operator=found[0], person=found[1], capped=capped)

    counted: wire.AttentionCounts = await backend.shared_values.get(("attention", namespace), read, ATTENTION_SECONDS)
    return counted


async def histogram(backend: Backend, call: ApiCall) -> HttpResponse:
    """Count runs over time by the time of their start."""
    wanted = await filter_of(backend, call)
    now = seconds(backend.engine.now())
    end = call.number("to")
    end = now if end is None else end
    start = call.number("from")
    start = end - DEFAULT_RANGE_SECONDS if start is None else start
    buckets = call.whole("buckets")
    buckets = DEFAULT_BUCKETS if buckets is None else buckets
    if not 1 <= buckets <= MAX_BUCKETS:
        raise Invalid(f"buckets must be from 1 to {MAX_BUCKETS}", field="buckets")
    if not start < end or abs(start) > MOST_SECONDS or abs(end) > MOST_SECONDS:
        raise Invalid("from must be before to", field="from")
    return await backend.shared_answers.get(_key(call), lambda: _histogram(backend, wanted, (start, end), buckets))


MOST_SECONDS: Final = 1e11


async def _histogram(backend: Backend, wanted: RunFilter, span: tuple[float, float], buckets: int) -> HttpResponse:
    start, end = round(span[0] * SECOND), round(span[1] * SECOND)
    step: Time = max(-(-(end - start) // buckets), 1)
    within = replace(
        wanted,
        created_after=max(wanted.created_after or start - 1, start - 1),
        created_before=min(wanted.created_before or end, end),
    )
    rows, looked = await backend.insight.overview.histogram(within, start, step, HISTOGRAM_RUNS)
    found: list[dict[str, int]] = [{} for _ in range(buckets)]
    for place, status, count in rows:
        if 0 <= place < buckets:
            found[place][status] = found[place].get(status, 0) + count
    record = wire.RunHistogram(
        from_=span[0],
        to=span[1],
        step=seconds(step),
        approximate=looked >= HISTOGRAM_RUNS,
        buckets=[
            wire.HistogramBucket(
                at=seconds(start + place * step),
                started=sum(bucket.values()),
                completed=bucket.get("COMPLETED", 0),
                failed=bucket.get("FAILED", 0),
                cancelled=bucket.get("CANCELLED", 0),
                timed_out=bucket.get("TIMED_OUT", 0),
            )
            for place, bucket in enumerate(found)
        ],
    )
    return answers.json(record)


async def facets(backend: Backend, call: ApiCall) -> HttpResponse:
    """List values of a field that runs of the namespace have, for menus."""
    field, key, prefix = call.text("field"), call.text("key"), call.text("prefix") or ""
    limit = call.whole("limit")
    limit = MAX_FACETS if limit is None else limit
    if field not in FACETS:
        raise Invalid(f"field must be one of {', '.join(FACETS)}", field="field")
    if field == "attribute_value" and key is None:
        raise Invalid("attribute_value needs a key", field="key")
    if not 1 <= limit <= MAX_FACETS:
        raise Invalid(f"limit must be from 1 to {MAX_FACETS}", field="limit")

    async def read() -> list[wire.Facet]:
        return (await _facets(backend, call.namespace, str(field), key or "", prefix))[:limit]

    named = ("facets", call.namespace, field, key, prefix, limit)
    return answers.json(await backend.shared_values.get(named, read, FACET_SECONDS))


async def _facets(backend: Backend, namespace: str, field: str, key: str, prefix: str) -> list[wire.Facet]:
    overview = backend.insight.overview
    if field in ("type", "queue"):
        found = dict(await overview.open_values(namespace, field, 1_000))
        for service in await backend.insight.services(Namespace(namespace)):
            for name in (service.queue,) if field == "queue" else service.workflow_types or ():
                found.setdefault(name, 0)
        return [wire.Facet(value=name, open=open_) for name, open_ in found.items() if name.startswith(prefix)]
    if field == "schedule":
        schedules = await backend.engine.reads.schedules(namespace)
        return [wire.Facet(value=one.name, open=len(one.running)) for one in schedules if one.name.startswith(prefix)]
    if field == "attribute_key":
        keys = await overview.attribute_keys(namespace, prefix, MAX_FACETS)
        return [wire.Facet(value=name, open=0) for name in keys]
    values = await overview.attribute_values(namespace, key, f"s:{prefix}" if prefix else "", MAX_FACETS)
    return [wire.Facet(value=_plain(value), open=open_) for value, open_ in values.items()]


def _plain(typed: str) -> Any:
    """Return the JSON value of a typed text: `s:prod`, `n:5`, `b:true`."""
    kind, _, text = typed.partition(":")
    return text if kind == "s" else msgspec.json.decode(text)


async def tree(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a run with its ancestors and descendants."""
    depth, limit = call.whole("depth"), call.whole("limit")
    depth, limit = 3 if depth is None else depth, MAX_NODES if limit is None else limit
    if not 0 <= depth <= MAX_DEPTH:
        raise Invalid(f"depth must be from 0 to {MAX_DEPTH}", field="depth")
    if not 1 <= limit <= MAX_NODES:
        raise Invalid(f"limit must be from 1 to {MAX_NODES}", field="limit")
    run = await backend.engine.reads.state(call.namespace, call.parameters["workflow_id"], call.text("run_id"))
    path = await _ancestors(backend, run)
    levels, below = [[run]], dict[str, list[StoredRun]]()
    left = limit
    while levels[-1] and len(levels) <= depth and left > 0:
        found = await backend.insight.overview.children_of(levels[-1], left)
        for parent in levels[-1]:
            below[parent.run_id] = []
        for child in found:
            if child.start.parent is not None:
                below[child.start.parent.run_id].append(child)
        left -= len(found)
        levels.append([*found])
    every_run = [*path, *(one for level in levels for one in level)]
    numbers = await backend.insight.overview.child_counts(every_run)
    explained = await backend.insight.waiting(every_run)
    why = {
        one.run_id: None if found is None else found.headline.sentence
        for one, found in zip(every_run, explained, strict=True)
    }

    def node(one: StoredRun, *, alone: bool = False) -> wire.TreeNode:
        counted = dict(numbers.get(one.run_id, {}))
        inner = None if alone or one.run_id not in below else [node(child) for child in below[one.run_id]]
        return wire.TreeNode(
            workflow_id=one.workflow_id,
            run_id=one.run_id,
            workflow_type=one.start.workflow_type,
            status=one.status,
            close_reason=one.close_reason,
            created_at=seconds(one.created_at),
            completed_at=None if one.closed_at is None else seconds(one.closed_at),
            summary=why[one.run_id] or one.error,
            child_count=sum(counted.values()),
            by_status=counted,
            children=[] if inner is None and not counted and not alone else inner,
        )

    return answers.json(wire.RunTree(path=[node(one, alone=True) for one in path], node=node(run)))


async def _ancestors(backend: Backend, run: StoredRun) -> list[StoredRun]:
    found: list[StoredRun] = []
    while run.start.parent is not None and len(found) < MAX_NODES:
        parent = run.start.parent
        loaded = await backend.engine.reads.live_all([parent.run_id])
        if not loaded:
            break
        run = loaded[0]
        found.append(run)
    return found[::-1]


ROUTES: Final = (
    read_route("/workflow-counts", "countWorkflows", "Count runs by status", counts, wire.RunCounts, query=FILTERS),
    read_route(
        "/workflow-histogram",
        "getHistogram",
        "Count runs over time",
        histogram,
        wire.RunHistogram,
        query=(
            *FILTERS,
            Parameter("from", "The begin of the range, in seconds since the epoch; default a day earlier.", float),
            Parameter("to", "The end of the range, in seconds since the epoch; default now.", float),
            Parameter("buckets", f"The number of parts; default 48, at most {MAX_BUCKETS}.", int),
        ),
    ),
    read_route(
        "/facets",
        "listFacets",
        "List values that runs have",
        facets,
        list[wire.Facet],
        query=(
            Parameter("field", f"One of {', '.join(FACETS)}."),
            Parameter("key", "The search attribute, for `attribute_value`."),
            Parameter("prefix", "Only values that begin with this text."),
            Parameter("limit", f"The maximum number of values; at most {MAX_FACETS}.", int),
        ),
    ),
    read_route(
        "/workflows/{workflow_id}/tree",
        "getTree",
        "Get the ancestors and descendants of a run",
        tree,
        wire.RunTree,
        query=(
            Parameter("depth", f"The number of levels of children; default 3, at most {MAX_DEPTH}.", int),
            Parameter("limit", f"The maximum number of descendants; at most {MAX_NODES}.", int),
        ),
    ),
)
