"""Workflows from start to end over HTTP, on both stores: client and worker here, the engine in a process of its own."""

import asyncio
import contextlib
import dataclasses
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import assay
from assay import App, Client, Worker
from tests.http.processes import Server

Scenario = Callable[[Client], Coroutine[Any, Any, None]]


@dataclasses.dataclass
class Receipt:
    order: str
    total: int


def shop() -> App:
    """An app with a queue of its own, so that tests do not serve each other's work."""
    app = App(queue=f"q-{uuid.uuid4().hex[:8]}")

    @app.activity
    async def double(n: int) -> int:
        return 2 * n

    @app.activity
    def fails(ctx: assay.ActivityContext, kind: str) -> None:
        raise assay.Failure("no such luck", kind=kind, details={"attempt": ctx.info().attempt}, retryable=False)

    @app.activity
    async def flaky(ctx: assay.ActivityContext) -> int:
        if ctx.info().attempt < 3:
            raise ValueError("not yet")
        return ctx.info().attempt

    @app.activity
    async def endless(ctx: assay.ActivityContext) -> None:
        while True:
            ctx.heartbeat({"alive": True})
            await asyncio.sleep(0.05)

    @app.workflow
    async def Typed(ctx: assay.Context, order: Receipt) -> Receipt:
        return Receipt(order.order, await ctx.execute_activity(double, order.total))

    @app.workflow
    async def Parent(ctx: assay.Context, n: int) -> list[int]:
        info = ctx.info()
        return [
            await ctx.start_child_workflow("Child", workflow_id=f"{info.workflow_id}-{k}", input=k) for k in range(n)
        ]

    @app.workflow
    async def Child(ctx: assay.Context, k: int) -> int:
        if k < 0:
            raise ValueError("a child may fail")
        return await ctx.execute_activity(double, k)

    @app.workflow
    async def Brave(ctx: assay.Context, _: Any) -> str:
        try:
            await ctx.start_child_workflow("Child", workflow_id=f"{ctx.info().workflow_id}-c", input=-1)
        except assay.ChildError as error:
            return str(error.message)
        return "no failure"

    @app.workflow
    async def Countdown(ctx: assay.Context, n: int) -> str:
        await ctx.execute_activity(double, n)
        if n:
            ctx.continue_as_new(n - 1)
        return "lift-off"

    @app.workflow
    async def Waiter(ctx: assay.Context, _: Any) -> Any:
        stage = "waiting"
        ctx.register_query("stage", lambda: stage)
        found = await ctx.wait_for_signal("go")
        stage = "gone"
        return found

    @app.workflow
    async def Sleeper(ctx: assay.Context, seconds: float) -> float:
        before = ctx.now()
        await asyncio.sleep(seconds)
        return (ctx.now() - before) if isinstance(before, float) else (ctx.now() - before).total_seconds()

    @app.workflow
    async def Sorry(ctx: assay.Context, kind: str) -> None:
        await ctx.execute_activity(fails, kind)

    @app.workflow
    async def Stubborn(ctx: assay.Context, _: Any) -> int:
        return await ctx.execute_activity(flaky, initial_interval_secs=0.01)

    @app.workflow
    async def Cancellable(ctx: assay.Context, _: Any) -> str:
        try:
            await ctx.execute_activity(endless, heartbeat_timeout_secs=5)
        except asyncio.CancelledError:
            await ctx.execute_activity(double, 1)
            raise
        return "never"

    @app.workflow
    def Blocking(ctx: assay.BlockingContext, n: int) -> int:
        first = ctx.execute_activity("double", n)
        return int(ctx.execute_activity("double", first))

    @app.workflow
    async def Inline(ctx: assay.Context, n: int) -> list[Any]:
        ident = await ctx.side_effect("ident", lambda: uuid.uuid4().hex)
        return [ident, *[await ctx.run(f"step-{k}", lambda k=k: k * k) for k in range(n)]]

    @app.workflow
    async def Long(ctx: assay.Context, n: int) -> int:
        for _ in range(n):
            await ctx.execute_activity(double, 1)
        return n

    @app.workflow
    async def Big(ctx: assay.Context, text: str) -> int:
        echoed = await ctx.run("echo", lambda: text)
        return len(echoed)

    return app


@contextlib.asynccontextmanager
async def serving(engine: Server, **options: Any) -> AsyncIterator[Client]:
    async with await Client.connect(engine.url, app=shop()) as client:
        worker = Worker(client, **options)
        running = asyncio.create_task(worker.run())
        try:
            yield client
        finally:
            worker.stop()
            await running


def run_scenario(engine: Server, scenario: Scenario, **options: Any) -> None:
    async def main() -> None:
        async with serving(engine, **options) as client:
            await scenario(client)

    asyncio.run(main())


def test_values_are_typed(engine: Server):
    async def scenario(client: Client) -> None:
        function = client.app.workflows["Typed"].function
        assert await client.run(function, Receipt("o-1", 21)) == Receipt("o-1", 42)

    run_scenario(engine, scenario)


def test_children_start_end_and_fail(engine: Server):
    async def scenario(client: Client) -> None:
        handle = await client.start("Parent", 3, workflow_id=f"p-{uuid.uuid4()}")
        assert await handle.result() == [0, 2, 4]
        children = await client.list_children(handle.workflow_id)
        assert [child.status for child in children] == ["COMPLETED"] * 3
        assert "a child may fail" in await client.run("Brave")

    run_scenario(engine, scenario)


def test_a_chain_of_runs_is_followed_to_its_end(engine: Server):
    async def scenario(client: Client) -> None:
        handle = await client.start("Countdown", 4, workflow_id=f"c-{uuid.uuid4()}")
        assert await handle.result() == "lift-off"
        runs = await client.list_runs(handle.workflow_id)
        assert [run.close_reason for run in runs] == ["continued_as_new"] * 4 + [None]

    run_scenario(engine, scenario)


def test_signals_and_queries(engine: Server):
    async def scenario(client: Client) -> None:
        handle = await client.start("Waiter", workflow_id=f"w-{uuid.uuid4()}/with slash")
        while (state := await client.get_state(handle.workflow_id, "stage")) is None:
            await asyncio.sleep(0.01)
        assert state.value == "waiting"
        await handle.signal("go", {"n": [1, None, "ü"]})
        assert await handle.result() == {"n": [1, None, "ü"]}
        assert await handle.query("stage") == "gone"

    run_scenario(engine, scenario)


def test_timers_do_not_fire_early(engine: Server):
    async def scenario(client: Client) -> None:
        taken = await asyncio.gather(*(client.run("Sleeper", 0.3) for _ in range(10)))
        assert all(0.3 <= one < 2 for one in taken), taken

    run_scenario(engine, scenario)


def test_failures_keep_their_kind_and_details(engine: Server):
    async def scenario(client: Client) -> None:
        with pytest.raises(assay.WorkflowFailed, match="no such luck") as caught:
            await client.run("Sorry", "PERMISSION_DENIED")
        cause = caught.value.__cause__
        found = caught.value if cause is None else cause
        assert isinstance(found, assay.Failure)
        assert "no such luck" in str(found)
        record = await client.describe(caught.value.workflow_id)
        assert record is not None
        assert record.status == "FAILED"
        assert await client.run("Stubborn") == 3

    run_scenario(engine, scenario)


def test_a_cancel_reaches_a_running_activity_and_clean_up_goes_on(engine: Server):
    async def scenario(client: Client) -> None:
        handle = await client.start("Cancellable", workflow_id=f"x-{uuid.uuid4()}")
        while "ActivityScheduled" not in [event.event_type for event in await client.get_events(handle.workflow_id)]:
            await asyncio.sleep(0.01)
        await handle.cancel("enough")
        with pytest.raises(assay.WorkflowCancelled):
            await handle.result()
        names = [event.event_type for event in await client.get_events(handle.workflow_id)]
        assert names.count("ActivityScheduled") == 2
        assert names[-1] == "WorkflowCancelled"

    run_scenario(engine, scenario)


def test_blocking_handlers_inline_steps_and_side_effects(engine: Server):
    async def scenario(client: Client) -> None:
        assert await client.run("Blocking", 3) == 12
        ident, *squares = await client.run("Inline", 5)
        assert len(ident) == 32
        assert squares == [0, 1, 4, 9, 16]

    run_scenario(engine, scenario)


def test_a_worker_without_its_memory_replays_a_history_of_many_pages(engine: Server):
    async def scenario(client: Client) -> None:
        app = client.app
        handle = await client.start("Waiting", 700, workflow_id=f"l-{uuid.uuid4()}")
        while (await handle.describe()).waiting_on.signal is None:
            await asyncio.sleep(0.05)
        other = Worker(client)
        running = asyncio.create_task(other.run())
        scenario.worker.stop()  # type: ignore[attr-defined]
        await scenario.running  # type: ignore[attr-defined]
        await handle.signal("go", "on")
        assert await handle.result() == [700, "on"]
        assert app is client.app
        other.stop()
        await running

    async def main() -> None:
        async with await Client.connect(engine.url, app=shop()) as client:

            @client.app.workflow
            async def Waiting(ctx: assay.Context, n: int) -> list[Any]:
                for _ in range(n):
                    await ctx.execute_activity("double", 1)
                return [n, await ctx.wait_for_signal("go")]

            scenario.worker = Worker(client)  # type: ignore[attr-defined]
            scenario.running = asyncio.create_task(scenario.worker.run())  # type: ignore[attr-defined]
            await scenario(client)

    asyncio.run(main())


def test_one_hand_is_enough_and_never_two(engine: Server):
    async def scenario(client: Client) -> None:
        assert await asyncio.gather(*(client.run("Long", 5) for _ in range(5))) == [5] * 5

    run_scenario(engine, scenario, max_concurrent_workflows=1, max_concurrent_activities=1, max_cached_runs=1)


def test_large_payloads_pass_and_those_too_large_are_refused(engine: Server):
    async def scenario(client: Client) -> None:
        assert await client.run("Big", "x" * 1_000_000) == 1_000_000
        with pytest.raises(assay.Invalid, match="bytes of JSON"):
            await client.run("Big", "x" * 3_000_000)

    run_scenario(engine, scenario)


def test_ids_in_use_and_unknown_ids(engine: Server):
    async def scenario(client: Client) -> None:
        name = f"o-{uuid.uuid4()}"
        first = await client.start("Waiter", workflow_id=name)
        with pytest.raises(assay.AlreadyExists) as caught:
            await client.start("Waiter", workflow_id=name)
        assert caught.value.existing["run_id"] == first.run_id
        attached = asyncio.ensure_future(client.run("Waiter", workflow_id=name))
        await asyncio.sleep(0.5)  # nothing shows that it has attached; later than the signal it would begin a new run
        await first.signal("go", 5)
        assert await attached == 5
        assert await client.describe("nobody") is None
        with pytest.raises(assay.NotFound):
            await client.result("nobody")
        with pytest.raises(assay.NotFound):
            await client.signal("nobody", "go")

    run_scenario(engine, scenario)
