"""Tasks, channels and time of a workflow over the replay loop; a part of `ReplayContext`."""

import asyncio
import datetime
import functools
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND, Time
from assay.core.model.payload import Payload
from assay.sdk.workflow.activity_executor import ActivityExecutor, checked
from assay.sdk.workflow.activity_futures import ActivityFuture, StartedActivity
from assay.sdk.workflow.channels import Channel, SelectResult, select
from assay.sdk.workflow.concurrency import Duration, Result
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.runtime import Execution
from assay.sdk.workflow.saga import Saga
from assay.sdk.workflow.timers import Ticker, Timer, after

Future = TypeVar("Future", bound=ActivityFuture)


class ReplayConcurrency(Context):
    """The concurrent operations of an `Execution`."""

    _run: Execution

    def go(self, coroutine: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        """See `Concurrency.go`."""
        if not inspect.iscoroutine(coroutine):
            hint = ": call the function, ctx.go(work(1))" if callable(coroutine) else ""
            raise Invalid(f"ctx.go needs a coroutine, not {type(coroutine).__name__}{hint}", field="coroutine")
        return self._run.loop.go(coroutine)

    def channel(self, capacity: int = 0) -> Channel[Any]:
        """See `Concurrency.channel`."""
        return Channel(capacity)

    async def select(self, *cases: Any, default: bool = False) -> SelectResult:
        """See `Concurrency.select`."""
        return await select(cases, default=default)

    def after(self, duration: Duration) -> Channel[datetime.datetime]:
        """See `Concurrency.after`."""
        return after(self._start_timer, self._time, duration)

    def timer(self, duration: Duration) -> Timer:
        """See `Concurrency.timer`."""
        return Timer(self._start_timer, self._time, duration)

    def ticker(self, period: Duration) -> Ticker:
        """See `Concurrency.ticker`."""
        return Ticker(self._start_timer, self._time, period)

    def _start_timer(self, microseconds: int, fire: Callable[[], None]) -> asyncio.TimerHandle:
        return self._run.loop.call_later(microseconds / SECOND, fire)

    def _time(self) -> Time:
        return self._run.commands.time

    def start_activity(self, activity: Callable[..., Any] | str, input: Any = None, **options: Any) -> StartedActivity:
        """See `Concurrency.start_activity`."""
        self._check_alive()
        name = self._run.app.name_of(activity, "activity")
        future = self._schedule(name, input, options, StartedActivity)
        future._channel = None
        future.decode = functools.partial(self._decode, annotation=self._activity_annotation(name), name=name)
        return future

    def gather(self, *awaitables: Awaitable[Any], return_exceptions: bool = False) -> Awaitable[list[Any]]:
        """See `Concurrency.gather`."""
        return asyncio.gather(*awaitables, return_exceptions=return_exceptions)

    def activities(self, options: Mapping[str, Any] | None = None, **keywords: Any) -> ActivityExecutor:
        """See `Concurrency.activities`."""
        return ActivityExecutor(self, checked(options, keywords))

    def saga(self) -> Saga:
        """See `Concurrency.saga`."""
        return Saga(self, self._run.app.is_activity, self._run.cancellation.interrupt)

    @abstractmethod
    def _schedule(self, name: str, input: Any, options: Mapping[str, Any], kind: type[Future]) -> Future: ...

    @abstractmethod
    def _check_alive(self) -> None: ...

    @abstractmethod
    def _decode(self, raw: Payload, annotation: Any, name: str) -> Any: ...

    @abstractmethod
    def _activity_annotation(self, name: str) -> Any: ...
