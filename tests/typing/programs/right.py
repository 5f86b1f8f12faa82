"""Calls that a type checker accepts, and the types of their results."""

from dataclasses import dataclass
from typing import Any, assert_type

import assay
from assay import ActivityContext, App, BlockingContext, Client, Context, workflow

app = App()


@dataclass
class Order:
    item: str
    count: int = 1


@app.activity
async def price(ctx: ActivityContext, order: Order) -> float:
    return 1.0


@app.activity
def charge(order: Order) -> str:
    return order.item


@app.activity(name="tidy", runs_in="thread")
def tidy_up() -> None: ...


@app.activity
def added(left: int, right: int) -> int:
    return left + right


@app.workflow
async def Buy(ctx: Context, order: Order) -> str:
    assert_type(await ctx.execute_activity(price, order), float)
    assert_type(await ctx.execute_activity(charge, order, max_attempts=3, start_to_close="5m"), str)
    await ctx.execute_activity(tidy_up)
    assert_type(await ctx.execute_activity(added, args=[1, 2]), int)
    assert_type(await ctx.execute_activity("elsewhere", {"any": "thing"}), Any)
    assert_type(await ctx.run("count", added, 1, 2), int)
    child = await ctx.spawn(Wait, 3)
    assert_type(await child.result(), bool)
    assert_type(await ctx.exec(Wait, 3), bool)
    return "done"


@app.workflow
async def Wait(ctx: Context, seconds: int = 1) -> bool:
    return True


@app.workflow
def Plain(ctx: BlockingContext, order: Order) -> int:
    assert_type(ctx.execute_activity(price, order), float)
    assert_type(ctx.execute_activity(charge, order), str)
    return 1


async def main(client: Client) -> None:
    assert_type(await client.run(Buy, Order("pen"), workflow_id="one", run_timeout="1h"), str)
    assert_type(await client.run(Wait), bool)
    assert_type(await client.run(Wait, 5), bool)
    assert_type(await client.run(Plain, Order("pen")), int)
    assert_type(await client.run("ByName", {"any": "thing"}), Any)
    assert_type(await client.run(workflow_type=Buy, input=Order("pen")), Any)
    handle = await client.start(Buy, Order("pen"))
    assert_type(handle, assay.Handle[str])
    assert_type(await handle.result(), str)
    assert_type(workflow.run(Buy, Order("pen")), str)
