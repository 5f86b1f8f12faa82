"""New code while runs are open: an order that was begun with the old code ends with it, new orders take the new way.

    python -m examples.versioned_deploy

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file versioned_deploy.db.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assay import DEFAULT_VERSION, App, Client, Context, Worker

QUEUE = f"shop-{uuid.uuid4().hex[:8]}"
CHANGE = f"courier-{QUEUE}"
"""The name of the change. Usually a constant text; here each run of the example has its own."""


def first_version() -> App:
    app = App(queue=QUEUE)

    @app.workflow(name="Order")
    async def order(ctx: Context) -> str:
        await ctx.wait_for_signal("paid")
        return "sent by post"

    return app


def second_version() -> App:
    app = App(queue=QUEUE)

    @app.workflow(name="Order")
    async def order(ctx: Context) -> str:
        # Orders that waited for their payment when this was deployed have version -1, for the rest of their lives.
        version = ctx.version(CHANGE, DEFAULT_VERSION, 1)
        await ctx.wait_for_signal("paid")
        return "sent by post" if version == DEFAULT_VERSION else "sent by courier"

    return app


@asynccontextmanager
async def deployed(client: Client, app: App) -> AsyncIterator[None]:
    worker = Worker(client, app=app)
    serving = asyncio.create_task(worker.run())
    yield
    worker.stop()
    await serving


async def waits(client: Client, name: str) -> None:
    waiting = None
    while waiting is None:
        await asyncio.sleep(0.01)
        waiting = (await client.describe(name))["waiting_on"]
    print(f"  {name.rpartition('.')[2]} waits for its payment")


async def main() -> None:
    url = os.environ.get("ASSAY_ENGINE_URL", "sqlite://versioned_deploy.db")
    first, second = (f"{QUEUE}.order-{number}" for number in (1, 2))
    async with await Client.connect(url, app=App(queue=QUEUE)) as client:
        print("deployed: the first version")
        async with deployed(client, first_version()):
            await client.start("Order", workflow_id=first)
            await waits(client, first)
        print("deployed: the second version, while order-1 is open")
        async with deployed(client, second_version()):
            await client.start("Order", workflow_id=second)
            await waits(client, second)
            for name in (first, second):
                await client.signal(name, "paid")
                print(f"  {name.rpartition('.')[2]}: {await client.result(name)}")
        found = [record.id.rpartition(".")[2] async for record in client.list(change_version=f"{CHANGE}:1")]
        print(f"runs with the change: {', '.join(found)}")


if __name__ == "__main__":
    asyncio.run(main())
