"""Random programs of tasks that talk: channels, select, timers, tickers, futures and sagas, checked as they run.

An operation that loses, doubles or reorders a value, or fires at a wrong time, raises `AssertionError`; so a run that
fails with one has found a bug of the runtime, not of its program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import strategies as st

from assay.core.model.errors import ActivityError, ChannelClosed, Failure
from tests.sdk.workflow.replay.interpreter import Interpreter, Program

SECONDS = st.sampled_from([1.0, 2.5, 60.0])


async def pool(self: Interpreter, capacity: int, *programs: Program) -> Any:
    """Two workers take jobs from a channel: each job is done once, and the channel ends closed and empty."""
    work, results = self.ctx.channel(capacity), self.ctx.channel(capacity)

    async def worker() -> None:
        async for number, program in work:
            await results.send([number, await self.attempt(program)])

    async def feed() -> None:
        for number, program in enumerate(programs):
            await work.send((number, program))
        work.close()

    for coroutine in (worker(), worker(), feed()):
        self.ctx.go(coroutine)
    found = [await results.receive() for _ in programs]
    assert sorted(number for number, _ in found) == list(range(len(programs)))
    ready = await self.ctx.select(work, default=True)
    assert (ready.default, ready.ok) == (False, False)
    return found


async def ordered(self: Interpreter, capacity: int, count: int) -> Any:
    """Values arrive in the order in which they were sent, and those that were sent before a close arrive."""
    values = self.ctx.channel(capacity)

    async def send() -> None:
        for number in range(count):
            await values.send(number)
            if number % 2:
                await self.ctx.sleep(1)
        values.close()

    self.ctx.go(send())
    found = []
    async for value in values:
        found.append(value)
        if value % 3 == 0:
            await self.ctx.sleep(1)  # meanwhile values wait in the channel, or senders before it
    assert found == list(range(count))
    try:
        await values.send(1)
    except ChannelClosed:
        return found
    raise AssertionError("a value was sent to a closed channel")


async def choose(self: Interpreter, seconds: float, *programs: Program) -> Any:
    """Results are selected from, each once and each channel until it closes, or until the time is over."""
    channels: list[Any] = [self.ctx.channel() for _ in programs]

    async def deliver(channel: Any, program: Program) -> None:
        await channel.send(await self.attempt(program))
        channel.close()

    for channel, program in zip(channels, programs, strict=True):
        self.ctx.go(deliver(channel, program))
    over, found = self.ctx.after(seconds), []
    while channels:
        taken = await self.ctx.select(*channels, over)
        if taken.channel is over:
            break
        assert channels[taken.index or 0] is taken.channel
        if not taken.ok:
            channels.remove(taken.channel)
        found.append([taken.index, taken.value, taken.ok])
        await self.ctx.sleep(1)  # meanwhile several cases may become ready
    assert sum(ok for _, _, ok in found) <= len(programs)
    assert len(channels) + sum(not ok for _, _, ok in found) == len(programs)
    return found


async def withdraw(self: Interpreter) -> Any:
    """The value of a receiver that is cancelled before it runs goes to the next one."""
    values = self.ctx.channel()
    first, second = self.ctx.go(values.receive()), self.ctx.go(values.receive())
    await self.ctx.sleep(1)
    await values.send("kept")
    first.cancel()
    found = await second
    assert found == "kept"
    assert first.cancelled()
    return found


async def offer(self: Interpreter, seconds: float) -> Any:
    """Of a send and a receive on two channels one is taken, and the other is withdrawn."""
    out, back = self.ctx.channel(), self.ctx.channel()

    async def other() -> None:
        await self.ctx.sleep(seconds)
        await back.send("back")

    self.ctx.go(other())
    taken = await self.ctx.select(out.case_send("out"), back)
    assert (taken.index, taken.value, taken.channel is back) == (1, "back", True)
    assert (await self.ctx.select(out, default=True)).default, "a withdrawn value was received"
    return taken.index


async def alarm(self: Interpreter, seconds: float, program: Program) -> Any:
    """A timer fires once when it was armed last, and never when it was stopped."""
    began = self.ctx.now()
    timer = self.ctx.timer("1h")
    assert timer.reset(seconds)
    fired = await timer.channel.receive()
    assert (fired - began).total_seconds() >= seconds
    assert not timer.stop()
    found = [timer.reset(seconds), await self.attempt(program)]
    stopped = timer.stop()
    ready = await self.ctx.select(timer.channel, self.ctx.after(seconds + 1))
    assert ready.index == (1 if stopped else 0)
    return [*found, stopped]


async def ticks(self: Interpreter, seconds: float, program: Program) -> Any:
    """A ticker fires at most once in each period, and not after it was stopped."""
    done, ticker, began = self.ctx.channel(1), self.ctx.ticker(seconds), self.ctx.now()

    async def work() -> None:
        await done.send(await self.attempt(program))

    self.ctx.go(work())
    periods: list[int] = []
    while True:
        taken = await self.ctx.select(done, ticker.channel)
        if taken.channel is done:
            break
        periods.append(int((taken.value - began).total_seconds() // seconds))
    ticker.stop()
    assert all(one < next for one, next in zip([0, *periods], periods, strict=False)), periods
    left = [tick async for tick in ticker.channel]
    assert len(left) <= 1
    await self.ctx.sleep(seconds)
    assert await ticker.channel.receive_ok() == (None, False)
    return [periods, taken.value]


async def futures(self: Interpreter, count: int, cancels: bool) -> Any:
    """Started activities give each result once, by channel and by await; a cancelled one gives none."""
    started = [self.ctx.start_activity("charge", self.state()) for _ in range(count)]
    if cancels:
        started[-1].cancel()
    found: list[Any] = [await future.channel().receive_ok() for future in started]
    for future, (value, ok) in zip(started, found, strict=True):
        assert await future.channel().receive_ok() == (None, False)
        if ok:
            assert await future == value
    ended = await self.ctx.gather(*started, return_exceptions=True)
    assert all(
        isinstance(one, asyncio.CancelledError | ActivityError)
        for one, (_, ok) in zip(ended, found, strict=True)
        if not ok
    )
    return found


async def intrude(self: Interpreter, seconds: float) -> Any:
    """The exception of an unawaited task is raised in the main coroutine, which then has never been cancelled."""
    task = asyncio.current_task()
    if task is None or task.get_name() != "Task-1" or self.ctx._run.cancellation.shields:  # type: ignore[attr-defined]
        return None

    async def fail() -> None:
        await self.ctx.sleep(seconds)
        raise Failure("beside")

    before = task.cancelling()
    self.ctx.go(fail())
    try:
        await self.ctx.channel().receive()  # for ever, which would be a deadlock
    except Failure as error:
        assert task.cancelling() == before
        return error.message
    raise AssertionError("the exception of a task was lost")


async def compensate(self: Interpreter, program: Program) -> Any:
    """Compensations run newest first, and all of them."""
    done: list[int] = []

    async def undo(number: int) -> None:
        await self.ctx.sleep(1)
        done.append(number)

    try:
        async with self.ctx.saga() as saga:
            for number in range(3):
                saga.add(undo, number)
            await self.execute(program)
            raise Failure("after all")
    except Exception:
        assert done == [2, 1, 0]
        raise


OPERATIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    function.__name__: function
    for function in (pool, ordered, choose, withdraw, offer, alarm, ticks, futures, intrude, compensate)
}
CAPACITIES = st.integers(0, 2)
LEAVES: tuple[st.SearchStrategy[Program], ...] = (
    st.tuples(st.just("ordered"), CAPACITIES, st.integers(1, 4)),
    st.tuples(st.just("withdraw")),
    st.tuples(st.just("offer"), SECONDS),
    st.tuples(st.just("futures"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("intrude"), SECONDS),
)


def branches(inner: st.SearchStrategy[Program]) -> tuple[st.SearchStrategy[Program], ...]:
    """Return operations over other programs."""
    several = st.lists(inner, min_size=2, max_size=3)
    return (
        st.tuples(CAPACITIES, several).map(lambda pair: ("pool", pair[0], *pair[1])),
        st.tuples(SECONDS, several).map(lambda pair: ("choose", pair[0], *pair[1])),
        st.tuples(SECONDS, inner).map(lambda pair: ("alarm", *pair)),
        st.tuples(SECONDS, inner).map(lambda pair: ("ticks", *pair)),
        inner.map(lambda part: ("attempt", ("compensate", part))),
    )
