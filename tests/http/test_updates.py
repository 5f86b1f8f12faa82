"""Updates: the caller waits until the workflow accepts, rejects or answers; on SQLite and Postgres, also over HTTP."""

import asyncio
from typing import Any

import pytest

from assay import BlockingContext, Context, Failure, Invalid, NotFound
from tests.http.message_workflows import app as messages
from tests.http.message_workflows import fresh, working

SHORT = "100ms"


@messages.workflow
async def account(ctx: Context, balance: int) -> Any:
    """Accepts, rejects, completes and fails updates."""
    async for message in ctx.inbox():
        match message.topic:
            case "add" if isinstance(message.payload, int):
                await message.ack()
                balance += message.payload
                await message.ok({"balance": balance})
            case "add":
                await message.nak("not a number")
            case "break":
                await ctx.send(message.from_, "ack")
                await ctx.send(message.from_, "error", "broken")
            case "wrong":
                refused = []
                for topic in ("ok", "other"):
                    try:
                        await ctx.send(message.from_, topic)
                    except Invalid:
                        refused.append(topic)
                await message.ack()
                try:
                    await message.nak()
                except Invalid:
                    refused.append("nak")
                await message.ok(refused)
            case "hang":
                await message.ack()
            case "leave":
                return balance


@messages.workflow
def teller(ctx: BlockingContext) -> Any:
    message = ctx.listen("add", message=True).receive()
    message.ack()
    message.ok([message.args, message.from_ is not None])
    return "done"


@messages.workflow
async def plain(ctx: Context) -> Any:
    """Takes updates as payloads."""
    first = await ctx.wait_for_signal("a")
    return [first, await ctx.listen("b").receive()]


@messages.workflow
async def restless(ctx: Context, again: bool) -> Any:
    """Continues as new with an update that nobody has taken."""
    await ctx.wait_for_signal("go")
    if again:
        ctx.continue_as_new(False)
    message = await ctx.listen("late", message=True).receive()
    await message.ack()
    await message.ok("from the next run")


async def failed(updating: Any) -> tuple[str, str]:
    with pytest.raises(Failure) as caught:
        await updating
    return str(caught.value.kind), caught.value.message


def test_an_update_is_answered(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("account", 5, workflow_id=fresh("account"), task_queue="messages")
            assert await client.update(handle, "add", 3) == {"balance": 8}
            assert await client.update(handle.pid, "add", 1, timeout="30s") == {"balance": 9}
            assert await failed(client.update(handle.workflow_id, "add", "x")) == ("INVALID", "not a number")
            assert await failed(client.update(handle, "break")) == ("INTERNAL", "broken")
            assert await client.update(handle, "wrong") == ["ok", "other", "nak"]
            await client.signal(handle.workflow_id, "leave")
            assert await handle.result() == 9

    asyncio.run(play())


def test_an_update_id_is_one_update(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("account", 0, workflow_id=fresh("account"), task_queue="messages")
            calls = [client.update(handle, "add", 7, update_id="same") for _ in range(5)]
            assert await asyncio.gather(*calls) == [{"balance": 7}] * 5
            await client.signal(handle.workflow_id, "leave")
            assert await handle.result() == 7
            # Also after the run has closed.
            assert await client.update(handle, "add", 7, update_id="same") == {"balance": 7}
            with pytest.raises(NotFound):
                await client.update(handle, "add", 7)

    asyncio.run(play())


def test_an_update_fails_with_the_end_of_its_run(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("account", 0, workflow_id=fresh("account"), task_queue="messages")
            with pytest.raises(TimeoutError):
                await client.update(handle, "hang", update_id="hangs", timeout=SHORT)
            waiting = asyncio.create_task(client.update(handle, "hang", update_id="hangs"))
            await client.signal(handle.workflow_id, "leave")
            assert await failed(waiting) == ("CANCELED", "the workflow ended before it answered")

    asyncio.run(play())


def test_an_update_that_no_code_has_taken_is_not_found_after_the_end(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("restless", False, workflow_id=fresh("restless"), task_queue="messages")
            waiting = asyncio.create_task(client.update(handle, "unheard"))
            while not [event for event in await client.get_events(handle.workflow_id) if "Update" in event.event_type]:
                await asyncio.sleep(0.01)
            await client.terminate(handle.workflow_id)
            with pytest.raises(NotFound):
                await waiting

    asyncio.run(play())


def test_an_update_goes_along_to_the_next_run(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("restless", True, workflow_id=fresh("restless"), task_queue="messages")
            waiting = asyncio.create_task(client.update(handle, "late", update_id="late"))
            while not [event for event in await client.get_events(handle.workflow_id) if "Update" in event.event_type]:
                await asyncio.sleep(0.01)
            await client.signal(handle.workflow_id, "go")
            await client.signal(handle.workflow_id, "go")
            assert await waiting == "from the next run"

    asyncio.run(play())


def test_an_update_taken_as_a_payload_is_completed_with_null(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("plain", workflow_id=fresh("plain"), task_queue="messages")
            assert await client.update(handle, "a", 1) is None
            assert await client.update(handle, "b", 2, 3) is None
            assert await handle.result() == [1, [2, 3]]

    asyncio.run(play())


def test_a_blocking_workflow_answers_updates(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("teller", workflow_id=fresh("teller"), task_queue="messages")
            assert await client.update(handle, "add", 1, 2) == [[1, 2], True]

    asyncio.run(play())


def test_an_update_ends_a_start_delay(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("teller")
            handle = await client.start("teller", workflow_id=name, task_queue="messages", start_delay="1h")
            assert await client.update(handle, "add", 1) == [[1], True]

    asyncio.run(play())
