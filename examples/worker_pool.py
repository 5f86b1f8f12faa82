"""A pool of three tasks in one workflow: jobs go in by one channel, results come out by another.

    python -m examples.worker_pool

ASSAY_ENGINE_URL says where the engine is; without it, one runs here on the file worker_pool.db.
"""

import os

from assay import Channel, Context, workflow


@workflow.define
async def Pool(ctx: Context, jobs: list[int]) -> int:
    work: Channel[int] = ctx.channel()
    results: Channel[int] = ctx.channel(len(jobs))

    async def worker() -> None:
        async for job in work:  # ends when the channel is closed and empty
            await ctx.sleep(0.01)
            await results.send(job * 2)

    for _ in range(3):
        ctx.go(worker())
    for job in jobs:
        await work.send(job)
    work.close()
    return sum([await results.receive() for _ in jobs])


def main() -> None:
    workflow.connect(os.environ.get("ASSAY_ENGINE_URL", "sqlite://worker_pool.db"))
    print(f"the sum is {workflow.run(Pool, [1, 2, 3, 4, 5, 6])}")


if __name__ == "__main__":
    main()
