"""Two versions of a program that differ in the inputs of their calls, served one after the other.

As a program, `python -m tests.embedded.deployments URL NAME UNTIL` serves one whose calls are in the order of a set,
until the record of the run has a value under UNTIL, and prints that value.
"""

import asyncio
import json
import sys
import uuid
from typing import Any

from assay import App, Client, Context, Worker

SHOPS = ("rome", "bern", "kyiv", "oslo", "lima", "bonn", "riga", "cork")
BACKOFF_SECONDS = 30


def deployment(kind: str, shops: list[str], queue: str) -> App:
    """Prices of shops, in this order; then a wait for a signal."""
    app = App(queue=queue)

    @app.activity
    async def price(shop: str) -> str:
        return f"price of {shop}"

    @app.workflow
    async def Price(_: Context, shop: str) -> str:
        return f"price of {shop}"

    async def call(ctx: Context, place: int, shop: str) -> Any:
        if kind == "activity":
            return await ctx.execute_activity(price, shop)
        if kind == "step":
            return await ctx.run("price", price, shop)
        return await ctx.start_child_workflow(Price, workflow_id=f"{ctx.workflow_id}.{place}", input=shop)

    @app.workflow
    async def Prices(ctx: Context) -> dict[str, str]:
        found = {shop: await call(ctx, place, shop) for place, shop in enumerate(shops)}
        await ctx.wait_for_signal("go")
        return found

    return app


def found(record: Any, until: str) -> Any:
    return record[until] if until != "waiting_on" else (record[until] or {}).get("signal")


async def served(client: Client, app: App, workflow_id: str, until: str) -> Any:
    """Serve with one version until the record has a value there, or the run waits for a signal; return the value."""
    worker = Worker(client, app=app)
    serving = asyncio.create_task(worker.run())
    while not (value := found(await client.describe(workflow_id), until)):
        await asyncio.sleep(0.01)
    worker.stop()
    await serving
    return value


async def exchange(client: Client, kind: str) -> None:
    """Swap two calls while a run is open: it is stuck, and goes on with the code of before."""
    workflow_id = f"prices-{uuid.uuid4().hex[:8]}"
    before, after = (deployment(kind, shops, workflow_id) for shops in (["A", "B"], ["B", "A"]))
    await client.start("Prices", workflow_id=workflow_id, task_queue=workflow_id)
    await served(client, before, workflow_id, "waiting_on")
    await client.signal(workflow_id, "go")
    stuck = await served(client, after, workflow_id, "stuck")
    assert stuck["reason"] == "non_determinism"
    assert f", which is the input of {kind} 2. The run goes on" in stuck["message"]
    async with asyncio.timeout(BACKOFF_SECONDS):
        result = await served(client, before, workflow_id, "result")
    assert result == {"A": "price of A", "B": "price of B"}


async def hashes(client: Client, kind: str) -> list[str]:
    """The hashes that the events of a run show to clients."""
    workflow_id = f"prices-{uuid.uuid4().hex[:8]}"
    await client.start("Prices", workflow_id=workflow_id, task_queue=workflow_id)
    await served(client, deployment(kind, ["A", "B"], workflow_id), workflow_id, "waiting_on")
    payloads = [event["payload"] for event in await client.get_events(workflow_id)]
    return [payload["input_hash"] for payload in payloads if isinstance(payload, dict) and "input_hash" in payload]


async def main(url: str, workflow_id: str, until: str) -> None:
    app = deployment("activity", list(set(SHOPS)), workflow_id)
    async with await Client.connect(url, app=app) as client:
        if until == "waiting_on":
            await client.start("Prices", workflow_id=workflow_id, task_queue=workflow_id)
        else:
            await client.signal(workflow_id, "go")
        print(json.dumps(await served(client, app, workflow_id, until)))  # noqa: T201  # its result


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
