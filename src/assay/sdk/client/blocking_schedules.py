"""`workflow.schedules`: the calls of `client.schedules` for programs without asyncio; each call blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.sdk.client.blocking import BlockingClient
    from assay.sdk.client.records import FireRecord, ScheduleRecord
    from assay.sdk.client.schedules import Fires, Moment, NewScheduleOptions, SchedulePatch


class BlockingSchedules:
    """The schedules of an engine, as `workflow.schedules`."""

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
        """Create a schedule.

        Args:
            name: The schedule's name.
            workflow_type: The workflow to start, or its name.
            cron_expr: The cron expression of its due times.
            namespace: The namespace, unless the connection's.
            **options: See `NewScheduleOptions`.

        Returns:
            The schedule's record.

        Raises:
            AlreadyExists: The name is taken.
            Invalid: The definition is malformed.
        """
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
        """Create a schedule, or replace the definition of the existing one; for programs that declare their schedules.

        Past fires, waiting fires and a pause are kept.

        Args:
            name: The schedule's name.
            workflow_type: The workflow to start, or its name.
            cron_expr: The cron expression of its due times.
            namespace: The namespace, unless the connection's.
            **options: See `NewScheduleOptions`; an option that is left out returns to its default.

        Returns:
            The schedule's record.

        Raises:
            Invalid: The definition is malformed; nothing was changed.
        """
        found: ScheduleRecord = self._call("put", name, workflow_type, cron_expr, namespace=namespace, **options)
        return found

    def list(self, *, namespace: str | None = None) -> list[ScheduleRecord]:
        """Return all schedules of a namespace.

        Args:
            namespace: The namespace, unless the connection's.

        Returns:
            Records, by name.
        """
        found: list[ScheduleRecord] = self._call("list", namespace=namespace)
        return found

    def describe(self, name: str, *, namespace: str | None = None) -> ScheduleRecord | None:
        """Return the record of a schedule.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the connection's.

        Returns:
            The record, or None if the schedule does not exist.
        """
        found: ScheduleRecord | None = self._call("describe", name, namespace=namespace)
        return found

    def patch(self, name: str, *, namespace: str | None = None, **changes: Unpack[SchedulePatch]) -> ScheduleRecord:
        """Change fields of a schedule; None leaves a field unchanged, `clear=["end_at"]` resets a field.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the connection's.
            **changes: See `SchedulePatch`.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
            Invalid: A field has an impossible value.
        """
        found: ScheduleRecord = self._call("patch", name, namespace=namespace, **changes)
        return found

    def pause(
        self, name: str, reason: str | None = None, by: str | None = None, *, namespace: str | None = None
    ) -> ScheduleRecord:
        """Pause a schedule; due times in the pause are not made up for.

        Args:
            name: The schedule's name.
            reason: The reason, which is recorded.
            by: The person or program that pauses.
            namespace: The namespace, unless the connection's.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
        """
        found: ScheduleRecord = self._call("pause", name, reason, by, namespace=namespace)
        return found

    def resume(self, name: str, *, namespace: str | None = None) -> ScheduleRecord:
        """Resume a paused schedule, from now on.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the connection's.

        Returns:
            The changed record.

        Raises:
            NotFound: The schedule does not exist.
        """
        found: ScheduleRecord = self._call("resume", name, namespace=namespace)
        return found

    def delete(self, name: str, *, namespace: str | None = None) -> None:
        """Delete a schedule; its runs continue.

        Args:
            name: The schedule's name.
            namespace: The namespace, unless the connection's.

        Raises:
            NotFound: The schedule does not exist.
        """
        self._call("delete", name, namespace=namespace)

    def trigger(self, name: str, overlap_policy: str | None = None, *, namespace: str | None = None) -> FireRecord:
        """Fire a schedule once, now.

        Args:
            name: The schedule's name.
            overlap_policy: The policy for this fire; the schedule's own unless given.
            namespace: The namespace, unless the connection's.

        Returns:
            The outcome, with the `workflow_id` of a started run.

        Raises:
            NotFound: The schedule does not exist.
        """
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
        """Fire for each due time from `start` to `end` without a started run.

        Args:
            name: The schedule's name.
            start: The first due time: seconds since the epoch, or a datetime with a time zone.
            end: The last due time.
            overlap_policy: The policy for these fires; by default each run starts when the previous one has closed.
            namespace: The namespace, unless the connection's.

        Returns:
            The outcome of each due time.

        Raises:
            NotFound: The schedule does not exist.
            Invalid: The interval is malformed or too long.
        """
        found: Fires = self._call("backfill", name, start, end, overlap_policy, namespace=namespace)
        return found

    def preview(self, name: str, count: int | None = None, *, namespace: str | None = None) -> Sequence[float]:
        """Return the next due times of a schedule.

        Args:
            name: The schedule's name.
            count: The number of times, 10 unless given.
            namespace: The namespace, unless the connection's.

        Returns:
            Times in seconds since the epoch.

        Raises:
            NotFound: The schedule does not exist.
        """
        found: Sequence[float] = self._call("preview", name, count, namespace=namespace)
        return found

    def fires(self, name: str, limit: int | None = None, *, namespace: str | None = None) -> Fires:
        """Return the outcomes of the latest due times, with their reasons.

        Args:
            name: The schedule's name.
            limit: The number of outcomes, 50 unless given.
            namespace: The namespace, unless the connection's.

        Returns:
            Outcomes, newest first.

        Raises:
            NotFound: The schedule does not exist.
        """
        found: Fires = self._call("fires", name, limit, namespace=namespace)
        return found

    def _call(self, verb: str, *arguments: Any, **options: Any) -> Any:
        blocking_client = self._blocking_client()
        return blocking_client.call(
            f"schedules.{verb}", lambda client: getattr(client.schedules, verb)(*arguments, **options)
        )
