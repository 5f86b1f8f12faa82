"""Tasks, channels and time of a `def` workflow; a part of `BlockingContext`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from assay.core.model.errors import Invalid
from assay.sdk.arguments import check_function
from assay.sdk.workflow.activity_executor import BlockingActivityExecutor
from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.blocking_tasks import BlockingFuture, BlockingTask, BlockingTicker, BlockingTimer
from assay.sdk.workflow.channels import SelectResult
from assay.sdk.workflow.concurrency import Duration, Result
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.blocking import run_blocking, wait
from assay.sdk.workflow.saga import BlockingSaga


class BlockingConcurrency:
    """The concurrent operations of `BlockingContext`."""

    _context: Context

    def go(self, function: Callable[..., Result], *args: Any, **options: Any) -> BlockingTask[Result]:
        """Run a function beside the caller, which goes on first; the end of the main function cancels it.

        If the function raises an exception while no task waits for it, the exception is raised in the main function,
        where it waits.

        Args:
            function: The function, which may block on the operations of `ctx`.
            *args: Its arguments.
            **options: Its keyword arguments.

        Returns:
            Its task, to wait for or to cancel.

        Raises:
            Invalid: The first argument is no function.
        """
        check_function(function, "ctx.go")
        return BlockingTask(self._context.go(run_blocking(function, *args, **options)))

    def channel(self, capacity: int = 0) -> BlockingChannel[Any]:
        """Return a new channel between tasks of this run.

        Args:
            capacity: How many values the channel holds; with 0 each send waits for its receiver.

        Returns:
            The channel.

        Raises:
            Invalid: The capacity is negative or no whole number.
        """
        return BlockingChannel(self._context.channel(capacity))

    def select(self, *cases: Any, default: bool = False) -> SelectResult:
        """Take the first ready case in the order of the arguments; if no case is ready, wait for the first.

        Args:
            *cases: Channels, `channel.case_receive()` and `channel.case_send(value)`.
            default: Return at once if no case is ready.

        Returns:
            The taken case, and its value.

        Raises:
            ChannelClosed: The taken case sends, and its channel is closed.
            Invalid: There is no case, or a case is something else.
        """
        return wait(self._context.select(*cases, default=default))

    def after(self, duration: Duration) -> BlockingChannel[datetime]:
        """Return a channel that gives the time once, after a duration; its durable timer cannot be stopped.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m"; 0 is at once.

        Returns:
            The channel, for `receive` or `select`.

        Raises:
            Invalid: The duration is negative or malformed.
        """
        return BlockingChannel(self._context.after(duration))

    def timer(self, duration: Duration) -> BlockingTimer:
        """Start a durable timer, which can be stopped and armed again.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".

        Returns:
            The timer; its `channel` gives the time of the fire.

        Raises:
            Invalid: The duration is not positive, or malformed.
        """
        return BlockingTimer(self._context.timer(duration))

    def ticker(self, period: Duration) -> BlockingTicker:
        """Start a durable ticker, which fires at each multiple of its period until it is stopped.

        Args:
            period: Seconds, a timedelta or a text such as "30s".

        Returns:
            The ticker; its `channel` gives the time of each tick.

        Raises:
            Invalid: The period is not positive, or malformed.
        """
        return BlockingTicker(self._context.ticker(period))

    def start_activity(
        self, activity: Callable[..., Any] | str, input: Any = None, **options: Any
    ) -> BlockingFuture[Any]:
        """Start an activity and return without waiting.

        Args:
            activity: The activity, or its name.
            input: The activity's input.
            **options: As for `execute_activity`.

        Returns:
            The future: wait for its `result()`, `cancel()` it, or receive from its `channel()`.

        Raises:
            Invalid: An option is unknown or malformed.
        """
        return BlockingFuture(self._context.start_activity(activity, input, **options))

    def gather(self, *awaited: BlockingTask[Any], return_exceptions: bool = False) -> list[Any]:
        """Wait for several futures or tasks at once.

        Args:
            *awaited: The futures of `start_activity`, or tasks of `go`.
            return_exceptions: Return exceptions in the list, instead of raising the first.

        Returns:
            The results, in the order of the arguments.

        Raises:
            Invalid: An argument is something else.
        """
        for one in awaited:
            check_task(one)
        return wait(self._context.gather(*(one.task for one in awaited), return_exceptions=return_exceptions))

    def activities(self, options: Mapping[str, Any] | None = None, **keywords: Any) -> BlockingActivityExecutor:
        """Return a reusable set of activity options.

        Args:
            options: The options, as a mapping.
            **keywords: The options, as for `execute_activity`.

        Returns:
            The set, with `call` and `start`.

        Raises:
            Invalid: An option is unknown or malformed.
        """
        return BlockingActivityExecutor(self._context.activities(options, **keywords))

    def saga(self) -> BlockingSaga:
        """Return a block whose compensations run, newest first, if an exception leaves it.

        Returns:
            The block: `with ctx.saga() as saga`, with `saga.add(activity, input)` after each step.
        """
        return BlockingSaga.of(self._context.saga())


def check_task(value: object) -> None:
    """Raise `Invalid` unless `value` is a task or a future of a `def` workflow."""
    if not isinstance(value, BlockingTask):
        raise Invalid(
            f"ctx.gather takes futures of ctx.start_activity and tasks of ctx.go, not {type(value).__name__}",
            field="awaited",
        )
