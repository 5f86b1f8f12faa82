"""Channels and select between tasks, on an ordinary loop: order, capacity, close, withdrawal, cancellation."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.core.model.errors import ChannelClosed, Invalid, Kind
from assay.sdk.workflow.channels import Channel, SelectResult, SourceChannel, select


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await scenario()

    return asyncio.run(main())


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def started(*coroutines: Any) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(coroutine) for coroutine in coroutines]


def test_a_rendezvous_send_waits_for_its_receiver():
    async def scenario() -> None:
        channel: Channel[int] = Channel()
        (sender,) = started(channel.send(1))
        await settle()
        assert not sender.done()
        assert await channel.receive() == 1
        await sender

    run(scenario)


def test_a_buffered_channel_takes_its_capacity_and_keeps_the_order():
    async def scenario() -> None:
        channel: Channel[int] = Channel(2)
        await channel.send(1)
        await channel.send(2)
        third, fourth = started(channel.send(3), channel.send(4))
        await settle()
        assert not third.done()
        assert await channel.receive() == 1  # the freed slot is refilled by the first blocked sender
        await settle()
        assert third.done()
        assert not fourth.done()
        assert [await channel.receive() for _ in range(3)] == [2, 3, 4]
        await fourth

    run(scenario)


def test_receivers_are_served_in_the_order_in_which_they_began_to_wait():
    async def scenario() -> None:
        channel: Channel[int] = Channel()
        receivers = started(*(channel.receive() for _ in range(3)))
        await settle()
        for value in (1, 2, 3):
            await channel.send(value)
        assert await asyncio.gather(*receivers) == [1, 2, 3]

    run(scenario)


def test_buffered_values_survive_a_close_and_then_the_channel_stays_closed():
    async def scenario() -> None:
        channel: Channel[int] = Channel(2)
        await channel.send(1)
        channel.close()
        channel.close()
        assert channel.closed
        assert await channel.receive_ok() == (1, True)
        assert await channel.receive_ok() == (None, False)
        with pytest.raises(ChannelClosed) as error:
            await channel.receive()
        assert error.value.kind is Kind.INVALID
        with pytest.raises(ChannelClosed):
            await channel.send(2)

    run(scenario)


def test_a_close_wakes_receivers_and_senders():
    async def scenario() -> None:
        empty: Channel[int] = Channel()
        full: Channel[int] = Channel()
        receivers = started(empty.receive_ok(), empty.receive())
        (sender,) = started(full.send(1))
        await settle()
        empty.close()
        full.close()
        assert await receivers[0] == (None, False)
        for task in (receivers[1], sender):
            with pytest.raises(ChannelClosed):
                await task

    run(scenario)


def test_iteration_ends_when_the_channel_is_closed_and_drained():
    async def scenario() -> None:
        channel: Channel[int] = Channel(3)
        for value in (1, 2, 3):
            await channel.send(value)
        channel.close()
        assert [value async for value in channel] == [1, 2, 3]

    run(scenario)


@pytest.mark.parametrize("capacity", [-1, 1.5, True, "2"])
def test_a_capacity_is_a_whole_number_from_zero_on(capacity: Any):
    with pytest.raises(Invalid, match="capacity"):
        Channel(capacity)


def test_select_takes_the_first_ready_case_in_the_order_of_declaration():
    async def scenario() -> None:
        first, second = Channel[int](1), Channel[int](1)
        await first.send(1)
        await second.send(2)
        assert await select([second, first]) == SelectResult(0, second, 2)
        assert await select([second, first.case_receive()]) == SelectResult(1, first, 1)

    run(scenario)


def test_a_waiting_select_takes_the_case_that_becomes_ready_first_and_leaves_the_others():
    async def scenario() -> None:
        first, second = Channel[int](), Channel[int](1)
        (waiting,) = started(select([first, second]))
        await settle()
        await second.send(2)  # handed over at once: the next send finds nobody in the queue of the other channel
        (late,) = started(first.send(1))
        assert await waiting == SelectResult(1, second, 2)
        assert not late.done()
        assert await first.receive() == 1
        assert await late is None

    run(scenario)


def test_select_sends():
    async def scenario() -> None:
        full, free = Channel[int](), Channel[int](1)
        assert await select([full.case_send(1), free.case_send(2)]) == SelectResult(1, free)
        (waiting,) = started(select([full.case_send(1), free.case_send(3)]))
        await settle()
        assert await full.receive() == 1
        assert await waiting == SelectResult(0, full)
        assert [await free.receive(), await select([free], default=True)] == [2, SelectResult(default=True)]

    run(scenario)


def test_select_with_a_default_does_not_wait():
    async def scenario() -> None:
        result = await select([Channel[int]()], default=True)
        assert (result.index, result.channel, result.value, result.ok, result.default) == (None, None, None, True, True)

    run(scenario)


def test_a_closed_channel_is_ready_without_a_value():
    async def scenario() -> None:
        closed, waiting_for = Channel[int](), Channel[int]()
        closed.close()
        assert await select([waiting_for, closed]) == SelectResult(1, closed, None, ok=False)
        (waiting,) = started(select([waiting_for]))
        await settle()
        waiting_for.close()
        assert await waiting == SelectResult(0, waiting_for, None, ok=False)

    run(scenario)


def test_a_send_case_of_a_closed_channel_raises():
    async def scenario() -> None:
        closed, full = Channel[int](), Channel[int]()
        closed.close()
        with pytest.raises(ChannelClosed):
            await select([closed.case_send(1)], default=True)
        (waiting,) = started(select([full.case_send(1)]))
        await settle()
        full.close()
        with pytest.raises(ChannelClosed):
            await waiting

    run(scenario)


class Timed:
    channel = 1


class Awaited:
    def channel(self) -> None: ...


@pytest.mark.parametrize(
    ("cases", "hint"),
    [([], "at least one"), ([5], "not int"), ([Timed()], r"its \.channel$"), ([Awaited()], r"its \.channel\(\)$")],
)
def test_anything_else_is_no_case(cases: list[Any], hint: str):
    with pytest.raises(Invalid, match=hint):
        run(lambda: select(cases))


def test_a_coroutine_is_no_case_and_leaves_no_warning():
    async def scenario() -> None:
        with pytest.raises(Invalid, match="not coroutine"):
            await select([Channel[int]().receive()])

    run(scenario)


def test_a_select_does_not_meet_itself():
    async def scenario() -> None:
        channel: Channel[int] = Channel()
        (waiting,) = started(select([channel.case_send(1), channel]))
        await settle()
        assert not waiting.done()
        await channel.send(2)
        assert await waiting == SelectResult(1, channel, 2)

    run(scenario)


def test_the_value_of_a_cancelled_receiver_goes_to_the_next_one():
    async def scenario() -> None:
        channel: Channel[int] = Channel()
        first, second = started(channel.receive(), channel.receive())
        await settle()
        await channel.send(1)
        first.cancel()  # it has the value, and has not run since
        assert await second == 1
        (third,) = started(select([channel]))
        await settle()
        await channel.send(2)
        third.cancel()
        await settle()
        assert third.cancelled()
        assert await channel.receive() == 2

    run(scenario)


def test_a_cancelled_waiter_leaves_its_queue():
    async def scenario() -> None:
        channel: Channel[int] = Channel()
        sender, receiver = started(channel.send(1), channel.send(2))
        await settle()
        sender.cancel()
        await settle()
        assert await channel.receive() == 2
        await receiver

    run(scenario)


def test_losing_cases_do_not_pile_up():
    async def scenario() -> None:
        quiet, busy = Channel[int](), Channel[int](1)
        for value in range(100):
            (waiting,) = started(select([quiet, busy]))
            await settle()
            await busy.send(value)
            await waiting
        assert len(quiet._receivers) == 0

    run(scenario)


def test_a_source_channel_is_only_received_from():
    async def scenario() -> None:
        source: SourceChannel[int] = SourceChannel("ctx.listen")
        for refused in (lambda: source.case_send(1), source.close):
            with pytest.raises(Invalid, match=r"ctx\.listen can only be received from"):
                refused()
        with pytest.raises(Invalid):
            await source.send(1)

    run(scenario)


def test_a_source_channel_converts_where_it_is_received():
    async def scenario() -> None:
        source: SourceChannel[int] = SourceChannel("ctx.listen", int)
        (waiting,) = started(source.receive())
        await settle()
        assert source.is_awaited
        for item in ("1", "2", "3", "bad", "5"):
            source.put(item)
        assert await waiting == 1
        assert not source.is_awaited
        assert (await select([source])).value == 2
        assert await source.receive_item() == ("3", True)
        with pytest.raises(ValueError, match="bad"):
            await source.receive()
        assert source.unread == ("5",)
        source.end()
        assert await source.receive_ok() == (5, True)
        assert await source.receive_ok() == (None, False)

    run(scenario)


def test_unread_items_of_a_source_channel_can_be_taken_away():
    source: SourceChannel[int] = SourceChannel("ctx.inbox")
    for item in range(6):
        source.put(item)
    assert source.take(lambda item: item % 2 == 0) == [0, 2, 4]
    assert source.unread == (1, 3, 5)
    assert source.take() == [1, 3, 5]
