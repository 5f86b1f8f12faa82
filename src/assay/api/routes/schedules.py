"""Routes of schedules: create, change, pause, trigger, backfill and read."""

from typing import Any, Final, get_origin

from msgspec.structs import asdict

from assay.api import answers
from assay.api.access import ACT, ACT_IN_BODY, READ, require
from assay.api.answers import HttpResponse
from assay.api.auditing import acting_name
from assay.api.backend import Backend
from assay.api.call import ApiCall, document, payload
from assay.api.mutations import change
from assay.api.router import Parameter, Route
from assay.api.routes.workflows import NAMESPACE, TOTAL
from assay.auth.permissions import Permission
from assay.core.model.errors import Invalid
from assay.core.model.ids import Namespace, seconds
from assay.core.model.replies import SchedulePut
from assay.core.schedules import requests as rq
from assay.core.schedules.model import Schedule
from assay.core.schedules.rules import check_schedule
from assay.engine.reads import LARGEST_FIRES, LARGEST_PREVIEW_TIMES
from assay.wire import responses
from assay.wire.schedule_bodies import (
    BackfillBody,
    PauseBody,
    ResumeBody,
    ScheduleBody,
    ScheduleFields,
    SchedulePatchBody,
    SchedulePutBody,
    TriggerBody,
    core_fields,
    fire_record,
    moment,
    overlap_of,
    reply_record,
    schedule_record,
)


async def create(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create a schedule. An invalid definition is refused, and nothing is stored."""
    body = await call.read(ScheduleBody)
    fields = _fields(call, body)
    namespace = Namespace(fields.pop("namespace", None) or call.namespace)
    schedule = Schedule(namespace, **fields)
    require(call.principal, Permission.ACT, namespace)
    check_schedule(schedule)
    await backend.worker_registry.ensure(namespace)
    request = rq.CreateSchedule(namespace, schedule.name, schedule)
    return await change(backend, call, namespace, request, _created)


async def put(backend: Backend, call: ApiCall) -> HttpResponse:
    """Create a schedule, or replace the definition of the schedule with this name."""
    body = await call.read(SchedulePutBody)
    fields = _fields(call, body)
    namespace = Namespace(fields.pop("namespace", None) or call.namespace)
    name = call.parameters["name"]
    if fields.pop("name", name) != name:
        raise Invalid(f"the body names '{body.name}', the path '{name}'", field="name")
    schedule = Schedule(namespace, name, **fields)
    require(call.principal, Permission.ACT, namespace)
    check_schedule(schedule)
    await backend.worker_registry.ensure(namespace)
    return await change(backend, call, namespace, rq.PutSchedule(namespace, name, schedule), _put)


def _put(reply: object) -> tuple[int, bytes]:
    created = isinstance(reply, SchedulePut) and reply.created
    return 201 if created else 200, answers.encoded(reply_record(reply))


def _fields(call: ApiCall, body: ScheduleFields) -> dict[str, Any]:
    fields = asdict(body)
    if isinstance(fields.get("paused_by"), str):
        fields["paused_by"] = acting_name(call, fields["paused_by"])
    fields["input"] = payload(body.input, "input")
    for name in ("search_attributes", "memo"):
        fields[name] = document(fields[name], name)
    return core_fields(fields)


def _created(reply: object) -> tuple[int, bytes]:
    return 201, answers.encoded(reply_record(reply))


def _changed(reply: object) -> tuple[int, bytes]:
    return 200, answers.encoded(reply_record(reply))


def _target(call: ApiCall) -> tuple[Namespace, str]:
    return Namespace(call.namespace), call.parameters["name"]


async def patch(backend: Backend, call: ApiCall) -> HttpResponse:
    """Change fields of a schedule. If its times change, the next fire is computed again."""
    body = await call.read(SchedulePatchBody)
    request = rq.PatchSchedule(*_target(call), changes=_fields(call, body))
    return await change(backend, call, call.namespace, request, _changed)


async def pause(backend: Backend, call: ApiCall) -> HttpResponse:
    """Pause a schedule: it does not fire until it is resumed."""
    body = await call.read(PauseBody)
    request = rq.PauseSchedule(*_target(call), reason=body.reason, by=acting_name(call, body.by))
    return await change(backend, call, call.namespace, request, _changed)


async def resume(backend: Backend, call: ApiCall) -> HttpResponse:
    """Resume a paused schedule: it fires again, from now on."""
    await call.read(ResumeBody)
    return await change(backend, call, call.namespace, rq.ResumeSchedule(*_target(call)), _changed)


async def delete(backend: Backend, call: ApiCall) -> HttpResponse:
    """Delete a schedule and the record of its fires. Its open runs continue."""
    return await change(backend, call, call.namespace, rq.DeleteSchedule(*_target(call)))


async def trigger(backend: Backend, call: ApiCall) -> HttpResponse:
    """Fire a schedule once, now."""
    body = await call.read(TriggerBody)
    request = rq.TriggerSchedule(*_target(call), overlap=overlap_of(body.overlap_policy))
    return await change(backend, call, call.namespace, request, _changed)


async def backfill(backend: Backend, call: ApiCall) -> HttpResponse:
    """Fire a schedule for each due time of a past range that has no run yet."""
    body = await call.read(BackfillBody)
    request = rq.BackfillSchedule(
        *_target(call),
        start=moment(body.start, "start"),
        end=moment(body.end, "end"),
        overlap=overlap_of(body.overlap_policy),
    )
    return await change(backend, call, call.namespace, request, _changed)


async def list_schedules(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the schedules of a namespace, ordered by name."""
    with backend.admission.admit(call.namespace):
        found = await backend.engine.reads.schedules(call.namespace)
    now = backend.engine.reads.wall()
    return answers.listed([schedule_record(schedule, now) for schedule in found])


async def describe(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return a schedule."""
    reads = backend.engine.reads
    return answers.json(schedule_record(await reads.schedule(*_target(call)), reads.wall()))


async def preview(backend: Backend, call: ApiCall) -> HttpResponse:
    """Return the next due times of a schedule."""
    found = await backend.engine.reads.preview(*_target(call), call.whole("count"))
    return answers.listed([seconds(due) for due in found])


async def fires(backend: Backend, call: ApiCall) -> HttpResponse:
    """List the latest fires of a schedule with their outcomes, newest first."""
    found = await backend.engine.reads.fires(*_target(call), call.whole("limit"))
    total = await backend.engine.reads.count_fires(*_target(call))
    return answers.listed([fire_record(fire) for fire in found], total)


def _route(method: str, path: str, operation_id: str, summary: str, reaction: Any, answer: Any, **more: Any) -> Route:
    return Route(
        method=method,
        path=f"/schedules{path}",
        operation_id=operation_id,
        summary=summary,
        tag="schedules",
        reaction=reaction,
        query=(NAMESPACE, *more.pop("query", ())),
        answers=answer if isinstance(answer, dict) else {200: answer},
        headers=(TOTAL,) if method == "GET" and get_origin(answer) is list else (),
        idempotent=method != "GET",
        access=more.pop("access", READ if method == "GET" else ACT),
        **more,
    )


_COUNT: Final = Parameter("count", f"The number of times; default 10, at most {LARGEST_PREVIEW_TIMES}.", int)
_LIMIT: Final = Parameter("limit", f"The maximum number of fires; default 50, at most {LARGEST_FIRES}.", int)
_RECORD: Final = responses.ScheduleRecord
_FIRE: Final = responses.FireRecord

ROUTES: Final = (
    _route(
        "POST", "", "createSchedule", "Create a schedule", create, {201: _RECORD}, body=ScheduleBody, access=ACT_IN_BODY
    ),
    _route(
        "GET", "", "listSchedules", "List schedules, ordered by name", list_schedules, list[responses.ScheduleRecord]
    ),
    _route("GET", "/{name}", "getSchedule", "Describe a schedule", describe, _RECORD),
    _route(
        "PUT",
        "/{name}",
        "putSchedule",
        "Create a schedule, or replace its definition",
        put,
        {200: _RECORD, 201: _RECORD},
        body=SchedulePutBody,
        access=ACT_IN_BODY,
    ),
    _route(
        "PATCH",
        "/{name}",
        "patchSchedule",
        "Change a schedule",
        patch,
        _RECORD,
        body=SchedulePatchBody,
        body_optional=True,
    ),
    _route("DELETE", "/{name}", "deleteSchedule", "Delete a schedule", delete, {200: None}),
    _route(
        "POST", "/{name}/pause", "pauseSchedule", "Pause a schedule", pause, _RECORD, body=PauseBody, body_optional=True
    ),
    _route("POST", "/{name}/resume", "resumeSchedule", "Resume a schedule", resume, _RECORD),
    _route(
        "POST",
        "/{name}/trigger",
        "triggerSchedule",
        "Fire a schedule now",
        trigger,
        _FIRE,
        body=TriggerBody,
        body_optional=True,
    ),
    _route(
        "POST",
        "/{name}/backfill",
        "backfillSchedule",
        "Fire a schedule for a range of the past",
        backfill,
        list[responses.FireRecord],
        body=BackfillBody,
    ),
    _route(
        "GET", "/{name}/preview", "previewSchedule", "Get the next due times", preview, list[float], query=(_COUNT,)
    ),
    _route(
        "GET",
        "/{name}/fires",
        "listFires",
        "List the latest fires and their outcomes",
        fires,
        list[responses.FireRecord],
        query=(_LIMIT,),
    ),
)
