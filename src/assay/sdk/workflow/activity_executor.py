"""`ctx.activities(...)`: a set of activity options, checked once and used for many calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from assay.sdk.arguments import check_flag
from assay.sdk.dotted_options import plain_options
from assay.sdk.workflow.activity_options import ActivityCall
from assay.sdk.workflow.blocking_tasks import BlockingFuture
from assay.sdk.workflow.replay.blocking import wait

if TYPE_CHECKING:
    from assay.sdk.workflow.activity_futures import StartedActivity
    from assay.sdk.workflow.context import Context

WAIT: Final = "wait_for_cancellation"
"""An option of the wait for an activity, and not of the activity: `start` does not wait."""


def checked(options: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a set; raise `Invalid` for an unknown or malformed option."""
    merged = {**({} if options is None else plain_options(options, "activity")), **keywords}
    if merged.get(WAIT) is not None:
        check_flag(merged[WAIT], WAIT)
    ActivityCall.of({name: value for name, value in merged.items() if name != WAIT}, "")
    return merged


class ActivityExecutor:
    """Calls activities with a fixed set of options; `with_options` returns another set.

    Args:
        context: The context of the run.
        options: The options, checked.
    """

    __slots__ = ("_context", "_options")

    def __init__(self, context: Context, options: dict[str, Any]) -> None:
        self._context = context
        self._options = options

    def with_options(self, options: Mapping[str, Any] | None = None, **keywords: Any) -> ActivityExecutor:
        """Return a set with further options, which take precedence.

        Args:
            options: Further options, as a mapping.
            **keywords: Further options.

        Returns:
            The new set.

        Raises:
            Invalid: An option is unknown or malformed.
        """
        return ActivityExecutor(self._context, {**self._options, **checked(options, keywords)})

    async def call(self, activity: Any, input: Any = None, **options: Any) -> Any:
        """Run an activity with these options and wait for its result.

        Args:
            activity: The activity, or its name.
            input: The activity's input.
            **options: Options for this call, which take precedence.

        Returns:
            The activity's result, decoded by its annotation.

        Raises:
            ActivityError: The activity failed for good.
            Invalid: An option is unknown or malformed.
        """
        return await self._context.execute_activity(activity, input, **{**self._options, **options})

    def start(self, activity: Any, input: Any = None, **options: Any) -> StartedActivity:
        """Start an activity with these options and return without waiting.

        Args:
            activity: The activity, or its name.
            input: The activity's input.
            **options: Options for this call, which take precedence.

        Returns:
            The future result.

        Raises:
            Invalid: An option is unknown or malformed.
        """
        own = {name: value for name, value in self._options.items() if name != WAIT}
        return self._context.start_activity(activity, input, **{**own, **options})


class BlockingActivityExecutor:
    """Calls activities with a fixed set of options, in a `def` workflow; `with_options` returns another set.

    Args:
        executor: The set of options to use.
    """

    __slots__ = ("_executor",)

    def __init__(self, executor: ActivityExecutor) -> None:
        self._executor = executor

    def with_options(self, options: Mapping[str, Any] | None = None, **keywords: Any) -> BlockingActivityExecutor:
        """See `ActivityExecutor.with_options`."""
        return BlockingActivityExecutor(self._executor.with_options(options, **keywords))

    def call(self, activity: Any, input: Any = None, **options: Any) -> Any:
        """See `ActivityExecutor.call`."""
        return wait(self._executor.call(activity, input, **options))

    def start(self, activity: Any, input: Any = None, **options: Any) -> BlockingFuture[Any]:
        """See `ActivityExecutor.start`."""
        return BlockingFuture(self._executor.start(activity, input, **options))
