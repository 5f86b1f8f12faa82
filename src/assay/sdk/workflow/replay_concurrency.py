"""Tasks, channels and time of a workflow over the replay loop; a part of `ReplayContext`."""

import asyncio
import datetime
import inspect
from collections.abc import Coroutine
from typing import Any

from assay.core.model.duration import parse_duration
from assay.core.model.errors import Invalid
from assay.core.model.ids import SECOND
from assay.sdk.workflow.channels import Channel, SelectResult, SourceChannel, select
from assay.sdk.workflow.concurrency import Concurrency, Duration, Result
from assay.sdk.workflow.replay.runtime import Execution


class ReplayConcurrency(Concurrency):
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
        microseconds = parse_duration(duration, "duration")
        channel: SourceChannel[datetime.datetime] = SourceChannel("ctx.after")
        if microseconds:
            self._run.loop.call_later(microseconds / SECOND, lambda: channel.put(moment(self._run.commands.time)))
        else:
            channel.put(moment(self._run.commands.time))
        return channel


def moment(time: int) -> datetime.datetime:
    """Return a recorded time, as workflow code receives it."""
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=time)
