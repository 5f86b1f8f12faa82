"""The values that a run carries from its caller reach all work below it, in a program and behind a server."""

import asyncio
import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from assay import ActivityContext, App, BlockingContext, Client, Context, Invalid, NotFound, Worker

SECONDS = 60


def in_process(ctx: ActivityContext) -> Any:
    return [ctx.get("tenant"), ctx.get("call", None), ctx.actor, list(ctx.scope)]


def shop(queue: str) -> App:
    app = App(queue=queue)

    @app.activity
    async def seen(ctx: ActivityContext) -> Any:
        return [ctx.all(), ctx.actor, list(ctx.scope)]

    app.activity(name="in_process", runs_in="process")(in_process)

    @app.activity
    def in_thread(ctx: ActivityContext) -> Any:
        return [ctx.get("tenant"), dict(ctx.context)]

    @app.workflow
    async def Child(ctx: Context, more: Any) -> Any:
        below = await ctx.execute_activity(seen, context={"call": 1} if more else None)
        return [ctx.all(), ctx.actor, list(ctx.scope), below]

    @app.workflow
    def Blocking(ctx: BlockingContext) -> Any:
        return [ctx.get("tenant"), ctx.all(), ctx.actor, list(ctx.scope), ctx.execute_activity("in_thread")]

    @app.workflow
    async def Parent(ctx: Context) -> Any:
        plain = await ctx.start_child_workflow(Child, workflow_id=f"{ctx.workflow_id}.1", input=None)
        changed = await ctx.start_child_workflow(
            Child,
            workflow_id=f"{ctx.workflow_id}.2",
            input=True,
            context={"tenant": None, "extra": [1, {"a": 2.5}]},
            actor="bob",
            scope=["write"],
        )
        return [ctx.get("tenant"), plain, changed]

    @app.workflow
    async def Next(ctx: Context, number: int) -> Any:
        if number:
            ctx.continue_as_new(number - 1)
        return [ctx.all(), ctx.actor, list(ctx.scope)]

    @app.workflow
    async def Missing(ctx: Context) -> Any:
        found = [ctx.all(), dict(ctx.context), ctx.get("x", 7), ctx.get("x", None), ctx.actor, list(ctx.scope)]
        for key in ("x", ""):
            try:
                ctx.get(key)
            except (NotFound, Invalid) as error:
                found.append(type(error).__name__)
        return found

    @app.workflow
    async def Processes(ctx: Context) -> Any:
        return await ctx.execute_activity("in_process", context={"call": "here"})

    return app


def scenario(function: Callable[[Client, str], Any]) -> Callable[[str], None]:
    def test(url: str) -> None:
        async def main() -> None:
            queue = f"shop-{uuid.uuid4().hex[:8]}"
            app = shop(queue)
            async with asyncio.timeout(SECONDS), await Client.connect(url, app=app) as client:
                worker = Worker(client)
                serving = asyncio.create_task(worker.run())
                try:
                    await function(client, queue)
                finally:
                    worker.stop()
                    await serving

        asyncio.run(main())

    test.__name__ = function.__name__
    return test


CARRIED: dict[str, Any] = {"context": {"tenant": "t-1", "n": 1}, "actor": "ada", "scope": ["read", "pay"]}


@scenario
async def test_children_and_activities_inherit_and_calls_add_to_it(client: Client, name: str) -> None:
    found = await client.run("Parent", workflow_id=name, **CARRIED)
    own = {"tenant": "t-1", "n": 1}
    assert found[:2] == ["t-1", [own, "ada", ["read", "pay"], [own, "ada", ["read", "pay"]]]]
    changed = {"tenant": None, "n": 1, "extra": [1, {"a": 2.5}]}
    assert found[2] == [changed, "bob", ["write"], [{**changed, "call": 1}, "bob", ["write"]]]
    record = await client.describe(f"{name}.2")
    assert record is not None
    assert (record.context, record.actor, record.scope) == (changed, "bob", ["write"])


@scenario
async def test_the_next_run_inherits(client: Client, name: str) -> None:
    assert await client.run("Next", 2, workflow_id=name, **CARRIED) == [CARRIED["context"], "ada", ["read", "pay"]]


@scenario
async def test_a_def_workflow_and_its_threads_read_it(client: Client, name: str) -> None:
    found = await client.run("Blocking", workflow_id=name, **CARRIED)
    own = CARRIED["context"]
    assert found == ["t-1", own, "ada", ["read", "pay"], ["t-1", own]]


@scenario
async def test_a_process_reads_it(client: Client, name: str) -> None:
    found = await client.run("Processes", workflow_id=name, **CARRIED)
    assert found == ["t-1", "here", "ada", ["read", "pay"]]


@scenario
async def test_without_a_context_all_is_empty_and_get_raises(client: Client, name: str) -> None:
    expected = [{}, {}, 7, None, None, [], "NotFound", "Invalid"]
    assert await client.run("Missing", workflow_id=name) == expected
    assert await client.run("Missing", workflow_id=f"{name}-2", context={}) == expected


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"context": {"at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}}, "context.at"),
        ({"context": {"deep": [{"set": {1}}]}}, "context.deep[0].set"),
        ({"context": {"nan": float("nan")}}, "context.nan"),
        ({"context": {1: 2}}, "context"),
        ({"context": {"bytes": b"x"}}, "context.bytes"),
        ({"context": [1]}, "context"),
        ({"scope": "read"}, "scope"),
        ({"scope": [1]}, "scope[0]"),
        ({"actor": 7}, "actor"),
    ],
)
def test_values_that_are_not_json_are_refused(url: str, options: dict[str, Any], field: str):
    async def main() -> None:
        async with await Client.connect(url, app=App()) as client:
            with pytest.raises(Invalid) as caught:
                await client.start("Order", workflow_id=uuid.uuid4().hex, **options)
            assert caught.value.field == field

    asyncio.run(main())
