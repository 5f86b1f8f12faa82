"""Two workflows that send messages to each other, by address.

    python -m examples.ping_pong

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file ping_pong.db.
"""

import asyncio
import os

from assay import App, Client, Context, Worker

app = App()


@app.workflow
async def Pong(ctx: Context) -> int:
    pings, stop = ctx.listen("ping", message=True), ctx.listen("stop")
    count = 0
    while (ready := await ctx.select(pings, stop)).channel is pings:
        count += 1
        await ctx.send(ready.value.from_, "pong", ready.value.payload)
    return count


@app.workflow
async def Ping(ctx: Context, partner: str, rounds: int) -> list[str]:
    pongs = ctx.listen("pong")
    heard = []
    for number in range(1, rounds + 1):
        await ctx.send(partner, "ping", number)
        heard.append(f"ping {number}, pong {await pongs.receive()}")
    await ctx.send(partner, "stop")
    return heard


async def main() -> None:
    async with await Client.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://ping_pong.db"), app=app) as client:
        worker = Worker(client)
        serving = asyncio.create_task(worker.run())
        pong = await client.spawn(Pong)
        for line in await client.exec(Ping, pong.pid, 3):
            print(line)
        print(f"{await pong.result()} pings answered")
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
