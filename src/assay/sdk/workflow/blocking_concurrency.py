"""Tasks, channels and time of a `def` workflow; a part of `BlockingContext`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from assay.sdk.arguments import check_function
from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.blocking_tasks import BlockingTask
from assay.sdk.workflow.channels import SelectResult
from assay.sdk.workflow.concurrency import Duration, Result
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.blocking import run_blocking, wait


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
