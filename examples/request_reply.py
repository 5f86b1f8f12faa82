"""Requests to a workflow, and its replies: a program has a session, whose mailbox receives what the workflow sends.

    python -m examples.request_reply

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file request_reply.db.
"""

import asyncio
import os

from assay import App, Client, Context, Worker

app = App()


@app.workflow
async def Shop(ctx: Context, prices: dict[str, int]) -> int:
    questions, closing = ctx.listen("price", message=True), ctx.listen("close")
    answered = 0
    while (ready := await ctx.select(questions, closing)).channel is questions:
        question = ready.value
        await ctx.send(question.from_, "price_reply", prices.get(question.payload))
        answered += 1
    return answered


async def main() -> None:
    url = os.environ.get("ASSAY_ENGINE_URL", "sqlite://request_reply.db")
    async with await Client.connect(url, app=app) as client:
        worker = Worker(client)
        serving = asyncio.create_task(worker.run())
        shop = await client.spawn(Shop, {"apple": 2, "pear": 3})
        async with client.session() as me:
            for fruit in ("apple", "pear", "mango"):
                price = await me.request(shop, "price", fruit, reply="price_reply", timeout="30s")
                print(f"{fruit}: {'not sold' if price is None else price}")
            await me.send(shop, "close")
        print(f"{await shop.result()} questions answered")
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
