"""Sessions: code outside of workflows has a mailbox, replies and requests; on SQLite and Postgres, also over HTTP."""

import asyncio
from typing import Any

import pytest

from assay import Context, NotFound
from tests.http.message_workflows import app as messages
from tests.http.message_workflows import fresh, working


@messages.workflow
async def desk(ctx: Context) -> Any:
    """Answers requests by replies to their senders."""
    gone = []
    async for message in ctx.inbox():
        match message.topic:
            case "status":
                await ctx.send(message.from_, "status_response", {"asked": message.payload})
            case "many":
                for number in range(message.payload):
                    await ctx.send(message.from_, "number", number)
            case "silent":
                gone.append(message.from_)
            case "late":
                gone.append(await message.ok("too late"))
            case "leave":
                return gone


def test_a_session_sends_and_receives_replies(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("desk", workflow_id=fresh("desk"), task_queue="messages")
            async with client.session() as me:
                assert me.pid.startswith("mbx://main/")
                numbers, inbox = me.listen("number"), me.inbox()
                await me.send(handle.pid, "many", 20)
                assert [await numbers.receive() for _ in range(20)] == list(range(20))
                await me.send(handle, "status", 1)
                reply = await inbox.receive()
                assert (reply.topic, reply.payload, reply.from_) == ("status_response", {"asked": 1}, handle.pid)
                chosen = await me.select(numbers, me.after("10ms"))
                assert chosen.index == 1
                with pytest.raises(NotFound):
                    await me.send("wf://main/nobody", "x")
            await client.signal(handle.workflow_id, "leave")
            assert await handle.result() == []

    asyncio.run(play())


def test_a_request_gets_its_own_reply(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("desk", workflow_id=fresh("desk"), task_queue="messages")
            async with client.session() as me:
                ask = [me.request(handle, "status", n, reply="status_response", timeout="30s") for n in range(5)]
                assert await asyncio.gather(*ask) == [{"asked": n} for n in range(5)]
                with pytest.raises(TimeoutError):
                    await me.request(handle, "silent", reply="status_response", timeout="50ms")
            await client.signal(handle.workflow_id, "leave")
            assert "?re=6" in (await handle.result())[0]

    asyncio.run(play())


def test_two_sessions_write_to_each_other(url: str):
    async def play() -> None:
        async with working(url) as client, client.session() as one, client.session() as two:
            await one.send(two.pid, "hello", 1, 2)
            message = await two.inbox().receive()
            assert (message.args, message.from_) == ([1, 2], one.pid)
            assert await message.ok("back")
            assert await one.listen("ok").receive() == "back"

    asyncio.run(play())


def test_a_reply_to_a_session_that_has_ended_is_no_error(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("desk", workflow_id=fresh("desk"), task_queue="messages")
            async with client.session() as me:
                pid = me.pid
                await me.send(handle, "silent")
            async with client.session() as other:
                with pytest.raises(NotFound):
                    await other.send(pid, "x")
            await client.signal(handle.workflow_id, "leave")
            assert await handle.result() == [pid]

    asyncio.run(play())
