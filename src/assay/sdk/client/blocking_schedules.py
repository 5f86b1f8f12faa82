"""`workflow.schedules`: the calls of `client.schedules` for programs without asyncio; each of them blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.records import FireRecord, ScheduleRecord
    from assay.sdk.client.schedules import Fires, Moment, NewScheduleOptions, SchedulePatch


class BlockingSchedules:
    """Schedules: made, changed, paused, fired by hand, and looked at; see `assay.Client.schedules`."""

    def __init__(self, blocking_client: Callable[[], BlockingClient]) -> None:
        self._blocking_client = blocking_client

    def create(
        self,
        name: str,
        workflow_type: Callable[..., Any] | str,
        cron_expr: str,
        *,
        namespace: str | None = None,
        **options: Unpack[NewScheduleOptions],
    ) -> ScheduleRecord:
        """Make a schedule: its record. `AlreadyExists` if the name is taken, `Invalid` if something is wrong."""
        found: ScheduleRecord = self._call("create", name, workflow_type, cron_expr, namespace=namespace, **options)
        return found

    def put(
        self,
        name: str,
        workflow_type: Callable[..., Any] | str,
        cron_expr: str,
        *,
        namespace: str | None = None,
        **options: Unpack[NewScheduleOptions],
    ) -> ScheduleRecord:
        """Make a schedule, or replace the definition of the one that has the name; see `Schedules.put`."""
        found: ScheduleRecord = self._call("put", name, workflow_type, cron_expr, namespace=namespace, **options)
        return found

    def list(self, *, namespace: str | None = None) -> list[ScheduleRecord]:
        """All schedules, by name."""
        found: list[ScheduleRecord] = self._call("list", namespace=namespace)
        return found

    def describe(self, name: str, *, namespace: str | None = None) -> ScheduleRecord | None:
        """The record of a schedule; None if there is none."""
        found: ScheduleRecord | None = self._call("describe", name, namespace=namespace)
        return found

    def patch(self, name: str, *, namespace: str | None = None, **changes: Unpack[SchedulePatch]) -> ScheduleRecord:
        """Change fields; None leaves a field as it is, `clear=["end_at"]` takes its value away."""
        found: ScheduleRecord = self._call("patch", name, namespace=namespace, **changes)
        return found

    def pause(
        self, name: str, reason: str | None = None, by: str | None = None, *, namespace: str | None = None
    ) -> ScheduleRecord:
        """Stop firing; what is due meanwhile is never made up for."""
        found: ScheduleRecord = self._call("pause", name, reason, by, namespace=namespace)
        return found

    def resume(self, name: str, *, namespace: str | None = None) -> ScheduleRecord:
        """Fire again, from now on."""
        found: ScheduleRecord = self._call("resume", name, namespace=namespace)
        return found

    def delete(self, name: str, *, namespace: str | None = None) -> None:
        """Forget a schedule; its runs go on."""
        self._call("delete", name, namespace=namespace)

    def trigger(self, name: str, overlap_policy: str | None = None, *, namespace: str | None = None) -> FireRecord:
        """Fire once, now: what became of it, with the `workflow_id` of the run."""
        found: FireRecord = self._call("trigger", name, overlap_policy, namespace=namespace)
        return found

    def backfill(
        self,
        name: str,
        start: Moment,
        end: Moment,
        overlap_policy: str | None = None,
        *,
        namespace: str | None = None,
    ) -> Fires:
        """Fire for each due time from `start` to `end` that no run was started for."""
        found: Fires = self._call("backfill", name, start, end, overlap_policy, namespace=namespace)
        return found

    def preview(self, name: str, count: int | None = None, *, namespace: str | None = None) -> Sequence[float]:
        """The next due times, 10 unless told."""
        found: Sequence[float] = self._call("preview", name, count, namespace=namespace)
        return found

    def fires(self, name: str, limit: int | None = None, *, namespace: str | None = None) -> Fires:
        """What became of the latest due times and why, newest first, 50 unless told."""
        found: Fires = self._call("fires", name, limit, namespace=namespace)
        return found

    def _call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        blocking_client = self._blocking_client()
        return blocking_client.call(
            f"schedules.{verb}", lambda client: getattr(client.schedules, verb)(*arguments, **options)
        )
