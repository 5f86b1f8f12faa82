"""A run whose code waits for nothing that can come is stuck with the places, and goes on with any input."""

import uuid

import assay
from assay import App, Client
from tests.http.scenarios import on, serving, settled


def deployment(queue: str, *, fixed: bool) -> App:
    app = App(queue=queue)

    @app.workflow
    async def Waiting(ctx: assay.Context) -> str:
        answers = ctx.channel(1)
        await ctx.run("begin", lambda: 1)
        if fixed:
            await answers.send("42")
        return str(await answers.receive())

    @app.workflow
    def Blocked(ctx: assay.BlockingContext) -> None:
        ctx.channel(1).receive()

    return app


def test_a_deadlock_is_shown_and_ended_by_an_input(url: str):
    name, other, queue = (f"{letter}-{uuid.uuid4().hex}" for letter in "abq")

    async def scenario(client: Client) -> None:
        async with serving(client, deployment(queue, fixed=False)):
            await client.start("Waiting", workflow_id=name, task_queue=queue)
            record = await settled(client, name)
            assert (record.status, record.stuck["reason"]) == ("RUNNING", "deadlock")
            assert (record.stuck["attempt"], record.stuck["next_try_at"]) == (1, None)
            assert "the workflow at test_deadlocks.py:" in record.stuck["message"]
            assert record.waiting_on["kind"] == "deadlock"
            assert record.waiting_on["summary"].startswith("Deadlocked: the code waits for nothing that can come: ")
            await client.start("Blocked", workflow_id=other, task_queue=queue)
            assert " in Blocked" in (await settled(client, other)).stuck["message"]
            assert {run.id async for run in client.list(stuck=True)} >= {name, other}
            await client.cancel(other)
            assert (await settled(client, other)).status == "CANCELLED"
        await client.signal(name, "any")
        async with serving(client, deployment(queue, fixed=True)):
            assert await client.result(name) == "42"

    on(url, scenario)
