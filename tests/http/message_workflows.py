"""Workflows that send and receive messages, and a worker for them."""

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
