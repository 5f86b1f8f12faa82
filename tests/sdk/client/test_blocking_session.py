"""Messages of programs without asyncio: spawn, exec, update, send, and a session in a `with` block."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay import ChannelClosed, Failure, Invalid, NotFound, workflow


@workflow.define
async def Adder(ctx, total, step=1):
    adds, finish = ctx.listen("add", message=True), ctx.listen("finish")
    while (ready := await ctx.select(adds, finish)).channel is adds:
        message = ready.value
        if not isinstance(message.payload, int):
            await message.nak("not a number")
            continue
        await message.ack()
        total += message.payload * step
        await message.ok(total)
    return total


@workflow.define
async def Caller(ctx, address):
    await ctx.send(address, "question", "how many")
    return (await ctx.inbox().receive()).payload


@pytest.fixture(autouse=True)
def served(tmp_path: Path) -> Iterator[None]:
    workflow.connect(f"sqlite://{tmp_path}/engine.db")
    serving = threading.Thread(target=workflow.listen, daemon=True)
    serving.start()
    yield
    workflow.close()
    serving.join(10)


def test_a_spawned_workflow_takes_updates_and_messages():
    adder = workflow.spawn(Adder, 1, 10, id="adder")
    assert (adder.started, workflow.spawn(Adder, 1, name="adder").started) == (True, False)
    assert workflow.update(adder, "add", 2) == 21
    assert workflow.update("adder", "add", 1, update_id="u-1", timeout="30s") == 31
    assert workflow.update(adder.pid, "add", 1, update_id="u-1") == 31
    with pytest.raises(Failure, match="not a number"):
        workflow.update(adder, "add", "many")
    assert workflow.send(adder, "add", 4)
    assert workflow.send(adder.pid, "finish")
    assert workflow.result("adder") == 71
    with pytest.raises(NotFound):
        workflow.send(adder, "add", 1)
    with pytest.raises(Invalid):
        workflow.send(7, "add")


def test_exec_waits_for_the_result():
    assert workflow.exec(Adder, 5, messages=[{"name": "finish"}]) == 5


def test_a_session_sends_and_receives():
    adder = workflow.spawn(Adder, 0)
    with workflow.session() as me:
        assert me.pid.startswith("mbx://main/")
        assert me.request(adder, "add", 3, reply="ok", timeout="30s") == 3
        with pytest.raises(TimeoutError):
            me.request(adder, "add", 3, reply="never", timeout=0.01)
        sums, late = me.listen("ok"), me.after(30)
        me.send(adder, "add", 4)
        taken = me.select(sums, late)
        assert (taken.channel is sums, taken.ok) == (True, True)
        assert me.select(me.listen("nothing"), default=True).default
        me.unlisten(sums)
        with pytest.raises(ChannelClosed):
            sums.receive()
        assert list(sums) == []
        with pytest.raises(Invalid):
            me.select("no channel")
    with pytest.raises(NotFound):
        workflow.send(me.pid, "late")


def test_a_message_to_a_session_is_answered():
    with workflow.session(id="desk") as me:
        caller = workflow.spawn(Caller, me.pid)
        message = me.inbox().receive()
        assert (message.topic, message.payload) == ("question", "how many")
        assert message.ok(42) is True
        assert workflow.result(caller.workflow_id) == 42
