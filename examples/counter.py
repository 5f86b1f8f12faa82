"""A counter that answers: each update is accepted or rejected, and then completed with the new value.

    python -m examples.counter

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file counter.db.
"""

import asyncio
import os

from assay import App, Client, Context, Failure, Worker

app = App()


@app.workflow
async def Counter(ctx: Context, total: int) -> int:
    async def count() -> None:
        nonlocal total
        async for message in ctx.listen("increment", message=True):
            if not isinstance(message.payload, int):
                await message.nak("the amount must be a number")
                continue
            await message.ack()
            total += message.payload
            await message.ok(total)

    ctx.go(count())
    await ctx.wait_for_signal("finish")
    return total


async def main() -> None:
    async with await Client.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://counter.db"), app=app) as client:
        worker = Worker(client)
        serving = asyncio.create_task(worker.run())
        counter = await client.spawn(Counter, 0)
        for amount in (3, 4):
            print(f"plus {amount} is {await client.update(counter, 'increment', amount)}")
        try:
            await client.update(counter, "increment", "many")
        except Failure as refused:
            print(f"refused: {refused.message}")
        await counter.signal("finish")
        print(f"the end is {await counter.result()}")
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
