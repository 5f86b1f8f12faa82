"""Messages between workflows: the same in a program and behind a server, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from assay import App, BlockingContext, Client, Context, Failure, Invalid, NotFound, Worker

SECONDS = 60
app = App(queue="messages")


async def refused(sending: Any) -> str:
    try:
        await sending
    except (Failure, Invalid, NotFound) as error:
        return f"{error.kind}"
    return "sent"


@app.workflow
async def collect(ctx: Context, count: int) -> Any:
    """Takes messages of all topics from the inbox."""
    found = []
    async for message in ctx.inbox():
        found.append([message.topic, message.payload, message.args, message.from_, message.at.tzinfo is not None])
        if len(found) == count:
            return found


@app.workflow
async def sender(ctx: Context, orders: list[Any]) -> Any:
    """Sends messages, each after the outcome of the one before."""
    return [await refused(ctx.send(to, topic, *args)) for to, topic, *args in orders]


@app.workflow
async def burst(ctx: Context, order: dict[str, Any]) -> Any:
    """Sends many messages in one turn."""
    sends = [ctx.go(ctx.send(order["to"], "n", number)) for number in range(order["count"])]
    return sum(await ctx.gather(*sends))


@app.workflow
async def monologue(ctx: Context) -> Any:
    sent = await ctx.send(ctx.pid, "note", {"to": "self"})
    message = await ctx.inbox().receive()
    return [sent, message.topic, message.payload, message.from_ == ctx.pid]


@app.workflow
async def router(ctx: Context) -> Any:
    """Listens, stops to listen, and reads what is left elsewhere."""
    first = await ctx.wait_for_signal("go")
    orders, inbox = ctx.listen("order"), ctx.inbox()
    found: list[Any] = [first, await orders.receive(), (await inbox.receive()).topic]
    assert ctx.listen("order") is orders
    assert ctx.inbox() is inbox
    ctx.unlisten(orders)
    left = await inbox.receive()
    found += [[left.topic, left.payload], await orders.receive_ok()]
    found.append(await ctx.wait_for_signal("late"))
    try:
        ctx.unlisten(orders)
    except Invalid:
        found.append("invalid")
    return found


@app.workflow
async def counter(ctx: Context, total: int) -> Any:
    """Replies to the sender of each message."""

    async def increment() -> None:
        nonlocal total
        async for message in ctx.listen("increment", message=True):
            if not isinstance(message.payload, int):
                await message.nak("not a number")
                continue
            await message.ack()
            total += message.payload
            await message.ok({"value": total})

    ctx.go(increment())
    last = await ctx.listen("finish", message=True).receive()
    return {"final": total, "replied": await last.ok()}


@app.workflow
async def customer(ctx: Context, order: dict[str, Any]) -> Any:
    replies = ctx.inbox()
    found = []
    for amount in order["amounts"]:
        await ctx.send(order["to"], "increment", amount)
        while True:
            reply = await replies.receive()
            found.append([reply.topic, reply.payload])
            if reply.topic != "ack":
                break
    await ctx.send(order["to"], "finish")
    return found


@app.workflow
def clerk(ctx: BlockingContext, order: dict[str, Any]) -> Any:
    """The same verbs, blocking."""
    ctx.send(order["to"], "increment", 5)
    replies = ctx.inbox()
    kinds = [replies.receive().topic for _ in range(2)]
    listened = ctx.listen("increment", message=True)
    ctx.send(ctx.pid, "increment", 1)
    own = listened.receive()
    kinds.append([own.payload, own.ok("mine"), replies.receive().payload])
    ctx.unlisten(listened)
    ctx.send(order["to"], "finish")
    return kinds


@app.workflow
async def relay(ctx: Context, order: dict[str, Any]) -> Any:
    """Continues as new while messages arrive, and forwards the numbers that it has taken."""
    numbers = ctx.listen("n")
    found = order["found"]
    while len(found) < order["count"]:
        found.append(await numbers.receive())
        if len(found) % 3 == 0:
            ctx.continue_as_new({**order, "found": found})
    return found


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def address(workflow_id: str) -> str:
    return f"wf://main/{workflow_id}"


@asynccontextmanager
async def working(url: str) -> AsyncIterator[Client]:
    async with asyncio.timeout(SECONDS), await Client.connect(url) as client:
        worker = Worker(client, app=app)
        serving = asyncio.create_task(worker.run())
        try:
            yield client
        finally:
            worker.stop()
            await serving


def test_a_message_reaches_another_workflow_with_its_sender(url: str):
    async def play() -> None:
        async with working(url) as client:
            shop, name = fresh("shop"), fresh("sender")
            taken = await client.start("collect", 3, workflow_id=shop, task_queue="messages")
            orders = [[address(shop), "none"], [address(shop), "one", {"n": 1}], [address(shop), "two", 1, "b"]]
            sent = await client.run("sender", orders, workflow_id=name, task_queue="messages")
            assert sent == ["sent", "sent", "sent"]
            assert await taken.result() == [
                ["none", None, [], address(name), True],
                ["one", {"n": 1}, [{"n": 1}], address(name), True],
                ["two", [1, "b"], [1, "b"], address(name), True],
            ]

    asyncio.run(play())


def test_a_message_to_a_missing_target_or_a_reserved_topic_is_refused(url: str):
    async def play() -> None:
        async with working(url) as client:
            ended = fresh("ended")
            await client.run("sender", [], workflow_id=ended, task_queue="messages")
            orders = [
                [address(fresh("nobody")), "x"],
                [address(ended), "x"],
                ["wf://no-such-namespace/x", "x"],
                ["no address", "x"],
                [address(ended), "@exit"],
                [address(ended), ""],
            ]
            kinds = await client.run("sender", orders, task_queue="messages")
            assert kinds == ["NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "INVALID", "INVALID"]

    asyncio.run(play())


def test_messages_of_one_turn_arrive_in_order(url: str):
    async def play() -> None:
        async with working(url) as client:
            shop = fresh("shop")
            taken = await client.start("collect", 300, workflow_id=shop, task_queue="messages")
            order = {"to": address(shop), "count": 300}
            assert await client.run("burst", order, task_queue="messages") == 300
            assert [message[1] for message in await taken.result()] == list(range(300))

    asyncio.run(play())


def test_a_workflow_sends_to_itself(url: str):
    async def play() -> None:
        async with working(url) as client:
            assert await client.run("monologue", task_queue="messages") == [True, "note", {"to": "self"}, True]

    asyncio.run(play())


def test_messages_are_routed_to_the_listener_the_inbox_or_a_wait(url: str):
    async def play() -> None:
        async with working(url) as client:
            handle = await client.start("router", workflow_id=fresh("router"), task_queue="messages")
            for topic, payload in (("order", 1), ("other", 2), ("go", 0), ("order", 3), ("late", 4)):
                await client.signal(handle.workflow_id, topic, payload)
            found = await handle.result()
            assert found == [0, 1, "other", ["order", 3], [None, False], 4, "invalid"]

    asyncio.run(play())


def test_replies_go_to_the_sender_of_a_message(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 10, workflow_id=name, task_queue="messages")
            order = {"to": address(name), "amounts": [1, "many", 2]}
            found = await client.run("customer", order, task_queue="messages")
            ok = [["ack", None], ["ok", {"value": 11}], ["nak", "not a number"], ["ack", None], ["ok", {"value": 13}]]
            assert found == ok
            assert (await counted.result())["final"] == 13

    asyncio.run(play())


def test_a_reply_to_nobody_is_no_error(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 0, workflow_id=name, task_queue="messages")
            await client.signal(name, "increment", 1)
            await client.signal(name, "finish")
            assert await counted.result() == {"final": 1, "replied": False}

    asyncio.run(play())


def test_a_blocking_workflow_has_the_same_verbs(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("counter")
            counted = await client.start("counter", 0, workflow_id=name, task_queue="messages")
            found = await client.run("clerk", {"to": address(name)}, task_queue="messages")
            assert found == ["ack", "ok", [1, True, "mine"]]
            assert (await counted.result())["final"] == 5

    asyncio.run(play())


def test_no_message_is_lost_or_doubled_by_continue_as_new(url: str):
    async def play() -> None:
        async with working(url) as client:
            name = fresh("relay")
            relayed = await client.start("relay", {"count": 100, "found": []}, workflow_id=name, task_queue="messages")
            assert await client.run("burst", {"to": address(name), "count": 100}, task_queue="messages") == 100
            assert await relayed.result() == list(range(100))

    asyncio.run(play())
