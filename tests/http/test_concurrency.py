"""Channels, select, timers, futures and sagas: the same in a program and behind a server, on SQLite and on Postgres."""

import asyncio
import uuid
from typing import Any

import assay
from assay import App, Client
from tests.http.scenarios import on, serving


def deployment(queue: str) -> App:
    app = App(queue=queue)

    @app.activity
    def double(number: int) -> int:
        return number * 2

    @app.activity
    def refuse(reason: str) -> None:
        raise assay.Failure(reason, kind="CONFLICT", retryable=False)

    @app.workflow
    async def Waiting(ctx: assay.Context) -> Any:
        work, results = ctx.channel(), ctx.channel(3)

        async def worker() -> None:
            async for job in work:
                await results.send(await ctx.execute_activity(double, job))

        for _ in range(2):
            ctx.go(worker())
        for job in range(5):
            await work.send(job)
        work.close()
        found = [sorted([await results.receive() for _ in range(5)])]
        timer, ticker, future = ctx.timer("1h"), ctx.ticker("20ms"), ctx.start_activity(double, 21)
        taken = await ctx.select(timer.channel, future.channel())
        ticks = [await ticker.channel.receive() for _ in range(2)]
        ticker.stop()
        found.append([taken.index, taken.value, timer.stop(), ticks[0] < ticks[1], len(await ctx.random_bytes(4))])
        async with ctx.saga() as saga:
            saga.add(double, 1)
            await ctx.activities(max_attempts=1).call(refuse, f"{found}")
        return found

    @app.workflow
    def Blocking(ctx: assay.BlockingContext) -> Any:
        values = ctx.channel()

        def feed(count: int) -> str:
            for number in range(count):
                values.send(ctx.execute_activity(double, number))
            values.close()
            return "fed"

        task = ctx.go(feed, 3)
        found: list[Any] = list(values)
        ticker = ctx.ticker("10ms")
        taken = ctx.select(ctx.after("1h"), ticker.channel)
        ticker.stop()
        found.append([task.result(), taken.index, ctx.gather(ctx.start_activity(double, 4))])
        with ctx.saga() as saga:
            saga.add(double, 1)
            ctx.execute_activity(refuse, f"{found}")
        return found

    return app


def test_tasks_that_talk(url: str):
    queue = f"q-{uuid.uuid4().hex}"

    async def outcome(client: Client, workflow: str) -> list[Any]:
        name = f"{workflow}-{queue}"
        try:
            await client.run(workflow, workflow_id=name, task_queue=queue)
        except assay.WorkflowFailed as error:
            compensated = [event for event in await client.get_events(name) if event.event_type == "ActivityCompleted"]
            return [error.kind, error.message, len(compensated)]
        raise AssertionError("the refusal was lost")

    async def scenario(client: Client) -> None:
        async with serving(client, deployment(queue)):
            waiting, blocking = await asyncio.gather(outcome(client, "Waiting"), outcome(client, "Blocking"))
        assert waiting == ["CONFLICT", "[[0, 2, 4, 6, 8], [1, 42, True, True, 4]]", 7]
        assert blocking == ["CONFLICT", "[0, 2, 4, ['fed', 1, [8]]]", 5]

    on(url, scenario)
