"""How programs connect: time limits, several engines, warnings while they wait, and a shared engine on a file."""

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import workflow
from assay.sdk import unserved
from assay.sdk.app import App
from assay.sdk.client.http import calls
from tests.http.processes import Server, free_port, server

app = App()


@app.workflow
async def Hello(ctx: assay.Context, name: str) -> str:
    return f"hello, {name}"


@app.workflow
async def Patient(ctx: assay.Context) -> str:
    return str(await ctx.wait_for_signal("go"))


def dead() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.quiet
def test_a_call_waits_no_longer_than_its_limit_for_an_engine_that_is_away(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calls, "LOGGED_AFTER_SECONDS", 0.1)

    async def main() -> float:
        async with await assay.Client.connect(dead(), timeout="400ms") as client:
            begun = time.monotonic()
            with pytest.raises(assay.Unavailable, match="cannot be reached"):
                await client.describe("w")
            return time.monotonic() - begun

    with caplog.at_level(logging.WARNING, "assay.client"):
        assert asyncio.run(main()) < 2
    (record,) = caplog.records
    assert "this call waits for it, up to 0.4 s" in record.getMessage()


def test_a_limit_that_is_no_duration_is_refused():
    with pytest.raises(assay.Invalid, match="timeout"):
        workflow.connect(dead(), timeout="soon")


def test_waiting_without_a_worker_is_logged(
    engine: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unserved, "UNSERVED_AFTER_SECONDS", 0.05)

    async def main() -> None:
        async with await assay.Client.connect(engine.url, app=app) as client:
            waiting = asyncio.create_task(client.run("Hello", "Ada", workflow_id="unserved", task_queue="nobody"))
            while not caplog.records:
                await asyncio.sleep(0.01)
            await client.terminate("unserved")
            with pytest.raises(assay.WorkflowTerminated):
                await waiting

    with caplog.at_level(logging.WARNING, "assay.client"):
        asyncio.run(asyncio.wait_for(main(), 30))
    assert "workflow unserved waits for a worker: none serves the queue nobody" in caplog.records[0].getMessage()


def test_a_run_that_a_worker_has_taken_up_is_not_logged(
    engine: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(unserved, "UNSERVED_AFTER_SECONDS", 0.05)

    async def main() -> None:
        async with await assay.Client.connect(engine.url, app=app) as client, assay.Worker(client, queue="served"):
            handle = await client.start(Patient, workflow_id="taken-up", task_queue="served")
            waiting = asyncio.create_task(handle.result())
            while (await handle.describe()).status != "RUNNING":
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)
            await handle.signal("go", "on")
            assert await waiting == "on"

    with caplog.at_level(logging.WARNING, "assay.client"):
        asyncio.run(asyncio.wait_for(main(), 30))
    assert caplog.records == []


def test_the_first_engine_that_answers_is_used_by_clients_and_workers(engine: Server):
    async def main() -> Any:
        url = f"{dead()}, {engine.url}/"
        async with await assay.Client.connect(url, app=app) as client, assay.Worker(client, queue="several"):
            return await client.run(Hello, "Ada", task_queue="several")

    assert asyncio.run(asyncio.wait_for(main(), 30)) == "hello, Ada"


def test_the_next_engine_takes_over_when_one_ends(postgres: str, tmp_path: Path):
    async def main(first: Server, second: Server) -> Any:
        async with await assay.Client.connect(f"{first.url},{second.url}", app=app) as client, assay.Worker(client):
            handle = await client.start(Patient, workflow_id="moved")
            while (await handle.describe()).status != "RUNNING":
                await asyncio.sleep(0.02)
            first.kill()
            await handle.signal("go", "on")
            return await handle.result()

    folders = tmp_path / "first", tmp_path / "second"
    for folder in folders:
        folder.mkdir()
    with server(folders[0], postgres) as first, server(folders[1], postgres) as second:
        assert asyncio.run(asyncio.wait_for(main(first, second), 60)) == "on"


@app.activity
async def look(workflow_id: str) -> str:
    """Use a client of the same file in an activity, on the loop of the worker."""
    async with await assay.Client.connect(look_at[0], app=app) as client:
        record = await client.describe(workflow_id)
        assert record is not None
        return record.status


@app.activity
def look_from_thread(workflow_id: str) -> str:
    return asyncio.run(look_twice(workflow_id))


async def look_twice(workflow_id: str) -> str:
    async with await assay.Client.connect(look_at[0], app=app) as client:
        with pytest.raises(assay.Invalid, match="loop of its engine"):
            await assay.Worker(client).run()
        assert await client.workers.list()
        return (await client.start("Hello", "Bob", workflow_id="from-thread")).workflow_id


look_at: list[str] = []


@app.workflow
async def Looking(ctx: assay.Context) -> list[str]:
    found = await ctx.execute_activity(look, ctx.workflow_id, max_attempts=1)
    return [found, await ctx.execute_activity(look_from_thread, "x", max_attempts=1)]


def test_an_activity_uses_a_client_of_the_same_file(tmp_path: Path):
    look_at[:] = [f"sqlite://{tmp_path}/app.db"]

    async def main() -> Any:
        async with await assay.Client.connect(look_at[0], app=app) as client:
            found = await client.run(Looking)
            assert await client.result("from-thread") == "hello, Bob"
            return found

    for _ in range(2):  # the engine has stopped with its last client: the file can be opened again
        assert asyncio.run(asyncio.wait_for(main(), 30)) == ["RUNNING", "from-thread"]
        (tmp_path / "app.db").unlink()
