"""The operations of a workflow's ctx for tasks, channels and time; a part of `Context`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import Task
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from assay.sdk.workflow.channels import Channel, SelectResult

if TYPE_CHECKING:
    from assay.sdk.workflow.activity_executor import ActivityExecutor
    from assay.sdk.workflow.activity_futures import StartedActivity
    from assay.sdk.workflow.saga import Saga
    from assay.sdk.workflow.timers import Ticker, Timer

Result = TypeVar("Result")
Duration = float | str | timedelta


class Concurrency(ABC):
    """The concurrent operations of `Context`."""

    @abstractmethod
    def go(self, coroutine: Coroutine[Any, Any, Result]) -> Task[Result]:
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

    @abstractmethod
    def timer(self, duration: Duration) -> Timer:
        """Start a durable timer, which can be stopped and armed again.

        Args:
            duration: Seconds, a timedelta or a text such as "1h30m".

        Returns:
            The timer; its `channel` gives the time of the fire.

        Raises:
            Invalid: The duration is not positive, or malformed.
        """

    @abstractmethod
    def ticker(self, period: Duration) -> Ticker:
        """Start a durable ticker, which fires at each multiple of its period until it is stopped.

        Args:
            period: Seconds, a timedelta or a text such as "30s".

        Returns:
            The ticker; its `channel` gives the time of each tick.

        Raises:
            Invalid: The period is not positive, or malformed.
        """

    @abstractmethod
    def start_activity(self, activity: Callable[..., Any] | str, input: Any = None, **options: Any) -> StartedActivity:
        """Start an activity and return without waiting.

        Args:
            activity: The activity, or its name.
            input: The activity's input.
            **options: As for `execute_activity`.

        Returns:
            The future result: await it, `cancel()` it, or receive it from its `channel()`.

        Raises:
            Invalid: An option is unknown or malformed.
        """

    @abstractmethod
    def gather(self, *awaitables: Awaitable[Any], return_exceptions: bool = False) -> Awaitable[list[Any]]:
        """Wait for several futures, tasks or coroutines at once.

        Args:
            *awaitables: The futures of `start_activity`, tasks of `go`, or coroutines.
            return_exceptions: Return exceptions in the list, instead of raising the first.

        Returns:
            The results, in the order of the arguments.
        """

    @abstractmethod
    def activities(self, options: Mapping[str, Any] | None = None, **keywords: Any) -> ActivityExecutor:
        """Return a reusable set of activity options.

        Args:
            options: The options, as a mapping.
            **keywords: The options, as for `execute_activity`.

        Returns:
            The set, with `call` and `start`.

        Raises:
            Invalid: An option is unknown or malformed.
        """

    @abstractmethod
    def saga(self) -> Saga:
        """Return a block whose compensations run, newest first, if an exception leaves it.

        Returns:
            The block: `async with ctx.saga() as saga`, with `saga.add(activity, input)` after each step.
        """
