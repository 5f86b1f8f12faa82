"""Children by number: spawn, exec, ids, policies, cancelled waits; embedded and served, on both stores."""

import asyncio
import uuid
from typing import Any

import pytest

import assay
from assay import App, BlockingContext, ChildError, Client, Context
from tests.http.scenarios import on, serving


def family() -> App:
    """An app with a queue of its own."""
    app = App(queue=f"q-{uuid.uuid4().hex[:8]}")

    @app.activity
    async def double(n: int) -> int:
        return 2 * n

    @app.activity
    async def endless(ctx: assay.ActivityContext) -> None:
        while True:
            ctx.heartbeat()
            await asyncio.sleep(0.02)

    @app.workflow
    async def Echo(ctx: Context, value: Any) -> Any:
        return value

    @app.workflow
    async def Fails(ctx: Context, kind: str) -> None:
        raise assay.Failure("no luck", kind=kind, details={"n": 1}, retryable=False)

    @app.workflow
    async def Waits(ctx: Context, name: str = "go") -> Any:
        return await ctx.wait_for_signal(name)

    @app.workflow
    async def Stubborn(ctx: Context) -> str:
        try:
            await ctx.sleep("1h")
        except asyncio.CancelledError:
            await ctx.sleep(0.05)
        return "ended by itself"

    @app.workflow
    async def Spawns(ctx: Context, prefix: str) -> list[Any]:
        one = await ctx.spawn("Echo", {"n": 1})
        two = await ctx.spawn(Echo, [1, 2], name=f"{prefix}-two")
        both = [await two.result(), await one.result()]
        assert one.pid == f"wf://{ctx.info().namespace}/{one.workflow_id}"
        return [*both, one.workflow_id == f"{ctx.info().run_id}-1", two.workflow_id]

    @app.workflow
    def SpawnsBlocking(ctx: BlockingContext, prefix: str) -> list[Any]:
        one = ctx.spawn("Echo", {"n": 1})
        two = ctx.spawn(Echo, [1, 2], id=f"{prefix}-two")
        assert ctx.exec(Echo, "x") == "x"
        return [two.result(), one.result(), one.workflow_id == f"{ctx.info().run_id}-1", two.workflow_id]

    @app.workflow
    async def Again(ctx: Context, name: str) -> list[Any]:
        """The id of an own child: again when it has closed, refused while it is open, the first one's result."""
        found: list[Any] = [await ctx.exec(Echo, n, id=f"{name}-x") for n in (1, 2)]
        open_one = await ctx.spawn(Waits, id=f"{name}-open")
        for verb in (ctx.exec, ctx.spawn):
            try:
                await verb(Echo, 3, id=f"{name}-open")
            except ChildError as error:
                found.append([error.kind, error.close_reason, error.workflow_type, error.workflow_id])
        try:
            await ctx.exec(Echo, 3, id=f"{name}-x", id_reuse_policy="reject_duplicate")
        except ChildError as error:
            found.append(error.kind)
        found.append(await ctx.start_child_workflow(Echo, workflow_id=f"{name}-x", input=9))
        await open_one.cancel("enough")
        try:
            await open_one.result()
        except ChildError as error:
            found.append([error.kind, error.close_reason, error.message])
        return found

    @app.workflow
    async def Taken(ctx: Context, name: str) -> list[Any]:
        """A spawn that fails after work in the same turn: the work is done once, and the code sees the error."""
        number = await ctx.execute_activity(double, 4)
        try:
            await ctx.spawn(Echo, 1, id=name)
            number = await ctx.execute_activity(double, 100)
        except ChildError as error:
            return [number, error.kind, error.close_reason]
        return [number]

    @app.workflow
    async def Wrong(ctx: Context, options: dict[str, Any]) -> str:
        try:
            await ctx.spawn(Echo, **options)
        except assay.Invalid as error:
            return str(error)
        return "accepted"

    @app.workflow
    async def Errors(ctx: Context) -> list[Any]:
        child = await ctx.spawn(Fails, "NOT_FOUND")
        found: list[Any] = []
        for call in (child.result(), ctx.exec(Fails, "RATE_LIMITED")):
            try:
                await call
            except ChildError as error:
                found.append([error.kind, error.retryable, error.message, error.details, error.workflow_type])
        return found

    @app.workflow
    async def Impatient(ctx: Context, input: dict[str, Any]) -> str:
        verb, child = input["verb"], input["child"]
        wait = bool(input["wait"])
        try:
            async with asyncio.timeout(0.1):
                if verb == "exec":
                    await ctx.exec(child, id=f"{ctx.workflow_id}-c", wait_for_cancellation=wait)
                elif verb == "start":
                    await ctx.start_child_workflow(
                        child, workflow_id=f"{ctx.workflow_id}-c", wait_for_cancellation=wait
                    )
                elif verb == "activity":
                    await ctx.execute_activity(endless, wait_for_cancellation=wait, heartbeat=5)
                else:
                    handle = await ctx.spawn(child, id=f"{ctx.workflow_id}-c", parent_close_policy="abandon")
                    await handle.result()
        except TimeoutError:
            return "timed out"
        return "ended"

    @app.workflow
    async def Elsewhere(ctx: Context, space: str) -> list[Any]:
        child = await ctx.spawn(Echo, 7, namespace=space)
        return [await child.result(), child.pid == f"wf://{space}/{child.workflow_id}", child.workflow_id]

    return app


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("workflow", ["Spawns", "SpawnsBlocking"])
def test_spawn_goes_on_and_gives_a_handle(url: str, workflow: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("spawn")
            found = await client.run(workflow, name, workflow_id=name, task_queue=app.queue)
            assert found == [[1, 2], {"n": 1}, True, f"{name}-two"]
            assert {child.status for child in await client.list_children(name)} == {"COMPLETED"}

    on(url, scenario)


def test_an_outcome_belongs_to_the_number_of_its_child(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("again")
            found = await client.run("Again", name, workflow_id=name, task_queue=app.queue)
            taken = ["ALREADY_EXISTS", "not_started", "Echo", f"{name}-open"]
            assert found == [1, 2, taken, taken, "ALREADY_EXISTS", 1, ["CANCELED", "cancelled", "enough"]]
            assert len(await client.list_runs(f"{name}-x")) == 2

    on(url, scenario)


def test_a_spawn_that_fails_undoes_its_turn_and_raises(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("taken")
            await client.start("Waits", workflow_id=name, task_queue=app.queue)
            parent = f"{name}-parent"
            assert await client.run("Taken", name, workflow_id=parent, task_queue=app.queue) == [
                8,
                "ALREADY_EXISTS",
                "not_started",
            ]
            kinds = [event.event_type for event in await client.get_events(parent)]
            assert kinds.count("ActivityScheduled") == 1
            assert kinds.count("ChildWorkflowFailed") == 1
            assert "ChildWorkflowStarted" not in kinds

    on(url, scenario)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"id_conflict_policy": "use_existing"}, "can only be 'fail'"),
        ({"error_if_exists": False}, "can only be True"),
        ({"parent_close_polcy": "abandon"}, "did you mean 'parent_close_policy'?"),
        ({"wait_for_cancellation": 1}, "True or False"),
        ({"id_conflict_policy": "fail", "error_if_exists": True, "enable_eager_start": True}, "accepted"),
        ({"cron_schedule": "@every 1h", "parent_close_policy": "terminate"}, "accepted"),
        ({"start_delay": "1h"}, "accepted"),
    ],
)
def test_options_of_a_child(tmp_path: Any, options: dict[str, Any], word: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            found = await client.run("Wrong", options, task_queue=app.queue)
            assert word in found

    on(f"sqlite://{tmp_path}/own.db", scenario)


def test_errors_of_children_keep_their_facts(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            assert await client.run("Errors", task_queue=app.queue) == [
                ["NOT_FOUND", False, "no luck", {"n": 1}, "Fails"],
                ["RATE_LIMITED", False, "no luck", {"n": 1}, "Fails"],
            ]

    on(url, scenario)


@pytest.mark.parametrize("verb", ["exec", "start"])
@pytest.mark.parametrize(("child", "status"), [("Waits", "CANCELLED"), ("Stubborn", "COMPLETED")])
def test_a_cancelled_wait_cancels_the_child_and_may_outlast_it(url: str, verb: str, child: str, status: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("impatient")
            input = {"verb": verb, "child": child, "wait": True}
            assert await client.run("Impatient", input, workflow_id=name, task_queue=app.queue) == "timed out"
            record = await client.describe(f"{name}-c")
            assert record is not None
            assert record.status == status
            kinds = [event.event_type for event in await client.get_events(name)]
            ended = "ChildWorkflowCompleted" if status == "COMPLETED" else "ChildWorkflowFailed"
            assert kinds.count("ExternalCancelRequested") == 1
            assert ended in kinds

    on(url, scenario)


def test_a_cancelled_wait_for_a_spawned_child_touches_nothing(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("patient")
            input = {"verb": "spawn", "child": "Waits", "wait": False}
            assert await client.run("Impatient", input, workflow_id=name, task_queue=app.queue) == "timed out"
            await client.signal(f"{name}-c", "go", 3)
            assert await client.result(f"{name}-c") == 3

    on(url, scenario)


def test_a_cancelled_wait_for_an_activity_may_outlast_it(url: str):
    async def scenario(client: Client) -> None:
        async with serving(client, app := family()):
            name = fresh("busy")
            input = {"verb": "activity", "child": "", "wait": True}
            assert await client.run("Impatient", input, workflow_id=name, task_queue=app.queue) == "timed out"
            kinds = [event.event_type for event in await client.get_events(name)]
            assert "ActivityCancelled" in kinds

    on(url, scenario)


def test_a_child_in_another_namespace(url: str):
    async def scenario(client: Client) -> None:
        app = family()
        space = fresh("space")
        async with serving(client, app), serving(client, app, namespace=space):
            name = fresh("far")
            value, same, child = await client.run("Elsewhere", space, workflow_id=name, task_queue=app.queue)
            assert (value, same) == (7, True)
            record = await client.describe(child, namespace=space)
            assert record is not None
            assert (record.parent_id, record.parent_namespace) == (name, "main")
            assert [(found.id, found.namespace) for found in await client.list_children(name)] == [(child, space)]
            assert space in [found.name for found in await client.namespaces.list()]

    on(url, scenario)
