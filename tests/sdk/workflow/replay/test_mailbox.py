"""Signals wait for code that receives them, and code waits for signals; none is lost or received twice."""

import asyncio
import dataclasses
from typing import Any

import pytest

from assay.core.model import commands as cmd
from assay.core.model import events as ev
from assay.core.model.ids import Seq
from assay.core.model.payload import NULL, Payload
from assay.core.model.requests import FirstSignal
from assay.sdk.workflow.context import Context
from assay.sdk.workflow.replay.mailbox import Mailbox, ReceivedMessage
from tests.sdk.support import Trial, check_replay, payload, value_of


async def twice(ctx: Context) -> Any:
    return [await ctx.wait_for_signal("paid"), await ctx.wait_for_signal("paid")]


def test_late_signals_are_waited_for():
    trial = Trial(twice).signal("paid", 1).lose().signal("sent", 9).signal("paid", 2)
    assert trial.result == [1, 2]
    assert [command for command in trial.commands if isinstance(command, cmd.WaitForSignal)] == [
        cmd.WaitForSignal("paid")
    ] * 2
    check_replay(trial)


def test_early_signals_are_kept_in_order():
    async def workflow(ctx: Context) -> Any:
        await ctx.execute_activity("charge")
        return [await ctx.wait_for_signal(name) for name in ("paid", "sent", "paid")]

    trial = Trial(workflow).signal("paid", 1).signal("paid", 2).signal("sent", 3).lose().complete(1)
    assert trial.result == [1, 3, 2]
    assert not any(isinstance(command, cmd.WaitForSignal) for command in trial.commands)
    check_replay(trial)


def test_signals_of_the_start_come_first():
    signals = (FirstSignal("paid", payload("first")), FirstSignal("paid", payload("second")))
    trial = Trial(twice, signals=signals)
    assert trial.result == ["first", "second"]


def test_several_that_wait_are_served_in_the_order_in_which_they_came():
    async def workflow(ctx: Context) -> Any:
        return await asyncio.gather(*(ctx.wait_for_signal("paid") for _ in range(3)))

    trial = Trial(workflow).signal("paid", "a").lose().signal("paid", "b").signal("paid", "c")
    assert trial.result == ["a", "b", "c"]
    check_replay(trial)


def test_a_signal_without_payload_is_none_and_not_a_timeout():
    async def workflow(ctx: Context) -> Any:
        found = await ctx.wait_for_signal("paid", timeout="1m")
        await ctx.sleep(1)
        return [found, len(ctx.info().run_id)]

    trial = Trial(workflow).signal("paid")
    assert cmd.CancelTimer(1) in trial.commands
    trial.fire(2)
    assert trial.result[0] is None


@pytest.mark.parametrize("signal_first", [True, False])
def test_a_timed_wait_has_the_same_winner_on_replay(signal_first: bool):
    async def workflow(ctx: Context) -> Any:
        first = await ctx.wait_for_signal("paid", timeout=5)
        await ctx.execute_activity("tell", first)
        return [first, await ctx.wait_for_signal("paid", 5)]

    trial = Trial(workflow)
    with trial.together():
        if signal_first:
            trial.signal("paid", 1)
            trial.fire(1)
        else:
            trial.fire(1)
            trial.signal("paid", 1)
    trial.lose().complete(1)
    if signal_first:
        trial.fire(2)
    assert trial.result == ([1, None] if signal_first else [None, 1])
    check_replay(trial)


def test_the_wait_names_its_timer():
    async def workflow(ctx: Context) -> None:
        await ctx.wait_for_signal("paid", timeout=5)

    assert Trial(workflow).turn.commands == (cmd.ScheduleTimer(1, 5), cmd.WaitForSignal("paid", 1))


def test_a_wait_that_is_given_up_takes_no_signal():
    async def workflow(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(5):
                await ctx.wait_for_signal("paid")
        except TimeoutError:
            await ctx.execute_activity("remind")
        return await ctx.wait_for_signal("paid")

    trial = Trial(workflow).fire(1).signal("paid", "late").lose().complete(1)
    assert trial.result == "late"
    check_replay(trial)


def test_payloads_are_decoded_as_asked_for():
    @dataclasses.dataclass
    class Payment:
        amount: int

    async def workflow(ctx: Context) -> Any:
        paid = await ctx.wait_for_signal("paid", type=Payment)
        return paid.amount

    assert Trial(workflow).signal("paid", {"amount": 5}).result == 5
    assert "payload of signal 'paid'" in Trial(workflow).signal("paid", {"amount": "much"}).failure.message


# continue as new


def successor(trial: Trial) -> list[ev.Event]:
    assert isinstance(trial.closing, ev.WorkflowContinuedAsNew)
    assert trial.world.run.run_id == trial.closing.next_run_id
    return trial.world.history()


def test_continue_as_new_ends_the_run_and_begins_the_next():
    async def workflow(ctx: Context, number: int) -> None:
        await ctx.sleep(1)
        ctx.continue_as_new(number + 1, task_queue="other")

    trial = Trial(workflow, 5).fire(1)
    started, *rest = successor(trial)
    assert isinstance(started, ev.WorkflowStarted)
    assert started.start is not None
    assert (value_of(started.input), started.start.task_queue, rest) == (6, "other", [])
    check_replay(trial)


def test_signals_that_nobody_took_go_along_in_order():
    async def workflow(ctx: Context) -> None:
        await ctx.wait_for_signal("go")
        ctx.continue_as_new()

    trial = Trial(workflow).signal("b", 1).signal("a", 2).lose()
    with trial.together():
        trial.signal("go")
        trial.signal("b", 3)
    moved = [event for event in successor(trial) if isinstance(event, ev.SignalReceived)]
    assert [(event.signal, value_of(event.payload)) for event in moved] == [("b", 1), ("a", 2), ("b", 3)]


def test_signals_that_code_was_not_told_of_before_it_ended_go_along_too():
    """They came in the same batch: the code ends at the first, and the engine knows that this worker has seen all."""

    async def workflow(ctx: Context) -> None:
        await ctx.wait_for_signal("next")
        ctx.continue_as_new()

    trial = Trial(workflow)
    with trial.together():
        for number in range(3):
            trial.signal("next", number)
    moved = [value_of(event.payload) for event in successor(trial) if isinstance(event, ev.SignalReceived)]
    assert moved == [1, 2]


# the mailbox by itself


def received(seq: int, topic: str, content: Payload = NULL) -> ReceivedMessage:
    return ReceivedMessage(Seq(seq), 0, topic, content)


def test_a_mailbox_keeps_what_nobody_waits_for():
    box = Mailbox()
    first, other, last = received(3, "a", payload(1)), received(2, "b", payload(2)), received(5, "a")
    for item in (first, other, last):
        box.put(item)
    assert box.unread() == (2, 3, 5)
    assert [box.take("a"), box.take("a"), box.take("a")] == [first, last, None]
    assert box.unread() == (2,)


def test_an_inbox_takes_what_waits_in_order_and_a_wait_finds_it_there():
    box = Mailbox()
    for item in (received(3, "a"), received(2, "b"), received(5, "a")):
        box.put(item)
    inbox = box.open_inbox()
    assert [item.seq for item in inbox.unread] == [2, 3, 5]
    found = box.take("a")
    assert found is not None
    assert found.seq == 3
    assert [item.seq for item in inbox.unread] == [2, 5]


def test_unread_messages_of_a_closed_channel_are_placed_by_their_seqs():
    box = Mailbox()
    channel, inbox = box.listen("a", as_messages=False), box.open_inbox()
    for item in (received(2, "b"), received(3, "a"), received(4, "b"), received(5, "a")):
        box.put(item)
    assert box.unlisten(channel)
    assert [item.seq for item in inbox.unread] == [2, 3, 4, 5]
    assert channel.closed
    assert channel.unread == ()
    assert not box.unlisten(channel)
    assert not box.unlisten(inbox)


def test_a_mailbox_gives_a_message_to_the_first_that_still_waits():
    async def play() -> None:
        box, loop = Mailbox(), asyncio.get_running_loop()
        waits = [loop.create_task(box.wait("a", loop.create_future())) for _ in range(3)]
        await asyncio.sleep(0)
        waits[0].cancel()
        await asyncio.sleep(0)
        box.put(received(2, "a", payload(1)))
        assert await waits[1] == received(2, "a", payload(1))
        box.put(received(3, "a"))
        waits[2].cancel()  # it was given the message and had no chance to use it
        await asyncio.wait(waits)
        assert box.unread() == (3,)

    asyncio.run(play())


def test_a_wait_outlives_the_channel_of_its_topic():
    async def play() -> None:
        box, loop = Mailbox(), asyncio.get_running_loop()
        channel = box.listen("a", as_messages=False)
        waiting = loop.create_task(box.wait("a", loop.create_future()))
        await asyncio.sleep(0)
        assert box.unlisten(channel)
        box.put(received(2, "a"))
        assert await waiting == received(2, "a")

    asyncio.run(play())
