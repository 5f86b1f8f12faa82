"""The future results of activities: plain ones inside `execute_activity`, and those of `ctx.start_activity`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from assay.core.model import commands as cmd
from assay.sdk.workflow.channels import Channel, SourceChannel
from assay.sdk.workflow.replay.determinism import WorkflowFuture

if TYPE_CHECKING:
    from assay.sdk.workflow.replay.runtime import Execution


class ActivityFuture(WorkflowFuture):
    """The future result of an activity; cancelling the future cancels the activity."""

    __slots__ = ("run", "seq")
    run: weakref.ref[Execution]
    seq: int

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the future, and order the cancellation of the activity."""
        cancelled = super().cancel(msg)
        if cancelled:
            self.request_cancel()
        return cancelled

    def request_cancel(self) -> None:
        """Order the cancellation of the activity; the future stays for its outcome, unless it was never ordered."""
        run = self.run()
        if run is None or run.loop.leaving:
            return
        if run.futures.activity_orders.give_up(self.seq):
            run.futures.activities.pop(self.seq, None)
            super().cancel()
        else:
            run.commands.order("cancel of activity", self.seq, "", cmd.RequestCancelActivity(self.seq))


class StartedActivity(ActivityFuture):
    """An activity of `ctx.start_activity`: await it, cancel it, or receive its result from a channel.

    `cancel()` requests the cancellation of the activity; a result that arrives later is ignored, and awaiting the
    future raises `asyncio.CancelledError`.
    """

    __slots__ = ("_channel", "decode")
    decode: Callable[[Any], Any]
    _channel: SourceChannel[Any] | None

    def channel(self) -> Channel[Any]:
        """Return the channel of the result, the same on each call; it gives the result once and is then closed.

        Returns:
            The channel. It closes without a value if the activity fails or is cancelled.
        """
        if self._channel is None:
            self._channel = SourceChannel("ctx.start_activity")
            if self.done():
                self._feed()
        return self._channel

    def set_result(self, result: Any, /) -> None:
        """Complete the future with a recorded result."""
        try:
            value = self.decode(result)
        except Exception as error:  # noqa: BLE001  # raised where the future is awaited
            super().set_exception(error)
        else:
            super().set_result(value)
        self._feed()

    def set_exception(self, exception: type | BaseException, /) -> None:
        """Complete the future with a recorded failure."""
        super().set_exception(exception)
        self._feed()

    def cancel(self, msg: Any = None) -> bool:
        """Request the cancellation of the activity.

        Args:
            msg: A message for the tasks that await the future.

        Returns:
            False if the activity has already ended.
        """
        cancelled = super().cancel(msg)
        if cancelled:
            self._feed()
        return cancelled

    def _feed(self) -> None:
        channel = self._channel
        if channel is None:
            return
        if not self.cancelled() and self._exception is None:
            channel.put(self.result())
        channel.end()
