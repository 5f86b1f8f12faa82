"""Schedules of an engine in this process, with the same answers as over HTTP."""

from collections.abc import Callable, Sequence
from typing import Any

from assay.core.model.errors import NotFound
from assay.core.model.ids import seconds
from assay.core.schedules.requests import CreateSchedule, PutSchedule, ScheduleRequest
from assay.core.schedules.rules import check_schedule
from assay.embedded.records import user_record
from assay.engine.engine import Engine
from assay.engine.worker_registry import WorkerRegistry
from assay.wire.schedule_bodies import fire_record, reply_record, schedule_record


class EmbeddedSchedules:
    """See `SchedulePort`."""

    def __init__(self, engine: Callable[[], Engine], worker_registry: WorkerRegistry) -> None:
        self._engine = engine
        self._worker_registry = worker_registry

    async def ask(self, request: ScheduleRequest) -> Any:
        """See `SchedulePort`."""
        engine = self._engine()
        if isinstance(request, CreateSchedule | PutSchedule):
            check_schedule(request.schedule)
            await self._worker_registry.ensure(request.namespace)
        answer = reply_record(await engine.submit(request))
        return [user_record(one) for one in answer] if isinstance(answer, list) else user_record(answer)

    async def list(self, namespace: str) -> Sequence[dict[str, Any]]:
        """See `SchedulePort`."""
        found, now = await self._engine().reads.schedules(namespace), self._engine().reads.wall()
        return [user_record(schedule_record(schedule, now)) for schedule in found]

    async def describe(self, namespace: str, name: str) -> dict[str, Any] | None:
        """See `SchedulePort`."""
        try:
            found = await self._engine().reads.schedule(namespace, name)
            return user_record(schedule_record(found, self._engine().reads.wall()))
        except NotFound:
            return None

    async def preview(self, namespace: str, name: str, count: int | None) -> Sequence[float]:
        """See `SchedulePort`."""
        return [seconds(due) for due in await self._engine().reads.preview(namespace, name, count)]

    async def fires(self, namespace: str, name: str, limit: int | None) -> Sequence[dict[str, Any]]:
        """See `SchedulePort`."""
        return [user_record(fire_record(fire)) for fire in await self._engine().reads.fires(namespace, name, limit)]
