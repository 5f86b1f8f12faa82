"""Speculative turns: side effects and log records are held back until the engine has accepted the turn."""

import asyncio
from collections.abc import Callable

from assay.sdk.workflow.replay.completion import PausePoint
from assay.sdk.workflow.replay.loop import WorkflowLoop


class Speculation:
    """The speculative state of a run's current turn, and the effects held back until its acceptance."""

    __slots__ = ("_loop", "active", "held_logs", "paused_at")

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self.active = False
        """True while inputs are applied that the engine has not recorded yet."""
        self.paused_at: PausePoint | None = None
        self.held_logs: list[Callable[[], None]] = []

    async def durable_point(self) -> None:
        """Return at once in an ordinary turn; in a speculative turn, when everything before is durable."""
        if not self.active:
            return
        try:
            await self.pause()
        except asyncio.CancelledError:
            # Cancel at the next await instead: a replay does not stop here.
            task = asyncio.current_task()
            if task is not None:
                task.cancel()
                task.uncancel()

    def pause(self) -> PausePoint:
        """End the turn here; return a future that is completed on resumption."""
        point = self.paused_at = PausePoint(self._loop)
        self._loop.pause()
        return point

    def resume(self) -> None:
        """Resume the paused coroutine before all others, as if it had never stopped."""
        waiter, self.paused_at = self.paused_at, None
        if waiter is not None:
            self._loop.resume_first(waiter)

    def accept(self) -> None:
        """Write the log records that were held back: the turn is durable."""
        self.active = False
        if self.held_logs:
            logs, self.held_logs = self.held_logs, []
            for write in logs:
                write()
