"""Calls that a type checker refuses: each marked line has a mistake, and no other line has one."""

from assay import ActivityContext, App, Client, Context, workflow

app = App()


@app.activity
async def price(ctx: ActivityContext, item: str) -> float:
    return 1.0


@app.activity
def charge(amount: int) -> str:
    return str(amount)


@app.workflow
async def Buy(ctx: Context, item: str) -> str:
    cost: str = await ctx.execute_activity(price, item)  # mistake: the result is a float
    await ctx.execute_activity(price, 3)  # mistake: the input is a text
    await ctx.execute_activity(charge, "3")  # mistake: the input is a number
    await ctx.execute_activity(price)  # mistake: the input is missing
    await ctx.execute_activity(price, item, max_atempts=3)  # mistake: a misspelt option
    await ctx.execute_activity(price, item, start_to_close=[1])  # mistake: no duration
    await ctx.exec(Buy, item, parent_close="terminate")  # mistake: a misspelt option
    return cost


async def main(client: Client) -> None:
    number: int = await client.run(Buy, "pen")  # mistake: the result is a text
    await client.run(Buy, 3)  # mistake: the input is a text
    await client.start(Buy, "pen", workflow_idd="one")  # mistake: a misspelt option
    await client.start(Buy, 4)  # mistake: the input is a text
    workflow.run(Buy, "pen", run_timeot="1h")  # mistake: a misspelt option
    assert number
