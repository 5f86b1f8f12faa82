"""Routes for forms: the workflow types that workers serve, the times of a cron expression, and a single event."""

from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from assay.api import answers
from assay.api.access import READ
from assay.api.answers import HttpResponse
from assay.api.backend import Backend
from assay.api.call import ApiCall
from assay.api.router import Route
from assay.api.routes.workflows import NAMESPACE, found_run, read_route
from assay.core.model.errors import Invalid, NotFound
from assay.core.model.ids import Namespace, Time, seconds
from assay.core.schedules.timetable import parse_timetable
from assay.wire import statistics as wire
from assay.wire.render import event_record
from assay.wire.responses import EventRecord

MAX_PREVIEW_FIRES: Final = 100
HIGHEST_SEQ_DIGITS: Final = 15


async def list_types(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the workflow types that the workers of a namespace serve, by name and queue."""
    services = await backend.insight.services(Namespace(call.namespace))
    found = sorted({(name, service.queue) for service in services for name in service.workflow_types or ()})
    return answers.json(
        [
            wire.WorkflowTypeRecord(name=name, queue=queue, doc=None, input_schema=None, signals=None, queries=[])
            for name, queue in found
        ]
    )


async def preview(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the next due times of a cron expression, without a schedule."""
    body = await call.read(wire.SchedulePreviewBody)
    if not 1 <= body.count <= MAX_PREVIEW_FIRES:
        raise Invalid(f"count must be from 1 to {MAX_PREVIEW_FIRES}", field="count")
    timetable = parse_timetable(body.cron_expr, body.timezone, body.dst)
    now = backend.engine.reads.wall()
    zone, due = ZoneInfo(body.timezone), timetable.next(now, now)
    fires: list[wire.FireTime] = []
    offset = _local(now, zone).utcoffset()
    while due is not None and len(fires) < body.count:
        local = _local(due, zone)
        note = None if local.utcoffset() == offset else "the clocks have changed since the time before"
        offset = local.utcoffset()
        fires.append(wire.FireTime(at=seconds(due), local=local.isoformat(timespec="seconds"), note=note))
        due = timetable.next(due, now)
    warnings = [f"each fire is delayed by up to {body.jitter_secs:g} s"] if body.jitter_secs > 0 else []
    description = f"{body.cron_expr} in {body.timezone}"
    return answers.json(wire.SchedulePreview(description=description, fires=fires, warnings=warnings))


def _local(time: Time, zone: ZoneInfo) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC")) + timedelta(microseconds=time)).astimezone(zone)


async def event(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return one event of a history."""
    text = call.parameters["seq"]
    if not (text.isascii() and text.isdecimal() and len(text) <= HIGHEST_SEQ_DIGITS):
        raise Invalid("seq must be the number of an event", field="seq")
    run = (await found_run(backend, call)).run
    page = await backend.engine.reads.events_after(run.run_id, int(text) - 1, 1) if int(text) > 0 else ()
    if not page or page[0].seq != int(text):
        raise NotFound(f"event {text} of workflow {run.workflow_id}")
    return answers.json(event_record(run.key, page[0]))


ROUTES: Final = (
    read_route(
        "/workflow-types",
        "listWorkflowTypes",
        "List the workflow types that workers serve",
        list_types,
        list[wire.WorkflowTypeRecord],
    ),
    read_route("/workflows/{workflow_id}/events/{seq}", "getEvent", "Get one event of a run", event, EventRecord),
    Route(
        method="POST",
        path="/schedule-preview",
        operation_id="previewCron",
        summary="Get the next due times of a cron expression",
        tag="schedules",
        reaction=preview,
        query=(NAMESPACE,),
        body=wire.SchedulePreviewBody,
        answers={200: wire.SchedulePreview},
        access=READ,
    ),
)
