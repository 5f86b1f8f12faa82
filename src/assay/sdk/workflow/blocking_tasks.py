"""Tasks of `def` workflows: `asyncio.Task` with a `result` that blocks."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from assay.sdk.workflow.replay.blocking import wait

Result = TypeVar("Result")


class BlockingTask(Generic[Result]):
    """A function that `ctx.go` runs beside its caller.

    Args:
        task: The task to wait for.
    """

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Future[Result]) -> None:
        self._task = task

    def result(self) -> Result:
        """Wait for the end and return the result.

        Returns:
            The result.

        Raises:
            asyncio.CancelledError: The task was cancelled.
        """
        return wait(self._task)

    def cancel(self) -> bool:
        """Raise `asyncio.CancelledError` where the function waits.

        Returns:
            False if the task has already ended.
        """
        return self._task.cancel()

    def done(self) -> bool:
        """Return whether the task has ended.

        Returns:
            True after its result, its exception or its cancellation.
        """
        return self._task.done()

    def cancelled(self) -> bool:
        """Return whether the task was cancelled.

        Returns:
            True after its cancellation.
        """
        return self._task.cancelled()
