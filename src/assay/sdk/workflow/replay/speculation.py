"""Turns that may still be refused: side effects and log lines are held back until the engine has accepted them."""

import asyncio
from collections.abc import Callable

from assay.sdk.workflow.replay.loop import WorkflowLoop
from assay.sdk.workflow.replay.turn import PausePoint


class Speculation:
    """Whether the present turn of a run is speculative, and what waits for it to be accepted."""

    __slots__ = ("_loop", "active", "held_logs", "paused_at")

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop
        self.active = False
        """True from the inputs that are only expected to be recorded until the engine has recorded them."""
        self.paused_at: PausePoint | None = None
        self.held_logs: list[Callable[[], None]] = []

    async def durable_point(self) -> None:
        """Return at once, unless this turn is speculative: then when everything before is durable."""
        if not self.active:
            return
        try:
            await self.pause()
        except asyncio.CancelledError:
            # on its way to the next await, as on a replay, which does not stop here
            task = asyncio.current_task()
            if task is not None:
                task.cancel()
                task.uncancel()

    def pause(self) -> PausePoint:
        """End the turn here, and return the future that is done when it is resumed."""
        point = self.paused_at = PausePoint(self._loop)
        self._loop.pause()
        return point

    def resume(self) -> None:
        """Let the paused coroutine go on before all others, as if it had never stopped."""
        waiter, self.paused_at = self.paused_at, None
        if waiter is not None:
            self._loop.resume_first(waiter)

    def accept(self) -> None:
        """Write the lines that were held back: the turn is durable."""
        self.active = False
        if self.held_logs:
            logs, self.held_logs = self.held_logs, []
            for write in logs:
                write()
