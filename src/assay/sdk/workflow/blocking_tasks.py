"""Tasks, futures and timers of `def` workflows, whose calls block."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Generic, TypeVar

from assay.sdk.workflow.activity_futures import StartedActivity
from assay.sdk.workflow.blocking_channels import BlockingChannel
from assay.sdk.workflow.concurrency import Duration
from assay.sdk.workflow.replay.blocking import wait
from assay.sdk.workflow.timers import Ticker, Timer

Result = TypeVar("Result")


class BlockingTask(Generic[Result]):
    """A function that `ctx.go` runs beside its caller.

    Args:
        task: The task to wait for.
    """

    __slots__ = ("task",)

    def __init__(self, task: asyncio.Future[Result]) -> None:
        self.task = task

    def result(self) -> Result:
        """Wait for the end and return the result.

        Returns:
            The result.

        Raises:
            asyncio.CancelledError: The task was cancelled.
        """
        return wait(self.task)

    def cancel(self) -> bool:
        """Raise `asyncio.CancelledError` where the function waits.

        Returns:
            False if the task has already ended.
        """
        return self.task.cancel()

    def done(self) -> bool:
        """Return whether the task has ended.

        Returns:
            True after its result, its exception or its cancellation.
        """
        return self.task.done()

    def cancelled(self) -> bool:
        """Return whether the task was cancelled.

        Returns:
            True after its cancellation.
        """
        return self.task.cancelled()


class BlockingFuture(BlockingTask[Result]):
    """An activity of `ctx.start_activity` in a `def` workflow.

    `cancel()` requests the cancellation of the activity; a result that arrives later is ignored, and `result()` raises
    `asyncio.CancelledError`.

    Args:
        future: The future to wait for.
    """

    __slots__ = ("_channel",)

    def __init__(self, future: StartedActivity) -> None:
        super().__init__(future)
        self._channel: BlockingChannel[Any] = BlockingChannel(future.channel())

    def channel(self) -> BlockingChannel[Any]:
        """Return the channel of the result, the same on each call; it gives the result once and is then closed.

        Returns:
            The channel. It closes without a value if the activity fails or is cancelled.
        """
        return self._channel


class BlockingTimer:
    """A durable timer of a `def` workflow; `channel` gives the time of each fire.

    Args:
        timer: The timer.
    """

    __slots__ = ("_timer", "channel")

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.channel: BlockingChannel[datetime] = BlockingChannel(timer.channel)

    def stop(self) -> bool:
        """See `Timer.stop`."""
        return self._timer.stop()

    def reset(self, duration: Duration) -> bool:
        """See `Timer.reset`."""
        return self._timer.reset(duration)


class BlockingTicker:
    """A durable ticker of a `def` workflow; `channel` gives the time of each tick.

    Args:
        ticker: The ticker.
    """

    __slots__ = ("_ticker", "channel")

    def __init__(self, ticker: Ticker) -> None:
        self._ticker = ticker
        self.channel: BlockingChannel[datetime] = BlockingChannel(ticker.channel)

    def stop(self) -> None:
        """See `Ticker.stop`."""
        self._ticker.stop()
