"""Schedules of an engine behind HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol
from uuid import uuid4

import msgspec
from msgspec.structs import asdict

from assay.core.model.errors import NotFound
from assay.core.model.ids import seconds
from assay.core.schedules import requests as rq
from assay.sdk.client.http.http1 import path_of, query_of
from assay.wire.schedule_bodies import wire_fields

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode

CREATION_FIELDS: Final = (
    *("name", "workflow_type", "cron_expr", "namespace", "timezone", "dst", "input", "task_queue", "overlap_policy"),
    *("missed", "window", "jitter", "end_at", "remaining", "search_attributes", "memo"),
    *("paused", "pause_reason", "paused_by"),
)


class Caller(Protocol):
    """A function that sends a request, repeated while a repetition can help."""

    def __call__(self, method: str, path: str, body: bytes = b"", key: str | None = None) -> Awaitable[bytes]:
        """Return the body of the response."""
        ...


class HttpSchedules:
    """See `SchedulePort`."""

    def __init__(self, caller: Callable[[], Caller]) -> None:
        self._caller = caller

    async def ask(self, request: rq.ScheduleRequest) -> Any:
        """See `SchedulePort`."""
        method, action, body = _http_request(request)
        path = "/schedules" if method == "" else _path(request.namespace, request.name, action)
        content = b"" if body is None else _encode(body)
        answer = await self._caller()(method or "POST", path, content, key=uuid4().hex)
        return _decode(answer) if answer else None

    async def list(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `SchedulePort`."""
        path = f"/schedules{query_of({'namespace': namespace})}"
        found: list[dict[str, Any]] = _decode(await self._caller()("GET", path))
        return found

    async def describe(self, namespace: str, name: str) -> dict[str, Any] | None:
        """See `SchedulePort`."""
        try:
            found: dict[str, Any] = _decode(await self._caller()("GET", _path(namespace, name)))
        except NotFound:
            return None
        return found

    async def preview(self, namespace: str, name: str, count: int | None) -> Sequence[float]:
        """See `SchedulePort`."""
        found: list[float] = _decode(await self._caller()("GET", _path(namespace, name, "/preview", count=count)))
        return found

    async def fires(self, namespace: str, name: str, limit: int | None) -> Sequence[dict[str, Any]]:
        """See `SchedulePort`."""
        path = _path(namespace, name, "/fires", limit=limit)
        found: list[dict[str, Any]] = _decode(await self._caller()("GET", path))
        return found


def _path(namespace: str, name: str, action: str = "", **parameters: Any) -> str:
    return f"{path_of('schedules', name)}{action}{query_of({'namespace': namespace, **parameters})}"


def _http_request(request: rq.ScheduleRequest) -> tuple[str, str, dict[str, Any] | None]:
    """Return the method, the end of the path and the body of a request; the method is empty for a creation."""
    match request:
        case rq.CreateSchedule():
            fields = asdict(request.schedule)
            return "", "", _body({name: fields[name] for name in CREATION_FIELDS})
        case rq.PutSchedule():
            fields = asdict(request.schedule)
            return "PUT", "", _body({name: fields[name] for name in CREATION_FIELDS})
        case rq.PatchSchedule():
            return "PATCH", "", wire_fields(request.changes)
        case rq.PauseSchedule():
            return "POST", "/pause", {"reason": request.reason, "by": request.by}
        case rq.ResumeSchedule():
            return "POST", "/resume", None
        case rq.DeleteSchedule():
            return "DELETE", "", None
        case rq.TriggerSchedule():
            return "POST", "/trigger", {"overlap_policy": request.overlap}
        case rq.BackfillSchedule():
            times = {"start": seconds(request.start), "end": seconds(request.end)}
            return "POST", "/backfill", {**times, "overlap_policy": request.overlap}
    raise TypeError(request)


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    fields = wire_fields(fields)
    fields.pop("clear", None)
    return fields
