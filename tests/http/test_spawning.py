"""`spawn`, `exec` and the builder: the same in a program and behind a server, on SQLite and on Postgres."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from assay import ActivityContext, AlreadyExists, App, BlockingContext, Client, Context, Failure, Invalid, Retry, Worker

SECONDS = 60


def shop(queue: str) -> App:
    app = App(queue=queue)

    @app.activity(start_to_close="7s", retry=Retry(max_attempts=2), context={"by": "definition"}, summary="default")
    async def seen(ctx: ActivityContext) -> Any:
        return [ctx.all(), ctx.info().attempt]

    @app.activity(max_attempts=2, initial_interval=0.01)
    async def flaky(ctx: ActivityContext) -> int:
        if ctx.info().attempt == 1:
            raise ValueError("again")
        return ctx.info().attempt

    @app.workflow(version="2")
    async def Counter(ctx: Context, first: int, step: int = 1) -> Any:
        total = first
        while (more := await ctx.wait_for_signal("add")) is not None:
            total += (more if isinstance(more, int) else sum(more)) * step
        return [total, ctx.all(), ctx.actor, list(ctx.scope)]

    @app.workflow
    async def Child(ctx: Context, *values: Any) -> Any:
        return [list(values), ctx.all(), ctx.actor, list(ctx.scope)]

    @app.workflow
    async def Parent(ctx: Context) -> Any:
        builder = ctx.with_options({"workflow.run_timeout": 60_000}).with_context(a=1).with_actor("bob")
        named = builder.with_context({"b": 2}).with_name(f"{ctx.workflow_id}.named").with_scope(["write"])
        child = await named.spawn("Child", 1, 2)
        counted = (
            await builder.with_message("add", 2)
            .with_message("add", 1, 1)
            .exec("Counter", 10, signals=["add"], context={"b": 3})
        )
        return [await child.result(), await builder.exec(Child, 3), child.pid, counted]

    @app.workflow
    async def Cron(ctx: Context) -> Any:
        info = ctx.info()
        if info.last_completion_result == [None, None] and info.last_failure is None:
            raise Failure("odd", kind="INVALID")
        failure = info.last_failure
        return [info.last_completion_result, None if failure is None else f"{failure.kind}: {failure.message}"]

    @app.workflow
    def Blocking(ctx: BlockingContext) -> Any:
        return ctx.with_context(a=1).exec("Child")

    @app.workflow
    async def Defaults(ctx: Context) -> Any:
        await ctx.execute_activity("flaky")
        return [
            await ctx.execute_activity(seen),
            await ctx.execute_activity(
                seen, context={"call": 1}, start_to_close_secs=9, summary="mine", id="a-1", disable_eager_execution=True
            ),
            await ctx.activities({"activity.start_to_close_timeout": 11_000, "activity.priority": 1}).call("seen"),
        ]

    return app


def scenario(function: Callable[[Client, str], Any]) -> Callable[[str], None]:
    def test(url: str) -> None:
        async def main() -> None:
            queue = f"shop-{uuid.uuid4().hex[:8]}"
            async with asyncio.timeout(SECONDS), await Client.connect(url, app=shop(queue)) as client:
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


@scenario
async def test_a_name_is_shared_and_a_generated_id_is_not(client: Client, name: str) -> None:
    first = await client.spawn("Counter", 1, name=name)
    second = await client.spawn("Counter", 100, id=name, messages=[("add", 5)])
    assert (first.started, second.started, first.run_id == second.run_id) == (True, False, True)
    assert first.pid == second.pid == f"wf://main/{name}"
    with pytest.raises(AlreadyExists) as caught:
        await client.spawn("Counter", 1, id=name, id_conflict_policy="fail")
    assert caught.value.existing.run_id == first.run_id
    with pytest.raises(AlreadyExists):
        await client.spawn("Counter", 1, id=name, error_if_exists=True)
    other = await client.spawn("Counter", 1)
    assert (other.started, other.workflow_id != name) == (True, True)
    for handle in (first, other):
        await handle.signal("add", None)
    assert (await first.result())[0] == 6
    for values in ([1, 2], []):  # a closed run is followed by a new one
        assert (await client.exec("Child", *values, id=f"{name}-2"))[0] == values


@scenario
async def test_a_builder_is_immutable_and_collects(client: Client, name: str) -> None:
    begun = client.with_options({"temporal.workflow.id": name, "temporal.workflow.execution_timeout": 60_000})
    added = begun.with_context(request_id="r-1", n=1).with_message("add", 3).with_message("add", 1, 1)
    full = added.with_context({"n": 2}).with_actor("ada").with_scope(["read"]).with_message("add", None)
    handle = await full.spawn("Counter", 10, 2)
    assert await handle.result() == [20, {"request_id": "r-1", "n": 2}, "ada", ["read"]]
    record = await client.describe(name)
    assert record is not None
    assert record.execution_deadline is not None
    with_more = full.exec("Counter", 0, context={"n": 3}, messages=[("add", 7)], id=f"{name}-2", actor="bob")
    assert await with_more == [5, {"request_id": "r-1", "n": 3}, "bob", ["read"]]
    assert (await begun.with_options(id=f"{name}-3").exec("Child", 1)) == [[1], {}, None, []]
    assert (await begun.with_name("unused").spawn("Counter", 1)).workflow_id == name


@scenario
async def test_a_workflow_builds_starts_of_children(client: Client, name: str) -> None:
    found = await client.exec("Parent", id=name, context={"p": 0}, scope=["read"])
    assert found[0] == [[1, 2], {"p": 0, "a": 1, "b": 2}, "bob", ["write"]]
    assert found[1] == [[3], {"p": 0, "a": 1}, "bob", ["read"]]
    assert found[2:] == [f"wf://main/{name}.named", [14, {"p": 0, "a": 1, "b": 3}, "bob", ["read"]]]
    record = await client.describe(f"{name}.named")
    assert record is not None
    assert record.run_timeout == 60
    assert await client.exec("Blocking", id=f"{name}-2") == [[], {"a": 1}, None, []]


@scenario
async def test_defaults_of_a_definition_hold_unless_a_call_overrides_them(client: Client, name: str) -> None:
    found = await client.run("Defaults", workflow_id=name)
    assert found == [[{"by": "definition"}, 1], [{"by": "definition", "call": 1}, 1], [{"by": "definition"}, 1]]
    events = [one.payload for one in await client.get_events(name) if one.event_type == "ActivityScheduled"]
    options = [one["options"] for one in events[1:]]
    assert [one["start_to_close"] for one in options] == [7, 9, 11]
    assert [one["summary"] for one in options] == ["default", "mine", "default"]
    assert [one["retry_policy"]["maximum_attempts"] for one in options] == [2, 2, 2]
    assert [one["id"] for one in options] == [None, "a-1", None]
    assert [one["priority"] for one in options] == [None, None, 1]


@scenario
async def test_what_makes_no_sense_is_refused(client: Client, name: str) -> None:
    for call in (
        lambda: client.with_name(""),
        lambda: client.with_message(""),
        lambda: client.with_message("@exit"),
        lambda: client.with_context(at={1}),
        lambda: client.with_scope("read"),
        lambda: client.with_options({"temporal.workflow.nothing": 1}),
        lambda: client.with_options({"activity.id": "x"}),
    ):
        with pytest.raises(Invalid):
            call()
    for options in ({"priority": 6}, {"priority": "1"}, {"enable_eager_start": 1}, {"args": [1]}, {"id": ""}):
        with pytest.raises(Invalid):
            await client.spawn("Counter", 1, **options)  # type: ignore[arg-type]
    handle = await client.start(type="Child", args=[1], enable_eager_start=True, workflow_id=name, priority=1)
    assert (await handle.result())[0] == [1]


@scenario
async def test_a_request_handler_starts_once_and_passes_its_request_along(client: Client, name: str) -> None:
    async def create_order(order_id: str, request_id: str) -> tuple[int, dict[str, Any]]:
        try:
            handle = await client.spawn(
                "Counter", 1, id=order_id, id_conflict_policy="fail", context={"request_id": request_id}
            )
        except AlreadyExists as error:
            return 409, {"error": str(error), "run_id": error.existing.run_id}
        return 202, {"workflow_id": handle.workflow_id, "pid": str(handle.pid)}

    assert await create_order(name, "r-1") == (202, {"workflow_id": name, "pid": f"wf://main/{name}"})
    status, body = await create_order(name, "r-2")
    assert (status, name in body["error"]) == (409, True)
    await client.signal(name, "add", None)
    assert (await client.result(name))[1] == {"request_id": "r-1"}


@scenario
async def test_a_cron_run_reads_the_result_and_the_failure_of_the_one_before(client: Client, name: str) -> None:
    handle = await client.spawn("Cron", id=name, cron_schedule="@every 1s")
    while len(await client.list_runs(name)) < 4:
        await asyncio.sleep(0.05)
    await handle.terminate("enough")
    runs = sorted(await client.list_runs(name), key=lambda run: run.created_at)
    assert [run.result for run in runs[:3]] == [[None, None], None, [[None, None], "INVALID: odd"]]


def test_activities_start_at_a_limited_rate(url: str):
    async def main() -> None:
        queue = f"shop-{uuid.uuid4().hex[:8]}"
        app, begun = App(queue=queue), []

        @app.activity
        async def start() -> None:
            begun.append(asyncio.get_running_loop().time())

        @app.workflow
        async def Many(ctx: Context) -> None:
            await ctx.execute_parallel([(start, None)] * 5)

        async with asyncio.timeout(SECONDS), await Client.connect(url, app=app) as client:
            async with Worker(client, max_activities_per_second=10):
                await (await client.spawn(Many)).result()
            for rate in (0, -1, True, "1"):
                with pytest.raises(Invalid):
                    Worker(client, max_activities_per_second=rate)  # type: ignore[arg-type]
        assert begun[-1] - begun[0] >= 0.39

    asyncio.run(main())


def test_an_app_serves_itself(url: str):
    async def main() -> None:
        queue = f"shop-{uuid.uuid4().hex[:8]}"
        app = shop(queue)
        async with asyncio.timeout(SECONDS), await Client.connect(url, app=App(queue=queue)) as client:
            serving = asyncio.create_task(app.serve(url, namespace="main", identity="served"))
            handle = await client.spawn("Child", 7)
            assert (await handle.result())[0] == [7]
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())
