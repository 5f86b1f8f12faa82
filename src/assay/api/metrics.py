"""The metrics of the engine, in the text format of Prometheus."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from assay._version import __version__
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.telemetry import Histogram
from assay.core.model.errors import AssayError
from assay.core.model.ids import SECOND, Time
from assay.engine.worker_registry import WaitingWork

TYPE: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
MAX_LABELLED_QUEUES: Final = 100
"""Queues with samples of their own. Other queues are summed up, so that the number of time series is bounded."""

Labels = Mapping[str, object]


async def exposition(backend: Backend, _: ApiCall) -> HttpResponse:
    """Return all metrics."""
    try:
        waiting = await backend.worker_registry.waiting()
    except AssayError:  # the store is away: report all other metrics
        waiting = ()
    return HttpResponse(200, "".join(_lines(backend, waiting)).encode(), (TYPE,))


def _lines(backend: Backend, waiting: Sequence[WaitingWork]) -> Iterator[str]:
    telemetry = backend.telemetry
    yield from _family("assay_info", "gauge", "The engine.", [({"version": __version__}, 1)])
    yield from _family("assay_workflows_started_total", "counter", "Runs begun.", [({}, telemetry.starts)])
    closed = [({"status": status}, count) for status, count in sorted(telemetry.closes.items())]
    yield from _family("assay_workflows_closed_total", "counter", "Runs ended, by status.", closed)
    yield from _family("assay_events_total", "counter", "Events recorded.", [({}, telemetry.events)])
    leases = [({"kind": "workflow_task"}, telemetry.expired), ({"kind": "activity"}, telemetry.attempts["lease"])]
    yield from _family("assay_leases_expired_total", "counter", "Leases of workers that fell silent.", leases)
    attempts = [({"outcome": outcome}, count) for outcome, count in sorted(telemetry.attempts.items())]
    yield from _family("assay_attempts_failed_total", "counter", "Attempts of activities that failed.", attempts)
    yield from _histogram("assay_commit_seconds", "Time to make a batch durable.", telemetry.commit_seconds)
    yield from _histogram("assay_batch_requests", "Requests in one batch.", telemetry.batch_size)
    yield from _histogram("assay_workflow_task_wait_seconds", "From due to leased.", telemetry.task_wait)
    yield from _histogram("assay_activity_wait_seconds", "From queued to leased.", telemetry.activity_wait)
    gauges = backend.engine.measure()
    yield from _queues(waiting, gauges.now)
    offset: list[tuple[Labels, float]] = [({}, gauges.clock_offset / SECOND)]
    yield from _family("assay_clock_offset_seconds", "gauge", "Engine time ahead of the wall clock.", offset)
    yield from _family("assay_polls_held", "gauge", "Polls of workers that wait.", [({}, len(backend.polls))])
    yield from _family(
        "assay_event_streams", "gauge", "Event streams that are open.", [({}, len(backend.stream_slots))]
    )
    lag: list[tuple[Labels, float]] = [({}, backend.stream.lag() / SECOND)]
    yield from _family("assay_event_stream_lag_seconds", "gauge", "Age of the oldest event not sent yet.", lag)
    if gauges.wal_bytes is not None:
        yield from _family("assay_wal_bytes", "gauge", "Size of the write-ahead log.", [({}, gauges.wal_bytes)])
    counted = sorted(telemetry.answers.items())
    answers = [({"operation": operation, "status": status}, count) for (operation, status), count in counted]
    yield from _family("assay_http_answers_total", "counter", "Requests answered.", answers)


def _queues(waiting: Sequence[WaitingWork], now: Time) -> Iterator[str]:
    depth: dict[tuple[str, str, str], int] = {}
    for row in waiting:
        place = (row.namespace, row.queue) if len(depth) < 2 * MAX_LABELLED_QUEUES else ("*", "*")
        for kind, count in (("workflow_task", row.tasks), ("activity", row.activities)):
            depth[*place, kind] = depth.get((*place, kind), 0) + count
    shown = [({"namespace": a, "queue": b, "kind": kind}, count) for (a, b, kind), count in depth.items()]
    yield from _family("assay_queue_depth", "gauge", "Work that waits for a worker.", shown)
    ages = [
        ({"namespace": row.namespace, "queue": row.queue}, max(0.0, (now - (row.oldest or now)) / SECOND))
        for row in waiting[:MAX_LABELLED_QUEUES]
    ]
    yield from _family("assay_queue_oldest_seconds", "gauge", "Age of the oldest work that waits.", ages)


def _family(name: str, kind: str, about: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        yield f"{name}{_labels(labels)} {value}\n"


def _histogram(name: str, about: str, histogram: Histogram) -> Iterator[str]:
    yield f"# HELP {name} {about}\n# TYPE {name} histogram\n"
    counts = list(accumulate(histogram.counts))
    for bound, count in zip((*map(float, histogram.bounds), "+Inf"), counts, strict=True):
        yield f'{name}_bucket{{le="{bound}"}} {count}\n'
    yield f"{name}_sum {histogram.total}\n{name}_count {counts[-1]}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
