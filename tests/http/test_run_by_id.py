"""`run` with an id is idempotent, in the process and over HTTP, on both stores."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import assay
from assay import AlreadyExists, App, Client, Worker

Scenario = Callable[[Client, list[Any]], Coroutine[Any, Any, None]]


def shop(effects: list[Any]) -> App:
    """An app on a queue of its own; `effects` has an entry for each execution of its activity."""
    app = App(queue=f"q-{uuid.uuid4().hex[:8]}")

    @app.activity
    async def charge(order: Any) -> Any:
        effects.append(order)
        if order == "declined" and effects.count(order) == 1:
            raise assay.Failure("declined", retryable=False)
        return {"charged": order}

    @app.workflow
    async def Checkout(ctx: assay.Context, order: Any) -> Any:
        return await ctx.execute_activity(charge, order)

    @app.workflow
    async def Waiting(ctx: assay.Context, order: Any) -> Any:
        return [order, await ctx.wait_for_signal("go")]

    @app.workflow
    async def Chain(ctx: assay.Context, n: int) -> str:
        if n:
            ctx.continue_as_new(n - 1, workflow_type="Link")
        return "one"

    @app.workflow
    async def Link(ctx: assay.Context, n: int) -> str:
        if n:
            ctx.continue_as_new(n - 1)
        return "end"

    return app


def run_scenario(url: str, scenario: Scenario) -> None:
    async def main() -> None:
        effects: list[Any] = []
        async with await Client.connect(url, app=shop(effects)) as client:
            worker = Worker(client)
            serving = asyncio.ensure_future(worker.run())
            try:
                await asyncio.wait_for(scenario(client, effects), 60)
            finally:
                worker.stop()
                await serving

    asyncio.run(main())


def fresh() -> str:
    return f"o-{uuid.uuid4().hex}"


def test_a_completed_run_gives_its_recorded_result(url: str, caplog: pytest.LogCaptureFixture):
    async def scenario(client: Client, effects: list[Any]) -> None:
        name = fresh()
        for order in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
            assert await client.run("Checkout", order, workflow_id=name) == {"charged": {"a": 1, "b": 2}}
        assert len(effects) == len(await client.list_runs(name)) == 1

    with caplog.at_level(logging.WARNING, "assay.client"):
        run_scenario(url, scenario)
    assert caplog.records == []


def test_another_input_gives_the_recorded_result_and_one_warning_a_call(url: str, caplog: pytest.LogCaptureFixture):
    name = fresh()

    async def scenario(client: Client, effects: list[Any]) -> None:
        assert await client.run("Checkout", 1, workflow_id=name) == {"charged": 1}
        for other in (True, None):
            assert await client.run("Checkout", other, workflow_id=name) == {"charged": 1}
        assert effects == [1]

    with caplog.at_level(logging.WARNING, "assay.client"):
        run_scenario(url, scenario)
    assert [(one.name, one.levelname, name in one.getMessage()) for one in caplog.records] == [
        ("assay.client", "WARNING", True)
    ] * 2


def test_two_calls_at_once_have_one_run(url: str, caplog: pytest.LogCaptureFixture):
    async def scenario(client: Client, effects: list[Any]) -> None:
        name = fresh()
        calls = [client.run("Checkout", n % 2, workflow_id=name) for n in range(8)]
        results = await asyncio.gather(*calls)
        assert all(result == results[0] for result in results)
        assert len(effects) == len(await client.list_runs(name)) == 1

    with caplog.at_level(logging.WARNING, "assay.client"):
        run_scenario(url, scenario)
    assert len(caplog.records) == 4


def test_an_open_run_is_attached_to(url: str, caplog: pytest.LogCaptureFixture):
    async def scenario(client: Client, _: list[Any]) -> None:
        handle = await client.start("Waiting", "first", workflow_id=fresh())
        name = handle.workflow_id
        # whether the calls attach before the signal or come after the end, they have the same answer
        same = asyncio.ensure_future(client.run("Waiting", "first", workflow_id=name))
        other = asyncio.ensure_future(client.run("Waiting", "second", workflow_id=name))
        await handle.signal("go", 5)
        assert await same == await other == ["first", 5]
        assert len(await client.list_runs(name)) == 1

    with caplog.at_level(logging.WARNING, "assay.client"):
        run_scenario(url, scenario)
    assert len(caplog.records) == 1


def test_a_run_that_did_not_complete_is_repeated(url: str):
    async def scenario(client: Client, effects: list[Any]) -> None:
        name = fresh()
        with pytest.raises(assay.WorkflowFailed, match="declined"):
            await client.run("Checkout", "declined", workflow_id=name)
        for _ in range(2):
            assert await client.run("Checkout", "declined", workflow_id=name) == {"charged": "declined"}
        assert len(effects) == len(await client.list_runs(name)) == 2

    run_scenario(url, scenario)


def test_an_explicit_policy_decides(url: str):
    async def scenario(client: Client, effects: list[Any]) -> None:
        name = fresh()
        await client.run("Checkout", 1, workflow_id=name)
        assert await client.run("Checkout", 2, workflow_id=name, id_reuse_policy="allow_duplicate") == {"charged": 2}
        for policy in ("reject_duplicate", "allow_duplicate_failed_only"):
            with pytest.raises(AlreadyExists) as caught:
                await client.run("Checkout", 3, workflow_id=name, id_reuse_policy=policy)
            assert caught.value.code == "already_exists"
            assert caught.value.existing["status"] == "COMPLETED"
        assert effects == [1, 2]

    run_scenario(url, scenario)


def test_a_run_of_another_type_is_refused(url: str):
    async def scenario(client: Client, effects: list[Any]) -> None:
        waiting, done = await client.start("Waiting", workflow_id=fresh()), fresh()
        await client.run("Checkout", 1, workflow_id=done)
        for kind, name in (("Checkout", waiting.workflow_id), ("Waiting", done)):
            with pytest.raises(AlreadyExists) as ran:
                await client.run(kind, workflow_id=name)
            with pytest.raises(AlreadyExists) as began:
                await client.start(kind, workflow_id=name, id_conflict_policy="use_existing")
            assert ran.value.code == began.value.code == "other_workflow_type"
            assert ran.value.existing["workflow_id"] == name
        await waiting.terminate()
        assert effects == [1]

    run_scenario(url, scenario)


def test_a_continued_run_counts_by_the_end_of_its_chain(url: str, caplog: pytest.LogCaptureFixture):
    async def scenario(client: Client, _: list[Any]) -> None:
        name = fresh()
        for _call in range(2):
            assert await client.run("Chain", 2, workflow_id=name) == "end"
        assert len(await client.list_runs(name)) == 3

    with caplog.at_level(logging.WARNING, "assay.client"):
        run_scenario(url, scenario)
    assert caplog.records == []
