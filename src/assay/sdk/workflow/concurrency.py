"""The operations of a workflow's ctx for tasks, channels and time; a part of `Context`."""

from abc import ABC, abstractmethod
from asyncio import Task
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from assay.sdk.workflow.channels import Channel, SelectResult

Result = TypeVar("Result")
Duration = float | str | timedelta


class Concurrency(ABC):
    """The concurrent operations of `Context`."""

    @abstractmethod
    def go(self, coroutine: Coroutine[Any, Any, Result]) -> "Task[Result]":
        """Run a coroutine beside the caller, which goes on first; the end of the main coroutine cancels it.

        If the coroutine raises an exception while no task awaits it, the exception is raised in the main coroutine,
        where it waits.

        Args:
            coroutine: The coroutine: `ctx.go(work(1))`.

        Returns:
            Its task, to await or to cancel.

        Raises:
            Invalid: The argument is no coroutine.
        """

    @abstractmethod
    def channel(self, capacity: int = 0) -> Channel[Any]:
        """Return a new channel between tasks of this run.

        Args:
            capacity: How many values the channel holds; with 0 each send waits for its receiver.

        Returns:
            The channel.

        Raises:
            Invalid: The capacity is negative or no whole number.
        """

    @abstractmethod
    async def select(self, *cases: Any, default: bool = False) -> SelectResult:
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

    @abstractmethod
    def after(self, duration: Duration) -> Channel[datetime]:
        """Return a channel that gives the time once, after a duration; its durable timer cannot be stopped.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m"; 0 is at once.

        Returns:
            The channel, for `receive` or `select`.

        Raises:
            Invalid: The duration is negative or malformed.
        """
