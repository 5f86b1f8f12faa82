import asyncio
from pathlib import Path
from typing import Any

import assay

app = assay.App()


@app.workflow(name="Relay")
async def relay(ctx: assay.Context, rounds: int) -> str:
    if rounds == 0:
        await ctx.wait_for_signal("on")
        ctx.continue_as_new(1)
    try:
        await ctx.wait_for_signal("never")
    except assay.CancelRequested as request:
        return f"cleaned up after {request}"
    return "not cancelled"


async def signalled_and_cancelled_at_once(folder: Path) -> tuple[Any, list[list[str]]]:
    async with await assay.Client.connect(f"sqlite://{folder}/relay.db", app=app) as client:
        worker = assay.Worker(client)
        serving = asyncio.ensure_future(worker.run())
        handle = await client.start("Relay", 0, workflow_id="relay-1")
        while (await handle.describe()).waiting_on.signal is None:  # the record is what is waited for
            await asyncio.sleep(0)
        # one batch: the code is told of the signal, continues as new, and never hears of the cancel in this run
        await asyncio.gather(handle.signal("on"), handle.cancel("the day is over", deadline=3600))
        result = await handle.result()
        runs = await client.list_runs("relay-1")
        kinds = [[event.event_type for event in await client.get_events("relay-1", run.run_id)] for run in runs]
        worker.stop()
        await serving
    return result, kinds


def test_a_cancel_that_came_too_late_for_a_run_reaches_its_successor(tmp_path: Path):
    result, (first, second) = asyncio.run(signalled_and_cancelled_at_once(tmp_path))
    assert first[-3:] == ["SignalReceived", "WorkflowCancelRequested", "WorkflowContinuedAsNew"]
    assert second[:2] == ["WorkflowStarted", "WorkflowCancelRequested"]
    assert result == "cleaned up after the day is over"


@app.workflow(name="Patience")
async def patience(ctx: assay.Context) -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1000))
            await asyncio.Event().wait()
    except assay.CancelRequested as request:
        return f"cleaned up after {request.reason}"
    return "not cancelled"


async def cancelled_while_it_waits(folder: Path) -> Any:
    async with await assay.Client.connect(f"sqlite://{folder}/patience.db", app=app) as client:
        worker = assay.Worker(client)
        serving = asyncio.ensure_future(worker.run())
        handle = await client.start("Patience", workflow_id="patience-1")
        while len(await client.get_events("patience-1")) < 2:  # its timer says that it has begun
            await asyncio.sleep(0.01)
        await handle.cancel("the day is over")
        result = await handle.result()
        worker.stop()
        await serving
    return result


def test_a_cancel_reaches_plain_asyncio_with_its_reason(tmp_path: Path):
    assert asyncio.run(cancelled_while_it_waits(tmp_path)) == "cleaned up after the day is over"


@app.workflow(name="Vote")
async def vote(ctx: assay.Context, rounds: int) -> None:
    async def count() -> None:
        await ctx.sleep(0.01)
        if rounds:
            ctx.continue_as_new(rounds - 1)
        ctx.cancel("rejected")

    counting = asyncio.create_task(count())
    await ctx.wait_for_signal("never")
    await counting


async def ended_from_a_task(folder: Path) -> tuple[str, list[str | None]]:
    async with await assay.Client.connect(f"sqlite://{folder}/vote.db", app=app) as client:
        worker = assay.Worker(client)
        serving = asyncio.ensure_future(worker.run())
        handle = await client.start("Vote", 1, workflow_id="vote-1")
        try:
            await handle.result()
        except assay.WorkflowCancelled as cancelled:
            reason = cancelled.message
        runs = await client.list_runs("vote-1")
        worker.stop()
        await serving
    return reason, [run.status for run in runs]


def test_a_task_beside_the_main_coroutine_ends_the_run(tmp_path: Path):
    assert asyncio.run(ended_from_a_task(tmp_path)) == ("rejected", ["COMPLETED", "CANCELLED"])
