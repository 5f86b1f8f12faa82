"""Jobs by message: each message spawns a child, and the ends of the children arrive as events.

    python -m examples.jobs

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file jobs.db.
"""

import asyncio
import logging
import os

from assay import App, Client, Context, Worker

app = App()


@app.workflow
async def Job(ctx: Context, number: int) -> int:
    await ctx.sleep(0.02)
    if number == 13:
        raise ValueError("this number brings bad luck")
    return number * number


@app.workflow
async def JobServer(ctx: Context) -> list[str]:
    jobs, stop, events = ctx.listen("job"), ctx.listen("stop"), ctx.events()
    running: dict[str, int] = {}
    found: list[str] = []
    is_stopping = False
    while running or not is_stopping:
        # Jobs come first in this list: a job that was sent before the stop is done.
        ready = await ctx.select(jobs, stop, events)
        if ready.channel is jobs:
            child = await ctx.spawn(Job, ready.value)
            running[child.pid] = ready.value
        elif ready.channel is stop:
            is_stopping = True
        else:
            ended = ready.value
            number = running.pop(ended.from_)
            found.append(f"job {number}: {ended.error.message if ended.error else ended.value}")
    return sorted(found)


async def main() -> None:
    logging.getLogger("assay.worker").setLevel(logging.CRITICAL)  # the failures of this example are intended
    async with await Client.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://jobs.db"), app=app) as client:
        worker = Worker(client)
        serving = asyncio.create_task(worker.run())
        server = await client.start(JobServer)
        for number in (2, 3, 13):
            await server.signal("job", number)
        await server.signal("stop")
        for line in await server.result():
            print(line)
        worker.stop()
        await serving


if __name__ == "__main__":
    asyncio.run(main())
