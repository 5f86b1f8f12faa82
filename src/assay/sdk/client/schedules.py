"""Schedules of a client: create, change, pause, trigger, list."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack, runtime_checkable

from assay.core.model.duration import Duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import Namespace
from assay.core.model.options import check_id, check_text
from assay.core.model.payload import Payload
from assay.core.model.texts import check_words
from assay.core.schedules import requests as rq
from assay.core.schedules.model import Schedule
from assay.sdk.arguments import check_flag, check_mapping, check_whole, unknown_option
from assay.sdk.client.reading import epoch
from assay.sdk.client.records import FireRecord, ScheduleRecord
from assay.sdk.values.converter import Converter
from assay.sdk.values.search_values import search_values
from assay.wire.schedule_bodies import core_fields, moment, overlap_of

if TYPE_CHECKING:
    from assay.sdk.client.client import Client

Fires = list[FireRecord]
Moment = float | datetime.datetime
"""Seconds since the epoch, or a datetime with a time zone."""

DOCUMENTS = ("input", "search_attributes", "memo")
DUE_TIMES_RANGE: Final = range(1, 1_001)
"""Permitted numbers of due times in one answer."""


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule beside its name, workflow and cron expression; see docs/howto/schedules.md."""

    input: Any
    timezone: str | None
    task_queue: str | None
    overlap_policy: str | None
    dst: str | None
    missed: str | None
    window_secs: Duration | None
    jitter_secs: Duration | None
    end_at: Moment | None
    remaining: int | None
    search_attributes: Mapping[str, Any] | None
    memo: Mapping[str, Any] | None


class NewScheduleOptions(ScheduleOptions, total=False):
    """Options of a schedule that only its creation accepts."""

    paused: bool | None
    pause_reason: str | None
    paused_by: str | None


class SchedulePatch(ScheduleOptions, total=False):
    """Fields that `patch` accepts; `clear` names fields to reset to no value."""

    cron_expr: str | None
    clear: Iterable[str] | None


class SchedulePort(Protocol):
    """The part of a transport that manages schedules; results are JSON objects."""

    async def ask(self, request: rq.ScheduleRequest) -> Any:
        """Send a request; return the engine's reply once the outcome is durable."""
        ...

    async def list(self, namespace: str) -> Sequence[dict[str, Any]]:
        """Return the schedules of a namespace, by name."""
        ...

    async def describe(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a schedule, or None."""
        ...

    async def preview(self, namespace: str, name: str, count: int | None) -> Sequence[float]:
        """Return the next due times."""
        ...

    async def fires(self, namespace: str, name: str, limit: int | None) -> Sequence[dict[str, Any]]:
        """Return the outcomes of the latest due times, newest first."""
        ...


@runtime_checkable
class Scheduling(Protocol):
    """A transport whose engine has schedules."""

    schedules: SchedulePort


class Schedules:
    """The schedules of an engine, as `client.schedules`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(
        self,
        name: str,
        workflow_type: Callable[..., Any] | str,
        cron_expr: str,
        *,
        namespace: str | None = None,
        **options: Unpack[NewScheduleOptions],
    ) -> ScheduleRecord:
        """Create a schedule.

        Args:
            name: The schedule's name.
            workflow_type: The workflow to start, or its name.
            cron_expr: The cron expression of its due times.
            namespace: The namespace, unless the client's.
            **options: See `NewScheduleOptions`.

        Returns:
            The schedule's record.

        Raises:
            AlreadyExists: The name is taken.
            Invalid: The definition is malformed.
        """
        schedule = self._defined(name, workflow_type, cron_expr, namespace, options)
        request = rq.CreateSchedule(schedule.namespace, schedule.name, schedule)
        return ScheduleRecord(await self._port().ask(request))

    async def put(
        self,
        name: str,
        workflow_type: Callable[..., Any] | str,
        cron_expr: str,
        *,
        namespace: str | None = None,
        **options: Unpack[NewScheduleOptions],
    ) -> ScheduleRecord:
        """Create a schedule, or replace the definition of the existing one; for programs that declare their schedules.

        Past fires, waiting fires and a pause are kept.

        Args:
            name: The schedule's name.
            workflow_type: The workflow to start, or its name.
            cron_expr: The cron expression of its due times.
            namespace: The namespace, unless the client's.
            **options: See `NewScheduleOptions`; an option that is left out returns to its default.

        Returns:
            The schedule's record.

        Raises:
            Invalid: The definition is malformed; nothing was changed.
        """
        schedule = self._defined(name, workflow_type, cron_expr, namespace, options)
        request = rq.PutSchedule(schedule.namespace, schedule.name, schedule)
        return ScheduleRecord(await self._port().ask(request))

    def _defined(
        self,
        name: str,
        workflow_type: Callable[..., Any] | str,
        cron_expr: str,
        namespace: str | None,
        options: NewScheduleOptions,
    ) -> Schedule:
        space = self._space(namespace)
        name, cron = check_id(name, "name"), check_words(cron_expr, "cron_expr")
        fields = self._fields({"task_queue": self._client.app.queue, **_given(options)}, NewScheduleOptions)
        return Schedule(space, name, self._client.app.name_of(workflow_type), cron, **fields)

    async def list(self, *, namespace: str | None = None) -> list[ScheduleRecord]:
        """Return all schedules of a namespace.

        Args:
            namespace: The namespace, unless the client's.

        Returns:
            Records, by name.
        """
        return [ScheduleRecord(found) for found in await self._port().list(self._space(namespace))]

    async def describe(self, name: str, *, namespace: str | None = None) -> ScheduleRecord | None:
        """Return the record of a schedule.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the client's.

        Returns:
            The record, or None if the schedule does not exist.
        """
        found = await self._port().describe(self._space(namespace), check_id(name, "name"))
        return None if found is None else ScheduleRecord(found)

    async def patch(
        self, name: str, *, namespace: str | None = None, **changes: Unpack[SchedulePatch]
    ) -> ScheduleRecord:
        """Change fields of a schedule; None leaves a field unchanged, `clear=["end_at"]` resets a field.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the client's.
            **changes: See `SchedulePatch`.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
            Invalid: A field has an impossible value.
        """
        fields = self._fields(_given(changes), SchedulePatch)
        return ScheduleRecord(await self._port().ask(rq.PatchSchedule(*self._named(namespace, name), fields)))

    async def pause(
        self, name: str, reason: str | None = None, by: str | None = None, *, namespace: str | None = None
    ) -> ScheduleRecord:
        """Pause a schedule; due times in the pause are not made up for.

        Args:
            name: The schedule's name.
            reason: The reason, which is recorded.
            by: The person or program that pauses.
            namespace: The namespace, unless the client's.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
        """
        words = check_text(reason, "reason"), check_text(by, "by")
        return ScheduleRecord(await self._port().ask(rq.PauseSchedule(*self._named(namespace, name), *words)))

    async def resume(self, name: str, *, namespace: str | None = None) -> ScheduleRecord:
        """Resume a paused schedule, from now on.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the client's.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
        """
        return ScheduleRecord(await self._port().ask(rq.ResumeSchedule(*self._named(namespace, name))))

    async def delete(self, name: str, *, namespace: str | None = None) -> None:
        """Delete a schedule; its runs continue.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the client's.

        Raises:
            NotFound: The schedule does not exist.
        """
        await self._port().ask(rq.DeleteSchedule(*self._named(namespace, name)))

    async def trigger(
        self, name: str, overlap_policy: str | None = None, *, namespace: str | None = None
    ) -> FireRecord:
        """Fire a schedule once, now.

        Args:
            name: The schedule's name.
            overlap_policy: The policy for this fire; the schedule's own unless given.
            namespace: The namespace, unless the client's.

        Returns:
            The outcome, with the `workflow_id` of a started run.

        Raises:
            NotFound: The schedule does not exist.
        """
        request = rq.TriggerSchedule(*self._named(namespace, name), overlap_of(overlap_policy))
        return FireRecord(await self._port().ask(request))

    async def backfill(
        self,
        name: str,
        start: Moment,
        end: Moment,
        overlap_policy: str | None = None,
        *,
        namespace: str | None = None,
    ) -> Fires:
        """Fire for each due time from `start` to `end` without a started run.

        Args:
            name: The schedule's name.
            start: The first due time: seconds since the epoch, or a datetime with a time zone.
            end: The last due time.
            overlap_policy: The policy for these fires; by default each run starts when the previous one has closed.
            namespace: The namespace, unless the client's.

        Returns:
            The outcome of each due time.

        Raises:
            NotFound: The schedule does not exist.
            Invalid: The interval is malformed or too long.
        """
        first, last = moment(epoch(start), "start"), moment(epoch(end), "end")
        request = rq.BackfillSchedule(*self._named(namespace, name), first, last, overlap_of(overlap_policy))
        return [FireRecord(fire) for fire in await self._port().ask(request)]

    async def preview(self, name: str, count: int | None = None, *, namespace: str | None = None) -> Sequence[float]:
        """Return the next due times of a schedule.

        Args:
            name: The schedule's name.
            count: The number of times, 10 unless given.
            namespace: The namespace, unless the client's.

        Returns:
            Times in seconds since the epoch.

        Raises:
            NotFound: The schedule does not exist.
        """
        wanted = None if count is None else check_whole(count, "count", DUE_TIMES_RANGE)
        return await self._port().preview(*self._named(namespace, name), wanted)

    async def fires(self, name: str, limit: int | None = None, *, namespace: str | None = None) -> Fires:
        """Return the outcomes of the latest due times, with their reasons.

        Args:
            name: The schedule's name.
            limit: The number of outcomes, 50 unless given.
            namespace: The namespace, unless the client's.

        Returns:
            Outcomes, newest first.

        Raises:
            NotFound: The schedule does not exist.
        """
        wanted = None if limit is None else check_whole(limit, "limit", DUE_TIMES_RANGE)
        return [FireRecord(fire) for fire in await self._port().fires(*self._named(namespace, name), wanted)]

    def _port(self) -> SchedulePort:
        transport = self._client.transport
        if not isinstance(transport, Scheduling):
            raise Invalid(f"{type(transport).__name__} has no schedules", code="no_schedules")
        return transport.schedules

    def _space(self, namespace: str | None) -> Namespace:
        return Namespace(self._client.namespace if namespace is None else check_id(namespace, "namespace"))

    def _named(self, namespace: str | None, name: str) -> tuple[Namespace, str]:
        return self._space(namespace), check_id(name, "name")

    def _fields(self, options: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
        names = known.__annotations__ | ScheduleOptions.__annotations__
        fields: dict[str, Any] = {}
        for name, value in options.items():
            if name not in names:
                raise unknown_option("a schedule has no option", name, names)
            fields[name] = _checked(self._client.converter, name, value)
        return core_fields(fields)


def _checked(converter: Converter, name: str, value: Any) -> Any:
    if name == "search_attributes":
        return Payload(converter.encode(search_values(value, name), name=name))
    if name in DOCUMENTS:
        return Payload(converter.encode(value if name == "input" else check_mapping(value, name), name=name))
    check = _CHECKS.get(name)
    return epoch(value) if check is None else check(value, name)


def _names(value: object, name: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise Invalid(f"{name} must be a list of names, not {type(value).__name__}", field=name)
    return [check_words(entry, name) for entry in value]


_CHECKS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "timezone": check_words,
    "cron_expr": check_words,
    "task_queue": check_id,
    "pause_reason": check_words,
    "paused_by": check_words,
    "paused": check_flag,
    "remaining": lambda value, name: check_whole(value, name, range(1, 2**53)),
    "clear": _names,
}
"""Checks by field; `core_fields` validates the fields that are not listed."""


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
